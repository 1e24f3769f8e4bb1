"""Genotypes: what is a valid cell, what it says about itself, and files that come back exactly or fail in one line."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import cells, genotypes, read_or_refused

from gnas.arch.architecture import load_genotype
from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.errors import InputError
from gnas.files import MAX_BYTES

GATED = ((0, 1, "identity"), (0, 2, "dense"), (1, 3, "skip"), (2, 4, "sum"), (3, 5, "skip"), (4, 6, "dense"))
DEAD = ((0, 1, "sparse"), (0, 2, "dense"), (1, 3, "max"), (2, 4, "identity"), (4, 5, "sparse"), (5, 6, "identity"))


def gated(**changes: object) -> CellGenotype:
    return CellGenotype(**{"nodes": 2, "outputs": 2, "links": GATED, **changes})  # type: ignore[arg-type]


def test_links_sort_by_target_then_source() -> None:
    assert sorted([Link(2, 3, "dense"), Link(0, 3, "sparse"), Link(1, 2, "sum")])[0] == Link(1, 2, "sum")
    assert gated() == gated(links=tuple(Link(*link) for link in reversed(GATED)))
    assert hash(gated()) == hash(gated(links=GATED[::-1]))


def test_levels_paths_and_counts() -> None:
    cell = gated()
    assert [cell.level(node) for node in range(7)] == [0, 1, 1, 2, 2, 3, 3]
    assert cell.incoming(4) == Link(2, 4, "sum")
    assert cell.incoming(0) is None
    assert cell.paths() == (("identity",), ("dense", "sum", "dense"))
    assert cell.operations() == Counter(identity=1, dense=2, skip=2, sum=1)
    assert cell.aggregations() == Counter(sum=1)


@pytest.mark.parametrize(("output", "nodes"), [("third", (5, 6)), ("all", (1, 2, 3, 4, 5, 6)), ("leaves", (3, 6))])
def test_output_nodes(output: str, nodes: tuple[int, ...]) -> None:
    assert CellGenotype(2, 2, DEAD, output).output_nodes() == nodes


def test_an_aggregation_counts_only_where_it_reaches_the_output() -> None:
    third, every = CellGenotype(2, 2, DEAD), CellGenotype(2, 2, DEAD, "all")
    assert third.live() == {0, 2, 4, 5, 6}
    assert every.live() == set(every.present())
    assert not third.aggregates()
    assert every.aggregates()
    assert Genotype((third, every, gated())).depth() == 2


def test_absent_nodes_are_neither_computed_nor_output() -> None:
    cell = CellGenotype(3, 3, ((0, 3, "dense"), (3, 6, "sum"), (6, 8, "sparse")))
    assert cell.present() == (0, 3, 6, 8)
    assert cell.output_nodes() == (8,)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (((0, 1, "sum"),), r"link 1 <- 0: sum: level 1 takes identity, sparse, dense, skip"),
        (((0, 1, "zero"),), r"link 1 <- 0: operation zero is a candidate of the search only"),
        (((0, 1, "Dense!"),), r"link 1 <- 0: operation 'Dense!' is not a name"),
        (((0, 1, "dense"), (1, 4, "sum")), r"link 4 <- 1: sum: a level-2 link into 4 starts at 2"),
        (
            ((0, 1, "dense"), (1, 3, "sparse")),
            r"link 3 <- 1: sparse: level 2 takes sum, mean, max, .*identity, skip",
        ),
        (((0, 1, "dense"), (1, 5, "dense")), r"link 5 <- 1: dense: a level-3 link into 5 starts at 3 to 4"),
        (((0, 1, "dense"), (0, 7, "dense")), r"target 7 does not exist; allowed: 1 to 6"),
        (((0, 2, "dense"), (1, 2, "dense")), r"link 2 <- 1: dense: node 2 has another incoming link; one is allowed"),
        (((0, 1, "dense"), (1, 3, "sum"), (4, 5, "dense")), r"link 5 <- 4: dense: node 4 has no incoming link"),
        (((0, 1, "dense"), (1, 3, "sum")), r"no node is an output \(output: third\)"),
        (((0, 1),), r"link \(0, 1\) is not a Link"),
        (((0, 1.5, "dense"),), r"target of a link is 1.5; it must be a whole number"),
    ],
)
def test_invalid_links_name_the_link_and_what_is_allowed(links: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        CellGenotype(2, 2, links)
    assert "\n" not in str(caught.value)


def test_invalid_cells_and_genotypes() -> None:
    for wrong in ({"nodes": 0}, {"outputs": 100}, {"output": "thrid"}):
        with pytest.raises(InputError):
            gated(**wrong)
    with pytest.raises(InputError, match="at least one"):
        Genotype(())
    with pytest.raises(InputError, match="choose one of: paper, reference, bare"):
        Genotype((gated(),), "papr")


def test_user_defined_operations_are_filters_or_aggregators_by_level() -> None:
    cell = CellGenotype(1, 1, ((0, 1, "median"), (1, 2, "median"), (2, 3, "gate2")))
    assert cell.aggregations() == Counter(median=1)
    assert str(cell.tree()) == "gate2(@median(median))"


def test_genotype_is_a_sequence_of_cells() -> None:
    genotype = Genotype((gated(), gated(output="all")), "bare")
    assert len(genotype) == 2
    assert list(genotype) == [genotype[0], genotype[1]]
    assert genotype.operations() == Counter(identity=2, dense=4, skip=4, sum=2)
    assert genotype.aggregations() == Counter(sum=2)
    assert genotype[0].paths() == (("identity",), ("dense", "sum", "dense"))
    assert genotype.formulas()[0] == "[identity | dense(sum(dense))]"


def test_id_is_pinned() -> None:
    assert Genotype((gated(),)).id == "c61796f482"
    assert Genotype((gated(),)).id != Genotype((gated(),), "bare").id


@settings(max_examples=60, deadline=None)
@given(genotypes())
def test_files_come_back_exactly(genotype: Genotype) -> None:
    text = genotype.to_yaml()
    assert Genotype.from_yaml(text) == genotype
    assert Genotype.from_yaml(text).id == genotype.id
    assert yaml.safe_load(text)["cells"][0]["links"][0] == {"1 <- 0": genotype[0].links[0].operation}


@settings(max_examples=60, deadline=None)
@given(cells())
def test_live_nodes_are_those_on_a_path_to_an_output(cell: CellGenotype) -> None:
    on_paths = {end for node in cell.output_nodes() for link in cell.path(node) for end in (link.source, link.target)}
    assert cell.live() == on_paths | set(cell.output_nodes())
    assert len(cell.paths()) == len(cell.output_nodes())


def test_save_and_load(tmp_path: Path) -> None:
    genotype = Genotype((gated(), CellGenotype(2, 2, DEAD)))
    assert load_genotype(genotype.save(tmp_path / "deep" / "g.yaml")) == genotype


VALID = Genotype((gated(), CellGenotype(2, 2, DEAD))).to_yaml()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 3", "a later version of gnas wrote it, as version 3 of genotype files"),
        ("format: gnas-genotype", "format: other", "unknown file format 'other'; choose one of: gnas-genotype"),
        ("variant: paper\n", "", "key variant is missing; the keys are format, version, variant, cells, stack"),
        ("variant: paper", "variant: [paper]", "unknown genotype variant"),
        ("variant: paper", "variant: paper\nvariant: paper", "line 4, column 1: .* given twice"),
        ("variant: paper", "varaint: paper\nvariant: paper", "unknown key 'varaint'.*did you mean 'variant'"),
        ("nodes: 2", "nodes: two", "cell 1: nodes is 'two'; it must be a whole number"),
        ("nodes: 2", "nodes: 999999", "cell 1: nodes 999999 is out of range; allowed: 1 to 99"),
        ("  - 4 <- 2: sum", "  - 4 <- 2: dense", "cell 1: link 4 <- 2: dense: level 2 takes"),
        ("  - 4 <- 2: sum", "  - 4 <- 2", "cell 1: link '4 <- 2' is not written as 'target <- source: operation'"),
        ("  - 4 <- 2: sum", "  - 4 <- 2: [sum]", "cell 1: link 4 <- 2: operation .* is not a name"),
        ("  - 4 <- 2: sum", "  - {4 <- 2: sum, 5 <- 3: skip}", "is not written as"),
        ("  - 4 <- 2: sum", "  - &a 4 <- 2: sum\n  - *a", "an alias is not allowed"),
        ("cells:", "cells: " + "[" * 50, "nesting deeper than 10 is not allowed"),
        ("cells:", "cells: 3\nrest:", "unknown key 'rest'"),
        ("cells:", "\tcells:", "line 4, column 1: not plain YAML"),
        ("cells:", "\x00cells:", "position .*: character 0x0 is not allowed"),
    ],
)
def test_bad_files_say_where_and_what_is_allowed(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(VALID.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        load_genotype(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a mapping"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"#" * (MAX_BYTES + 1), "larger than 1,000,000 bytes"),
        (b"a: " + b"[" * 100_000, "nesting deeper"),
        (b"- " * 100_000, "nesting deeper"),
        (b"x: !!python/object/apply:os.system [ls]", "key format is missing"),
    ],
)
def test_hostile_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_genotype(path)


def test_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(InputError, match="cannot be read"):
            load_genotype(path)


@settings(max_examples=150, deadline=None)
@given(st.text() | st.text("[]{}:-<>|&*!#,'\" \n\t01a?%@`=~", max_size=60))
def test_any_text_is_refused(text: str) -> None:
    assert read_or_refused(Genotype.from_yaml, text) is None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_change_of_a_file_is_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(VALID)))
    stop = data.draw(st.integers(start, min(start + 8, len(VALID))))
    text = VALID[:start] + data.draw(st.text(max_size=4) | st.text("[]{}:-<>|&*!#, \n0123", max_size=4)) + VALID[stop:]
    genotype = read_or_refused(Genotype.from_yaml, text)
    assert genotype is None or Genotype.from_yaml(genotype.to_yaml()) == genotype


def test_no_torch_is_imported() -> None:
    code = "import sys, gnas.arch.architecture, gnas.arch.gap, gnas.arch.space; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_output_keeps_the_links() -> None:
    told = ((0, 1, "sparse"), (0, 2, "dense"), (1, 3, "sum"), (2, 4, "max"), (3, 5, "identity"))
    links = tuple(Link(*link) for link in told)
    cell = CellGenotype(2, 1, links)
    one = Genotype((cell,))
    found = {output: one.with_output(output)[0].output_nodes() for output in ("third", "all", "leaves")}
    assert found == {"third": (5,), "all": (1, 2, 3, 4, 5), "leaves": (4, 5)}
    assert all(one.with_output(output)[0].links == links for output in found)
    assert one.aggregations() == {"sum": 1}
    assert one.with_output("leaves").aggregations() == {"sum": 1, "max": 1}
    assert one.with_output("third") == one
    with pytest.raises(InputError, match="unknown cell output 'last'"):
        one.with_output("last")

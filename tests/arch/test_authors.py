"""The authors' two file formats: their published genotype, their released code's files, and files gone wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import genotypes, read_or_refused

from gnas.arch.architecture import load_genotype
from gnas.arch.authors import read_first, read_released, to_first, to_released, write_for_authors
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.errors import InputError

PUBLISHED = """\
cell 1: I 1 0, s 2 0, d 3 0, d 4 0, sum 5 1, sum 6 2, sum 7 3, sum 8 4, I 9 8, d 10 8, s 11 10, I 12 11
cell 2: s 1 0, s 2 1, I 3 1, s 4 2, sum 5 1, sum 6 2, sum 7 3, sum 8 4, I 9 6, I 10 9, I 11 6, s 12 10
cell 3: s 1 0, s 2 0, s 3 0, s 4 3, sum 5 1, max 6 2, max 7 3, max 8 4, s 9 6, d 10 9, s 11 10, s 12 11
cell 4: I 1 0, s 2 0, s 3 2, s 4 2, max 5 1, max 6 2, sum 7 4, s 8 7, s 9 8, s 10 9, s 11 9
"""


def topology(*links: str) -> str:
    rows = []
    for link in links:
        operation, target, source = link.split()
        rows += [f"  - dst: {target}", f"    ops: {operation}", f"    src: {source}"]
    return "\n".join(rows) + "\n"


RELEASED_CELL = topology("V_Sparse 1 0", "V_Sparse 2 0", "V_Sum 3 1", "V_Max 4 2", "V_Dense 5 3", "V_Dense 6 3")
RELEASED = f"""\
Genotype:
- id: 0
  topology:
{RELEASED_CELL}\
- id: 1
  topology:
{topology("V_I 1 0", "V_I 2 0", "V_I 3 1", "V_Max 4 2", "V_Sparse 5 4", "V_I 6 4")}"""


def test_the_published_genotype() -> None:
    genotype = read_first(PUBLISHED)
    assert genotype.depth() == 4
    assert genotype.variant == "paper"
    assert {(cell.nodes, cell.outputs, cell.output) for cell in genotype} == {(4, 4, "third")}
    assert genotype.aggregations() == Counter(sum=3, max=1)
    assert genotype[0].paths()[0] == ("dense", "sum", "identity")
    assert genotype.formulas()[2].startswith("[sparse#1(max(sparse)) | dense#2(sparse#1(max(sparse)))")


def test_the_published_branch_without_aggregation_leaves_its_node_absent() -> None:
    cell = read_first(PUBLISHED)[3]
    assert [str(link) for link in cell.links[4:]] == [
        "5 <- 1: max",
        "6 <- 2: max",
        "8 <- 4: sum",
        "9 <- 8: sparse",
        "10 <- 9: sparse",
        "11 <- 10: sparse",
        "12 <- 10: sparse",
    ]
    assert cell.incoming(7) is None


def test_the_published_genotype_with_all_nodes_put_out() -> None:
    genotype = read_first(PUBLISHED, output="all")
    assert [len(cell.output_nodes()) for cell in genotype] == [12, 12, 12, 11]
    assert genotype.aggregations() == Counter(sum=4 + 4 + 1 + 1, max=3 + 2)


@pytest.mark.parametrize("output", ["third", "all", "leaves"])
def test_first_files_come_back_exactly(output: str, tmp_path: Path) -> None:
    genotype = read_first(PUBLISHED, output=output)
    path = write_for_authors(genotype, tmp_path / "zinc.txt", "first")
    assert path.read_text() == PUBLISHED
    assert load_genotype(path, output=output) == genotype


def test_first_files_may_be_python_lists(tmp_path: Path) -> None:
    cells = []
    for line in PUBLISHED.splitlines():
        items = (item.split() for item in line.partition(":")[2].split(","))
        cells.append([(operation, int(target), int(source)) for operation, target, source in items])
    path = tmp_path / "zinc.txt"
    path.write_text(f"# published\n{cells!r}\n")
    assert load_genotype(path) == read_first(PUBLISHED)
    assert read_first(repr(tuple(cells[0])))[0] == read_first(PUBLISHED)[0]


def test_identities_that_cross_levels_are_told_from_those_that_do_not() -> None:
    (cell,) = read_first("cell 1: I 1 0, s 2 0, d 3 0, I 4 1, sum 5 2, I 6 3, I 7 4, I 8 7")
    assert (cell.nodes, cell.outputs) == (3, 2)
    assert str(cell.tree()) == "[identity#1(identity(identity)) | identity(identity#1(identity(identity)))]"


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32))
def test_whatever_a_search_finds_can_be_exported(nodes: int, outputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    paper = SearchSpace(nodes, outputs).sample(rng, 2)
    assert read_first(to_first(paper)) == paper
    reference = SearchSpace(nodes, nodes, variant="reference").sample(rng, 2)
    assert read_released(to_released(reference)) == reference


@settings(max_examples=60, deadline=None)
@given(genotypes())
def test_exports_are_exact_or_refused(genotype: Genotype) -> None:
    for write, read in (
        (to_first, lambda text: read_first(text, output=genotype[0].output)),
        (to_released, read_released),
    ):
        text = read_or_refused(lambda _, write=write: write(genotype), "")
        assert text is None or read(text) == genotype


def test_the_released_codes_files(tmp_path: Path) -> None:
    path = tmp_path / "found.yaml"
    path.write_text(RELEASED)
    genotype = load_genotype(path)
    assert genotype.variant == "reference"
    assert {(cell.nodes, cell.outputs, cell.output) for cell in genotype} == {(2, 2, "all")}
    assert genotype.depth() == 2
    assert [str(link) for link in genotype[1].links[2:4]] == ["3 <- 1: identity", "4 <- 2: max"]
    assert write_for_authors(genotype, path, "released").read_text() == RELEASED


def test_none_links_are_dropped() -> None:
    cell = topology("V_I 1 0", "V_None 2 0", "V_Sum 3 1", "V_None 4 2", "V_I 5 3", "V_None 6 3")
    (read,) = read_released(f"Genotype:\n- id: 0\n  topology:\n{cell}")
    assert (read.nodes, read.outputs, read.present()) == (2, 2, (0, 1, 3, 5))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("V_Sum", "V_Som", r"cell id 0: link .*unknown operation 'V_Som'; choose one of: V_None, V_I, .*'V_Sum'"),
        ("V_Sum", "V_Dense", "cell id 0: link 3 <- 1: dense: level 2 takes"),
        ("dst: 3", "dst: x", "cell id 0: link .*: dst is 'x'; it must be a whole number"),
        ("dst: 3", "to: 3", "cell id 0: link .*: key dst is missing; the keys are src, dst, ops"),
        ("id: 1", "id: 3", "cell id 1: its id is '3'; ids count up from 0"),
        ("- id: 0", "- ids: 0", "cell id 0: key id is missing"),
        ("Genotype:", "Genotype: 3\nmore:", "Genotype is '3'; it must be a list"),
        ("  topology:", "topology", "not plain YAML|topology"),
    ],
)
def test_bad_released_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    refused(tmp_path / "bad.yaml", RELEASED.replace(old, new, 1), message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cell 1: I 1 0, x 2 0", "line 1: link 'x 2 0': unknown operation 'x'; choose one of: I, s, d, sum, mean, max"),
        ("cell 1: I 1 0\ncell 3: I 1 0", "line 1: no link into a third level follows I 1 0"),
        (PUBLISHED.replace("cell 3", "cell 4", 1), "line 3: .* does not start with 'cell 3:'"),
        (PUBLISHED.replace("d 10 9", "d 10"), "line 3: link 'd 10': a link is an operation, its target and its source"),
        ("cell 1: I 1 1", "line 1: link 'I 1 1': the source must be a smaller number"),
        ("cell 1: I 1 -1", "line 1: link 'I 1 -1': a node is '-1'; it must be a whole number"),
        ("cell 1: I 1 0, I 1 0", "line 1: link I 1 0: node 1 has another incoming link"),
        ("cell 1: I 1 0, I 3 2", "line 1: link I 3 2: node 2 has no incoming link"),
        ("cell 1: sum 1 0, s 2 1", "line 1: link sum 1 0: .* only links from there to later nodes aggregate"),
        ("cell 1: I 1 0, sum 2 1, sum 3 2, s 4 3", "link sum 3 2: .* only links from there to later nodes aggregate"),
        ("cell 1: I 1 0, sum 2 1, max 3 1, s 4 3", "link max 3 1: .* each of them has one link to later nodes"),
        ("cell 1: I 1 0, s 2 1", "link s 2 1: .* links from there to later nodes are I, sum, mean or max"),
        ("cell 1: " + "I 1 0, " * 100 + "I 1 0", "line 1: 101 links; allowed: 1 to 99"),
        ("[('I', 1, 0), ('sum', 2)]", "cell 1: link 'sum 2': a link is"),
        ("[[('I', 1, 0), ('sum', 2, 1), ('d', 3, 2)], 7]", "cell 2 is 7; it must be a list"),
        ("[(__import__('os').system('ls'))]", "not a list such as"),
        ("[" * 50_000, "not a list such as"),
        ("[" + "1," * 60_000 + "]", "at most 100,000 characters"),
    ],
)
def test_bad_first_files(text: str, message: str, tmp_path: Path) -> None:
    refused(tmp_path / "bad.txt", text, message)


def refused(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_genotype(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_output_is_asked_of_first_files_only(tmp_path: Path) -> None:
    path = tmp_path / "found.yaml"
    path.write_text(RELEASED)
    with pytest.raises(InputError, match="applies only to files of the authors' first code"):
        load_genotype(path, output="third")
    with pytest.raises(InputError, match="choose one of: first, released"):
        write_for_authors(read_released(RELEASED), path, "second")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_change_of_a_file_is_read_or_refused(data: st.DataObject) -> None:
    read, text = data.draw(st.sampled_from([(read_first, PUBLISHED), (read_released, RELEASED)]))
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(start + 8, len(text))))
    changed = text[:start] + data.draw(st.text(max_size=4) | st.text("[](),'\": \n0123Isd", max_size=6)) + text[stop:]
    read_or_refused(read, changed)


@settings(max_examples=100, deadline=None)
@given(st.text() | st.text("[](),'\"Isd01 \n").map("[".__add__))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_first, read_released):
        read_or_refused(read, text)

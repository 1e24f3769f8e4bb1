"""Broken input of every form gives one error line or a sound benchmark, never another exception.

``GNAS_FUZZ=20`` tries twenty times as many examples as usual.
"""

import copy
import gzip
import json
import os
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from builders import SMILES, citation_graph, outcome, path_graphs, write_csv, write_folder, write_smiles, write_tu
from bundles import bundle_arrays
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_values import NASTY_CELLS, NASTY_FLOATS, NASTY_NUMBERS, mutate_json

from gnas.data.checks import check_graph_set, check_splits, check_task
from gnas.data.own.load import encode_graphs, load_own
from gnas.data.storage import BENCHMARK, load_benchmark, save_benchmark
from gnas.tensors import read_tensors, write_tensors

TIMES = max(int(os.environ.get("GNAS_FUZZ", "1")), 1)

SPLIT_WORDS = ("train", "val", "test")
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.sampled_from([0, 1, -1, 2**32, None, "x", 1.5]),
        "level": st.sampled_from(["graph", "node", "edge", "link", "planet", 3]),
        "kind": st.sampled_from(["regression", "classification", "multilabel", ""]),
        "edges": st.sampled_from(["auto", "none", "yes", True, "some", 2]),
        "encodings": st.sampled_from(
            ["auto", "none", "walks:3,degree", ["edge_walks:2"], "laplacian:300", "size:2", 4]
        ),
        "graph_features": st.sampled_from(["ring", ["y"], "mw", [], 3]),
        "pos": st.sampled_from([True, False, "x"]),
        "folds": st.sampled_from([2, 3, 1, "x", None]),
        "metric": st.sampled_from(["mae", "accuracy", "auc"]),
        "loss": st.sampled_from(["l1", "weighted_cross_entropy", None]),
        "categorical": st.sampled_from([True, False, "x", ["x0"], "atom", ["atom", "charge"], [], 3]),
        "target": st.sampled_from(["y", "x", ["y0", "y1"], "atom", "split", "smiles", "", [], 4]),
        "split": st.sampled_from(["given", "random", "stratified", "scaffold", "time"]),
        "fractions": st.sampled_from([(0.8, 0.1, 0.1), (0.4, 0.3, 0.3), (1, 0, 0), (0.5, 0.5), "abc", None]),
        "standardise": st.booleans(),
        "skip_bad": st.booleans(),
        "surprise": st.just(1),
    },
)


def fuzz(examples: int):
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def one_line_or_sound(load) -> None:
    """Run a loader: an InputError of one line, or a benchmark that stands every check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        b, line = outcome(load)
    assert "\n" not in line
    if b is None:
        assert line.strip()
        return
    check_task(b.task, "fuzz")
    check_splits(b.splits(), b.task)
    for name, graphs in b.splits().items():
        check_graph_set(graphs, b.task, name)
    assert b.describe()


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


# -- bytes ---------------------------------------------------------------------------------------------------------

BYTES = st.binary(max_size=200) | st.text(max_size=100).map(lambda t: t.encode("utf-8", "surrogatepass"))
CSV_BYTES = st.lists(st.lists(NASTY_CELLS, min_size=1, max_size=5).map(",".join), max_size=6).map(
    lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass")
)


@given(BYTES | BYTES.map(lambda b: b"PK\x03\x04" + b), OPTIONS)
@fuzz(40)
def test_any_bytes_as_a_stored_benchmark(place, data, options):
    for name in ("any.npz", "any.safetensors"):
        (place / name).write_bytes(data)
        one_line_or_sound(lambda file=place / name: load_own(file, **options))


@given(BYTES | CSV_BYTES, st.sampled_from([b"", b"smiles,y\n", b"smiles,y,split\n"]))
@fuzz(60)
def test_any_bytes_as_a_csv_of_smiles(place, data, header):
    (place / "any.csv").write_bytes(header + data)
    one_line_or_sound(lambda: load_own(place / "any.csv", skip_bad=True))


@given(st.sampled_from(["graphs", "nodes", "edges"]), BYTES | CSV_BYTES, st.booleans())
@fuzz(60)
def test_any_bytes_as_a_table(place, name, data, keep_header):
    folder = write_folder(place / "tables")
    path = folder / f"{name}.csv"
    header = path.read_bytes().splitlines()[0] + b"\n"
    path.write_bytes((header if keep_header else b"") + data)
    one_line_or_sound(lambda: load_own(folder))


# -- files that were sound -----------------------------------------------------------------------------------------


def mutate_csv(path: Path, draw) -> None:
    """A few slips of the pen: cells, rows, columns, names, bytes."""
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    for _ in range(draw(st.integers(1, 4))):
        what = draw(st.sampled_from(["cell", "cell", "row", "twice", "column", "shift", "fill", "swap", "name"]))
        row, column = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, 4))
        width = len(rows[0])
        if what == "cell" and rows[row]:
            rows[row][column % len(rows[row])] = draw(NASTY_CELLS)
        elif what == "row" and len(rows) > 1:
            del rows[row]
        elif what == "twice":
            rows.append(list(rows[row]))
        elif what == "column":
            rows = [r[: column % width] + r[column % width + 1 :] for r in rows]
        elif what == "shift":
            rows[row] = rows[row][1:]
        elif what == "fill":
            value = draw(NASTY_CELLS)
            rows = [rows[0], *([*r[: column % width], value, *r[column % width + 1 :]] for r in rows[1:])]
        elif what == "swap":
            rows = [r[::-1] for r in rows]
        elif what == "name" and rows[0]:
            rows[0][column % len(rows[0])] = draw(
                st.sampled_from(["y", "split", "graph_id", "smiles", "pos_x", "", "target"])
            )
        if not rows or not rows[0]:
            break
    path.write_bytes("\n".join(",".join(r) for r in rows).encode("utf-8", "surrogatepass"))


@given(st.data(), OPTIONS)
@fuzz(150)
def test_tables_with_slips(place, data, options):
    folder = write_folder(place / "slips", 9)
    for name in data.draw(st.sets(st.sampled_from(["graphs", "nodes", "edges"]), min_size=1)):
        mutate_csv(folder / f"{name}.csv", data.draw)
    if data.draw(st.integers(0, 9)) == 0:
        (folder / f"{data.draw(st.sampled_from(['graphs', 'nodes', 'edges']))}.csv").unlink()
    one_line_or_sound(lambda: load_own(folder, **options))


@given(st.data(), st.sampled_from([{}, {"split": "random"}, {"seed": 3}, {"metric": "hits@10"}, {"encodings": "auto"}]))
@fuzz(100)
def test_tables_of_pairs_with_slips(place, data, options):
    """Link prediction from edges alone and from pairs.csv; the tables have slips, or the file of pairs is any bytes."""
    folder = write_folder(place / "links", 9)
    pairs = [
        (g, a, b, int(b == a + 1), SPLIT_WORDS[(g + a + b) % 3]) for g in range(9) for a, b in ((0, 1), (1, 2), (0, 2))
    ]
    write_csv(folder / "pairs.csv", ("graph_id", "source", "target", "y", "split"), pairs)
    what = data.draw(st.sampled_from(["slip", "slip", "bytes", "gone"]))
    if what == "slip":
        mutate_csv(folder / "pairs.csv", data.draw)
    elif what == "bytes":
        (folder / "pairs.csv").write_bytes(data.draw(BYTES | CSV_BYTES))
    else:
        (folder / "pairs.csv").unlink()
        mutate_csv(folder / "edges.csv", data.draw)
    one_line_or_sound(lambda: load_own(folder, level="link", **options))


@given(st.data())
@fuzz(60)
def test_pairs_of_objects_with_slips(data):
    """Labelled pairs of PyG objects, some of which are not pairs."""
    graphs = path_graphs(9)
    for graph in graphs:
        graph.edge_label_index = torch.tensor([[0, 1, 0], [1, 2, 2]])
        graph.edge_label = torch.tensor([1.0, 1.0, 0.0])
    wrong = graphs[data.draw(st.integers(0, 8))]
    name = data.draw(st.sampled_from(["edge_label_index", "edge_label"]))
    values = (
        *(None, torch.tensor([[0], [99]]), torch.tensor([[0.5], [1.0]]), torch.zeros(3, 2), torch.empty(2, 0).long()),
        *(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0, 1.0]), torch.tensor([torch.nan, 0, 1]), "pairs", [0, 1]),
    )
    wrong[name] = data.draw(st.sampled_from(values))
    three = data.draw(st.booleans())
    one_line_or_sound(lambda: load_own((graphs[:3], graphs[3:6], graphs[6:]) if three else graphs, level="link"))


@given(st.data(), OPTIONS)
@fuzz(60)
def test_smiles_with_slips(place, data, options):
    pytest.importorskip("rdkit")
    path = write_smiles(place / "slips.csv")
    mutate_csv(path, data.draw)
    one_line_or_sound(lambda: load_own(path, **options))


TU_FILES = ("A", "graph_indicator", "graph_labels", "node_labels", "node_attributes", "edge_labels", "edge_attributes")


@given(st.data(), OPTIONS)
@fuzz(80)
def test_tu_folders_with_slips(place, data, options):
    folder = write_tu(place / "TOY", 9)
    for name in data.draw(st.sets(st.sampled_from(TU_FILES), min_size=1, max_size=3)):
        path = folder / f"TOY_{name}.txt"
        what = data.draw(st.sampled_from(["slip", "slip", "bytes", "gone"]))
        if what == "slip":
            mutate_csv(path, data.draw)
        elif what == "bytes":
            path.write_bytes(data.draw(BYTES | CSV_BYTES))
        else:
            path.unlink()
    one_line_or_sound(lambda: load_own(folder, **options))


@given(st.data())
@fuzz(60)
def test_compressed_smiles_with_slips(place, data):
    """A gzip file that is cut, has a wrong byte, or holds a table with slips."""
    pytest.importorskip("rdkit")
    path = write_smiles(place / "slips.csv")
    mutate_csv(path, data.draw)
    packed = bytearray(gzip.compress(path.read_bytes(), mtime=0))
    if data.draw(st.booleans()):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del packed[data.draw(st.integers(0, len(packed))) :]
    (place / "slips.csv.gz").write_bytes(packed)
    one_line_or_sound(lambda: load_own(place / "slips.csv.gz", skip_bad=data.draw(st.booleans())))


NASTY_LINES = [
    "",
    "$$$$",
    "M  END",
    ">  <y>",
    ">  <>",
    ">  <smiles>",
    "  3  2  0",
    "999999",
    "nan",
    "M  V30 BEGIN",
    "\x00",
]


@given(st.data())
@fuzz(60)
def test_sdf_with_slips(place, data):
    """Records with lines that are lost, repeated, changed or cut."""
    chem = pytest.importorskip("rdkit.Chem")
    records = [
        f"{chem.MolToMolBlock(chem.MolFromSmiles(s))}>  <y>\n{i / 2}\n\n$$$$\n" for i, s in enumerate(SMILES[:12])
    ]
    lines = "".join(records).split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        what = data.draw(st.sampled_from(["drop", "twice", "line", "cut", "byte"]))
        nasty = data.draw(st.sampled_from(NASTY_LINES))
        changed = {"drop": [], "twice": [lines[at]] * 2, "line": [nasty], "cut": [lines[at][: at % 7]]}
        lines[at : at + 1] = changed.get(what, [lines[at][:3] + "\xe9" + lines[at][4:]])
    encoding = data.draw(st.sampled_from(["utf-8", "latin-1"]))
    (place / "slips.sdf").write_bytes("\n".join(lines).encode(encoding))
    one_line_or_sound(lambda: load_own(place / "slips.sdf", skip_bad=data.draw(st.booleans())))


@given(BYTES, st.sampled_from(["any.sdf", "any.sdf.gz", "any.csv.gz"]))
@fuzz(60)
def test_any_bytes_as_a_file_of_molecules(place, data, name):
    pytest.importorskip("rdkit")
    (place / name).write_bytes(data)
    one_line_or_sound(lambda: load_own(place / name, skip_bad=True))


NASTY_ARRAYS = st.one_of(
    st.none(),
    st.builds(np.full, st.sampled_from([(), (0,), (1,), (2, 0), (12, 1), (2, 44), (3, 3, 3)]), NASTY_NUMBERS),
    st.builds(np.full, st.sampled_from([(1,), (40, 1), (10, 1)]), NASTY_FLOATS),
    st.sampled_from(
        [np.array(["a"]), np.array([None]), np.ones((2, 44), bool), np.ones(3, complex), np.zeros((2, 40), np.uint8)]
    ),
)


@pytest.fixture(scope="module")
def bundles(place) -> list[dict]:
    write_folder(place / "sound")
    sound = (load_own(path_graphs(12)), load_own(citation_graph()), load_own(place / "sound"))
    return [bundle_arrays(b) for b in sound]


@given(st.data())
@fuzz(120)
def test_bundles_with_other_arrays_and_words(place, bundles, data):
    arrays = dict(data.draw(st.sampled_from(bundles)))
    if data.draw(st.booleans()):
        meta = mutate_json(json.loads(bytes(arrays["meta"])), data.draw)
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    for name in data.draw(st.sets(st.sampled_from(sorted(arrays)), max_size=2)):
        array = arrays[name]
        if data.draw(st.booleans()) and array.size and name != "meta":
            array = array.copy()
            nasty = data.draw(NASTY_FLOATS if array.dtype.kind == "f" else NASTY_NUMBERS)
            with np.errstate(all="ignore"):
                array.flat[data.draw(st.integers(0, array.size - 1))] = np.array(nasty).astype(array.dtype)
        else:
            array = data.draw(NASTY_ARRAYS)
        arrays[name] = array
    np.savez(place / "other.npz", **{k: v for k, v in arrays.items() if v is not None})
    one_line_or_sound(lambda: load_benchmark(place / "other.npz"))


@given(st.data())
@fuzz(120)
def test_stored_benchmarks_with_other_tensors_and_words(place, data):
    """Files of our own whose digest is right: only their content is not."""
    sound = load_own(data.draw(st.sampled_from([path_graphs(12), citation_graph()])))
    text, tensors = read_tensors(save_benchmark(sound, place / "sound.safetensors"), BENCHMARK, "file")
    if data.draw(st.booleans()):
        text = json.dumps(mutate_json(json.loads(text), data.draw))
    for name in data.draw(st.sets(st.sampled_from(sorted(tensors)), max_size=2)):
        array = data.draw(NASTY_ARRAYS)
        if array is None or array.dtype.kind not in "biuf":
            del tensors[name]
        else:
            tensors[name] = torch.from_numpy(np.ascontiguousarray(array))
    write_tensors(place / "other.safetensors", BENCHMARK, text, tensors)
    one_line_or_sound(lambda: load_benchmark(place / "other.safetensors"))


# -- objects -------------------------------------------------------------------------------------------------------

SHAPES = st.sampled_from([(), (0,), (1,), (3,), (3, 1), (4,), (4, 1), (4, 2), (2, 4), (2, 0), (6,), (2, 6), (3, 3, 3)])
NASTY_VALUES = st.one_of(
    st.none(),
    NASTY_NUMBERS,
    NASTY_FLOATS,
    st.sampled_from(["text", "", [], [1, "a"], [[1], [2, 3]], {}, object(), b"bytes", 10**30, [None, None], True]),
    st.builds(lambda shape, value: torch.full(shape, value, dtype=torch.float64), SHAPES, NASTY_FLOATS),
    st.builds(lambda shape, value: torch.full(shape, value, dtype=torch.int64), SHAPES, NASTY_NUMBERS),
    st.sampled_from([torch.ones(4, 1).bfloat16(), torch.ones(4, 1, dtype=torch.complex64), torch.eye(4).to_sparse()]),
)
FIELDS = [
    "x",
    "edge_index",
    "y",
    "pos",
    "z",
    "edge_attr",
    "edge_weight",
    "node_type",
    "edge_type",
    "num_nodes",
    "train_mask",
    "val_mask",
    "test_mask",
    "target",
]


@given(st.data(), OPTIONS)
@fuzz(200)
def test_data_objects_with_odd_fields(data, options):
    graphs = data.draw(
        st.sampled_from([path_graphs(9), path_graphs(9, y=lambda i: torch.tensor([i % 3])), [citation_graph()]])
    )
    graphs = [copy.copy(g) for g in graphs]
    for _ in range(data.draw(st.integers(1, 3))):
        which = data.draw(st.sampled_from([*range(len(graphs)), "all"]))
        field, value = data.draw(st.sampled_from(FIELDS)), data.draw(NASTY_VALUES)
        for graph in graphs if which == "all" else [graphs[which]]:
            graph[field] = value
    one_line_or_sound(lambda: load_own(graphs, **options))


@given(st.data(), OPTIONS)
@fuzz(100)
def test_networkx_graphs_with_odd_attributes(data, options):
    graphs = [data.draw(st.sampled_from([nx.path_graph, nx.cycle_graph]))(3 + i % 3) for i in range(6)]
    for i, graph in enumerate(graphs):
        graph.graph["y"] = i % 2 if i else 0.5
        nx.set_node_attributes(graph, 1, "x")
    for _ in range(data.draw(st.integers(1, 4))):
        graph = data.draw(st.sampled_from(graphs))
        holder = data.draw(
            st.sampled_from(
                [graph.graph, *(d for _, d in graph.nodes(data=True)), *(d for *_, d in graph.edges(data=True))]
            )
        )
        key = data.draw(st.sampled_from(["x", "y", "pos", "split", "weight", 3, None]))
        holder[key] = data.draw(NASTY_VALUES)
    one_line_or_sound(lambda: load_own(graphs, **options))


ODD_CELLS = (
    *(
        None,
        True,
        3,
        10**30,
        1.5,
        float("nan"),
        float("inf"),
        1 + 2j,
        "",
        "C",
        "a,b",
        "\ud800",
        b"C",
        object,
        [1, 2],
        [],
        {},
        (1,),
    ),
    *(
        np.arange(3),
        np.array(2.5),
        np.zeros((0, 2)),
        np.float32(2),
        np.bool_(1),
        np.datetime64("2020-01-01"),
        torch.ones(2),
        "x\0y",
    ),
)


@given(st.data(), OPTIONS)
@fuzz(80)
def test_data_frames_and_targets_with_odd_cells(data, options):
    """Columns of a DataFrame of any type and name, and targets beside SMILES."""
    pytest.importorskip("rdkit")
    pandas = pytest.importorskip("pandas")
    cells = st.sampled_from((*ODD_CELLS, pandas.NA, pandas.NaT, pandas.Timestamp("2020"), pandas.Interval(0, 1)))
    columns = {
        "smiles": list(SMILES[:12]),
        "y": [i / 3 for i in range(12)],
        "mw": list(range(12)),
        "ring": ["a", "b"] * 6,
    }
    for name in data.draw(st.lists(st.sampled_from(["smiles", "y", "mw", 3, None, ("a", 1), " y"]), max_size=3)):
        values = list(columns.get(name, columns["y"]))
        for _ in range(data.draw(st.integers(1, 3))):
            values[data.draw(st.integers(0, 11))] = data.draw(cells)
        columns[name] = pandas.Series(values, dtype=object)
    y = data.draw(
        st.sampled_from([None, None, list(columns["y"]), columns["y"][:3], 3, "abc", [[1, 2]] * 12, {"y": [1] * 12}])
    )
    one_line_or_sound(lambda: load_own(pandas.DataFrame(columns), y, **options))
    one_line_or_sound(lambda: load_own(list(columns["smiles"]), y, **options))


@given(
    st.recursive(
        NASTY_VALUES | st.text(max_size=3), lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner, inner)
    ),
    OPTIONS,
)
@fuzz(60)
def test_things_that_are_no_graphs(thing, options):
    one_line_or_sound(lambda: load_own(thing, **options))


@given(st.data())
@fuzz(100)
def test_new_data_with_odd_fields(place, data):
    """The same for data to predict on: an error line or a set of graphs."""
    b = load_own(path_graphs(9)) if data.draw(st.booleans()) else load_own(citation_graph())
    new = [copy.copy(g) for g in path_graphs(3)]
    field, value = data.draw(st.sampled_from(FIELDS)), data.draw(NASTY_VALUES)
    for graph in new[: data.draw(st.integers(1, 3))]:
        graph[field] = value
    thing = data.draw(st.sampled_from([new, new[0], [*SMILES[:2], "C("], place / "nowhere", None]))
    encoding = data.draw(st.sampled_from([b.encoding, None]))
    graphs, line = outcome(lambda: encode_graphs(thing, encoding, b.task).graphs)
    assert "\n" not in line
    assert line or len(graphs.x) == graphs.num_nodes > 0

"""A trained network as a program, for any number of nodes, edges and graphs: ``model.pt2`` of torch.export, ``model.onnx``.

The program is traced from the module that ``model.py`` of the exported folder defines.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnas.errors import InputError
from gnas.model.export_code import Exportable, list_lines
from gnas.model.export_input import InputCode
from gnas.model.task import Task
from gnas.run.table import Table
from gnas.run.words import join_words
from gnas.use.export_card import TORCH

if TYPE_CHECKING:
    from torch.export import ExportedProgram

PROGRAMS = {"torch": "model.pt2", "onnx": "model.onnx"}
FORMATS = ("python", *PROGRAMS)
AXES = {  # the axis of each input whose length a call may choose
    "x": (0, "nodes"),
    "edge_index": (1, "edges"),
    "edge_label_index": (1, "pairs"),
    "edge_attr": (0, "edges"),
    "batch": (0, "nodes"),
    "graph_attr": (0, "graphs"),
    "node_walks": (0, "nodes"),
    "laplacian": (0, "nodes"),
    "edge_walks": (0, "edges"),
}
TYPES = {torch.int64: "int64", torch.float32: "float32"}
SIZES = (5, 4, 3)  # nodes of the graphs that are traced


def write_program(
    format: str, files: Mapping[str, str | bytes], networks: Sequence[Exportable]
) -> tuple[dict[str, str | bytes], dict[str, Any]]:
    """The program of an exported folder, and what its card says of it; ``networks`` are all members of an ensemble."""
    inputs = sample_inputs(networks)
    with tempfile.TemporaryDirectory() as place, _quiet():
        program = _trace(_load_module(Path(place), files), inputs)
        content, version = _torch_bytes(program) if format == "torch" else _onnx_bytes(program)
    name = PROGRAMS[format]
    return {name: content}, _describe(format, inputs, version)


# -- the inputs ----------------------------------------------------------------------------------------------------


def sample_inputs(networks: Sequence[Exportable], sizes: tuple[int, ...] = SIZES) -> dict[str, Tensor]:
    """What the networks read of a few cycles, one of each size, by argument."""
    task, codes = networks[0].task, [InputCode.of(one) for one in networks]
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    first = torch.tensor(sizes).cumsum(0) - torch.tensor(sizes)
    nodes = torch.arange(len(batch))
    following = first[batch] + (nodes - first[batch] + 1) % torch.tensor(sizes)[batch]
    forth = torch.stack([nodes, following])
    edge_index = torch.cat([forth, forth.flip(0)], dim=1)
    found = {"x": _columns(len(batch), task.categories, task.in_channels), "edge_index": edge_index}
    for code in codes:
        found |= _more_inputs(code, task, batch, edge_index)
    return {name: found[name] for name in AXES if name in found}


def _more_inputs(code: InputCode, task: Task, batch: Tensor, edge_index: Tensor) -> dict[str, Tensor]:
    nodes, edges = len(batch), edge_index.size(1)
    made = {
        "edge_label_index": edge_index[:, : nodes + 2].contiguous(),
        "edge_attr": _columns(edges, code.edge_categories, code.edge_channels),
        "batch": batch,
        "graph_attr": torch.randn(int(batch.max()) + 1, max(code.graph_channels, 1)),
        "node_walks": torch.rand(nodes, max(code.walks, 1)),
        "laplacian": torch.randn(nodes, max(code.laplacian, 1)),
        "edge_walks": torch.rand(edges, max(code.edge_walks, 1)),
    }
    return {name: made[name] for name in (*code.names(), *code.encodings())}


def _columns(rows: int, categories: tuple[int, ...], channels: int) -> Tensor:
    if categories:
        return torch.stack([torch.randint(0, size, (rows,)) for size in categories], dim=1)
    return torch.randn(rows, max(channels, 1))


# -- the program ---------------------------------------------------------------------------------------------------


def _load_module(place: Path, files: Mapping[str, str | bytes]) -> nn.Module:
    """The network of an exported folder, from its own code."""
    for name, content in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    spec = importlib.util.spec_from_file_location("gnas_exported", place / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model: nn.Module = module.load(place)
    return model


def _trace(model: nn.Module, inputs: Mapping[str, Tensor]) -> ExportedProgram:
    from torch.export import Dim, export  # takes a second

    names = {AXES[name][1] for name in inputs}
    dims = {name: Dim(name) for name in sorted(names)}
    shapes = {name: {AXES[name][0]: dims[AXES[name][1]]} for name in inputs}
    try:
        return export(model, (), dict(inputs), dynamic_shapes=shapes)
    except Exception as error:  # torch raises many kinds; an operation of a plugin may not be traceable
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"torch.export cannot trace this network ({reason}); export it with format python") from error


def _torch_bytes(program: ExportedProgram) -> tuple[bytes, str]:
    """The file, and a sentence on what reads it."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    written = torch.__version__.partition("+")[0]
    return buffer.getvalue(), (
        f"It was written by torch {written}, and that version reads it; if another one refuses it, use `model.py`, "
        f"which needs torch {TORCH} or later."
    )


def _onnx_bytes(program: ExportedProgram) -> tuple[bytes, str]:
    """The file, and a sentence on what reads it."""
    try:
        found = torch.onnx.export(program, dynamo=True, verbose=False, output_names=["out"])
    except ImportError as error:
        raise InputError(
            f"the format onnx needs the packages onnx and onnxscript ({error}); pip install onnx onnxscript"
        ) from None
    assert found is not None
    model = _name_axes(found.model_proto)
    opset = next(one.version for one in model.opset_import if not one.domain)
    return model.SerializeToString(), (
        f"It needs no torch: a runtime with ONNX opset {opset} and IR version {model.ir_version} reads it."
    )


def _name_axes(model: Any) -> Any:
    """The axes of inputs and outputs in the words of this module; torch calls them s2 or u0 + 1."""
    words: dict[str, str] = {}
    for value in model.graph.input:
        place, word = AXES[value.name]
        words[value.type.tensor_type.shape.dim[place].dim_param] = word
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = words.get(dim.dim_param, "graphs")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the notes of torch's exporters, which say nothing on this network."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


# -- the card ------------------------------------------------------------------------------------------------------


def _describe(format: str, inputs: Mapping[str, Tensor], version: str) -> dict[str, Any]:
    """How to call the program, and what each input is."""
    rows = [(name, TYPES[value.dtype], _shape(name, value)) for name, value in inputs.items()]
    computed = [f"`{name}`" for name in ("node_walks", "laplacian", "edge_walks") if name in inputs]
    axes = {AXES[name][1] for name in inputs} | ({"graphs"} if "batch" in inputs else set())
    notes = [version, f"The number of {join_words(sorted(axes))} may differ in each call."]
    if computed:
        notes.append(
            f"The program does not compute {join_words(computed)}: "
            "`load().encodings(edge_index, batch)` of model.py does."
        )
    return {
        "name": PROGRAMS[format],
        "format": format,
        "inputs": list(inputs),
        "given": "\n".join(list_lines("given = {", (f'"{name}": {name}' for name in inputs), "}  # numpy arrays")),
        "table": Table.from_tuples(("input", "type", "shape"), rows).to_markdown(),
        "notes": notes,
    }


def _shape(name: str, value: Tensor) -> str:
    place, axis = AXES[name]
    return f"[{', '.join(axis if k == place else str(size) for k, size in enumerate(value.shape))}]"

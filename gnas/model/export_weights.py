"""The weights of a network under the names of its exported module."""

from __future__ import annotations

from torch import Tensor, nn

from gnas.model.baselines.base import Baseline
from gnas.model.cell import Cell
from gnas.model.encoder import EdgeEncoder, Encoder
from gnas.model.export_code import as_exportable, attribute_name, list_cells
from gnas.model.head import EachHead
from gnas.model.network import GraphModule
from gnas.model.stacked import StackedBatchNorm, StackedLinear


def view_exported(model: GraphModule) -> dict[str, Tensor]:
    """The weights of a network as views, with the names and shapes of the exported module.

    A stack of layers has one slice per operation; the module has one plain layer per operation.
    """
    network = as_exportable(model)
    found = _node_encoder(network.encoder)
    if isinstance(network.edge_encoder, EdgeEncoder):
        found |= _edge_encoder(network.edge_encoder)
    elif network.edge_encoder is not None:
        found |= _named(network.edge_encoder, "edge_encoder.")
    if isinstance(network, Baseline):
        for number, layer in enumerate(network.layers, start=1):
            found |= _layer(layer, f"layer_{number}.{'linear.' if isinstance(layer, nn.Linear) else ''}")
    else:
        for number, cell in enumerate(list_cells(network), start=1):
            found |= _cell(cell, f"cell_{number}.")
    step = 1 if isinstance(network.head, EachHead) else 2  # a ReLU is between two layers of an exported MLP
    for number, layer in enumerate(network.head.layers):
        found |= _named(layer, f"head.{step * number}.")
    return found


def _layer(layer: nn.Module, prefix: str) -> dict[str, Tensor]:
    """The weights of a layer of a hand-made network."""
    found: dict[str, Tensor] = {}
    for name, part in layer.named_modules():
        path = f"{prefix}{name}." if name else prefix
        if isinstance(part, StackedBatchNorm):
            found |= _slices(part, 0, path)
        else:
            found |= {path + key: value.detach() for key, value in part.named_parameters(recurse=False)}
    return found


def _node_encoder(encoder: Encoder) -> dict[str, Tensor]:
    if encoder.categories:
        found = {"encoder.weight": encoder.weight.detach()}
    else:
        found = _named(encoder.linear, "encoder.")
    if encoder.structure:
        found |= _named(encoder.measured, "measured.")
    if encoder.pe is not None:
        found |= {} if encoder.pe.norm is None else _slices(encoder.pe.norm, 0, "walk_norm.")
        found |= _named(encoder.pe.linear, "position.")
    return found


def _edge_encoder(encoder: EdgeEncoder) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    if encoder.categories:
        found["edge_encoder.weight"] = encoder.weight.detach()
    elif encoder.features:
        found |= _named(encoder.linear, "edge_encoder.")
    if encoder.walks:
        found |= {**_slices(encoder.norm, 0, "edge_walk_norm."), **_named(encoder.pe, "edge_position.")}
    return found or _named(encoder.constant, "edge_encoder.")


def _cell(cell: Cell, prefix: str) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for stage in cell.in_order():
        for (_, target, operation), places in stage.places().items():
            for module, row in places:
                part = "transform." if module is stage.transform else ""
                found |= _slices(module, row, f"{prefix}{attribute_name(operation, target, cell.config)}.{part}")
    for name in ("fuse", "fuse_second", "norm", "edge_norm"):
        layer = getattr(cell, name)
        found |= {} if layer is None else _slices(layer, 0, f"{prefix}{name}.")
    if cell.relation is not None:
        found |= _named(cell.relation, f"{prefix}relation.")
    if cell.ffn is not None:
        for name in ("first", "second"):
            found |= _named(getattr(cell.ffn, name), f"{prefix}ffn.{name}.")
        found |= {} if cell.ffn.norm is None else _slices(cell.ffn.norm, 0, f"{prefix}ffn.norm.")
    return found


def _named(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    """The weights of plain layers."""
    return {f"{prefix}{name}": value for name, value in module.state_dict().items()}


def _slices(module: nn.Module, row: int, prefix: str) -> dict[str, Tensor]:
    """One operation's part of every stacked layer in ``module``."""
    found: dict[str, Tensor] = {}
    for name, layer in module.named_modules():
        path = f"{prefix}{name}." if name else prefix
        if isinstance(layer, StackedLinear):
            found[f"{path}weight"] = layer.weight.detach()[row].T
            if layer.bias is not None:
                found[f"{path}bias"] = layer.bias.detach()[row, 0]
        elif isinstance(layer, StackedBatchNorm):
            found |= {path + key: value[row, 0] for key, value in layer.state_dict().items()}
        else:  # the operation's own parameters
            found |= {path + key: value.detach()[row] for key, value in layer.named_parameters(recurse=False)}
    return found

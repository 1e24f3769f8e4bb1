"""A network as readable code: plain layers, one attribute per operation of a cell.

``write_module`` writes the module. ``export_weights`` has the weights of the network under the names of the module.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, StrictUndefined
from torch import nn

from gnas.arch.genotype import CellGenotype, Link
from gnas.arch.operation import PLAIN, Code, join_operation, split_operation
from gnas.errors import InputError
from gnas.model.baselines.base import Baseline
from gnas.model.cell import Cell
from gnas.model.class_code import ClassCode
from gnas.model.export_input import InputCode
from gnas.model.export_template import BODY, HEAD
from gnas.model.head import EachHead, Head
from gnas.model.network import TELEPORT, GraphModule, Network
from gnas.model.operations import MESSAGE_TYPES, OPERATIONS, Operation, find_variant
from gnas.model.stage import CellConfig
from gnas.model.task import Task

Exportable = Network | Baseline
WIDTH = 100  # of a line of code
MEASURED = {"size": "batch", "degree": "edge_index"}  # the argument that each is computed from
MEASURE_WORDS = {"size": "the nodes of its graph", "degree": "the edges that lead to it"}
DECLARED = ("export_code", "forward", "__init__")
JINJA = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True)


def write_module(network: Exportable, about: str) -> str:
    """The text of the module; ``about`` is its first line."""
    as_exportable(network)
    task, given = network.task, InputCode.of(network)
    parts = _layer_parts(network) if isinstance(network, Baseline) else _cell_parts(network)
    classes: list[ClassCode] = [*parts["operations"], *parts["cells"]]
    steps = " ".join(step for one in classes for step in one.steps) + " ".join(parts["before"])
    body = JINJA.from_string(BODY).render(
        **parts,
        task=task,
        given=given,
        steps=steps,
        uses_scatter=task.level == "graph"
        or bool(given.structure or given.walks or given.edge_walks)
        or "edge_index" in steps
        or parts["convolved"],
        offsets=_offsets(task.categories),
        edge_offsets=_offsets(given.edge_categories),
        arguments=_arguments(given.arguments()),
        teleport=TELEPORT,
        factors=_factors(task),
        measured=", ".join(MEASURED[name] for name in given.structure),
        measure_words=" and ".join(MEASURE_WORDS[name] for name in given.structure),
        output=_output(task),
    )
    head = JINJA.from_string(HEAD).render(
        given=given, about=escape_text(about), imports=_imports(body), constants=_constants(task, given)
    )
    return head + body


def _cell_parts(network: Network) -> dict[str, Any]:
    """What the template needs of a network of cells."""
    config, stack = list_cells(network)[0].config, _cell_names(network)
    bare, codes = find_variant(network.genotype.variant).bare, _codes(network)
    classes = {name: _cell(name, network, place, codes) for place, name in reversed(list(enumerate(stack)))}
    return {
        "part": "cell",
        "channels": network.channels,
        "norm": config.norm,
        "operations": [_operation(name, code, bare) for name, code in codes.items() if not _inline(name, code, bare)],
        "cells": [classes[name] for name in dict.fromkeys(stack)],
        "stack": [(name, *classes[name].call()) for name in stack],
        "before": (),
        "summary": _summary(network.task, len(stack), "cell"),
        "head": _head(network.head),
        "readout": network.head.readout,
        "each_is_read": False,
        "convolved": False,
        "ffn": config.ffn,
        "propagation": network.plan.stack.propagation,
        "dropout": config.dropout,
    }


def _layer_parts(network: Baseline) -> dict[str, Any]:
    """What the template needs of a hand-made network."""
    code = network.export_code()
    return {
        "part": "layer",
        "channels": network.width,
        "norm": True,
        "operations": [],
        "cells": list(dict.fromkeys(code.layers)),
        "stack": [(one.name, *one.call()) for one in code.layers],
        "before": code.before,
        "summary": _summary(network.task, len(code.layers), "layer"),
        "head": _head(network.head),
        "readout": network.head.readout,
        "each_is_read": code.each_is_read,
        "convolved": code.convolved,
        "ffn": False,
        "propagation": 0,
        "dropout": 0.0,
    }


def as_exportable(model: GraphModule) -> Exportable:
    """Return the network, or raise an error if it cannot be exported."""
    if isinstance(model, Baseline):
        model.export_code()
        return model
    if not isinstance(model, Network):
        raise InputError(f"a network of the class {type(model).__name__} cannot be exported; predict with gnas")
    used = {find_computed_operation(k.operation, cell.config) for cell, k in _links(model)}
    missing = sorted(used - set(_codes(model)))
    if missing:
        raise InputError(
            f"operations without export_code cannot be exported: {', '.join(missing)}; declare it (docs/extending.md), "
            "predict with gnas (gnas predict, gnas.load_model), or search without them"
        )
    return model


def find_computed_operation(operation: str, config: CellConfig) -> str:
    """The operation that a network computes: where edges have no state, ``sum(edge)`` is ``sum``."""
    return join_operation(split_operation(operation)[0], config.message(operation))


def attribute_name(operation: str, target: int, config: CellConfig) -> str:
    """The attribute of a cell that holds the operation into a node, such as ``mean_gated_4``."""
    words = re.findall("[a-z0-9_]+", find_computed_operation(operation, config))
    return "_".join((*words, str(target)))


def _links(network: Network) -> list[tuple[Cell, Link]]:
    """The links that reach an output, with their cells."""
    pairs = zip(list_cells(network), network.genotype, strict=True)
    return [(cell, link) for cell, genotype in pairs for link in _live(genotype)]


def _codes(network: Network) -> dict[str, Code]:
    """The code of each operation that reaches an output: built-in ones in their order, then others by name."""
    kind, types = find_variant(network.genotype.variant), _plain_types(network)
    codes: dict[str, Code] = {}
    for name in (*OPERATIONS, *sorted(set(types) - set(OPERATIONS))):
        made = types.get(name)
        if made is not None and issubclass(made, Operation) and _declares_code(made):
            code = made.export_code(kind)
            codes |= {} if code is None else {name: code}
    for name in sorted({find_computed_operation(link.operation, cell.config) for cell, link in _links(network)}):
        aggregator, message = split_operation(name)
        if message != PLAIN:
            codes[name] = MESSAGE_TYPES[message].export_code(aggregator, network.channels)
    return codes


def _plain_types(network: Network) -> dict[str, type[nn.Module]]:
    """The class of each operation without a message that reaches an output."""
    used = {link.operation for _, link in _links(network)}
    return {
        find_computed_operation(name, cell.config): type(module)
        for cell in list_cells(network)
        for stage in cell.in_order()
        for name, module in stage.kinds.items()
        if name in used
    }


def _declares_code(made: type[Operation]) -> bool:
    """Whether the class's code belongs to its forward: a subclass that changes the computation must change both."""
    home = {name: next(k for k, one in enumerate(made.__mro__) if name in vars(one)) for name in DECLARED}
    return home["export_code"] == min(home.values())


def list_cells(network: Network) -> list[Cell]:
    """The cells in order."""
    return [cell for cell in network.cells if isinstance(cell, Cell)]


def escape_text(text: str) -> str:
    """One line that is safe in a docstring and in Markdown: without quotes, backslashes and control characters."""
    clean = "".join(c if c.isprintable() and c not in '"\\`|<>' else " " for c in text)
    return " ".join(clean.encode(errors="replace").decode().split())[:200]


def quote_text(text: str) -> str:
    """A text as Python writes it, in double quotes if possible."""
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain and "\\'" not in plain else plain


def _imports(body: str) -> list[str]:
    found = ["import torch"] if re.search(r"\btorch\.", body) else []
    found += ["import torch.nn.functional as F"] if re.search(r"\bF\.", body) else []
    return [*found, "from safetensors.torch import load_file", "from torch import Tensor, nn"]


def _constants(task: Task, given: InputCode) -> list[str]:
    pairs = (("MEASURE_CENTER", given.structure_center), ("MEASURE_SCALE", given.structure_scale))
    measured = [line for name, values in pairs for line in list_lines(f"{name} = [", map(repr, values), "]") if values]
    return [*measured, *_target_constants(task)]


def _target_constants(task: Task) -> list[str]:
    if task.kind != "regression":
        return list_lines("LABELS = [", map(quote_text, task.labels), "]") if task.labels else []
    if not _factors(task):
        return []
    reason = "# The network learned standardised targets."
    return [reason, *_numbers("SCALE", task.scale), *_numbers("CENTER", task.center)]


def _numbers(name: str, values: Sequence[float]) -> list[str]:
    return [f"{name} = {values[0]!r}"] if len(values) == 1 else list_lines(f"{name} = [", map(repr, values), "]")


def list_lines(before: str, items: Iterable[str], after: str) -> list[str]:
    """Items in one line if they fit, else one per line."""
    items = list(items)
    line = before + ", ".join(items) + after
    return [line] if len(line) <= WIDTH else [before, *(f"    {item}," for item in items), after]


def _branches(text: str) -> str:
    """The docstring of a cell: its formula in one line if it fits, else one branch per line."""
    lines = [text] if len(text) <= WIDTH else ["Its branches:\n", *text.strip("[]").split(" | "), ""]
    return "\n    ".join(lines)


# -- operations and cells ------------------------------------------------------------------------------------------


def _inline(name: str, code: Code, bare: Collection[str]) -> bool:
    """Whether an operation is a single expression without weights: it then needs no class."""
    return _is_bare(name, bare) and not code.layers and not code.steps


def _is_bare(name: str, bare: Collection[str]) -> bool:
    return split_operation(name)[0] in bare


def _class_name(operation: str) -> str:
    aggregator, message = split_operation(operation)
    if message != PLAIN:
        return aggregator.capitalize() + message.capitalize()
    return operation.capitalize() + ("" if operation in OPERATIONS else "Operation")


def _operation(name: str, code: Code, bare: Collection[str]) -> ClassCode:
    reads = ("h", *code.reads.split(", ")) if code.reads else ("h",)
    plain = _is_bare(name, bare)
    layers = code.layers if plain else (*code.layers, "self.transform = Transform(channels)")
    value = code.value if plain else f"self.transform({code.value})"
    return ClassCode(_class_name(name), code.doc, layers, reads, (*code.steps, f"return {value}"))


def _live(cell: CellGenotype) -> list[Link]:
    live = cell.live()
    return [link for link in cell.links if link.target in live]


def _cell_names(network: Network) -> list[str]:
    """The class of each cell: named after the first cell of its kind."""
    known: dict[tuple[CellGenotype, bool], str] = {}
    kinds = list(zip(network.genotype, network.plan.updates, strict=True))
    for number, kind in enumerate(kinds, start=1):
        known.setdefault(kind, f"Cell{number}")
    return [known[kind] if len(known) > 1 else "Cell" for kind in kinds]


def _cell(name: str, network: Network, place: int, codes: Mapping[str, Code]) -> ClassCode:
    cell, genotype = list_cells(network)[place], network.genotype[place]
    config = cell.config
    layers = ["self.relation = Relation(channels)"] if cell.relation is not None else []
    reads_state = config.edge_state and (cell.relation is not None or bool(cell.messages))
    state = ", e" if reads_state else ""
    steps = [f"r = self.relation(x, edge_index{state})"] if cell.relation is not None else []
    values = {0: "x"}
    for link in _live(genotype):
        source, node = values[link.source], f"h{link.target}"
        operation, attribute = (
            find_computed_operation(link.operation, config),
            attribute_name(link.operation, link.target, config),
        )
        code = codes[operation]
        if not _inline(operation, code, config.variant.bare):
            layers.append(f"self.{attribute} = {_class_name(operation)}(channels)")
            steps.append(f"{node} = self.{attribute}({', '.join(filter(None, (source, code.reads)))})")
        elif code.value == "h":  # the same value under another number
            node = source
        else:
            value = re.sub(r"\bh\b", source, code.value)
            steps.append(f"{node} = {value}")
        values[link.target] = node
    branches = [values[node] for node in genotype.output_nodes()]
    steps += ["e = e + F.relu(self.edge_norm(r))" if config.norm else "e = e + F.relu(r)"] * cell.updates_edges
    steps += _fusion(branches, config, ", e" if cell.updates_edges else "")
    reads = ("x", "edge_index", "e") if reads_state else ("x", "edge_index")
    returns = "tuple[Tensor, Tensor]" if cell.updates_edges else "Tensor"
    return ClassCode(
        name, _branches(str(genotype.tree())), (*layers, *_fuse_layers(cell, branches)), reads, tuple(steps), returns
    )


def _fuse_layers(cell: Cell, branches: Collection[str]) -> list[str]:
    """The layers that follow the operations of a cell."""
    config = cell.config
    width = f"{len(branches)} * channels" if config.fusion == "concat" and len(branches) > 1 else "channels"
    last = f"channels{', bias=False' if config.norm else ''})"
    layers = [f"self.fuse = nn.Linear({width}, {last if config.mlp == 1 else 'channels)'}"]
    layers += [f"self.fuse_second = nn.Linear(channels, {last}"] if config.mlp > 1 else []
    layers += ["self.norm = nn.BatchNorm1d(channels)"] if config.norm else []
    layers += ["self.edge_norm = nn.BatchNorm1d(channels)"] if cell.edge_norm is not None else []
    return layers + (["self.ffn = FeedForward(channels)"] if config.ffn else [])


def _fusion(branches: list[str], config: CellConfig, more: str = "") -> list[str]:
    """The fusion of the cell's outputs: the last lines of its ``forward``, which returns ``more`` too."""
    name, lines = branches[0], []
    if len(branches) > 1:
        name = "out"
        before, after = ("torch.cat([", "], dim=1)") if config.fusion == "concat" else ("torch.stack([", "])")
        after += {"concat": "", "sum": ".sum(dim=0)", "mean": ".mean(dim=0)", "max": ".amax(dim=0)"}[config.fusion]
        lines = list_lines(f"out = {before}", branches, after)
    value = f"self.fuse({name})" if config.mlp == 1 else f"self.fuse_second(F.relu(self.fuse({name})))"
    value = f"self.norm({value})" if config.norm else value
    value = f"F.leaky_relu({value}, {config.slope!r})" if config.slope else f"F.relu({value})"
    if config.dropout:
        lines.append(f"out = {value}")
        value = f"F.dropout(out, {config.dropout!r}, self.training)"
    value = f"x + {value}" if config.residual else value
    return [*lines, f"return {f'self.ffn({value})' if config.ffn else value}{more}"]


# -- before and after the cells ------------------------------------------------------------------------------------


def _offsets(categories: Sequence[int]) -> list[int]:
    return [sum(categories[:k]) for k in range(len(categories))]


def _arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of the network's ``forward`` as lines: one if it fits, else one per argument."""
    line = ", ".join(("self", *arguments))
    if len(f"    def forward({line}) -> Tensor:") <= 120:
        return [line]
    return [line] if len(line) + 8 <= 120 else [f"{name}," for name in ("self", *arguments)]


def _head(head: Head | EachHead) -> list[str]:
    layers = [f"nn.Linear({layer.in_features}, {layer.out_features})" for layer in head.layers]
    return layers if isinstance(head, EachHead) else [text for one in layers for text in (one, "nn.ReLU()")][:-1]


def _factors(task: Task) -> list[str]:
    """Scale and center of the output of a regression; empty if it is in the unit of the target already."""
    if task.kind != "regression" or not (any(task.center) or any(scale != 1 for scale in task.scale)):
        return []
    return [n if len(v) == 1 else f"out.new_tensor({n})" for n, v in (("SCALE", task.scale), ("CENTER", task.center))]


def _summary(task: Task, number: int, part: str) -> str:
    count = {0: f"no {part}s", 1: f"one {part}"}.get(number, f"{number} {part}s")
    return f"Input to embeddings, {count}, {'readout, ' if task.level == 'graph' else ''}head."


def _output(task: Task) -> str:
    if task.level == "link":
        return "The logit of a link, one row for each pair of nodes of edge_label_index."
    what = "The predicted value in its own unit"
    if task.kind != "regression":
        what = f"The logits of the {'classes' if task.kind == 'classification' else 'labels'}"
    return f"{what}, one row for each {task.level}{', in the order of edge_index' if task.level == 'edge' else ''}."

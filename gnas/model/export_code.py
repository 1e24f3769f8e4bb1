"""A network of a search as readable code: plain layers, one attribute per operation.

``module_source`` writes the module; ``exported_views`` are the weights of the network under the names of the module.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, StrictUndefined
from torch import Tensor, nn

from gnas.arch.genotype import CellGenotype, Link
from gnas.arch.operation import Code
from gnas.errors import InputError
from gnas.model.cell import Cell
from gnas.model.export_template import BODY, HEAD
from gnas.model.feed_forward import FeedForward
from gnas.model.network import GraphModule, Network
from gnas.model.operations import OPERATIONS, Operation, variant
from gnas.model.stacked import StackedBatchNorm, StackedLinear
from gnas.model.stage import CellConfig, Stage
from gnas.model.task import Task

WIDTH = 100  # of a line of code
MEASURED = {"size": "batch", "degree": "edge_index"}  # the argument that each is computed from
MEASURE_WORDS = {"size": "the nodes of its graph", "degree": "the edges that lead to it"}
DECLARED = ("export_code", "forward", "__init__")
JINJA = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True)


@dataclass(frozen=True)
class ClassCode:
    """A class of the module: its layers, and the steps of its ``forward``."""

    name: str
    doc: str
    layers: tuple[str, ...] = ()
    reads: str = "h: Tensor"
    steps: tuple[str, ...] = ()


def module_source(network: Network, about: str) -> str:
    """The text of the module; ``about`` is its first line."""
    as_exportable(network)
    task, config = network.task, cells_of(network)[0].config
    stack = _cell_names(network)
    first = [stack.index(name) for name in dict.fromkeys(stack)]
    bare, codes = variant(network.genotype.variant).bare, _codes(network)
    operations = [_operation(name, code, name in bare) for name, code in codes.items() if not _inline(name, code, bare)]
    cells = [_cell(stack[place], network.genotype[place], config, codes) for place in first]
    steps = [step for one in (*operations, *cells) for step in one.steps]
    body = JINJA.from_string(BODY).render(
        task=task,
        channels=network.channels,
        norm=config.norm,
        aggregates=any("aggregate(" in step for step in steps),
        transforms=any("self.transform(" in step for step in steps),
        operations=operations,
        cells=cells,
        stack=stack,
        summary=_summary(task, len(stack)),
        offsets=[sum(task.categories[:k]) for k in range(len(task.categories))],
        head=_head(network),
        readout=network.head.readout,
        ffn=config.ffn,
        dropout=config.dropout,
        factors=_factors(task),
        measured=", ".join(MEASURED[name] for name in task.structure),
        measure_words=" and ".join(MEASURE_WORDS[name] for name in task.structure),
        output=_output(task),
    )
    head = JINJA.from_string(HEAD).render(
        task=task, about=safe_text(about), imports=_imports(body), constants=_constants(task)
    )
    return head + body


def as_exportable(model: GraphModule) -> Network:
    """Return the network, or raise an error if it cannot be exported."""
    if not isinstance(model, Network):
        raise InputError(f"only found networks are exported, and this is a {type(model).__name__}")
    unknown = [*sorted(f"messages {name}" for name in model.plan.messages), *_unknown_input(model)]
    if unknown:
        raise InputError(
            f"this network cannot be exported as a Python file yet: it has {', '.join(unknown)}; "
            "predict with gnas (gnas predict, gnas.load_model)"
        )
    used = {link.operation for cell in model.genotype for link in _live(cell)}
    missing = sorted(used - set(_codes(model)))
    if missing:
        raise InputError(
            f"operations without export_code cannot be exported: {', '.join(missing)}; declare it (docs/extending.md), "
            "predict with gnas (gnas predict, gnas.load_model), or search without them"
        )
    return model


def _unknown_input(model: Network) -> list[str]:
    """Parts of the input that exported code does not read."""
    encoder, task = model.encoder, model.task
    parts = {"encodings of nodes": encoder.pe is not None, "features of whole graphs": bool(task.graph_channels)}
    parts["another choice of structure"] = encoder.structure != task.structure
    return [name for name, there in parts.items() if there]


def _codes(network: Network) -> dict[str, Code]:
    """The code of each operation that reaches an output: built-in ones in their order, then others by name."""
    kind, used = variant(network.genotype.variant), {k.operation for cell in network.genotype for k in _live(cell)}
    types: dict[str, type[nn.Module]] = {}
    for cell in cells_of(network):
        for stage in (stage for stage in cell.stages if isinstance(stage, Stage)):
            types |= {name: type(module) for name, module in stage.kinds.items() if name in used}
    codes: dict[str, Code] = {}
    for name in (*OPERATIONS, *sorted(set(types) - set(OPERATIONS))):
        made = types.get(name)
        if made is not None and issubclass(made, Operation) and _declares_code(made):
            code = made.export_code(kind)
            codes |= {} if code is None else {name: code}
    return codes


def _declares_code(made: type[Operation]) -> bool:
    """Whether the class's code belongs to its forward: a subclass that changes the computation must change both."""
    home = {name: next(k for k, one in enumerate(made.__mro__) if name in vars(one)) for name in DECLARED}
    return home["export_code"] == min(home.values())


def cells_of(network: Network) -> list[Cell]:
    """The cells in order."""
    return [cell for cell in network.cells if isinstance(cell, Cell)]


def safe_text(text: str) -> str:
    """One line that is safe in a docstring and in Markdown: without quotes, backslashes and control characters."""
    clean = "".join(c if c.isprintable() and c not in '"\\`|<>' else " " for c in text)
    return " ".join(clean.encode(errors="replace").decode().split())[:200]


def quoted(text: str) -> str:
    """A text as Python writes it, in double quotes if possible."""
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain and "\\'" not in plain else plain


def _imports(body: str) -> list[str]:
    found = ["import torch"] if re.search(r"\btorch\.", body) else []
    found += ["import torch.nn.functional as F", "from safetensors.torch import load_file"]
    found += ["from torch import Tensor, nn"]
    return found + (["from torch_geometric.utils import scatter"] if "scatter(" in body else [])


def _constants(task: Task) -> list[str]:
    pairs = (("MEASURE_CENTER", task.structure_center), ("MEASURE_SCALE", task.structure_scale))
    measured = [line for name, values in pairs for line in _listed(f"{name} = [", map(repr, values), "]") if values]
    return [*measured, *_target_constants(task)]


def _target_constants(task: Task) -> list[str]:
    if task.kind != "regression":
        return _listed("LABELS = [", map(quoted, task.labels), "]") if task.labels else []
    if not _factors(task):
        return []
    reason = "# The network learned standardised targets."
    return [reason, *_numbers("SCALE", task.scale), *_numbers("CENTER", task.center)]


def _numbers(name: str, values: Sequence[float]) -> list[str]:
    return [f"{name} = {values[0]!r}"] if len(values) == 1 else _listed(f"{name} = [", map(repr, values), "]")


def _listed(before: str, items: Iterable[str], after: str) -> list[str]:
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
    return name in bare and not code.layers and not code.steps


def _class_name(operation: str) -> str:
    return operation.capitalize() + ("" if operation in OPERATIONS else "Operation")


def _operation(name: str, code: Code, bare: bool) -> ClassCode:
    reads = f"h: Tensor, {code.reads}: Tensor" if code.reads else "h: Tensor"
    layers = code.layers if bare else (*code.layers, "self.transform = Transform(channels)")
    value = code.value if bare else f"self.transform({code.value})"
    return ClassCode(_class_name(name), code.doc, layers, reads, (*code.steps, f"return {value}"))


def _live(cell: CellGenotype) -> list[Link]:
    live = cell.live()
    return [link for link in cell.links if link.target in live]


def _cell_names(network: Network) -> list[str]:
    """The class of each cell: named after the first cell of its kind."""
    known: dict[CellGenotype, str] = {}
    for number, cell in enumerate(network.genotype, start=1):
        known.setdefault(cell, f"Cell{number}")
    return [known[cell] if len(known) > 1 else "Cell" for cell in network.genotype]


def _cell(name: str, genotype: CellGenotype, config: CellConfig, codes: Mapping[str, Code]) -> ClassCode:
    layers: list[str] = []
    steps: list[str] = []
    values = {0: "x"}
    for link in _live(genotype):
        source, node, attribute = values[link.source], f"h{link.target}", f"{link.operation}_{link.target}"
        code = codes[link.operation]
        if not _inline(link.operation, code, config.variant.bare):
            layers.append(f"self.{attribute} = {_class_name(link.operation)}(channels)")
            steps.append(f"{node} = self.{attribute}({', '.join(filter(None, (source, code.reads)))})")
        elif code.value == "h":  # the same value under another number
            node = source
        else:
            steps.append(f"{node} = {code.value.replace('(h, ', f'({source}, ')}")
        values[link.target] = node
    branches = [values[node] for node in genotype.output_nodes()]
    width = f"{len(branches)} * channels" if config.fusion == "concat" and len(branches) > 1 else "channels"
    last = f"channels{', bias=False' if config.norm else ''})"
    layers.append(f"self.fuse = nn.Linear({width}, {last if config.mlp == 1 else 'channels)'}")
    layers += [f"self.fuse_second = nn.Linear(channels, {last}"] if config.mlp > 1 else []
    layers += ["self.norm = nn.BatchNorm1d(channels)"] if config.norm else []
    layers += ["self.ffn = FeedForward(channels)"] if config.ffn else []
    steps += _fusion(branches, config)
    return ClassCode(name, _branches(str(genotype.tree())), tuple(layers), steps=tuple(steps))


def _fusion(branches: list[str], config: CellConfig) -> list[str]:
    """The fusion of the cell's outputs: the last lines of its ``forward``."""
    name, lines = branches[0], []
    if len(branches) > 1:
        name = "out"
        before, after = ("torch.cat([", "], dim=1)") if config.fusion == "concat" else ("torch.stack([", "])")
        after += {"concat": "", "sum": ".sum(dim=0)", "mean": ".mean(dim=0)", "max": ".amax(dim=0)"}[config.fusion]
        lines = _listed(f"out = {before}", branches, after)
    value = f"self.fuse({name})" if config.mlp == 1 else f"self.fuse_second(F.relu(self.fuse({name})))"
    value = f"self.norm({value})" if config.norm else value
    value = f"F.leaky_relu({value}, {config.slope!r})" if config.slope else f"F.relu({value})"
    if config.dropout:
        lines.append(f"out = {value}")
        value = f"F.dropout(out, {config.dropout!r}, self.training)"
    value = f"x + {value}" if config.residual else value
    return [*lines, f"return self.ffn({value})" if config.ffn else f"return {value}"]


# -- before and after the cells ------------------------------------------------------------------------------------


def _head(network: Network) -> list[str]:
    layers = [f"nn.Linear({layer.in_features}, {layer.out_features})" for layer in network.head.layers]
    return [text for layer in layers for text in (layer, "nn.ReLU()")][:-1]


def _factors(task: Task) -> list[str]:
    """Scale and center of the output of a regression; empty if it is in the unit of the target already."""
    if task.kind != "regression" or not (any(task.center) or any(scale != 1 for scale in task.scale)):
        return []
    return [n if len(v) == 1 else f"out.new_tensor({n})" for n, v in (("SCALE", task.scale), ("CENTER", task.center))]


def _summary(task: Task, cells: int) -> str:
    count = f"{cells} cells" if cells > 1 else "one cell"
    return f"Input to embeddings, {count}, {'readout, ' if task.level == 'graph' else ''}head."


def _output(task: Task) -> str:
    what = "The predicted value in its own unit"
    if task.kind != "regression":
        what = f"The logits of the {'classes' if task.kind == 'classification' else 'labels'}"
    return f"{what}, one row for each {task.level}{', in the order of edge_index' if task.level == 'edge' else ''}."


# -- weights -------------------------------------------------------------------------------------------------------


def exported_views(model: GraphModule) -> dict[str, Tensor]:
    """The weights of a network as views, with the names and shapes of the exported module.

    A stack of layers has one slice per operation; the module has one plain layer per operation.
    """
    network = as_exportable(model)
    encoder = network.encoder
    first = {"weight": encoder.weight.detach()} if encoder.categories else encoder.linear.state_dict()
    found: dict[str, Tensor] = {f"encoder.{name}": value for name, value in first.items()}
    if encoder.structure:
        found["measured.weight"] = encoder.measured.weight.detach()
    for number, cell in enumerate(cells_of(network), start=1):
        for stage in (stage for stage in cell.stages if isinstance(stage, Stage)):
            for (_, target, operation), places in stage.places().items():
                for module, row in places:
                    part = "transform." if module is stage.transform else ""
                    found |= _slices(module, row, f"cell_{number}.{operation}_{target}.{part}")
        found |= _slices(cell.fuse, 0, f"cell_{number}.fuse.")
        if cell.norm is not None:
            found |= _slices(cell.norm, 0, f"cell_{number}.norm.")
        if cell.fuse_second is not None:
            found |= _slices(cell.fuse_second, 0, f"cell_{number}.fuse_second.")
        if cell.ffn is not None:
            found |= _feed_forward(cell.ffn, f"cell_{number}.ffn.")
    for number, layer in enumerate(network.head.layers):  # a ReLU is between two layers of the exported head
        found |= {f"head.{2 * number}.{name}": value for name, value in layer.state_dict().items()}
    return found


def _feed_forward(ffn: FeedForward, prefix: str) -> dict[str, Tensor]:
    layers = {"first": ffn.first, "second": ffn.second}
    found = {
        f"{prefix}{one}.{name}": value for one, layer in layers.items() for name, value in layer.state_dict().items()
    }
    return found if ffn.norm is None else found | _slices(ffn.norm, 0, f"{prefix}norm.")


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

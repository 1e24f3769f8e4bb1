"""GraphNAS's own coarse space: what is chosen for each layer, and an architecture as a value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from gnas.arch.genotype import CellGenotype
from gnas.errors import InputError, choose, name_place
from gnas.files import check_digits, check_document, check_mapping, check_sequence, parse_yaml, shorten, write_atomic

ATTENTIONS = ("gat", "gcn", "cos", "const", "sym-gat", "linear", "gene_linear")
AGGREGATORS = ("sum", "mean-pooling", "max-pooling", "mlp")
ACTIVATIONS = ("sigmoid", "tanh", "relu", "linear", "softplus", "leaky_relu", "relu6", "elu")
HEADS = (1, 2, 4, 6, 8, 16)
WIDTHS = (4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class LayerChoice:
    """One layer: ``heads`` heads of ``width`` channels."""

    attention: str
    aggregator: str
    activation: str
    heads: int
    width: int

    def __post_init__(self) -> None:
        choose(self.attention, ATTENTIONS, "attention")
        choose(self.aggregator, AGGREGATORS, "aggregator")
        choose(self.activation, ACTIVATIONS, "activation")
        if not (1 <= self.heads <= 1024 and 1 <= self.width <= 4096):
            raise InputError(f"{self.heads} heads of {self.width} channels; allowed: 1 to 1024 heads of 1 to 4096")

    def __str__(self) -> str:
        return f"{self.activation}({self.aggregator}({self.attention}, {self.heads} x {self.width}))"


@dataclass(frozen=True)
class GraphNASArchitecture:
    """The result of a GraphNAS search: layers with their own widths. ``channels`` is the width of the input embedding."""

    kind: ClassVar[str] = "graphnas"
    name: ClassVar[str] = "gnas"
    cells: ClassVar[tuple[CellGenotype, ...]] = ()

    layers: tuple[LayerChoice, ...]
    channels: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if not self.layers or not all(isinstance(layer, LayerChoice) for layer in self.layers):
            raise InputError("a GraphNAS architecture is made of at least one LayerChoice")
        if not 1 <= self.channels <= 65536:
            raise InputError(f"channels is {self.channels}; allowed: 1 to 65536")

    @property
    def id(self) -> str:
        """Ten hex digits of the content."""
        return hashlib.sha256(self.to_yaml().encode()).hexdigest()[:10]

    @property
    def title(self) -> str:
        return f"graphnas {self.id}"

    def depth(self) -> int:
        """Every layer passes messages."""
        return len(self.layers)

    def formulas(self) -> tuple[str, ...]:
        """One formula per layer, such as ``relu(sum(gat, 4 x 16))``."""
        return tuple(str(layer) for layer in self.layers)

    def with_output(self, output: str) -> GraphNASArchitecture:
        return self

    def to_dict(self) -> dict[str, Any]:
        """What the description of a trained network holds of it."""
        return {"genotype": self.to_yaml()}

    def to_yaml(self) -> str:
        lines = ["format: gnas-graphnas", "version: 1", f"channels: {self.channels}", "layers:"]
        for layer in self.layers:
            values = [f"{f.name}: {getattr(layer, f.name)}" for f in fields(layer)]
            lines += [f"- {values[0]}", *(f"  {value}" for value in values[1:])]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_yaml(cls, text: str, source: str = "<string>") -> GraphNASArchitecture:
        """Read ``to_yaml``'s text; ``source`` names it in errors."""
        found = parse_yaml(text, source)
        with name_place(source):
            document = check_document(found, "gnas-graphnas", ("channels", "layers"))
            layers = []
            for number, entry in enumerate(check_sequence(document["layers"], "layers"), start=1):
                with name_place(f"layer {number}"):
                    layers.append(_layer_from(entry))
            return cls(tuple(layers), check_digits(document["channels"], "channels"))

    def save(self, path: str | Path) -> Path:
        """Write the YAML file; a crash leaves the old file or the new one."""
        return write_atomic(path, self.to_yaml())


def _layer_from(entry: object) -> LayerChoice:
    entry = check_mapping(entry, [f.name for f in fields(LayerChoice)])
    attention, aggregator, activation = (shorten(entry[name]) for name in ("attention", "aggregator", "activation"))
    heads, width = (check_digits(entry[name], name) for name in ("heads", "width"))
    return LayerChoice(attention, aggregator, activation, heads, width)


_KNOWN = {"attentions": ATTENTIONS, "aggregators": AGGREGATORS, "activations": ACTIVATIONS}


@dataclass(frozen=True)
class GraphNASSpace:
    """The options of each decision; a layer takes them in this order."""

    attentions: tuple[str, ...] = ATTENTIONS
    aggregators: tuple[str, ...] = AGGREGATORS
    activations: tuple[str, ...] = ACTIVATIONS
    heads: tuple[int, ...] = HEADS
    widths: tuple[int, ...] = WIDTHS

    def __post_init__(self) -> None:
        for f in fields(self):
            options = tuple(getattr(self, f.name))
            object.__setattr__(self, f.name, options)
            if not options or len(set(options)) < len(options):
                raise InputError(f"{f.name} {list(options)} must name at least one option, and none twice")
            for option in options:
                if f.name in _KNOWN:
                    choose(option, _KNOWN[f.name], f.name)
                elif not isinstance(option, int) or option < 1:
                    raise InputError(f"{f.name} {list(options)} must be whole numbers above 0")

    def options(self) -> tuple[tuple[Any, ...], ...]:
        return astuple(self)

    def sizes(self) -> tuple[int, ...]:
        """How many options each decision has."""
        return tuple(map(len, self.options()))

    def lightest(self) -> list[Any]:
        """The options that take the fewest weights."""
        light = ("const", "gcn", "linear", "gat", "sym-gat", "cos", "gene_linear")
        attention = min(self.attentions, key=light.index)
        aggregator = "sum" if "sum" in self.aggregators else self.aggregators[0]
        return [attention, aggregator, self.activations[0], min(self.heads), min(self.widths)]

    def layer(self, chosen: Sequence[Any]) -> LayerChoice:
        """The layer of these values; missing ones are the lightest."""
        return LayerChoice(*chosen, *self.lightest()[len(chosen) :])

    def layers(self, chosen: Sequence[Any], num_layers: int) -> list[LayerChoice]:
        """All layers from one sequence of values; missing ones are the lightest."""
        count = len(self.sizes())
        return [self.layer(chosen[k * count : (k + 1) * count]) for k in range(num_layers)]

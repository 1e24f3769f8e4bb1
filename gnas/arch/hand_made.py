"""A hand-made network as a value: its name, depth and width."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from gnas.arch.genotype import CellGenotype
from gnas.errors import InputError, name_place
from gnas.files import check_document, dump_config, parse_yaml, write_atomic

MAX_LAYERS, MAX_CHANNELS = 1_000, 65_536


@dataclass(frozen=True)
class HandMade:
    """A hand-made network by name, such as ``gcn``: one of this package or of an entry point ``gnas.baselines``.

    The width is ``channels``, or as large as ``budget`` weights allow, or the usual one of the depth if both are None.
    ``options`` are further arguments of its class, such as ``{"heads": 8}``.
    """

    kind: ClassVar[str] = "baseline"
    cells: ClassVar[tuple[CellGenotype, ...]] = ()

    name: str
    num_layers: int = 4
    channels: int | None = None
    budget: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_number("num_layers", self.num_layers, MAX_LAYERS)
        if self.channels is not None:
            _check_number("channels", self.channels, MAX_CHANNELS)
            if self.budget is not None:
                raise InputError(f"{self.name} has channels and a budget of weights; choose one of them")

    @property
    def id(self) -> str:
        """Ten hex digits of the content."""
        return hashlib.sha256(self.to_yaml().encode()).hexdigest()[:10]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.num_layers} layers"

    def depth(self) -> int:
        """Every layer counts, as in the benchmark; those of an MLP too."""
        return self.num_layers

    def formulas(self) -> tuple[str, ...]:
        """The name, once per layer."""
        return (self.name,) * self.num_layers

    def with_output(self, output: str) -> HandMade:
        return self

    def to_dict(self) -> dict[str, Any]:
        """What the description of a trained network holds of it."""
        width = {"channels": self.channels, "options": dict(self.options)}
        return {"baseline": self.name, "num_layers": self.num_layers, **width}

    def to_yaml(self) -> str:
        width = {name: value for name in ("channels", "budget") if (value := getattr(self, name)) is not None}
        about = {"name": self.name, "num_layers": self.num_layers, **width, "options": dict(self.options)}
        return dump_config({"format": "gnas-baseline", "version": 1, **about})

    @classmethod
    def from_yaml(cls, text: str, source: str = "<string>") -> HandMade:
        """Read ``to_yaml``'s text; ``source`` names it in errors."""
        found = parse_yaml(text, source, typed=True)
        with name_place(source):
            values = dict(found) if isinstance(found, dict) else {}
            values = {"channels": None, "budget": None, "options": {}, **values, "version": str(values.get("version"))}
            values = check_document(values, "gnas-baseline", ("name", "num_layers", "channels", "budget", "options"))
            name, options = values["name"], values["options"]
            if not isinstance(name, str) or not isinstance(options, dict):
                raise InputError("name must be a text and options must be names with values")
            return cls(name, values["num_layers"], values["channels"], values["budget"], options)

    def save(self, path: str | Path) -> Path:
        """Write the YAML file; a crash leaves the old file or the new one."""
        return write_atomic(path, self.to_yaml())


def _check_number(name: str, value: object, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InputError(f"{name} is {value!r}; allowed: 1 to {most:,}")

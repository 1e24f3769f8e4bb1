"""What a caller may decide about own data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gnas.data.large import Asked, check_sample_neighbors
from gnas.data.own.inputs import Categorical
from gnas.data.splits import DEFAULT_FRACTIONS, Fractions, check_fractions, check_seed
from gnas.errors import InputError, choose
from gnas.model.structure import measure_names
from gnas.model.task import KINDS, LEVELS, LOSSES, METRICS, READOUTS

SPLITS = ("given", "random", "stratified", "scaffold")


@dataclass(frozen=True)
class Options:
    """What the caller decided; None: read it off the data."""

    seed: int = 0
    name: str | None = None
    level: str | None = None
    kind: str | None = None
    metric: str | None = None
    loss: str | None = None
    readout: str | None = None
    categorical: Categorical = None
    target: str | Sequence[str] | None = None
    split: str | None = None
    fractions: Sequence[float] = DEFAULT_FRACTIONS
    standardise: bool = True
    skip_bad: bool = False
    sample_neighbors: Asked = None
    structure: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)
        _one_of(self.level, LEVELS, "task level")
        _one_of(self.kind, KINDS, "task kind")
        _one_of(self.metric, [m for kind in KINDS for m in METRICS[kind]], "metric")
        _one_of(self.loss, [m for kind in KINDS for m in LOSSES[kind]], "loss")
        _one_of(self.readout, READOUTS, "readout")
        _one_of(self.split, SPLITS, "split")
        object.__setattr__(self, "fractions", check_fractions(self.fractions))
        check_sample_neighbors(self.sample_neighbors)
        measure_names(self.structure or ())
        if self.name is not None and not (isinstance(self.name, str) and self.name):
            raise InputError(f"name must be a text, not {self.name!r}")
        if not isinstance(self.categorical, bool | None):
            object.__setattr__(self, "categorical", _names(self.categorical, "categorical"))
        if self.target is not None:
            object.__setattr__(self, "target", _names(self.target, "target"))

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.target or ())

    @property
    def text(self) -> tuple[str, ...]:
        """Columns in which texts may stand by numbers: those named categorical."""
        return () if isinstance(self.categorical, bool | None) else tuple(self.categorical)

    @property
    def shares(self) -> Fractions:
        return check_fractions(self.fractions)


def _one_of(value: Any, choices: Iterable[str], what: str) -> None:
    if value is not None:
        choose(value, choices, what)


def _names(value: Any, what: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else (None,)
    if not names or not all(isinstance(n, str) for n in names):
        raise InputError(f"{what} must be a name or a list of names, not {value!r}")
    return names

"""A class of an exported module, and the layers of a hand-made network as such classes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClassCode:
    """A class of the module: its layers, and the steps of its ``forward``."""

    name: str
    doc: str
    layers: tuple[str, ...] = ()
    reads: tuple[str, ...] = ("h",)
    steps: tuple[str, ...] = ()
    returns: str = "Tensor"

    @property
    def arguments(self) -> str:
        """The arguments of ``forward``."""
        return ", ".join(f"{name}: Tensor" for name in self.reads)

    def call(self) -> tuple[str, str]:
        """What a call returns, and what it reads beside ``h``."""
        return "h, e" if self.returns != "Tensor" else "h", ", ".join(self.reads[1:])


@dataclass(frozen=True)
class LayersCode:
    """The layers of a network between its encoder and its head.

    ``layers`` has the class of each. ``before`` are steps that prepare ``h`` and what else the layers read. With
    ``each_is_read`` the head reads the input of the first layer and the output of each. ``convolved``: the output is propagated
    as GCN does.
    """

    layers: tuple[ClassCode, ...]
    before: tuple[str, ...] = ()
    each_is_read: bool = False
    convolved: bool = False

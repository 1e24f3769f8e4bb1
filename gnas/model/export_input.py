"""What an exported network reads: its arguments, its encodings, and how each of them becomes an embedding."""

from __future__ import annotations

from dataclasses import dataclass

from gnas.model.baselines.base import Baseline
from gnas.model.encoder import EdgeEncoder
from gnas.model.network import Network


@dataclass(frozen=True)
class InputCode:
    """The parts of the input that a network reads; those of the task that it does not read are left out."""

    structure: tuple[str, ...] = ()
    structure_center: tuple[float, ...] = ()
    structure_scale: tuple[float, ...] = ()
    walks: int = 0
    laplacian: int = 0
    edge_state: bool = False
    edge_categories: tuple[int, ...] = ()
    edge_channels: int = 0
    edge_walks: int = 0
    graph_channels: int = 0
    needs_batch: bool = False
    pairs: bool = False  # of nodes, which a link task scores

    @staticmethod
    def of(network: Network | Baseline) -> InputCode:
        task, encoder, has_state = network.task, network.encoder, network.edge_encoder is not None
        edges = network.edge_encoder if isinstance(network.edge_encoder, EdgeEncoder) else None
        chosen = [task.structure.index(name) for name in encoder.structure]
        walks, laplacian = (0, 0) if encoder.pe is None else (encoder.pe.walks, encoder.pe.laplacian)
        edge_walks = 0 if edges is None else edges.walks
        return InputCode(
            encoder.structure,
            tuple(task.structure_center[place] for place in chosen),
            tuple(task.structure_scale[place] for place in chosen),
            walks,
            laplacian,
            has_state,
            () if edges is None else edges.categories,
            0 if edges is None else edges.features,
            edge_walks,
            task.graph_channels if task.level == "graph" else 0,
            task.level == "graph" or "size" in encoder.structure or bool(walks or laplacian or edge_walks),
            task.level == "link",
        )

    @property
    def edge_columns(self) -> int:
        """Columns of ``edge_attr`` that the network reads."""
        return len(self.edge_categories) or self.edge_channels

    def names(self) -> list[str]:
        """The arguments that a call must give, after ``x`` and ``edge_index``."""
        there = {
            "edge_label_index": self.pairs,
            "edge_attr": self.edge_columns > 0,
            "batch": self.needs_batch,
            "graph_attr": self.graph_channels > 0,
        }
        return [name for name, read in there.items() if read]

    def encodings(self) -> list[str]:
        """The encodings that the network computes unless a call gives all of them."""
        read = {"node_walks": self.walks, "laplacian": self.laplacian, "edge_walks": self.edge_walks}
        return [name for name, columns in read.items() if columns]

    def arguments(self) -> list[str]:
        """The arguments of ``forward``: all networks that read ``edge_attr`` are called in the same way."""
        needed = ["x", "edge_index", *(["edge_label_index"] if self.pairs else [])]
        more = [*(["edge_attr", "batch", "graph_attr"] if self.edge_columns else self.names()), *self.encodings()]
        optional = [f"{name}: Tensor | None = None" for name in more if name not in needed]
        return [*(f"{name}: Tensor" for name in needed), *optional]

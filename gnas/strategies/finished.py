"""What a search left in its run folder."""

from __future__ import annotations

from gnas import distributed
from gnas.arch import architecture
from gnas.arch.architecture import Architecture
from gnas.run.folder import Run
from gnas.strategies.base import SearchResult

SEARCHED = ("seconds", "strategy", "trained_epochs", "seed")  # of a finished search's result


def finished_search(run: Run) -> SearchResult | None:
    """The result of a search that ended in this folder."""
    done, genotype = run.read_json("result", SEARCHED), read_architecture(run)
    if done is None or genotype is None:
        return None
    told = {name: done[name] for name in SEARCHED}
    return SearchResult(genotype, run.history(), searches=tuple(done.get("searches", ())), **told)


@distributed.by_first
def read_architecture(run: Run) -> Architecture | None:
    """What a search left in its folder: a genotype, or GraphNAS's own kind of architecture."""
    file = run.path / "genotype.yaml"
    return architecture.read_architecture(file) if file.exists() else None

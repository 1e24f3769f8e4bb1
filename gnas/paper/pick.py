"""The network a figure shows for a dataset: the one in the table if it is trained, else that of the first search."""

from __future__ import annotations

from gnas.arch.genotype import Genotype
from gnas.paper.catalogue import SEARCHED_DEPTH, Wanted, gnas_entry, search_job, train_job
from gnas.paper.rows import METRICS, choose_network
from gnas.paper.shelf import Shelf


def picked(dataset: str, wanted: Wanted, shelf: Shelf) -> Genotype | None:
    """The genotype of a dataset, or None where nothing was searched or it was not asked for."""
    if not wanted.takes(dataset, "gnas"):
        return None
    job = train_job(gnas_entry(dataset, SEARCHED_DEPTH), wanted)
    networks = [one for one in shelf.networks(job) if one.weights <= job.budget and set(job.seeds) <= set(one.results)]
    if networks:
        best = choose_network(networks, METRICS.get(dataset, "accuracy")).architecture
        return best if isinstance(best, Genotype) else None
    for one in shelf.searched(search_job(dataset, wanted)):
        if isinstance(one.architecture, Genotype):
            return one.architecture
    return None

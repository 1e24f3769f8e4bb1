"""A benchmark whose nodes also read measures of their graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.model.structure import AUTO, measure_names, moments, varying


def with_structure(benchmark: Benchmark, asked: str | Sequence[str] | None) -> Benchmark:
    """The benchmark with a task that reads these measures (``size``, ``degree``), standardised over train; None: as it is.

    ``auto`` is those of them that differ from node to node, and none where neighbours are sampled.
    """
    if asked is None:
        return benchmark
    names = measure_names(asked)
    if AUTO in names:
        names = () if benchmark.train.sample_neighbors else varying(benchmark.train)
    if names and benchmark.train.sample_neighbors:
        raise InputError(
            "structure cannot be measured where neighbours are sampled, as a batch holds parts of graphs: "
            "leave structure out, or give sample_neighbors=none"
        )
    center, scale = moments(benchmark.train, names)
    task = dataclasses.replace(benchmark.task, structure=names, structure_center=center, structure_scale=scale)
    return dataclasses.replace(benchmark, task=task)

"""Architectures we searched, to train a good network without searching: files ``DATASET-DEPTH.yaml`` in this folder."""

from __future__ import annotations

from pathlib import Path

from gnas.authors import load_genotype
from gnas.errors import choose
from gnas.genotype import Genotype

FOLDER = Path(__file__).parent


def genotypes(dataset: str) -> dict[int, Genotype]:
    """The genotypes found for a dataset, by number of cells. docs/results.md says how they were found and how good they are.

    >>> gnas.genotypes("zinc")[4]  # doctest: +SKIP
    """
    found: dict[str, dict[int, Genotype]] = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        name, cells = file.stem.rsplit("-", 1)
        found.setdefault(name, {})[int(cells)] = load_genotype(file)
    return dict(sorted(found[choose(dataset, found, "dataset with shipped genotypes")].items()))

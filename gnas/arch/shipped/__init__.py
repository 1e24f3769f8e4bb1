"""Architectures we searched, to train a good network without searching.

Files ``DATASET-CELLS.yaml`` in this folder, and under the same name in ``recipes/`` the settings that each was trained with.
"""

from __future__ import annotations

from pathlib import Path

from gnas.arch.architecture import load_genotype
from gnas.arch.genotype import Genotype
from gnas.errors import choose

FOLDER = Path(__file__).parent


def load_genotypes(dataset: str) -> dict[int, Genotype]:
    """The genotypes found for a dataset, by number of cells.

    docs/results-details.md says how they were found and how good they are.

    Most were found with two numbers more at every node; :func:`find_recipe_file` names the file with these settings.

    >>> sorted(gnas.load_genotypes("zinc"))
    [4, 8, 12, 16]
    """
    found: dict[str, dict[int, Genotype]] = {}
    for name, file in _files().items():
        of, cells = name.rsplit("-", 1)
        found.setdefault(of, {})[int(cells)] = load_genotype(file)
    return dict(sorted(found[choose(dataset, found, "dataset with shipped genotypes")].items()))


def find_genotype_file(name: str) -> Path:
    """The file of a genotype by its name, such as ``zinc-12``.

    >>> from gnas.arch.shipped import find_genotype_file
    >>> find_genotype_file("zinc-12").name
    'zinc-12.yaml'
    """
    files = _files()
    return files[choose(name, files, "genotype file, run folder or shipped genotype")]


def find_recipe_file(name: str) -> Path:
    """A file of settings: the training, number of weights and input with which docs/results-details.md has this genotype.

    >>> from gnas.arch.shipped import find_recipe_file
    >>> gnas.Settings.resolve(file=find_recipe_file("zinc-12")).training.seeds
    (41, 95, 12, 35)
    """
    return FOLDER / "recipes" / find_genotype_file(name).name


def _files() -> dict[str, Path]:
    return {file.stem: file for file in sorted(FOLDER.glob("*.yaml"))}

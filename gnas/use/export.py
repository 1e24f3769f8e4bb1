"""Export a trained network as a folder that predicts without this package."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.model.baselines import BASELINES
from gnas.model.baselines.recipes import list_recipes
from gnas.model.export_code import as_exportable, module_source
from gnas.model.export_weights import exported_views
from gnas.model.network import Network
from gnas.run.layout import MODEL, WEIGHTS
from gnas.run.models import default_network, load_model
from gnas.use.export_card import model_card, origin_words
from gnas.workflow import package_versions

PACKAGES = ("gnas", "torch", "torch-geometric", "safetensors")


def export_run(
    folder: str | Path, out: str | Path, *, name: str | None = None, seed: int | None = None, force: bool = False
) -> Path:
    """Write a network of a run as a folder: model.py, weights, model card, genotype and description.

    ``model.py`` is plain PyTorch: it needs torch, torch-geometric and safetensors, and loading runs no other code. Of
    several networks the best by validation that can be exported is exported: a found one, or a hand-made one that is a
    recipe, such as ``gin+``. Of several seeds it is the one with the best validation metric. ``name`` and ``seed`` name
    others. A folder that is not empty is an error, unless ``force`` allows the files of an earlier export to be replaced.
    """
    out = Path(out)
    _check_free(out, force)
    model, info = load_model(folder, name or _default_network(folder), seed)
    model = as_exportable(model)
    about = f"A graph neural network for {info.dataset}: {model.task.level} {model.task.kind}, {origin_words(model)}."
    versions = package_versions(*PACKAGES)
    origin = {
        "name": info.name,
        "seed": info.seed,
        "results": [{**result.to_dict(), "seed": number} for number, result in sorted(info.results.items())],
        "versions": versions,
    }
    files: dict[str, str | bytes] = {
        "model.py": module_source(model, about),
        WEIGHTS: tensor_bytes(exported_weights(model), {"format": "pt"}),
        "README.md": model_card(model, info, versions),
        "genotype.yaml": model.genotype.to_yaml(),
        MODEL: json.dumps({**info.description, "exported": origin}, indent=2) + "\n",
    }
    return _write_folder(out, files)


def exported_weights(model: Network) -> dict[str, Tensor]:
    """The ``state_dict`` of the exported module."""
    found = {name: value.contiguous().clone() for name, value in exported_views(model).items()}
    norms = [name.removesuffix("running_mean") for name in found if name.endswith("running_mean")]
    return found | {f"{name}num_batches_tracked": torch.tensor(0) for name in norms}


def _default_network(folder: str | Path) -> str:
    """The best network by validation of those that can be exported."""
    return default_network(folder, found_only=True, recipes=list_recipes(BASELINES))


# -- the folder ----------------------------------------------------------------------------------------------------


def _check_free(out: Path, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: this is a file; name a folder")
    if not force and out.is_dir() and any(out.iterdir()):
        raise InputError(
            f"{out}: exists and is not empty; use force to replace an export in it, or name another folder"
        )


def _write_folder(out: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write a new folder as a whole or not at all; in an existing one, replace each file."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror})") from None
    try:
        for name, content in files.items():
            write_atomic(made / name, content)
        if out.is_dir() and any(out.iterdir()):
            for name in files:
                os.replace(made / name, out / name)
        else:
            made.chmod(0o755)
            if out.is_dir():
                out.rmdir()
            os.replace(made, out)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return out

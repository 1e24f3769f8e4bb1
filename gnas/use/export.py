"""Export a trained network as a folder that predicts without this package."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from gnas.errors import InputError, choose, name_place
from gnas.files import add_format, write_atomic
from gnas.model.baselines import HAND_MADE
from gnas.model.ensemble import Ensemble
from gnas.model.export_code import Exportable, as_exportable, escape_text, write_module
from gnas.model.export_input import InputCode
from gnas.model.export_template import ENSEMBLE_ENCODINGS, ENSEMBLE_SOURCE
from gnas.model.export_weights import view_exported
from gnas.model.network import GraphModule, Network
from gnas.printed import format_count
from gnas.run.layout import GENOTYPE, MODEL, WEIGHTS, member_folder
from gnas.run.models import TrainedInfo, choose_network, find_model, load_model
from gnas.run.table import Table
from gnas.use.export_card import describe_origin, describe_task, write_model_card
from gnas.use.export_program import AXES, FORMATS, write_program
from gnas.use.export_reader import write_reader
from gnas.workflow import package_versions

Files = dict[str, str | bytes]
PACKAGES = ("gnas", "torch", "torch-geometric", "safetensors")


def export_run(
    folder: str | Path,
    out: str | Path,
    *,
    network: str | None = None,
    seed: int | None = None,
    format: str = "python",
    force: bool = False,
) -> Path:
    """Write a network of a run as a folder: model.py, weights, model card, genotype and description.

    ``model.py`` is plain PyTorch: it needs torch and safetensors, and loading runs no other code. ``serve.py`` answers over
    HTTP, ``molecules.py`` reads SMILES.

    Args:
        folder: The run folder.
        out: The folder to write.
        network: One of the networks; by default the best by validation, found or hand-made. A hand-made network of another
            package can be exported if its class has ``export_code``.
        seed: The seed of its training; by default the one with the best validation metric.
        format: ``python``; ``torch`` adds ``model.pt2``, a program of torch.export; ``onnx`` adds ``model.onnx``.
        force: Files of an earlier export may be replaced. Else a folder that is not empty is an error.

    >>> folder = gnas.export_run("runs/mine", "exported")
    >>> sorted(file.name for file in folder.glob("*.py"))
    ['atoms.py', 'model.py', 'molecules.py', 'serve.py']
    """
    out = Path(out)
    choose(format, FORMATS, "format")
    _check_free(out, force)
    model, info = load_model(folder, network or _default_network(folder), seed)
    files = write_ensemble(model, info) if isinstance(model, Ensemble) else _network_files(model, info)
    networks = [as_exportable(one) for one in (model.networks() if isinstance(model, Ensemble) else [model])]
    files |= write_reader(model.task, info.encoding, _argument_names(networks), str(files["README.md"]))
    if format != "python":
        files |= write_program(format, files, networks)
    return _write_folder(out, files)


def _argument_names(networks: Sequence[Exportable], encodings: bool = False) -> list[str]:
    """What at least one of the networks reads after ``x`` and ``edge_index``."""
    codes = [InputCode.of(one) for one in networks]
    read = {name for code in codes for name in (*code.names(), *(code.encodings() if encodings else ()))}
    return [name for name in AXES if name in read]


def _network_files(model: GraphModule, info: TrainedInfo) -> Files:
    model = as_exportable(model)
    about = f"A graph neural network for {info.dataset}: {describe_task(model.task)}, {describe_origin(model)}."
    versions = package_versions(*PACKAGES)
    return {
        "model.py": write_module(model, about),
        WEIGHTS: tensor_bytes(collect_weights(model), {"format": "pt"}),
        "README.md": write_model_card(model, info, versions),
        **({GENOTYPE: model.genotype.to_yaml()} if isinstance(model, Network) else {}),
        MODEL: _describe_export(info, versions),
    }


def _describe_export(info: TrainedInfo, versions: Mapping[str, str]) -> str:
    """The content of model.json."""
    results = [{**result.to_dict(), "seed": number} for number, result in sorted(info.results.items())]
    origin = {"name": info.name, "seed": info.seed, "results": results, "versions": versions}
    return json.dumps(add_format("model", {**info.description, "exported": origin}), indent=2) + "\n"


def write_ensemble(ensemble: Ensemble, info: TrainedInfo) -> Files:
    """An ensemble as files: a module that averages, and each member as an export of its own in a folder."""
    files: Files = {}
    reads: list[tuple[str, ...]] = []
    for number, (network, listed) in enumerate(zip(ensemble.networks(), info.members, strict=True), start=1):
        with name_place(f"{info.name}, {listed['name']}"):
            member = as_exportable(network)
        place = member_folder(info.folder, number)
        own = replace(find_model(place), name=str(listed["name"]), seed=listed["seed"])
        files |= {f"{place.name}/{name}": content for name, content in _network_files(member, own).items()}
        reads.append((*InputCode.of(member).names(), *InputCode.of(member).encodings()))
    versions = package_versions(*PACKAGES)
    task, total = ensemble.task, format_count(len(reads), "network")
    about = f"An ensemble of {total} for {escape_text(info.dataset)}: {describe_task(task)}."
    members = [as_exportable(one) for one in ensemble.networks()]
    names, every = _argument_names(members), _argument_names(members, encodings=True)
    rows = [
        (f"member_{k}", escape_text(str(one["name"])), f"{one['weight']:.0%}") for k, one in enumerate(info.members, 1)
    ]
    kind = 0 if task.kind == "regression" else 1 if task.kind == "classification" else 2
    texts = {
        "ABOUT": about,
        "CALL": "".join(f", data.{name}" for name in names),
        "SHARES": repr(ensemble.weights),
        "READS": repr(tuple(reads)),
        "MORE": "".join(f", {name}: Tensor | None = None" for name in every),
        "GIVEN": ", ".join(f'"{name}": {name}' for name in every),
        "PASSED": "".join(f", {name}" for name in every),
        "ENCODINGS": ENSEMBLE_ENCODINGS if every != names else "",
        "VALUES": ("out", "out.softmax(-1)", "out.sigmoid()")[kind],
        "OUTPUT": ("mean", "mean.clamp_min(1e-12).log()", "torch.logit(mean, 1e-12)")[kind],
    }
    source = ENSEMBLE_SOURCE
    for key, text in texts.items():
        source = source.replace(f"<{key}>", text)
    card = [
        f"# {about}",
        f"Trained and exported by gnas {versions['gnas']}. `model.py` averages what the members predict; `spread` has their "
        "standard deviation. Each folder is a network of its own with its own card.",
        Table.from_tuples(("folder", "network", "weight in the vote"), rows).to_markdown(),
    ]
    return {
        **files,
        "model.py": source,
        "README.md": "\n\n".join(card) + "\n",
        MODEL: _describe_export(info, versions),
    }


def collect_weights(model: Exportable) -> dict[str, Tensor]:
    """The ``state_dict`` of the exported module."""
    found = {name: value.contiguous().clone() for name, value in view_exported(model).items()}
    norms = [name.removesuffix("running_mean") for name in found if name.endswith("running_mean")]
    return found | {f"{name}num_batches_tracked": torch.tensor(0) for name in norms}


def _default_network(folder: str | Path) -> str:
    """The best network by validation of those that can be exported: not those of other packages, which may have no code."""
    return choose_network(folder, found_only=True, recipes=HAND_MADE)


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
        made = out.with_name(f".{out.name}.{secrets.token_hex(4)}")  # the umask says who may read it
        made.mkdir()
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror})") from None
    try:
        for name, content in files.items():
            write_atomic(made / name, content)
        if out.is_dir() and any(out.iterdir()):
            for name in files:
                (out / name).parent.mkdir(exist_ok=True)
                os.replace(made / name, out / name)
        else:
            if out.is_dir():
                out.rmdir()
            os.replace(made, out)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return out

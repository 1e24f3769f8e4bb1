"""Export a trained network as a folder that predicts without this package.

``model.py`` is plain PyTorch, ``molecules.py`` reads SMILES, ``serve.py`` answers over HTTP. ``atoms.py`` is the text of
``gnas.data.atoms``, so that molecules are read in the same way.
"""

from __future__ import annotations

import inspect
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from gnas.data import atoms
from gnas.data.encoding import Encoding, is_descriptor
from gnas.errors import InputError, choose, name_place
from gnas.files import add_format, write_atomic
from gnas.model.baselines import HAND_MADE
from gnas.model.ensemble import Ensemble
from gnas.model.export_code import Exportable, as_exportable, escape_text, list_lines, quote_text, write_module
from gnas.model.export_input import InputCode
from gnas.model.export_template import ENSEMBLE_ENCODINGS, ENSEMBLE_SOURCE
from gnas.model.export_weights import view_exported
from gnas.model.network import GraphModule, Network
from gnas.model.task import Task
from gnas.printed import format_count
from gnas.run.layout import GENOTYPE, MODEL, WEIGHTS, member_folder
from gnas.run.models import TrainedInfo, choose_network, find_model, load_model
from gnas.training.prediction import list_output_names
from gnas.use.export_card import describe_ensemble, describe_network, describe_origin, describe_task, fill_template
from gnas.use.export_program import AXES, FORMATS, write_program
from gnas.workflow import package_versions

Files = dict[str, str | bytes]
CARD = "README.md"
PACKAGES = ("gnas", "torch", "torch-geometric", "safetensors")
OWN_IMPORTS = {  # what atoms.py of an exported folder has in the place of gnas
    "\nfrom gnas.data.encoding import Array\nfrom gnas.data.smiles import import_rdkit\n": "from rdkit import Chem\n",
    "import_rdkit()": "Chem",
    ": Array": ": np.ndarray",
    "-> Array": "-> np.ndarray",
    "str, Array]": "str, np.ndarray]",
}
MOLECULES_REQUEST = '{"smiles": ["CCO", "c1ccccc1"]}'
GRAPHS_REQUEST = '{"graphs": [{"x": [[0], [0]], "edge_index": [[0, 1], [1, 0]]}]}'


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
    # Networks of other packages may have no code to export, so they are not chosen by default.
    model, info = load_model(folder, network or choose_network(folder, found_only=True, recipes=HAND_MADE), seed)
    if isinstance(model, Ensemble):
        (files, card), members = _ensemble_files(model, info), model.networks()
    else:
        (files, card), members = _network_files(model, info), [model]
    networks = [as_exportable(one) for one in members]
    readers, data = _reader_files(model.task, info.encoding, _argument_names(networks))
    files |= readers
    if format != "python":
        program, about = write_program(format, files, networks)
        files, card = files | program, {**card, "program": about}
    return _write_folder(out, {**files, CARD: fill_template(CARD, **{**card, "data": data})})


def _argument_names(networks: Sequence[Exportable], encodings: bool = False) -> list[str]:
    """What at least one of the networks reads after ``x`` and ``edge_index``."""
    codes = [InputCode.of(one) for one in networks]
    read = {name for code in codes for name in (*code.names(), *(code.encodings() if encodings else ()))}
    return [name for name in AXES if name in read]


def _network_files(model: GraphModule, info: TrainedInfo) -> tuple[Files, dict[str, Any]]:
    """The files of one network, and what its card says."""
    model, versions = as_exportable(model), package_versions(*PACKAGES)
    about = f"A graph neural network for {info.dataset}: {describe_task(model.task)}, {describe_origin(model)}."
    files: Files = {
        "model.py": write_module(model, about),
        WEIGHTS: tensor_bytes(collect_weights(model), {"format": "pt"}),
        MODEL: _describe_export(info, versions),
    }
    if isinstance(model, Network):
        files[GENOTYPE] = model.genotype.to_yaml()
    return files, describe_network(model, info, versions)


def _describe_export(info: TrainedInfo, versions: Mapping[str, str]) -> str:
    """The content of model.json."""
    results = [{**result.to_dict(), "seed": number} for number, result in sorted(info.results.items())]
    origin = {"name": info.name, "seed": info.seed, "results": results, "versions": versions}
    return json.dumps(add_format("model", {**info.description, "exported": origin}), indent=2) + "\n"


def _ensemble_files(ensemble: Ensemble, info: TrainedInfo) -> tuple[Files, dict[str, Any]]:
    """A module that averages, and each member as an export of its own in a folder; and what the card says."""
    files: Files = {}
    members, reads = list[Exportable](), list[tuple[str, ...]]()
    for number, (network, listed) in enumerate(zip(ensemble.networks(), info.members, strict=True), start=1):
        with name_place(f"{info.name}, {listed['name']}"):
            member = as_exportable(network)
        place = member_folder(info.folder, number)
        own = replace(find_model(place), name=str(listed["name"]), seed=listed["seed"])
        inner, card = _network_files(member, own)
        inner[CARD] = fill_template(CARD, **card)
        files |= {f"{place.name}/{name}": content for name, content in inner.items()}
        members.append(member)
        reads.append((*InputCode.of(member).names(), *InputCode.of(member).encodings()))
    versions, task = package_versions(*PACKAGES), ensemble.task
    about = (
        f"An ensemble of {format_count(len(reads), 'network')} for {escape_text(info.dataset)}: {describe_task(task)}."
    )
    names, every = _argument_names(members), _argument_names(members, encodings=True)
    kind = ("regression", "classification", "multilabel").index(task.kind)
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
    files |= {"model.py": source, MODEL: _describe_export(info, versions)}
    return files, describe_ensemble(about, info, versions)


def collect_weights(model: Exportable) -> dict[str, Tensor]:
    """The ``state_dict`` of the exported module."""
    found = {name: value.contiguous().clone() for name, value in view_exported(model).items()}
    norms = [name.removesuffix("running_mean") for name in found if name.endswith("running_mean")]
    return found | {f"{name}num_batches_tracked": torch.tensor(0) for name in norms}


def _reader_files(task: Task, encoding: Encoding | None, names: Sequence[str]) -> tuple[Files, dict[str, Any]]:
    """Files that read new data, and what the card says of them. ``names``: the arguments after x and edge_index."""
    reads = ["x", "edge_index", *names]
    smiles = encoding is not None and _needs_only_smiles(encoding)
    inputs = [name for name in reads if name != "batch"]
    data = {"molecules": smiles, "request": MOLECULES_REQUEST if smiles else GRAPHS_REQUEST, "inputs": inputs}
    quoted = ", ".join(map(quote_text, reads))
    outputs = "\n".join(list_lines("NAMES = [", map(quote_text, list_output_names(task, encoding)), "]"))
    values = {"regression": "out", "classification": "out.softmax(-1)", "multilabel": "out.sigmoid()"}[task.kind]
    files: Files = {"serve.py": fill_template("serve.py", **data, names=outputs, reads=quoted, values=values)}
    if smiles and encoding is not None:
        source = inspect.getsource(atoms)
        for own, plain in OWN_IMPORTS.items():
            source = source.replace(own, plain)
        described = bool(encoding.graphs) and "graph_attr" in reads
        files |= {"atoms.py": source, "molecules.py": fill_template("molecules.py", reads=quoted, described=described)}
    return files, data


def _needs_only_smiles(encoding: Encoding) -> bool:
    """Whether atoms are read as named columns and nothing but the SMILES is needed."""
    columns = {column.name for column in encoding.nodes} <= set(atoms.ATOM_COLUMNS)
    return encoding.source == "smiles" and columns and all(is_descriptor(one.name) for one in encoding.graphs)


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

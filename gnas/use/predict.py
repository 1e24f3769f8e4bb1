"""Predictions of a trained network for new graphs, from a run folder or an exported model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnas.data.encoding import Encoding
from gnas.data.rows import index_rows
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.model.network import GraphModule
from gnas.run.models import load_average, load_model
from gnas.training.prediction import Predictions, Progress, infer_spread, list_output_names
from gnas.use.reading import NewGraphs, read_graphs


def predict(
    folder: str | Path,
    data: Any,
    out: str | Path | None = None,
    *,
    network: str | None = None,
    seed: int | None = None,
    average_seeds: bool = False,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    data_root: str | Path | None = None,
    skip_bad: bool = False,
    force: bool = False,
    on_progress: Progress | None = None,
) -> Predictions:
    """Predict with a trained network.

    Args:
        folder: a run folder, or an exported model, whose code is not run.
        data: graphs in any form the network's data may come in (a CSV of SMILES, a folder of tables, PyG objects, SMILES
            texts), with or without targets; or a benchmark, by name or as a bundle, whose test split is used.
        out: a CSV file to write; an existing file is replaced only with ``force``.
        network: one of the networks of the run; the found one is called ``gnas``, the ensemble ``ensemble``. By default the best
            by validation.
        seed: the seed of its training; by default the one with the best validation metric.
        average_seeds: the mean over all seeds of the network. The predictions have a ``spread`` then, as those of an
            ensemble have: the standard deviation over the networks.
        device: where to compute.
        batch_size: graphs in a batch.
        data_root: the folder of benchmark files.
        skip_bad: leave out SMILES that do not parse, or have atoms or bonds the network does not know; the ``graph`` of
            the other rows still counts all of them.
        force: replace an existing file.
        on_progress: called after each batch with the stage, the number of batches done and their total.

    >>> answers = gnas.predict("runs/mine", "new_molecules.csv")
    >>> answers.columns, len(answers)
    (('graph', 'smiles', 'prediction'), 10)
    """
    if out is not None:
        _check_free(Path(out), force)
    model, info = load_average(folder, network, seed) if average_seeds else load_model(folder, network, seed)
    new = read_graphs(data, model.task, info.encoding, data_root, skip_bad=skip_bad)
    result = predict_graphs(model, new, info.encoding, device, batch_size, on_progress)
    result = replace(result, network=info.title)
    if out is not None:
        write_atomic(out, result.to_csv())
    return result


def _check_free(out: Path, force: bool) -> None:
    if out.is_dir() or (out.exists() and not force):
        what = "is a folder; name a file" if out.is_dir() else "exists; use force to replace it"
        raise InputError(f"{out}: {what}")


def predict_graphs(
    model: GraphModule,
    new: NewGraphs,
    encoding: Encoding | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    on_progress: Progress | None = None,
) -> Predictions:
    """Predictions of a network for graphs that :func:`gnas.use.reading.read_graphs` has read.

    Args:
        model: The network.
        new: The graphs and their order in the caller's data.
        encoding: How raw columns became tensors; it names the targets.
        device: Where to compute.
        batch_size: Graphs in a batch.
        on_progress: Called after each batch with the stage, the number of batches done and their total.
    """
    graphs, order, task = new.graphs, new.order, model.task
    every, index = infer_spread(model, graphs, device, batch_size, on_progress), index_rows(graphs)
    tensors = [one for one in every if one is not None]
    if graphs.mask is not None:
        mask = graphs.mask
        tensors, index = [one[mask] for one in tensors], {key: column[mask] for key, column in index.items()}
    if order is not None:
        back = torch.argsort(order)
        tensors = [one[back] for one in tensors]
        index = {**{key: column[back] for key, column in index.items()}, "edge": index["edge"]}
    table = {key: column.numpy() for key, column in index.items()}
    if new.smiles:
        table["smiles"] = np.array(new.smiles, dtype=object)
    values, *spread = (one.double().numpy() for one in tensors)
    names = list_output_names(task, encoding)
    return Predictions(task.kind, names, table, values, new.notes, spread=spread[0] if spread else None)

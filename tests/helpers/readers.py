"""Every file gnas reads, in one folder, and everything that reads it.

A file that a run, an export or a data folder may hold is listed by its path; ``readers_of`` gives the functions that open it.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import small
import torch
from builders import path_graphs, write_folder, write_smiles
from bundles import write_bundle
from papers import done, wanted
from PIL import Image
from terminal import gnas

from gnas.arch.architecture import load_genotype, read_architecture
from gnas.arch.genotype import Genotype
from gnas.arch.graphnas import GraphNASArchitecture, LayerChoice
from gnas.cli.networks import read_network
from gnas.cli.prepare import RunFolder
from gnas.data.benchmarks import find_facts, images, sources, superpixels, zinc
from gnas.data.own.load import encode_graphs, load_own
from gnas.data.storage import BrokenFile, read_arrays, read_graphs, save_benchmark, write_arrays
from gnas.errors import InputError
from gnas.jobs import Job, Runner, Work
from gnas.jobs.codec import decode
from gnas.jobs.job import check_below
from gnas.jobs.messages import Order
from gnas.model.build import build_network
from gnas.paper import Results, draw_item, plan_runs, read_failures
from gnas.paper.archive import copy_run
from gnas.paper.estimate import Estimator
from gnas.paper.runs import TrainRun
from gnas.report import write_report
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.run.models import load_model
from gnas.run.record import read_run
from gnas.run.settings import Settings, read_command, read_settings
from gnas.run.strategy_curves import Point, StrategyComparison
from gnas.run.summary import list_runs, summarise_run
from gnas.strategies.trial import TrialData, TrialSettings
from gnas.strategies.trials import trial_job
from gnas.use.export import export_run
from gnas.use.tracking import _remembered
from gnas.workflow import discover

Reader = Callable[[Path], object]
RINGS, RUN, EXPORT = "rings", "run", "exported"
SMALL = {"cells": 1, "channels": 4, "nodes": 2, "search_epochs": 2, "epochs": 2, "batch": 16, "search_batch": 16}
PAPER = wanted("table-zinc", methods=("gnas", "gcn"), depths=(4,), seeds=(41,))
TRIAL = {"trial": 1, "genotype": "none", "seed": 1}
UNREAD = (".lock", ".md", ".html", "leaderboard.csv", "strategies.csv", "-000000.safetensors")  # for people, or older
SEED = "run/trained/gnas/seed-41"


def sound(root: Path) -> Path:
    """One whole file of every kind."""
    write_folder(root / RINGS)
    write_smiles(root / "molecules.csv")
    words = [f"--set={name}={value}" for name, value in SMALL.items()]
    ended = gnas(
        *("search", root / RINGS, "--preset", "fast", *words, "--baselines", "none", "--device", "cpu"),
        *("--out", root / RUN, "--quiet", "--track", "none"),
    )
    assert ended.code == 0, ended
    export_run(root / RUN, root / EXPORT)
    (root / RUN / "tracking.json").write_text('{"mlflow": "1"}')
    genotype = read_network(root / RUN)
    assert isinstance(genotype, Genotype)
    (root / "genotype.yaml").write_text(genotype.to_yaml())
    (root / "first.txt").write_text("cell 1: I 1 0, s 2 0, sum 3 1, mean 4 2, d 5 3\n")
    (root / "literal.txt").write_text("[('I', 1, 0), ('s', 2, 0), ('sum', 3, 1), ('mean', 4, 2), ('d', 5, 3)]")
    (root / "released.yaml").write_text(
        "Genotype:\n- id: 0\n  topology:\n" + "".join(f"  - {{src: {k}, dst: {k + 1}, ops: {op}}}\n" for k, op in
                                                      enumerate(("V_Dense", "V_Max", "V_I")))
    )  # fmt: skip
    GraphNASArchitecture((LayerChoice("gat", "sum", "relu", 1, 4),), 4).save(root / "graphnas.yaml")
    (root / "settings.yaml").write_text("preset: fast\ncells: 2\nseeds: [1, 2]\ntrain_settings: {clip: 1.0}\n")
    save_benchmark(load_own(root / RINGS), root / "graphs.safetensors")
    write_bundle(load_own(root / RINGS), root / "bundle.npz")
    checkpoint.save(root / "state.safetensors", {"a": [1, 2.5, None], "b": (np.pi, {"c": "d"})})
    _benchmark_files(root)
    _paper(root)
    _work(root)
    return root


def _benchmark_files(root: Path) -> None:
    """Prepared and raw files of the paper's datasets, cut short."""
    data = root / "data"
    write_arrays(data / "pattern" / "pattern.safetensors", {"train_nodes": np.array([3])}, {"source": "tests"})
    (data / "zinc").mkdir()
    (data / "mnist").mkdir()
    for form in ("bin", "png"):
        (data / "cifar10" / form).mkdir(parents=True)
    np.savez(data / "zinc" / "prepared.npz", train_n=np.array([3]))
    np.savez(data / "mnist" / "mnist_superpixels.npz", train_node_ptr=np.array([0, 1]))
    (data / "zinc" / "smiles.csv").write_text("split,smiles,y\ntrain,CCO,0.5\n")
    for split, name in (("train", "train"), ("test", "t10k")):
        (data / "mnist" / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16 + 2 * 784)))
        (data / "mnist" / f"{name}-labels-idx1-ubyte").write_bytes(bytes(10))
        _colours(data / "cifar10", split)
    write_arrays(data / "part.safetensors", {"nodes": np.array([1])}, {"images": 1, "crc": 0})


def _colours(folder: Path, split: str) -> None:
    """One image a batch, in both forms."""
    names = [f"data_batch_{n}" for n in range(1, 6)] if split == "train" else ["test_batch"]
    for name in names:
        (folder / "bin" / f"{name}.bin").write_bytes(bytes(3073))
        Image.fromarray(np.zeros((1, 1024, 3), np.uint8)).save(folder / "png" / f"{name}.png")
    (folder / "png" / f"{split}_lables.json").write_text(json.dumps([1] * len(names)))


def _paper(root: Path) -> None:
    """Kept runs of a reproduction, one that failed, rows of a table, a comparison of strategies."""
    with tempfile.TemporaryDirectory() as out:
        done(PAPER, Path(out), archive=root / "archives", about={"command": "gnas reproduce"})
        for run in (Path(out) / "zinc").iterdir():
            copy_run(run, root / "paper" / "zinc" / run.name)
    (root / "paper" / "failed.json").write_text('{"zinc/gin-4 seeds 41": "no data"}')
    (root / "paper" / "baselines.csv").write_text(
        "dataset,model,layers,weights,metric,seconds,hardware,tests,epochs\nzinc,gin,4,100,mae,1.5,CPU,0.5 0.4,3 3\n"
    )
    points = tuple(Point("random", 0, n, 2 * n, 0.5 * n, 1 / n, 1 / n, "cells: 1", 1, 50) for n in (1, 2))
    StrategyComparison("zinc", "mae", {"epochs": 4}, "equal epochs", points).save(root / "strategies")


def _work(root: Path) -> None:
    """What a worker reads: its order, the graphs, and the folder of a trial that is done."""
    benchmark = small.benchmark()
    data = TrialData(benchmark.train, benchmark.val)
    network = build_network(small.GENOTYPE, benchmark.task, channels=4)
    arguments = {
        "network": network,
        "data": data,
        "settings": TrialSettings(trials=1),
        "engine": "auto",
        "config": TRIAL,
    }
    with Run(root / "jobs" / "trial", TRIAL) as run:
        run.write_json("result", {"val_metric": 1.0, "epochs": 2, "seconds": 0.5, "num_weights": 3})
    job = Job("gnas.strategies.trials.trial_job", "jobs/trial", arguments)
    (root / "jobs" / "orders.jsonl").write_text(Runner(root).write_order(job).to_json() + "\n")


def _finished(root: Path, place: str = "paper") -> object:
    results, asked = Results([root / place]), plan_runs(PAPER)
    found = [(results.is_done(job), results.devices(job.folder)) for job in asked]
    return found, [results.list_networks(job) for job in asked if isinstance(job, TrainRun)]


def _drawn(root: Path) -> object:
    results, asked = Results([root / "paper"]), plan_runs(PAPER)
    estimates = list(map(Estimator(results, "cpu", asked), asked))
    return estimates, draw_item("table-zinc", PAPER, results, read_failures(results.places), root / "drawn")


def _trial(root: Path) -> object:
    read_graphs.cache_clear()
    work = Work(root, root / "jobs" / "trial", torch.device("cpu"), None, None)
    return [
        trial_job(work, **decode(order.arguments, lambda name: root / check_below(name))) for order in _orders(root)
    ]


def _orders(root: Path) -> list[Order]:
    return [Order.from_json(line) for line in (root / "jobs" / "orders.jsonl").read_bytes().splitlines()]


def _run(root: Path) -> object:
    run = Run(root / RUN)
    return (
        run.genotype(),
        run.history(),
        [run.read_json(name) for name in ("data", "result", "leaderboard", "versions")],
    )


def _training(root: Path) -> object:
    run = Run(root / SEED)
    return run.history(), run.read_json("result"), run.load_state()


def _resume(root: Path) -> object:
    benchmark = load_own(root / RINGS)
    settings = Settings.resolve("fast", **SMALL, baselines=())
    return discover(benchmark, settings, root / RUN, resume=True)


def _listed(root: Path) -> object:
    return summarise_run(root / RUN), list(list_runs(root))


def _saved(root: Path) -> object:
    return RunFolder(root / RUN, "search", True, False).saved, _remembered(root / RUN)


def _encoded(root: Path) -> object:
    benchmark = load_own(path_graphs(9))
    return encode_graphs(root / "molecules.csv", benchmark.encoding, benchmark.task).graphs


def _prepared(root: Path) -> object:
    request = sources.Request("pattern", find_facts("pattern"), root / "data")
    return sources._read_prepared(request, root / "data/pattern/pattern.safetensors", "")


READERS: dict[str, tuple[str, Reader]] = {
    # what reads it: files that reader opens (a prefix), the call
    "genotype": ("genotype.yaml", lambda root: load_genotype(root / "genotype.yaml")),
    "network": ("genotype.yaml", lambda root: read_network(root / "genotype.yaml")),
    "authors' lines": ("first.txt", lambda root: load_genotype(root / "first.txt")),
    "authors' lists": ("literal.txt", lambda root: load_genotype(root / "literal.txt")),
    "authors' YAML": ("released.yaml", lambda root: load_genotype(root / "released.yaml")),
    "graphnas": ("graphnas.yaml", lambda root: read_architecture(root / "graphnas.yaml")),
    "settings": ("settings.yaml", lambda root: Settings.resolve(file=root / "settings.yaml")),
    "settings of a run": ("run/config.yaml", lambda root: read_settings(root / "run" / "config.yaml")),
    "stored": ("graphs.safetensors", lambda root: load_own(root / "graphs.safetensors")),
    "bundle": ("bundle.npz", lambda root: load_own(root / "bundle.npz")),
    "checkpoint": ("state.safetensors", lambda root: checkpoint.load(root / "state.safetensors")),
    "tables": ("rings/", lambda root: load_own(root / RINGS)),
    "smiles": ("molecules.csv", lambda root: load_own(root / "molecules.csv", skip_bad=True)),
    "run": ("run/", _run),
    "training": (f"{SEED}/", _training),
    "resume": ("run/", _resume),
    "list": ("run/", _listed),
    "command": ("run/", _saved),
    "report": ("run/", lambda root: read_run(root / RUN)),
    "page": ("run/data.json", lambda root: write_report(root / RUN, out=root / "report.html")),
    "model": (f"{SEED}/", lambda root: load_model(root / RUN)),
    "export": (f"{SEED}/model.json", lambda root: export_run(root / RUN, root / "again", force=True)),
    "exported model": ("exported/", lambda root: load_model(root / EXPORT)),
    "prepared": ("data/pattern", _prepared),
    "zinc": ("data/zinc/smiles.csv", lambda root: zinc._read_csv(root / "data/zinc/smiles.csv")),
    "superpixels": (
        "data/mnist/mnist_superpixels.npz",
        lambda root: superpixels.read_prepared(root / "data/mnist/mnist_superpixels.npz"),
    ),
    "digits": ("data/mnist/t", lambda root: images.read_images("mnist", root / "data/mnist")),
    "part": ("data/part.safetensors", lambda root: read_arrays(root / "data/part.safetensors")),
    "colour batches": ("data/cifar10/bin/", lambda root: images.read_images("cifar10", root / "data/cifar10/bin")),
    "colour sheets": ("data/cifar10/png/", lambda root: images.read_images("cifar10", root / "data/cifar10/png")),
    "settings from a run": ("run/co", lambda root: (read_settings(root / RUN), read_command(root / RUN))),
    "strategies": ("strategies/", lambda root: StrategyComparison.load(root / "strategies").to_markdown()),
    "finished runs": ("paper/", _finished),
    "archives": ("archives/", lambda root: _finished(root, "archives")),
    "tables of the paper": ("paper/", _drawn),
    "kept": (
        "paper/zinc/single-level",
        lambda root: [copy_run(f, root / "kept") for f in (root / "paper/zinc").iterdir()],
    ),
    "failed runs": ("paper/failed.json", lambda root: read_failures([root / "paper"])),
    "orders": ("jobs/orders.jsonl", _orders),
    "trial": ("jobs/", _trial),
    "new data": ("molecules.csv", _encoded),
}


def readers_of(file: str) -> dict[str, Reader]:
    """What opens a file, by name."""
    return {name: call for name, (prefix, call) in READERS.items() if file.startswith(prefix)}


def files_under(root: Path) -> list[str]:
    """Every file that something reads."""
    found = (str(path.relative_to(root)) for path in sorted(root.rglob("*")) if path.is_file())
    return [file for file in found if not file.endswith(UNREAD) and readers_of(file)]


def refusal(call: Callable[[], object]) -> str:
    """The one line with which something was refused, or an empty text; any other error goes through."""
    try:
        call()
        return ""
    except (InputError, BrokenFile) as error:
        said = str(error)
    assert said.strip()
    assert "\n" not in said, said
    return said

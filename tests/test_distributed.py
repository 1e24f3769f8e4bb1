"""Two processes by torchrun (gloo) against one on the same global batch; the work itself is in together.py.

The last batch of an epoch is shorter than the number of processes, so one of them has an empty share of it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import together
import torch

from gnas import distributed
from gnas.cli.prepare import join_processes
from gnas.errors import InputError
from gnas.model.stacked import StackedBatchNorm
from gnas.run.folder import Run
from gnas.strategies import make_strategy

HERE = Path(__file__).parent / "helpers"
EXACT = 1e-9  # everything is float64
METERED = 2e-6  # but the meters, which are float32
APART = {"darts2": 1e-6}  # its difference quotient enlarges rounding a hundredfold
SAME = (*together.SEARCHES, "trained", "classes", "labels", "gatedgcn", "edges", "messages", "resumed")


def launch(*words: str, cwd: Path = HERE) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment, timeout=600)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("together")
    done = launch(str(HERE / "together.py"), str(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(together.everything(tmp_path_factory.mktemp("alone"))))
    finally:
        torch.set_default_dtype(torch.float32)


def numbers(value: Any, path: str = "") -> dict[str, Any]:
    """All leaves by their place."""
    if not isinstance(value, dict | list):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: leaf for name, item in items for key, leaf in numbers(item, f"{path}.{name}").items()}


def is_metered(path: str) -> bool:
    return ".metrics." in path or path.rsplit(".", 1)[-1].startswith(("train_", "val_", "test"))


@pytest.mark.parametrize("name", SAME)
def test_two_processes_compute_what_one_does(name: str, ranks: list, alone: dict) -> None:
    one, two = numbers(alone[name]), numbers(ranks[0][name])
    assert one.keys() == two.keys()
    assert len(one) > 100
    for path in one:
        assert two[path] == one[path] or isinstance(one[path], float), path
    for metered, near in ((True, METERED), (False, APART.get(name, EXACT))):
        paths = [p for p, value in one.items() if isinstance(value, float) and is_metered(p) == metered]
        found, wanted = (torch.tensor([side[p] for p in paths], dtype=torch.float64) for side in (two, one))
        torch.testing.assert_close(found, wanted, rtol=near, atol=near)


def test_every_process_ends_with_the_same_network(ranks: list) -> None:
    assert ranks[0] == ranks[1]
    assert {"single-level", "darts1", "apart", "sampled", "trials"} <= ranks[0].keys()


def test_without_shared_norms_the_statistics_are_each_process_s_own(ranks: list) -> None:
    shared, apart = (numbers(ranks[0][name]["history"][0]["alphas"]) for name in ("single-level", "apart"))
    assert max(abs(shared[path] - apart[path]) for path in shared) > 1e-4


def test_a_stop_within_an_epoch_loses_nothing(ranks: list) -> None:
    assert ranks[0]["resumed"]["genotype"] == ranks[0]["single-level"]["genotype"]
    assert ranks[0]["resumed"]["history"][-1]["alphas"] == ranks[0]["single-level"]["history"][-1]["alphas"]


def test_other_alphas_in_one_process_are_an_error_in_all(ranks: list) -> None:
    for rank in ranks:
        assert "the Supernet differs between the 2 processes" in rank["diverged"]


def test_the_first_process_opens_the_folder_and_tells_the_others(ranks: list) -> None:
    assert all("already holds a run" in rank["refused"] for rank in ranks)


def test_the_command_line_under_torchrun(tmp_path: Path) -> None:
    words = [
        "search",
        "molecules-mini",
        "--strategy",
        "single-level",
        "--cells",
        "1",
        "--channels",
        "4",
        "--search-epochs",
        "1",
        "--epochs",
        "1",
    ]
    words += ["--seeds", "41", "--baselines", "none", "--sync-bn", "--track", "none", "--json", "--out", "run"]
    done = launch("-m", "gnas", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)  # one object: the other process is silent
    run = Run(tmp_path / "run")
    assert run.config["settings"]["search"]["sync_bn"] is run.config["settings"]["training"]["sync_bn"] is True
    assert run.genotype().id == told["genotype"]
    assert len(run.history()) == 0
    assert len(Run(tmp_path / "run" / "search").history()) == 1
    assert (tmp_path / "run" / "report.html").exists()


def test_many_runs_are_not_for_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("MASTER_ADDR", "localhost")):
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="torchrun is for search and train"):
        join_processes("depth", torch.device("cpu"))
    with pytest.raises(InputError, match="a race is many runs, torchrun is for one large run"):
        make_strategy("race", trials=1).search(None, None)


def test_alone_nothing_is_exchanged() -> None:
    value = torch.ones(3, requires_grad=True)
    assert distributed.batch_share() == (0, 1)
    assert distributed.sum_over_processes(value) is value
    assert distributed.from_first(lambda: 7) == 7
    assert distributed.any_of(True)
    assert not distributed.any_of(False)
    with distributed.shared_norms(True):
        assert not distributed.norms_are_shared()
    distributed.end_epoch(StackedBatchNorm(1, 2))


@pytest.mark.parametrize("masked", [False, True])
def test_the_shared_norm_of_one_process_is_the_norm(masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The formulas, with the exchange of a single process; what several add up to is tested above."""
    monkeypatch.setattr(distributed, "_gathered", lambda value: value[None])
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(3, 7, 4, generator=generator, dtype=torch.float64)
    mask = torch.tensor([True] * 5 + [False] * 2) if masked else None
    probe = torch.randn(3, 7, 4, generator=generator, dtype=torch.float64)
    if mask is not None:
        probe = probe * mask[:, None]
    results = []
    for shared in (False, True):
        monkeypatch.setattr(distributed, "norms_are_shared", lambda shared=shared: shared)
        norm, x = StackedBatchNorm(3, 4).double(), h.clone().requires_grad_()
        out = norm(x, mask)
        kept = out if mask is None else out[:, mask]
        grad = torch.autograd.grad((out * probe).sum(), [x, *norm.parameters()])
        results.append([kept, norm.running_mean, norm.running_var, *grad])
    for plain, shared in zip(*results, strict=True):
        torch.testing.assert_close(shared, plain, rtol=1e-10, atol=1e-10)

"""Where everything lies in a run folder. No other module spells these names. Imports no torch.

::

    RUN/  config.yaml  command.json  versions.json  data.json     how the run was started, and on what
          split.csv                                               the split of every row of the data
          history.jsonl  checkpoints/                             of a search or a training: its records and its state
          genotype.yaml  result.json  leaderboard.*  report.html  what came out
          search/            the search; of several searches one folder per seed, search/seed-S
          round-N/           the searches of a depth search
          fold-K/            with k folds: a run for each fold, with everything that is listed here
          trained/NAME/seed-S/         the trainings; weights.safetensors, model.json and predictions.csv beside their result
          trained/ensemble/seed-S/     an ensemble of them; in member_N/ each member's weights.safetensors and model.json
          strategies/NAME/seed-S/      the searches of a comparison of strategies
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from gnas.errors import InputError
from gnas.files import open_regular
from gnas.leases import FileSlot

CONFIG, COMMAND, RESULT, GENOTYPE, LOCK = "config.yaml", "command.json", "result.json", "genotype.yaml", ".lock"
LEASE = ".lease.json"  # the lock where the file system has none
MODEL, WEIGHTS = "model.json", "weights.safetensors"
SPLIT, PREDICTIONS = "split.csv", "predictions.csv"
VERSIONS, DATA, HISTORY, REPORT = "versions.json", "data.json", "history.jsonl", "report.html"
LEADERBOARD, COMPARISON, TRACKING, ROUND = "leaderboard.json", "strategies.json", "tracking.json", "round.json"
ENSEMBLE = "ensemble"  # the name of an ensemble among the networks of a run
SHARED_GRAPHS = ("graphs-*.safetensors", ".graphs*.safetensors*")  # in the folder of jobs
TRAINED, STRATEGIES, CHECKPOINTS, JOBS = "trained", "strategies", "checkpoints", "jobs"

PARTS = ("search", "supernet", "judged", "derived", "trial")  # runs inside a run, beside the numbered ones
_NUMBERED = re.compile(r"(seed|round|fold)-\d+")

# Every name that a run may write at the top of its folder; rounds of a depth search come on top.
OWN_NAMES = (
    *(CONFIG, COMMAND, VERSIONS, DATA, SPLIT, HISTORY, GENOTYPE, RESULT, TRACKING, REPORT),
    *("leaderboard.csv", LEADERBOARD, "leaderboard.md"),
    *("strategies.csv", COMPARISON, "strategies.md", "strategies.svg", "strategies.png", STRATEGIES),
    *(CHECKPOINTS, "search", TRAINED, JOBS, "tensorboard", "wandb", "mlflow.db"),
)


# What other commands write there later, and what only the folder of a single search or training has.
MADE_LATER = (
    *("export", "genotype.svg", "genotype.png", "trials", "start.safetensors", ROUND),
    *(MODEL, WEIGHTS, PREDICTIONS, *PARTS),
)
TEMPORARY = re.compile(r"\..+\.(yaml|json|jsonl|safetensors|html|csv|md|svg|png)\.\w{8}")  # of ``write_atomic``


def is_run(folder: Path) -> bool:
    """Whether a run was started in this folder."""
    return (folder / CONFIG).is_file()


def is_folder(path: Path) -> bool:
    """Whether this is a folder and no link to one: what lies in a run folder does not lead out of it."""
    return path.is_dir() and not path.is_symlink()


def is_finished(folder: Path) -> bool:
    """Whether the run of this folder has a result. The result is written last."""
    return (folder / RESULT).is_file()


def search_folder(folder: Path) -> Path:
    """The search of a run."""
    return folder / "search"


def seed_folder(folder: Path, seed: int) -> Path:
    """One of several searches or trainings that differ in their seed only."""
    return folder / f"seed-{seed}"


def fold_folder(folder: Path, number: int) -> Path:
    """A fold of a run over k folds, counted from 1."""
    return folder / f"fold-{number}"


def training_folder(folder: Path, network: str, seed: int) -> Path:
    """One training of a network of this run."""
    return seed_folder(folder / TRAINED / network, seed)


def member_folder(folder: Path, number: int) -> Path:
    """A network of an ensemble, counted from 1."""
    return folder / f"member_{number}"


def strategy_folder(folder: Path, strategy: str, seed: int) -> Path:
    """One search of a comparison of strategies."""
    return seed_folder(folder / STRATEGIES / strategy, seed)


def list_seeds(folder: Path) -> dict[int, Path]:
    """The runs ``seed-S`` of a folder by their seed."""
    return _list_numbered(folder, "seed-")


def list_rounds(folder: Path) -> dict[int, Path]:
    """The rounds of a depth search by their number."""
    return _list_numbered(folder, "round-")


def list_folds(folder: Path) -> dict[int, Path]:
    """The folds of a run by their number; empty if it has one split."""
    return _list_numbered(folder, "fold-")


def list_networks(folder: Path) -> list[str]:
    """The names of the networks that have trainings in this run."""
    trained = folder / TRAINED
    return sorted(path.name for path in trained.iterdir() if is_folder(path)) if is_folder(trained) else []


def list_trainings(folder: Path, network: str) -> dict[int, Path]:
    """The trainings of a network by their seed."""
    return list_seeds(folder / TRAINED / network)


def own_paths(folder: Path) -> list[Path]:
    """Every file and folder that a run may have written at the top of its folder."""
    numbered = [path for path in folder.iterdir() if _NUMBERED.fullmatch(path.name)] if folder.is_dir() else []
    return [*(folder / name for name in OWN_NAMES), *numbered]


def remove_own(folder: Path) -> list[Path]:
    """Remove what gnas wrote into a run folder, and the folder if it is empty then; returns what stays.

    Folders of gnas go with everything in them. A link is removed, never followed.
    """
    for path in (*own_paths(folder), *(folder / name for name in (*MADE_LATER, LOCK, LEASE))):
        remove_path(path)
    for path in folder.iterdir():
        if TEMPORARY.fullmatch(path.name):
            remove_path(path)
    if not (others := sorted(folder.iterdir())):
        folder.rmdir()
    return others


def remove_shared(folder: Path) -> None:
    """Remove the graphs that a killed command left for its workers."""
    for pattern in SHARED_GRAPHS:
        for path in (folder / JOBS).glob(pattern) if is_folder(folder / JOBS) else ():
            path.unlink(missing_ok=True)


def remove_path(path: Path) -> None:
    """Remove a file, a folder with everything in it, or a link itself."""
    if is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def list_parts(folder: Path) -> Iterator[Path]:
    """The runs inside a run: its search, rounds, folds, trainings and strategies."""
    names = (path for path in folder.iterdir() if path.name in PARTS or _NUMBERED.fullmatch(path.name))
    yield from (path for path in names if is_folder(path) and is_run(path))
    for group in (folder / TRAINED, folder / STRATEGIES):
        for one in sorted(group.iterdir()) if is_folder(group) else ():
            yield from list_seeds(one).values()


def _list_numbered(folder: Path, prefix: str) -> dict[int, Path]:
    found = {}
    for path in folder.glob(f"{prefix}*"):
        number = path.name.removeprefix(prefix)
        if number.removeprefix("-").isdecimal() and is_folder(path) and is_run(path):
            found[int(number)] = path
    return dict(sorted(found.items()))


# -- whether a run is under way --------------------------------------------------------------------------------------


def lacks_flock(error: OSError) -> bool:
    """Whether the file system has no ``flock``: the error does not say that somebody holds the lock."""
    return error.errno in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


def is_held(error: OSError) -> bool:
    """Whether the error of ``flock`` says that somebody holds the lock; some network file systems say so in another way."""
    return error.errno in (errno.EAGAIN, errno.EACCES)


def is_locked(folder: Path) -> bool:
    """Whether a process works in this folder: it holds the lock."""
    try:
        if FileSlot(folder / LEASE).is_held():
            return True
        import fcntl

        with os.fdopen(open_regular(folder / LOCK, follow=False)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except (ImportError, FileNotFoundError, InputError):
        return False
    except OSError as error:
        if is_held(error) or lacks_flock(error):
            return is_held(error)
        raise


def run_state(folder: str | Path) -> str:
    """``finished`` if the run has a result, ``running`` if a process holds its lock, else ``stopped``."""
    folder = Path(folder)
    return "finished" if is_finished(folder) else "running" if is_locked(folder) else "stopped"

"""``--on``, ``--gpus-per-job`` and ``--sync``: the workers of a command, and a copy of its folder at a URL."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnas import distributed
from gnas.errors import InputError
from gnas.jobs import check_on, open_runner
from gnas.jobs.storage import Storage
from gnas.run.layout import CONFIG, OWN_NAMES

if TYPE_CHECKING:
    from gnas.cli.prepare import PreparedRun


def check_workers(options: Mapping[str, Any]) -> None:
    """Refuse options that exclude each other, before anything is loaded."""
    on, share = options.get("on"), options.get("gpus_per_job")
    kind, _ = check_on(on, share)
    if kind != "here" and distributed.is_launched():
        raise InputError("--on is for many runs, torchrun for one large run: choose one of them")
    if share and options.get("device") == "cpu":
        raise InputError("--gpus-per-job cannot be used with --device cpu")


def fetch_run(url: str | None, folder: Path, resume: bool, force: bool) -> None:
    """Copy the run at the URL to ``folder``, which is older. Refuse to replace a run without ``--force``."""
    if url is not None:
        distributed.from_first(lambda: _fetch(Storage(url), folder, resume, force))


def _fetch(storage: Storage, folder: Path, resume: bool, force: bool) -> None:
    storage.claim()  # until the command ends
    storage.remove_shared()
    if not storage.holds(CONFIG):
        return
    if force:
        for name in OWN_NAMES:
            storage.remove(name)
    elif resume:
        storage.pull("", folder)
    else:
        storage.release()
        raise InputError(f"{storage.url} already holds a run; --resume resumes it, --force replaces it")


@contextlib.contextmanager
def open_workers(prepared: PreparedRun, options: Mapping[str, Any]) -> Iterator[PreparedRun]:
    """Inside, the command has a runner: the workers that ``--on`` names, by default this process."""
    on, share, sync = (options.get(name) for name in ("on", "gpus_per_job", "sync"))
    with prepared.screen.waiting("starting workers") if on not in (None, "here") else contextlib.nullcontext():
        runner = open_runner(prepared.folder, on, gpus_per_job=share, device=prepared.device, sync=sync)
    if description := getattr(runner.pool, "description", ""):
        prepared.screen.pair("ray", description)
    try:
        with runner:
            yield dataclasses.replace(prepared, runner=runner)
    finally:
        if prepared.folder.is_dir():
            runner.push_own_files()
        if runner.storage is not None:
            runner.storage.release()

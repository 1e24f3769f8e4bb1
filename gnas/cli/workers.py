"""``--on``, ``--gpus-per-job`` and ``--sync``: who does the runs of a command, and where their folder is kept as well."""

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
    from gnas.cli.begin import Begun


def check_workers(options: Mapping[str, Any]) -> None:
    """An error for what cannot be, before anything is loaded."""
    on, share = options.get("on"), options.get("gpus_per_job")
    kind, _ = check_on(on, share)
    if kind != "here" and distributed.launched():
        raise InputError("--on is for many runs, torchrun for one large one: give one of them")
    if share and options.get("device") == "cpu":
        raise InputError("--gpus-per-job does not go with --device cpu")


def fetch(url: str | None, folder: Path, resume: bool, force: bool) -> None:
    """Bring the run at the URL here: what workers did counts, not what is left here of it. Refuse to replace it unasked."""
    storage = None if url is None else Storage(url)
    if storage is None or not storage.holds(CONFIG):
        return
    if force:
        for name in OWN_NAMES:
            storage.remove(name)
    elif resume:
        storage.pull("", folder)
    else:
        raise InputError(f"{url} already holds a run; --resume resumes it, --force replaces it")


@contextlib.contextmanager
def workers(begun: Begun, options: Mapping[str, Any]) -> Iterator[Begun]:
    """Inside, the job has the workers asked for, if any."""
    on, sync = options.get("on"), options.get("sync")
    if on in (None, "here") and sync is None:
        yield begun
        return
    with begun.screen.waiting("starting workers"):
        runner = open_runner(begun.folder, on, gpus_per_job=options.get("gpus_per_job"), device=begun.device, sync=sync)
    try:
        with runner:
            yield dataclasses.replace(begun, runner=runner)
    finally:
        if begun.folder.is_dir():
            runner.keep()

"""A lock as a file with an owner and a heartbeat: living owners keep it, dead ones lose it, wherever they are."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gnas import leases
from gnas.errors import RunError
from gnas.leases import (
    FileSlot,
    Holder,
    Lease,
    LeaseHeld,
    Owner,
    read_holder,
    read_owner,
    this_machine,
    this_process,
    wait_for_lease,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT", 0.05)
    monkeypatch.setattr(leases, "WATCH", 0.4)


@pytest.fixture
def slot(tmp_path: Path) -> FileSlot:
    return FileSlot(tmp_path / ".lease.json")


@pytest.fixture
def ended() -> Owner:
    """A process that has ended."""
    code = "from gnas.leases import *; import json, dataclasses; print(json.dumps(dataclasses.asdict(this_process())))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    found = read_owner(json.loads(said))
    assert found is not None
    return found


def elsewhere(owner: Owner) -> Owner:
    return replace(owner, machine="another", host="another")


def held_by(slot: FileSlot, owner: Owner, beat: int = 0) -> None:
    slot.path.write_bytes(Holder(owner, "0123", beat).to_bytes())


def test_owners_are_known_by_more_than_a_number(ended: Owner) -> None:
    assert this_process().is_gone() is False
    assert ended.machine == this_machine()
    assert ended.is_gone() is True
    assert elsewhere(ended).is_gone() is None
    if this_process().started:  # the number is in use again, by another process
        assert replace(ended, pid=os.getpid()).is_gone() is True


def test_one_holder_at_a_time(slot: FileSlot) -> None:
    first = Lease(slot)
    assert slot.is_held()
    with pytest.raises(LeaseHeld, match=f"{slot.path.parent}: process {os.getpid()} on .* is working here; wait until"):
        Lease(slot)
    first.close()
    assert not slot.is_held()
    assert not list(slot.path.parent.iterdir())
    Lease(slot).close()


def test_a_dead_owner_is_replaced_at_once(slot: FileSlot, ended: Owner) -> None:
    held_by(slot, ended)
    assert not slot.is_held()
    Lease(slot).close()


def test_a_silent_owner_elsewhere_is_replaced_after_a_while(slot: FileSlot, ended: Owner) -> None:
    held_by(slot, elsewhere(ended))
    began = time.monotonic()
    with pytest.warns(UserWarning, match="on another worked here; waiting"):
        Lease(slot).close()
    assert time.monotonic() - began >= leases.WATCH


@pytest.fixture
def living(slot: FileSlot) -> Iterator[None]:
    """Another machine that renews the lease."""
    over, owner = threading.Event(), elsewhere(this_process())

    def renew() -> None:
        for beat in range(1000):
            slot.write(Holder(owner, "0123", beat).to_bytes())
            if over.wait(0.05):
                return

    held_by(slot, owner)
    thread = threading.Thread(target=renew)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("living")
@pytest.mark.filterwarnings("ignore:.*worked here")
def test_a_living_owner_elsewhere_keeps_it_whatever_the_clocks_say(slot: FileSlot) -> None:
    os.utime(slot.path, (0, 0))
    with pytest.raises(LeaseHeld, match="on another is working here"):
        Lease(slot)


def test_who_was_stopped_for_long_notices_that_another_took_over(slot: FileSlot) -> None:
    lease = Lease(slot)
    lease.check()
    held_by(slot, elsewhere(this_process()))
    until = time.monotonic() + 10
    while not lease.lost and time.monotonic() < until:
        time.sleep(0.02)
    with pytest.raises(RunError, match="another process took over while this one was stopped"):
        lease.check()
    before = slot.read()
    lease.close()
    assert slot.read() == before  # it belongs to the other


def test_it_is_renewed(slot: FileSlot) -> None:
    lease = Lease(slot)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        holder = read_holder(slot.read())
        if holder is not None and holder.beat >= 2:
            break
        time.sleep(0.02)
    lease.close()
    assert holder is not None
    assert holder.beat >= 2


@pytest.mark.filterwarnings("ignore:.*worked here")
@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"not json", b'{"pid": -1}', b"[" * 100_000])
def test_any_content_is_a_silent_owner(slot: FileSlot, content: bytes) -> None:
    slot.path.write_bytes(content)
    Lease(slot).close()


def test_of_many_that_start_at_once_one_holds_it(slot: FileSlot, ended: Owner) -> None:
    held_by(slot, ended)
    won, start = [], threading.Barrier(8)

    def take() -> None:
        start.wait()
        with contextlib.suppress(LeaseHeld):
            won.append(Lease(slot))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    won[0].close()


def test_waiting_for_it(slot: FileSlot) -> None:
    first = Lease(slot)
    threading.Timer(0.3, first.close).start()
    wait_for_lease(slot).close()

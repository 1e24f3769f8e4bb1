"""Messages and orders as lines of JSON: they come back, and nothing else is read."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnas.errors import InputError
from gnas.jobs.job import FUNCTIONS
from gnas.jobs.messages import (
    FROM_WORKERS,
    Beat,
    Died,
    Epoch,
    Failed,
    Finished,
    Message,
    Order,
    Started,
    Stopped,
    UnknownMessage,
    Warned,
    read_message,
    write_message,
)

MESSAGES = [Started(7, "host"), Beat(), Epoch({"epoch": 1}), Warned("a\nb"), Finished([1]), Stopped("x"), Failed("y")]
ORDER = Order(FUNCTIONS[0], "a/b", ["c"], [], {"x": 1}, "/root", None, 5.0, "cpu", True, "0.2.0", 2)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: one.kind)
def test_messages_come_back(message: Message) -> None:
    line = write_message(message)
    assert "\n" not in line
    assert read_message(line) == read_message(line.encode()) == message


def test_a_worker_cannot_say_that_it_died() -> None:
    assert "died" not in FROM_WORKERS
    with pytest.raises(UnknownMessage):
        read_message(write_message(Died("gone")))


def test_an_exception_stays_in_its_process() -> None:
    assert "exception" not in write_message(Failed("y", ValueError("secret")))


@given(line=st.text() | st.binary(max_size=40))
def test_any_other_line_is_one_error(line: str | bytes) -> None:
    with pytest.raises(InputError) as error:
        read_message(line)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "values",
    [{}, {"kind": "x"}, {"kind": "began"}, {"kind": "began", "pid": "1", "host": "a"}, {"kind": "beat", "more": 1}, []],
)
def test_messages_of_another_form_are_refused(values: object) -> None:
    with pytest.raises(InputError):
        read_message(json.dumps(values))


def test_an_order_comes_back_with_its_job() -> None:
    found = Order.from_json(ORDER.to_json())
    assert found == ORDER
    job = found.job({"decoded": True})
    assert (job.function, job.written, job.arguments) == (FUNCTIONS[0], ("a/b", "c"), {"decoded": True})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"function": "os.system"}, "a job cannot call"),
        ({"folder": "../up"}, "must be a path below the run folder"),
        ({"reads": ["/etc"]}, "must be a path below the run folder"),
        ({"threads": 0}, "allowed: 1 to 4096"),
        ({"threads": True}, "threads"),
        ({"device": "abacus"}, "does not exist"),
        ({"arguments": []}, "arguments"),
        ({"push_seconds": "1"}, "push_seconds"),
        ({"more": 1}, "an order has the keys"),
    ],
)
def test_other_orders_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Order.from_json(json.dumps({**dataclasses.asdict(ORDER), **changes}))
    with pytest.raises(InputError, match="not valid JSON"):
        Order.from_json("{")

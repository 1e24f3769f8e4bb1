"""A job as a value: what it may call, and which jobs can run at the same time."""

import pytest

from gnas.errors import InputError
from gnas.jobs.job import FUNCTIONS, Job, Lazy, check_below, find_function


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_a_job_may_call_exists(name: str) -> None:
    assert callable(find_function(name))


@pytest.mark.parametrize("name", ["os.system", "gnas.strategies.race_job.open_training", "", "race_job"])
def test_a_job_calls_nothing_else(name: str) -> None:
    with pytest.raises(InputError, match="a job cannot call"):
        Job(name, "a")


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../../b", "a\0b", "a\\b", 3, None])
def test_a_folder_lies_below_the_root(name: object) -> None:
    with pytest.raises(InputError, match="must be a path below the run folder"):
        check_below(name)


def test_jobs_conflict_where_one_writes_what_the_other_uses() -> None:
    def job(folder: str, also: tuple[str, ...] = (), reads: tuple[str, ...] = ()) -> Job:
        return Job(FUNCTIONS[0], folder, {}, also, reads)

    conflicts = [(job("a"), job("a")), (job("a", ("b",)), job("b")), (job("a"), job("b", reads=("a",)))]
    others = [(job("a"), job("b")), (job("a", reads=("c",)), job("b", reads=("c",)))]
    assert all(one.conflicts(two) and two.conflicts(one) for one, two in conflicts)
    assert not any(one.conflicts(two) or two.conflicts(one) for one, two in others)


def test_a_lazy_argument_is_loaded_with_the_job() -> None:
    loaded = []
    job = Job(FUNCTIONS[0], "a", {"data": Lazy(lambda: loaded.append(1) or "data"), "seed": 3})
    assert job.is_lazy
    assert not loaded
    assert job.load_arguments() == {"data": "data", "seed": 3}

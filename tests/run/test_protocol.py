"""The training protocol as a value."""

import pytest

from gnas.errors import InputError
from gnas.run.protocol import TrainConfig


def test_cycles_end_with_the_rungs() -> None:
    assert TrainConfig(epochs=81).cycle_ends() == (3, 9, 27, 81)
    assert TrainConfig(epochs=2).cycle_ends() == (1, 2)
    assert TrainConfig(epochs=1).cycle_ends() == (1,)
    assert TrainConfig(epochs=9, ends=(1, 1, 4, 9)).cycle_ends() == (1, 4, 9)


def test_an_unknown_setting_is_an_error_that_names_the_nearest() -> None:
    assert TrainConfig().with_(epochs=3) == TrainConfig(epochs=3)
    with pytest.raises(InputError, match=r"unknown training setting 'epoch'.* did you mean 'epochs'"):
        TrainConfig().with_(epoch=3)


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", 0), ("lr", 0.0), ("ema", 1.0), ("schedule", "step"), ("optimizer", "sgd")]
)
def test_a_value_out_of_range_is_an_error_that_names_the_setting(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        TrainConfig(**{name: value})  # type: ignore[arg-type]

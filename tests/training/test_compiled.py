"""Compiled steps give what eager ones give, and a step that cannot be compiled runs eagerly."""

import shutil
import warnings

import pytest
import torch
from samples import assert_near
from small import benchmark

from gnas.arch import gap
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.model.network import Network
from gnas.model.supernet import Supernet
from gnas.run.protocol import TrainConfig
from gnas.training.engine import Engine
from gnas.training.optim import set_rate
from gnas.training.store import Capacity, GraphStore, Planned
from gnas.training.train import train

CPU = torch.device("cpu")


BENCH = benchmark()


def planned(*ids: int, device: str = "cpu", nodes: int = 8) -> Planned:
    return Planned(torch.tensor(ids, device=device), Capacity(nodes, 8))


def moved(mode: str, steps: int = 6) -> list[float]:
    """A loss before each step of SGD on one linear map, with a rate that changes half-way."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []

    def step(one: Planned) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.tanh(model(x * one.ids[0])).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    engine = Engine(step, CPU, mode, parts=[model])
    for k in range(steps):
        set_rate(optimizer, 0.1 if k < steps // 2 else 0.5)
        engine(planned(1 + k % 2))
    assert "forward" not in model.__dict__
    return losses


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler (g++) on a CPU")
def test_compiled_steps_equal_eager_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real compiler; a new learning rate compiles nothing again."""
    import torch._inductor.config
    from torch._dynamo.utils import counters

    monkeypatch.setattr(torch._inductor.config, "compile_threads", 1)  # a pool of compilers takes longer to start
    counters.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*cannot be compiled")
        compiled = moved("compiled")
    assert compiled == pytest.approx(moved("eager"), rel=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


def test_a_step_that_cannot_be_compiled_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: object, inputs: object) -> None:
        raise RuntimeError("no compiler here\nand much more")

    use_backend(monkeypatch, broken)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = moved("compiled")
    assert found == pytest.approx(moved("eager"), rel=1e-6)
    messages = [str(one.message) for one in heard if "cannot be compiled" in str(one.message)]
    assert messages == ["this step cannot be compiled, so it runs eagerly (slower): RuntimeError: no compiler here"]


def test_an_error_of_the_step_itself_is_raised() -> None:
    def step(one: Planned) -> None:
        raise InputError("a bad step")

    engine = Engine(step, CPU, "compiled", parts=[torch.nn.Linear(1, 1)])
    with pytest.warns(UserWarning, match="cannot be compiled"), pytest.raises(InputError, match="a bad step"):
        engine(planned(1))


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced, differentiated and split as for the real compiler, but run without generating code, which takes a minute."""
    use_backend(monkeypatch, torch._dynamo.lookup_backend("aot_eager"))


def use_backend(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    """In place of Inductor; PyTorch itself looks up what it was given as a function."""
    lookup = torch._dynamo.lookup_backend
    monkeypatch.setattr("torch._dynamo.lookup_backend", lambda name: backend if name == "inductor" else lookup(name))


@pytest.mark.usefixtures("traced")
def test_a_compiled_training_equals_an_eager_one() -> None:
    config = TrainConfig(epochs=2, batch_size=4, precision="float32", ema=0.9)

    def build() -> Network:
        return Network(gap.genotype(["[dense(max)]"]), BENCH.task, 4)

    eager, compiled = (train(build, BENCH, config.with_(engine=mode), 1) for mode in ("eager", "compiled"))
    for one, other in zip(eager.history, compiled.history, strict=True):
        for name in ("train_loss", "val_loss"):
            assert one[name] == pytest.approx(other[name], rel=1e-5)
    assert eager.test == pytest.approx(compiled.test, rel=1e-5)
    assert compiled.model is not None
    assert all("forward" not in cell.__dict__ for cell in compiled.model.parts())


@pytest.mark.usefixtures("traced")
def test_compiled_padded_batches_equal_exact_ones() -> None:
    """Static shapes, as a GPU has them, in a supernet."""
    store, found = GraphStore(BENCH.train, CPU), {}
    for mode, padded in (("eager", False), ("compiled", True)):
        torch.manual_seed(0)
        supernet = Supernet(SearchSpace(1, 1), BENCH.task, 4, 1)
        gradients: list[torch.Tensor] = []

        def step(one: Planned, supernet=supernet, gradients=gradients) -> None:
            batch = store.batch(one.ids, one.capacity)
            loss = BENCH.task.loss_value(supernet(batch), batch)
            gradients.extend(torch.autograd.grad(loss, [*supernet.weights(), *supernet.alphas()]))

        engine = Engine(step, CPU, mode, parts=supernet.parts())
        for one in store.plan(7, torch.Generator().manual_seed(3), padded=padded):
            engine(one)
        found[mode] = gradients
    assert_near(found["compiled"], found["eager"], 1e-5)

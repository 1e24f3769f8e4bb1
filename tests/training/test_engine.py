"""Steps run eagerly or recorded give the same; several at once give what each gives alone."""

import itertools
import shutil
import warnings
from collections.abc import Iterator

import pytest
import torch
from samples import assert_near
from small import benchmark, builder
from tiny import SPACE

from gnas.arch import gap
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.model.network import Network
from gnas.model.supernet import Supernet
from gnas.model.task import Task
from gnas.run.protocol import TrainConfig
from gnas.strategies import Darts, SingleLevel, search
from gnas.training.engine import WARMUP, Engine, take_turns
from gnas.training.optim import make_adam, set_rate
from gnas.training.store import Capacity, GraphStore, Planned
from gnas.training.train import Trainer, train, train_seeds

CPU = torch.device("cpu")
BENCH = benchmark()


def planned(*ids: int, device: str = "cpu", nodes: int = 8) -> Planned:
    return Planned(torch.tensor(ids, device=device), Capacity(nodes, 8))


@pytest.mark.parametrize("mode", ["auto", "eager"])
def test_on_a_cpu_steps_run_as_they_come(mode: str) -> None:
    seen: list[list[int]] = []
    engine = Engine(lambda one, other: seen.append([*one.ids.tolist(), *other.ids.tolist()]), CPU, mode)
    for k in range(6):
        engine(planned(k), planned(k, -k))
    assert seen == [[k, k, -k] for k in range(6)]
    assert engine.stream is None


def test_modes_are_checked() -> None:
    with pytest.raises(InputError, match="engine mode 'graph' needs a CUDA device; use 'eager' or 'auto'"):
        Engine(print, CPU, "graph")
    with pytest.raises(InputError, match=r"unknown engine mode 'grahp'.*did you mean 'graph'"):
        Engine(print, CPU, "grahp")


def test_taking_turns() -> None:
    seen: list[str] = []

    def run(name: str, count: int) -> Iterator[None]:
        for k in range(count):
            seen.append(f"{name}{k}")
            yield

    take_turns([run("a", 1), run("b", 3), run("c", 0), run("d", 2)])
    assert seen == ["a0", "b0", "d0", "b1", "d1", "b2"]


def test_an_error_in_one_turn_is_raised() -> None:
    def bad() -> Iterator[None]:
        yield
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        take_turns([iter([None] * 5), bad()])


# -- compiled ---------------------------------------------------------------------------------------------------------


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
    assert compiled.network is not None
    assert all("forward" not in cell.__dict__ for cell in compiled.network.parts())


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


# -- on a GPU ---------------------------------------------------------------------------------------------------------


def counted(device: str, mode: str, steps: int = 8) -> tuple[list[float], int]:
    """Sums of a weight moved by each batch's ids, with a rate that changes half-way; and how often Python ran the step."""
    weight, calls = torch.nn.Parameter(torch.ones(4, device=device)), 0
    optimizer = make_adam([weight], 0.1, 0.0, torch.device(device))

    def step(one: Planned) -> None:
        nonlocal calls
        calls += 1
        optimizer.zero_grad(set_to_none=True)
        (weight * one.ids).square().sum().backward()
        optimizer.step()

    engine, found = Engine(step, torch.device(device), mode), []
    for k in range(steps):
        with engine.on_stream():
            set_rate(optimizer, 0.1 if k < steps // 2 else 0.01)
        engine(planned(k, 1, 2, 3, device=device))
        with engine.on_stream():
            found.append(weight.sum().item())
    return found, calls


@pytest.mark.gpu
def test_recorded_steps_equal_eager_ones() -> None:
    """Also after the learning rate changed, without recording again."""
    eager, every = counted("cuda", "eager")
    recorded, few = counted("cuda", "graph")
    assert recorded == pytest.approx(eager, abs=1e-6)
    assert recorded == pytest.approx(counted("cpu", "eager")[0], abs=1e-4)
    assert (every, few) == (8, WARMUP + 1)
    moves = [abs(a - b) for a, b in itertools.pairwise(recorded)]
    assert max(moves[4:]) < 0.3 * min(moves[:2])


@pytest.mark.gpu
def test_a_compiled_training_equals_an_eager_one_on_a_gpu() -> None:
    """Compiled, then recorded."""
    config = TrainConfig(epochs=4, batch_size=3, precision="float32")
    eager, compiled = (
        train(builder(BENCH), BENCH, config.with_(engine=mode), 1, device="cuda") for mode in ("eager", "compiled")
    )
    for one, other in zip(eager.history, compiled.history, strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-4)


@pytest.mark.gpu
def test_each_shape_is_recorded_for_itself() -> None:
    seen = torch.zeros(1, device="cuda", dtype=torch.long)
    engine = Engine(lambda one: seen.add_(one.ids.sum() * one.capacity.nodes), torch.device("cuda"))
    wanted = 0
    for k in range(12):
        ids, nodes = ((k, k), 8) if k % 2 else ((k,), 16)
        engine(planned(*ids, device="cuda", nodes=nodes))
        wanted += sum(ids) * nodes
    with engine.on_stream():
        assert int(seen) == wanted
    assert len(engine._recorded) == 2


@pytest.mark.gpu
def test_a_step_that_cannot_be_recorded_runs_eagerly() -> None:
    total = torch.zeros(1, device="cuda")

    def step(one: Planned) -> None:
        total.add_(one.ids.sum().item())  # reads back

    engine = Engine(step, torch.device("cuda"))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for k in range(WARMUP + 4):
            engine(planned(k, device="cuda"))
    with engine.on_stream():
        assert float(total) == sum(range(WARMUP + 4))
    messages = [str(one.message) for one in heard if "cannot be recorded" in str(one.message)]
    assert len(messages) == 1
    assert torch.isfinite(torch.randn(3, device="cuda")).all()  # random numbers can be drawn again


@pytest.mark.gpu
def test_a_slow_gpu_overtakes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of the best epoch's weights is late, and so are the graph numbers of an epoch's steps."""
    config = TrainConfig(epochs=5, batch_size=3)
    wanted = train(builder(BENCH), BENCH, config, 1, device="cuda")
    better, plan = Task.better, GraphStore.plan

    def late(call):
        def called(*args, **how):
            torch.cuda._sleep(20_000_000)  # on the stream that the work is queued on
            return call(*args, **how)

        return called

    monkeypatch.setattr(Task, "better", late(better))
    monkeypatch.setattr(GraphStore, "plan", late(plan))
    found = train(builder(BENCH), BENCH, config, 1, device="cuda")
    assert (found.test, found.val) == pytest.approx((wanted.test, wanted.val), rel=1e-4)


@pytest.mark.gpu
def test_graph_numbers_may_be_let_go_before_the_gpu_has_read_them() -> None:
    seen = torch.zeros(1, device="cuda", dtype=torch.long)
    engine = Engine(lambda one: seen.add_(one.ids.sum()), torch.device("cuda"))
    for k in range(20):
        with engine.on_stream():
            torch.cuda._sleep(1_000_000)
        engine(planned(k, device="cuda"))
    with engine.on_stream():
        assert int(seen) == sum(range(20))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_recorded_training_equals_an_eager_one(precision: str) -> None:
    config = TrainConfig(epochs=8, batch_size=3, precision=precision, patience=0, clip=1.0, ema=0.9)
    found = [train(builder(BENCH), BENCH, config.with_(engine=mode), 1, device="cuda") for mode in ("eager", "graph")]
    for one, other in zip(found[0].history, found[1].history, strict=True):
        for name in ("train_loss", "val_loss", "lr"):
            assert one[name] == pytest.approx(other[name], rel=1e-3 if precision == "bf16" else 1e-5)
    if precision == "float32":
        cpu = train(builder(BENCH), BENCH, config, 1)
        assert found[1].history[0]["train_loss"] == pytest.approx(cpu.history[0]["train_loss"], rel=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", [SingleLevel, Darts])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.filterwarnings("ignore:epoch .*collapse")
def test_a_recorded_search_equals_an_eager_one(strategy, precision: str) -> None:
    settings = strategy(epochs=4, batch_size=3, precision=precision)
    how = {"channels": 8, "num_cells": 1, "device": "cuda"}
    eager, graph = (search(BENCH, SPACE, settings, engine=mode, **how).history for mode in ("eager", "graph"))
    for one, other in zip(eager, graph, strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-2 if precision == "bf16" else 1e-4)


@pytest.mark.gpu
def test_the_unrolled_search_can_be_recorded() -> None:
    settings = Darts(order=2, epochs=4, batch_size=3, precision="float32")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*cannot be recorded")
        history = search(BENCH, SPACE, settings, channels=8, num_cells=1, device="cuda").history
    assert len(history) == 4


@pytest.mark.gpu
def test_several_trainings_at_once_equal_each_alone() -> None:
    config = TrainConfig(epochs=5, batch_size=3, precision="float32")
    together = train_seeds(builder(BENCH), BENCH, config, (1, 2, 3), device="cuda").results
    for one, seed in zip(together, (1, 2, 3), strict=True):
        alone = train(builder(BENCH), BENCH, config, seed, device="cuda")
        assert [r["train_loss"] for r in one.history] == pytest.approx(
            [r["train_loss"] for r in alone.history], rel=1e-5
        )
        assert one.test == pytest.approx(alone.test, rel=1e-5)


@pytest.mark.gpu
def test_the_rate_is_a_tensor_a_recorded_step_reads() -> None:
    stores = {name: GraphStore(split, "cuda") for name, split in BENCH.splits().items()}
    trainer = Trainer(builder(BENCH)(), TrainConfig(epochs=1), 1, torch.device("cuda"), stores)
    rate = trainer.optimizer.param_groups[0]["lr"]
    assert isinstance(rate, torch.Tensor)
    trainer.load_state({**trainer.state(), "best": {}})
    assert trainer.optimizer.param_groups[0]["lr"] is rate

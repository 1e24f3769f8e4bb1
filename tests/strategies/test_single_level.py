"""Single-level search: one forward and one backward pass serve weights and alphas."""

import obvious
import torch
from samples import flat
from tiny import SPACE, tiny

from gnas.model.supernet import Supernet
from gnas.strategies import SearchProblem, SingleLevel
from gnas.strategies.base import SearchContext
from gnas.strategies.single_level import SingleLevelSearch

SMALL = {"epochs": 2, "batch_size": 4}


def problem(kind: str = "regression", cells: int = 2) -> SearchProblem:
    bench = tiny(kind)
    return SearchProblem(bench.train, bench.val, bench.task, SPACE, 4, cells)


def test_single_level_one_pass_serves_both(monkeypatch) -> None:
    one = SingleLevelSearch(SingleLevel(**SMALL, clip=0.5), problem(), SearchContext())
    one.supernet.double()
    (here,), *_ = one.plan()
    batch = one.store.graphs.select(here.ids).batch()
    weights, alphas = one.supernet.weights(), one.supernet.alphas()
    loss = one.problem.task.loss_value(obvious.Slow(one.supernet)(batch), batch)
    slopes = torch.autograd.grad(loss, [*weights, *alphas])
    twins = [torch.nn.Parameter(p.detach().clone()) for p in (*weights, *alphas)]
    for twin, slope in zip(twins, slopes, strict=True):
        twin.grad = slope.clone()
    torch.nn.utils.clip_grad_norm_(twins[: len(weights)], 0.5)
    torch.optim.SGD(twins[: len(weights)], 0.025, 0.9, weight_decay=3e-4).step()
    torch.optim.Adam(twins[len(weights) :], 3e-4, (0.5, 0.999), weight_decay=1e-3).step()
    calls = 0
    run = Supernet.run

    def counted(self, batch):
        nonlocal calls
        calls += 1
        return run(self, batch)

    monkeypatch.setattr(Supernet, "run", counted)
    one._step(here)
    assert calls == 1
    torch.testing.assert_close(flat([*weights, *alphas]), flat(twins), rtol=0, atol=1e-9)

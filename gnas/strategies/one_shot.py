"""A supernet whose weights any genotype can inherit: every step trains one path drawn uniformly from the space.

Guo et al., Single Path One-Shot Neural Architecture Search with Uniform Sampling, ECCV 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnas import distributed
from gnas.arch.space import SearchSpace
from gnas.graph import GraphBatch
from gnas.model.supernet import Supernet
from gnas.run.folder import Run
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.training.engine import Engine, choose_mode, take_turns
from gnas.training.loop import EpochLoop, Record, lower_batch, make_generator, steps_per_epoch
from gnas.training.meter import Meter
from gnas.training.optim import autocast, make_adam, restore
from gnas.training.store import Capacity, Planned, Store


class OneShotTraining(EpochLoop):
    """Epochs over a supernet with Adam; after ``train()``, networks inherit the weights of its ``supernet``."""

    def __init__(
        self,
        problem: SearchProblem,
        context: SearchContext,
        store: Store,
        epochs: int,
        batch_size: int,
        lr: float,
        precision: str = "tf32",
        run: Run | None = None,
    ) -> None:
        super().__init__(epochs, make_generator(context.seed), run, None, context.should_stop)
        torch.manual_seed(context.seed)
        self.task, self.store, self.batch_size, self.precision = problem.task, store, batch_size, precision
        self.supernet = Supernet(
            problem.space, problem.task, problem.channels, problem.num_cells, operations=problem.operations
        ).to(context.device)
        distributed.same_start(self.supernet)
        self.optimizer = make_adam(self.supernet.weights(), lr, 0.0, context.device)
        self.options = candidate_positions(problem.space)
        self.width = sum(len(link.candidates) for link in problem.space.links())
        self.meter = Meter(problem.task, context.device, steps_per_epoch(store, batch_size), rows=store.num_rows)
        mode = choose_mode(context.engine, store)
        self.engine = Engine(self._step, context.device, mode, parts=self.supernet.parts())

    def train(self) -> Supernet:
        """Run to the end; resume if the run folder has a checkpoint."""
        take_turns([self.steps()])
        return self.supernet

    def what_to_lower(self) -> str:
        return f"{lower_batch(self.store, 'search.batch_size', self.batch_size)}space.channels or space.cells"

    def plan(self) -> list[tuple[Planned, ...]]:
        if self.step_number == 0:
            with self.engine.on_stream():
                self.meter.reset()
        batches = self.store.plan(self.batch_size, self.generator, share=distributed.batch_share())
        device = self.engine.device
        # A path is numbers in a tensor, as a batch is: a recorded step can be replayed with another path.
        return [(batch, Planned(self.draw().to(device), Capacity(0, 0, True))) for batch in batches]

    def draw(self) -> Tensor:
        """A path: for each node of each cell one of its candidates, as positions in the flat ``[cells, candidates]``."""
        drawn = [
            cell * self.width + options[int(torch.randint(len(options), (), generator=self.generator))]
            for cell in range(self.supernet.num_cells)
            for options in self.options
        ]
        return torch.tensor(drawn)

    def _step(self, here: Planned, path: Planned) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.engine.device, self.precision):
            batch = self.store.batch(here.ids, here.capacity)
            out = run_path(self.supernet, batch, path.ids)
            loss = self.task.loss_value(out, batch, distributed.sum_over_processes)
        loss.backward()
        loss = distributed.reduce_gradients(loss, self.supernet.weights())
        self.optimizer.step()
        self.meter.add(out, batch, loss)

    def finish_epoch(self) -> Record:
        distributed.end_epoch(self.supernet)
        train = self.meter.read(self.epoch)
        return {"train_loss": train["loss"], "train_metric": train["metric"]}

    def state(self) -> dict[str, Any]:
        return {
            "supernet": self.supernet.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "meter": self.meter.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.supernet.load_state_dict(state["supernet"])
        restore(self.optimizer, state["optimizer"])
        self.meter.load_state(state["meter"])


def run_path(supernet: Supernet, batch: GraphBatch, path: Tensor) -> Tensor:
    """The supernet's output when each node follows the one candidate that ``path`` names."""
    width = sum(len(link.candidates) for link in supernet.links)
    nothing = supernet.filter_alphas.detach().new_zeros(supernet.num_cells * width)
    mixing = nothing.index_fill(0, path, 1.0).view(supernet.num_cells, width)
    return supernet.run_cells(batch, mixing.unbind())


def candidate_positions(space: SearchSpace) -> list[list[int]]:
    """For each node of a cell the positions of its candidates in ``Supernet.mixing``'s order, ``zero`` left out."""
    nodes: dict[int, list[int]] = {}
    place = 0
    for link in space.links():
        for operation in link.candidates:
            if operation != "zero":
                nodes.setdefault(link.target, []).append(place)
            place += 1
    return list(nodes.values())

"""A recurrent controller that draws architectures decision by decision and learns from rewards by REINFORCE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gnas.training.optim import make_adam, restore

Allowed = Callable[[Sequence[int]], list[bool]]


@dataclass(frozen=True)
class Draw:
    """One sequence of decisions: the option taken at each, their joint log-probability, and the sum of entropies."""

    options: tuple[int, ...]
    log_prob: Tensor
    entropy: Tensor


class Controller(nn.Module):
    """An LSTM that reads its last decision and makes the next. Every kind of decision has its own decoder.

    ``sizes`` are the numbers of options of the decisions of one layer, the same for each layer. Scores are limited to
    ``bound * tanh(score / temperature)``, so that no option is excluded early.
    """

    def __init__(self, sizes: Sequence[int], hidden: int = 100, temperature: float = 5.0, bound: float = 2.5) -> None:
        super().__init__()
        self.sizes, self.temperature, self.bound = tuple(sizes), temperature, bound
        self.starts = [1 + sum(self.sizes[:k]) for k in range(len(self.sizes))]  # row 0 is the start
        self.hidden = hidden
        self.embedding = nn.Embedding(1 + sum(self.sizes), hidden)
        self.lstm = nn.LSTMCell(hidden, hidden)
        self.decoders = nn.ModuleList(nn.Linear(hidden, size) for size in self.sizes)
        for weight in self.parameters():
            nn.init.uniform_(weight, -0.1, 0.1)

    def draw(self, num_layers: int, rng: np.random.Generator, allowed: Allowed | None = None) -> Draw:
        """Draw an architecture; ``allowed(options so far)`` may mark the options the next decision can choose from."""
        return self.walk(num_layers, lambda _, probabilities: _pick(probabilities, rng), allowed)

    def judge(self, options: Sequence[int], allowed: Allowed | None = None) -> Draw:
        """The log-probability of these decisions."""
        return self.walk(len(options) // len(self.sizes), lambda step, _: options[step], allowed)

    def walk(self, num_layers: int, choose: Callable[[int, Tensor], int], allowed: Allowed | None) -> Draw:
        """Make all decisions; ``choose(step, probabilities)`` returns the option."""
        token = torch.zeros(1, dtype=torch.long)
        state = (torch.zeros(1, self.hidden), torch.zeros(1, self.hidden))
        options: list[int] = []
        log_probs, entropies = [], []
        for step in range(num_layers * len(self.sizes)):
            kind = step % len(self.sizes)
            state = self.lstm(self.embedding(token), state)
            scores = self.bound * torch.tanh(self.decoders[kind](state[0])[0] / self.temperature)
            if allowed is not None:
                scores = scores.masked_fill(~torch.tensor(allowed(options)), -torch.inf)
            logs = scores.log_softmax(0)
            option = choose(step, logs.detach().exp())
            options.append(option)
            log_probs.append(logs[option])
            entropies.append(-(logs.exp() * logs.clamp_min(-1e9)).sum())
            token = torch.tensor([self.starts[kind] + option])
        return Draw(tuple(options), torch.stack(log_probs).sum(), torch.stack(entropies).sum())


def _pick(probabilities: Tensor, rng: np.random.Generator) -> int:
    """One option, from one number of the generator; never an option of probability 0."""
    shares = probabilities.double().numpy()
    below = np.searchsorted(shares.cumsum(), rng.random() * shares.sum(), side="right")
    return int(min(below, np.flatnonzero(shares)[-1]))


class Reinforce:
    """Policy gradient with a moving average of the rewards as baseline and a bonus for entropy."""

    def __init__(self, controller: Controller, lr: float = 3.5e-4, decay: float = 0.95, entropy: float = 1e-4) -> None:
        self.controller, self.decay, self.entropy = controller, decay, entropy
        self.optimizer = make_adam(controller.parameters(), lr, 0.0, torch.device("cpu"))
        self.baseline: float | None = None

    def learn(self, draw: Draw, reward: float) -> None:
        """Make ``draw`` likelier if its reward is above the baseline, less likely if below."""
        before = reward if self.baseline is None else self.baseline
        self.baseline = self.decay * before + (1 - self.decay) * reward
        loss = -draw.log_prob * (reward - self.baseline) - self.entropy * draw.entropy
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        return {
            "controller": self.controller.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "baseline": self.baseline,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.controller.load_state_dict(state["controller"])
        restore(self.optimizer, state["optimizer"])
        self.baseline = state["baseline"]

"""The gradient strategies: what each step follows, how the training graphs are divided, and what is recorded."""

import contextlib
import json
import math
import warnings
from pathlib import Path

import pytest
import torch
from tiny import SPACE, tiny

from gnas.arch.genotype import Genotype
from gnas.errors import InputError, Interrupted
from gnas.run.folder import Run
from gnas.strategies import Darts, SearchProblem, SingleLevel, search
from gnas.strategies.base import SearchContext
from gnas.strategies.gradient import DECIDED, measure_identity_share
from gnas.strategies.single_level import SingleLevelSearch

SMALL = {"epochs": 2, "batch_size": 4}


pytestmark = pytest.mark.filterwarnings("ignore:epoch .*collapse")


def problem(kind: str = "regression", cells: int = 2) -> SearchProblem:
    bench = tiny(kind)
    return SearchProblem(bench.train, bench.val, bench.task, SPACE, 4, cells)


@pytest.mark.parametrize("strategy", [SingleLevel, Darts])
def test_the_weights_rate_is_a_cosine(strategy) -> None:
    history = search(tiny(), SPACE, strategy(epochs=4, batch_size=12), channels=4, num_cells=1).history
    wanted = [0.025 * (1 + math.cos(math.pi * k / 4)) / 2 for k in range(4)]
    assert [record["lr"] for record in history] == pytest.approx(wanted)


# -- what is recorded -------------------------------------------------------------------------------------------------


FIELDS = {"epoch", "train_loss", "train_metric", "val_loss", "val_metric", "lr", "depth", "operations", "second_level"}


# -- what is recorded -------------------------------------------------------------------------------------------------


FIELDS |= {"identity_share", "entropy", "margin", "genotype", "alphas", "seconds"}


@pytest.mark.parametrize("share", [False, True])
def test_history(share: bool) -> None:
    strategy = SingleLevel(epochs=3, batch_size=12, alpha_lr=0.1, share_alphas=share)
    one = SingleLevelSearch(strategy, problem("classification"), SearchContext())
    result = one.search("single-level")
    assert json.loads(json.dumps(result.history)) == result.history
    for record in result.history:
        assert set(record) == FIELDS
        cells = [[torch.tensor(a, dtype=torch.float64) for a in cell] for cell in record["alphas"]]
        assert [len(a) for a in cells[0]] == [len(link.candidates) for link in SPACE.links()]
        shares = [a.softmax(0) for cell in cells for a in cell]
        entropy = sum(-(p * p.log()).sum() for p in shares) / len(shares)
        assert record["entropy"] == pytest.approx(float(entropy), abs=1e-6)
        genotype = Genotype.from_yaml(record["genotype"])
        assert record["depth"] == genotype.depth()
        assert sum(record["operations"].values()) == sum(len(cell.links) for cell in genotype)
        assert sum(record["second_level"].values()) == 2 * SPACE.nodes
        assert (
            record["identity_share"]
            == record["second_level"].get("identity", 0) / 4
            == measure_identity_share(genotype)
        )
        assert (record["alphas"][0] == record["alphas"][1]) == share
        assert record["margin"] >= 0
    assert result.history[0]["alphas"] != result.history[1]["alphas"]
    assert result.genotype == one.supernet.genotype() == Genotype.from_yaml(result.history[-1]["genotype"])
    last = [[a.tolist() for a in one.supernet.link_alphas(c)] for c in range(2)]
    assert result.history[-1]["alphas"] == last


def test_shared_alphas_are_one_row() -> None:
    one = SingleLevelSearch(SingleLevel(**SMALL, share_alphas=True), problem(), SearchContext())
    assert [a.size(0) for a in one.supernet.alphas()] == [1, 1]
    cells = one.search("single-level").genotype
    assert cells[0] == cells[1]


# -- collapse ---------------------------------------------------------------------------------------------------------


class Collapsing(SingleLevelSearch):
    """Identity wins on the second level from the second epoch on."""

    def finish_epoch(self):
        with torch.no_grad():
            place = SPACE.aggregators.index("identity")
            self.supernet.aggregator_alphas[..., place] = 5.0 if self.epoch >= 1 else -5.0
        return super().finish_epoch()


def collapse(limit: float | None, epochs: int = 4, context: SearchContext | None = None) -> Collapsing:
    settings = SingleLevel(epochs=epochs, batch_size=12, stop_on_collapse=limit)
    return Collapsing(settings, problem(), context or SearchContext())


@pytest.mark.filterwarnings("default")
def test_collapse_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = collapse(None, DECIDED + 2).search("single-level")
    assert [record["identity_share"] for record in result.history] == [0] + [1] * (DECIDED + 1)
    messages = [str(one.message) for one in heard if "collapse" in str(one.message)]
    assert len(messages) == 1
    assert messages[0].startswith(f"epoch {DECIDED}: identity holds 100% of the aggregation places")
    assert "stop_on_collapse" in messages[0]


@pytest.mark.filterwarnings("default")
def test_collapse_is_not_warned_of_again_after_a_resume(tmp_path: Path) -> None:
    def heard(stop: bool) -> int:
        with Run(tmp_path, {}, resume=True) as run, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            told: list[int] = []
            context = SearchContext(
                run=run, on_epoch=lambda record: told.append(1), should_stop=lambda: stop and len(told) >= DECIDED
            )
            with contextlib.suppress(Interrupted):
                collapse(None, DECIDED + 3, context).search("single-level")
        return sum("collapse" in str(one.message) for one in caught)

    assert (heard(stop=True), heard(stop=False)) == (1, 0)


def test_stop_on_collapse_gives_the_epoch_before() -> None:
    result = collapse(0.8).search("single-level")
    assert [record["identity_share"] for record in result.history] == [0, 1]
    assert result.genotype == Genotype.from_yaml(result.history[0]["genotype"])
    assert measure_identity_share(result.genotype) == 0
    assert result.trained_epochs == 2


# -- what is fitted, what is derived ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_weights_are_fitted_to_a_share_of_the_training_graphs(share: float) -> None:
    one = SingleLevelSearch(SingleLevel(epochs=1, batch_size=12, train_share=share), problem(), SearchContext())
    everything = problem().train
    assert len(one.store.graphs) == int(share * len(everything))
    assert set(one.store.graphs.y.flatten().tolist()) <= set(everything.y.flatten().tolist())
    assert len(one.stores) == 1  # nothing that is not used takes memory


@pytest.mark.parametrize(("strategy", "share"), [(SingleLevel, 0), (SingleLevel, 1.1), (Darts, 1.0), (Darts, -0.5)])
def test_a_share_that_leaves_nothing_is_refused(strategy: type, share: float) -> None:
    with pytest.raises(InputError, match="train_share is"):
        strategy(train_share=share)


def test_an_unknown_derivation_is_refused() -> None:
    with pytest.raises(InputError, match="derive"):
        SingleLevel(derive="first")


class Worsening(SingleLevelSearch):
    """Choices change from epoch to epoch, and the second has the lowest validation loss."""

    def finish_epoch(self):
        with torch.no_grad():
            self.supernet.aggregator_alphas[..., self.epoch] = 5.0 + self.epoch
        return super().finish_epoch() | {"val_loss": (2.0, 1.0, 3.0)[self.epoch]}


@pytest.mark.parametrize(("derive", "epoch"), [("best", 1), ("last", 2)])
def test_what_is_derived_is_the_last_or_the_best_epoch(derive: str, epoch: int) -> None:
    settings = SingleLevel(epochs=3, batch_size=12, derive=derive)
    result = Worsening(settings, problem(), SearchContext()).search("single-level")
    genotypes = [record["genotype"] for record in result.history]
    assert len(set(genotypes)) == 3
    assert result.genotype == Genotype.from_yaml(genotypes[epoch])

"""One trial: the figures of its best epoch, its cost, and failures that are outcomes."""

import dataclasses

import pytest
import torch
from small import GENOTYPE
from tiny import tiny

from gnas.errors import InputError
from gnas.model.network import Network
from gnas.strategies.base import SearchContext
from gnas.strategies.random import RandomSearch
from gnas.strategies.trial import TrialData, TrialSettings, judge_network, train_briefly
from gnas.training.loop import Record

SETTINGS = TrialSettings(epochs=5, batch_size=6)


def network() -> Network:
    torch.manual_seed(0)
    return Network(GENOTYPE, tiny().task, 4)


def data() -> TrialData:
    one = tiny()
    return TrialData(one.train, one.val)


def test_the_best_epoch_counts() -> None:
    records: list[Record] = []
    stores = data().open_stores(torch.device("cpu"))
    found = train_briefly(network(), SETTINGS, SearchContext(), stores, 1, on_epoch=records.append)
    best = min(records, key=lambda record: record["val_metric"])
    assert (found["val_metric"], found["best_epoch"], found["epochs"]) == (best["val_metric"], best["epoch"], 5)
    assert found["train_loss"] == best["train_loss"]


def test_a_failed_trial_has_no_metric_and_costs_all_its_epochs() -> None:
    model = network()
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    found = judge_network(model, SETTINGS, SearchContext(), data().open_stores(torch.device("cpu")), 1)
    assert (found["val_metric"], found["epochs"], found["num_weights"]) == (None, 5, model.num_weights())
    assert len(found["failed"].splitlines()) == 1


def test_trials_of_a_process_share_what_is_opened() -> None:
    one, device = data(), torch.device("cpu")
    assert one.open_stores(device) is one.open_stores(device)


def test_the_budget_of_one_trial() -> None:
    with pytest.raises(InputError, match="max_epochs is 4: not enough for one trial of 5 epochs"):
        TrialSettings(epochs=5, max_epochs=4)
    whole = RandomSearch(trials=3, epochs=5, lr=0.1)
    names = [field.name for field in dataclasses.fields(TrialSettings)]
    assert type(whole.of_one_trial()) is TrialSettings
    assert all(getattr(whole.of_one_trial(), name) == getattr(whole, name) for name in names)

"""Which parts a network has, from its messages, its stack and the task."""

import dataclasses
import warnings

import pytest
from tiny import tiny

from gnas.arch.stack import Stack
from gnas.errors import InputError
from gnas.model.plan import NetworkPlan, select_encodings

TASK = tiny().task
BONDS = dataclasses.replace(TASK, edge_categories=(4,))


def make(cells: list[list[str]], stack: Stack = Stack(), task: object = BONDS) -> NetworkPlan:  # noqa: B008
    return NetworkPlan.make(cells, stack, task)  # type: ignore[arg-type]


def test_plain_messages_need_no_state_of_edges() -> None:
    plan = make([["sum", "mean"], ["max"]], Stack(edges="updated"))
    assert (plan.messages, plan.edge_state, plan.updates) == (frozenset(), False, (False, False))


def test_nothing_reads_the_edges_after_the_last_reader() -> None:
    plan = make([["mean(gated)"], ["sum"], ["sum(edge)"], ["max"]], Stack(edges="updated"))
    assert plan.updates == (True, True, False, False)
    assert plan.messages == {"gated", "edge"}
    assert make([["mean(gated)"], ["sum(edge)"]]).updates == (False, False)


def test_without_edge_features_edge_messages_are_plain_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="messages of the kind edge are plain"):
        assert not make([["sum(edge)"]], task=TASK).edge_state
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not make([["mean(gated)"]], task=TASK).edge_state
        assert make([["mean(gated)"]], Stack(edges="updated"), TASK).edge_state


def test_walks_along_edges_are_features_of_edges_if_they_are_read() -> None:
    task = dataclasses.replace(TASK, walks=4, edge_walks=4)
    assert make([["sum(edge)"]], task=task).edge_state
    with pytest.warns(UserWarning, match="plain"):
        assert not make([["sum(edge)"]], Stack(encodings=("walks",)), task).edge_state
    assert select_encodings(task, Stack()) is None
    assert select_encodings(task, Stack(encodings=())) == ()
    assert select_encodings(task, Stack(encodings=("walks", "laplacian"))) == ("walks",)


def test_outputs_are_propagated_between_nodes_only() -> None:
    with pytest.raises(InputError, match="this task has targets of level graph"):
        make([["sum"]], Stack(propagation=3))

"""Declarations of operations: complete, in one order, and as the modules that compute them."""

from gnas.arch.operation import AGGREGATORS, FILTERS, OPERATIONS_INFO, PAPER_AGGREGATORS, operation_names
from gnas.model.operations import OPERATIONS


def test_names_and_levels() -> None:
    assert FILTERS[:3] == operation_names("filter", in_paper=True) == ("identity", "sparse", "dense")
    assert AGGREGATORS[:3] == PAPER_AGGREGATORS == ("sum", "mean", "max")
    assert operation_names("search") == ("zero",)


def test_every_module_is_declared() -> None:
    assert set(OPERATIONS) == {*FILTERS, *AGGREGATORS} <= set(OPERATIONS_INFO)


def test_every_declaration_says_what_it_does() -> None:
    for name, info in OPERATIONS_INFO.items():
        assert info.name == name
        assert info.formula
        assert info.label

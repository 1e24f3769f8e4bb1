"""oneDNN's products equal PyTorch's own, with gradients, of matrices and of stacks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from samples import assert_near, gradients, leaf

from gnas.kernels import choice, fused
from gnas.kernels.fused import products
from gnas.model.stacked import Linear, StackedLinear

FLOAT = {"dtype": torch.float32, "device": "cpu"}
pytestmark = pytest.mark.skipif(not choice.has_onednn(), reason="needs oneDNN")


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNAS_PRODUCTS", "onednn")
    monkeypatch.setattr(products, "FEWEST", 0)
    monkeypatch.setattr(products, "WIDE", 0)
    monkeypatch.setattr(products, "LARGE", 0)


@pytest.mark.parametrize("rows", [1, 7, 64, 333])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_map(rows: int, relu: bool, bias: bool) -> None:
    linear, h = Linear(12, 9, bias=bias), leaf(rows, 12, seed=1, **FLOAT)
    out = linear(h, relu=True) if relu else linear(h)
    plain = F.linear(h, linear.weight, linear.bias)
    inputs = [h, *linear.parameters()]
    assert "OneDNN" in type(out.grad_fn).__name__
    assert_near(out, F.relu(plain) if relu else plain, 1e-5)
    assert_near(gradients(out, inputs), gradients(F.relu(plain) if relu else plain, inputs), 1e-4)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_a_stack(count: int, bias: bool) -> None:
    linear, h = StackedLinear(count, 6, 5, bias), leaf(count, 77, 6, seed=1, **FLOAT)
    plain = torch.bmm(h, linear.weight) + (0 if linear.bias is None else linear.bias)
    inputs = [h, *linear.parameters()]
    assert_near(linear(h), plain, 1e-5)
    assert_near(gradients(linear(h), inputs), gradients(plain, inputs), 1e-4)


def test_all_maps_of_one_input() -> None:
    linear, h = StackedLinear(3, 6, 5), leaf(77, 6, seed=1, **FLOAT)
    plain = torch.cat([torch.addmm(b[0], h, w) for w, b in zip(linear.weight, linear.bias, strict=True)], 1)
    assert_near(linear.wide(h), plain, 1e-5)
    inputs = [h, *linear.parameters()]
    assert_near(gradients(linear.wide(h), inputs), gradients(plain, inputs), 1e-4)


@pytest.mark.parametrize("name", ["onednn", "torch"])
@pytest.mark.parametrize("bias", [False, True])
def test_inputs_side_by_side(name: str, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNAS_PRODUCTS", name)
    linear, inputs = StackedLinear(1, 15, 5, bias), [leaf(77, width, seed=width, **FLOAT) for width in (3, 8, 4)]
    assert fused.can_map_beside(inputs)
    plain = torch.cat(inputs, dim=1) @ linear.weight[0] + (0 if linear.bias is None else linear.bias[0])
    assert_near(linear.beside(inputs)[0], plain, 1e-5)
    every = [*inputs, *linear.parameters()]
    assert_near(gradients(linear.beside(inputs)[0], every), gradients(plain, every), 1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_not_its_own(dtype: torch.dtype) -> None:
    h, weight = torch.ones(1, 4, 3, dtype=dtype), torch.ones(1, 3, 2, dtype=dtype)
    assert not fused.has_product(h, weight)
    assert_near(fused.affine(h, weight, None), torch.full((1, 4, 2), 3.0, dtype=dtype), 1e-6)


def test_batches_of_similar_sizes_share_a_number_of_rows() -> None:
    rounded = {products._round_down(rows) for rows in range(2900, 3100)}
    assert len(rounded) <= 3
    assert all(0.93 * 2900 < rows <= 3100 for rows in rounded)


def test_a_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    h = torch.ones(4, 3)
    assert choice.uses_onednn(h)
    monkeypatch.setenv("GNAS_PRODUCTS", "torch")
    assert not choice.uses_onednn(h)

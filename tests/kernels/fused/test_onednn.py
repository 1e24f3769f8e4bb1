"""oneDNN's products equal PyTorch's."""

from __future__ import annotations

import pytest
import torch
from samples import assert_near, gradients
from samples import leaf as any_leaf
from torch import Tensor

from gnas.kernels import fused
from gnas.kernels.fused import onednn

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")


def leaf(*shape: int, seed: int) -> Tensor:
    return any_leaf(*shape, seed=seed, dtype=torch.float32, device="cpu")


@pytest.fixture
def by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "choose_library", lambda: "onednn")


@needs_onednn
@pytest.mark.usefixtures("by_onednn")
@pytest.mark.parametrize(
    ("count", "rows", "inner", "outer"), [(1, 1300, 64, 40), (3, 900, 50, 70), (1, 1024, 64, 64), (2, 8300, 16, 17)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_stacks(count: int, rows: int, inner: int, outer: int, bias: bool) -> None:
    inputs = [leaf(count, rows, inner, seed=1), leaf(count, inner, outer, seed=2)]
    inputs += [leaf(count, 1, outer, seed=3)] if bias else []
    assert onednn.serves(*inputs[:2])
    exact = [one.detach().double().requires_grad_() for one in inputs]
    out = fused.affine(*inputs, *([] if bias else [None]))
    wanted = exact[0] @ exact[1] + (exact[2] if bias else 0)
    assert_near(out.double(), wanted, 1e-4)
    found = [one.double() for one in gradients(out, inputs)]
    assert_near(found, gradients(wanted, exact), 1e-3)


@needs_onednn
@pytest.mark.usefixtures("by_onednn")
def test_one_input_of_several_maps() -> None:
    h, weight = leaf(1400, 48, seed=1), leaf(3, 48, 48, seed=2)
    found = gradients(fused.product(h.expand(3, -1, -1), weight), [h, weight])
    assert_near(found, gradients(torch.bmm(h.expand(3, -1, -1), weight), [h, weight]), 1e-3)


@pytest.mark.usefixtures("by_onednn")
@pytest.mark.parametrize(
    ("h", "weight"),
    [
        (torch.zeros(1, 100, 64), torch.zeros(1, 64, 64)),
        (torch.zeros(1, 90_000, 64), torch.zeros(1, 64, 1)),
        (torch.zeros(1, 1300, 64, dtype=torch.float64), torch.zeros(1, 64, 64, dtype=torch.float64)),
    ],
)
def test_small_narrow_and_double_products_stay_with_pytorch(h: Tensor, weight: Tensor) -> None:
    assert not onednn.serves(h, weight)


@pytest.mark.usefixtures("by_onednn")
def test_mixed_precision_stays_with_pytorch() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not onednn.serves(torch.zeros(1, 1300, 64), torch.zeros(1, 64, 64))


def test_the_library_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    onednn.choose_library.cache_clear()
    monkeypatch.setenv("GNAS_PRODUCTS", "mkl")
    assert onednn.choose_library() == "mkl"
    onednn.choose_library.cache_clear()
    monkeypatch.setenv("GNAS_PRODUCTS", "fast")
    with pytest.raises(ValueError, match="GNAS_PRODUCTS"):
        onednn.choose_library()
    onednn.choose_library.cache_clear()


@pytest.mark.parametrize("rows", [0, 31, 32, 950, 2970, 65_000])
def test_rounded_rows_are_few(rows: int) -> None:
    whole = onednn._rounded(rows)
    assert 0 <= rows - whole <= max(32, rows / 16)

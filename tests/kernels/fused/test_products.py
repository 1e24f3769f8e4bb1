"""Products of stacks, whose weight gradient is summed in parts."""

from __future__ import annotations

import pytest
import torch
from samples import INTERPRETED, assert_near, gradients, leaf

from gnas.kernels import fused
from gnas.kernels.fused import products


@pytest.mark.parametrize("parts", [1, 2, 3, 12])
def test_a_weight_gradient_in_parts(parts: int) -> None:
    h, grad = torch.randn(2, 12, 3, dtype=torch.float64), torch.randn(2, 12, 4, dtype=torch.float64)
    assert_near(products.weight_gradient(h, grad, parts), h.transpose(1, 2) @ grad, 1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs Triton's interpreter or a GPU")
@pytest.mark.parametrize("shape", [(1, 187, 121), (3, 5, 4096), (2, 1, 7), (1, 33, 1)])
def test_parts_added_up(shape: tuple[int, int, int]) -> None:
    from gnas.kernels.fused.triton_sums import sum_parts

    parts = torch.randn(shape, device="cpu" if INTERPRETED else "cuda")
    assert_near(sum_parts(parts), parts.sum(1), 1e-5)


@pytest.mark.parametrize(("count", "nodes"), [(1, 3072), (1, 131), (40, 8192), (300, 8192), (3, 0), (2, 1)])
def test_parts_divide_the_nodes(count: int, nodes: int) -> None:
    parts = products.split(count, nodes)
    assert nodes % parts == 0
    assert parts == 1 or (nodes // parts >= products.SHORTEST and count * parts <= products.PARTS)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_product_on_a_gpu() -> None:
    h, weight = (leaf(*s, seed=1, dtype=torch.float64, device="cuda") for s in ((2, 1024, 6), (2, 6, 5)))
    out = fused.product(h, weight)
    assert_near(gradients(out, [h, weight]), gradients(torch.bmm(h, weight), [h, weight]), 1e-11)

"""Models whose course depends on values: traced all the same, and said to be a bound."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import traced
from tui_profiler.probe.trace.fake.data_dependent import Bounds


def branch(x):
    return x.relu() if x.sum() > 0 else x.sigmoid()


def only_if_true(x):
    if not (x.sum() > 0):
        raise ValueError("never run in earnest")
    return x.relu()


def counted(x):
    return x[: int(x[0].item()) + 1]


CASES = [
    (lambda x: x[x > 0], "aten::index", (12,)),
    (lambda x: x.masked_select(x > 0), "aten::masked_select", (12,)),
    (lambda x: (x > 0).nonzero(), "aten::nonzero", (12, 1)),
    (lambda x: x.unique(), "aten::_unique2", (1,)),
    (lambda x: x.unique(return_inverse=True, return_counts=True)[1], "aten::_unique2", (12,)),
    (torch.unique_consecutive, "aten::unique_consecutive", (1,)),
    (branch, "aten::_local_scalar_dense", (12,)),
    (only_if_true, "aten::_local_scalar_dense", (12,)),
    (counted, "aten::_local_scalar_dense", (2,)),
    (lambda x: x.long().bincount(minlength=5), "aten::bincount", (5,)),
    (lambda x: x.repeat_interleave(x.long()), "aten::repeat_interleave", (12,)),
]


@pytest.mark.parametrize(("function", "name", "shape"), CASES)
def test_the_answer_is_a_bound_and_is_listed(function, name: str, shape) -> None:
    made = traced(Function(function), torch.zeros(12))

    assert made.method == "dispatch:fake"
    assert name in made.done.bounded
    assert made.nodes[0].outputs[0].shape == shape


def test_all_boxes_are_kept() -> None:
    torchvision = pytest.importorskip("torchvision")

    def kept(boxes, scores):
        return boxes[torchvision.ops.nms(boxes, scores, 0.5)]

    made = traced(Function(kept), torch.rand(30, 4), torch.rand(30))

    assert made.done.bounded == ("torchvision::nms",)
    assert made.nodes[0].outputs[0].shape == (30, 4)


def test_a_loop_that_values_end_is_given_up_and_run_for_real() -> None:
    class UntilSmall(nn.Module):
        def forward(self, x):
            while x.sum().item() > 0.5:
                x = x / 2.0
            return x

    made = traced(UntilSmall(), torch.ones(4))

    assert made.method == "dispatch:real"
    assert "EndlessLoopError" in made.done.attempts[0].error
    assert made.costs[0].ops == 4 * 2 + 3  # 4, 2, 1, ½: each summed and read, three halved


def test_a_model_without_such_operators_is_no_bound() -> None:
    assert traced(nn.Linear(4, 4), torch.zeros(1, 4)).done.bounded == ()


def test_truths_read_are_remembered() -> None:
    assert not Bounds(truth=False).read_a_truth

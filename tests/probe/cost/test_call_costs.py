"""Costs of equal calls are those of calls that are counted one by one."""

from __future__ import annotations

import pytest
import torch

from tui_profiler.probe.cost.call import Call, signature_of, tensors_in
from tui_profiler.probe.cost.cost import CallCosts, op_cost
from tui_profiler.probe.cost.workspace import workspace_bytes
from tui_profiler.probe.torch_compat.internals import fake_inputs, storage_key
from tui_profiler.probe.trace.fake.shortcuts import ShapeCache

aten = torch.ops.aten
IMAGE = torch.zeros(2, 4, 6, 6)
CALLS = [
    (aten.convolution.default, (IMAGE, torch.zeros(6, 4, 3, 3), None, [1, 1], [1, 1], [1, 1], False,
                                [0, 0], 1)),
    (aten.mm.default, (torch.zeros(3, 4), torch.zeros(4, 5))),
    (aten.add.Tensor, (IMAGE, IMAGE)),
    (aten.add_.Tensor, (IMAGE, 1)),
    (aten.gelu.default, (IMAGE,)),
    (aten.view.default, (IMAGE, [-1])),
    (aten.celu.default, (IMAGE,)),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "args"), CALLS, ids=[str(call[0]) for call in CALLS])
@pytest.mark.parametrize("is_weight", [False, True])
def test_the_second_of_equal_calls_costs_what_it_would_alone(operator, args, is_weight) -> None:
    costs = CallCosts(weights := set())
    for _ in range(2):
        _, given = fake_inputs(args)
        weights.clear()
        weights.update({storage_key(given[0])} if is_weight else ())
        key = ShapeCache().key(operator, given, {})
        outputs = tuple(tensors_in(operator(*given)))
        call = Call(signature_of(operator), given, {}, outputs)
        cost, scratch = costs.of(operator, call, key)
        assert cost == op_cost(operator, given, {}, outputs, weights=weights)
        assert scratch == workspace_bytes(call)


def test_bytes_are_those_of_each_call() -> None:
    """The same tensor twice is read once; the keys of both calls are equal."""
    _, (one, other) = fake_inputs((torch.zeros(4), torch.zeros(4)))
    costs = CallCosts({storage_key(other)})
    cache = ShapeCache()
    found = []
    for args in ((one, one), (one, other)):
        outputs = (aten.add.Tensor(*args),)
        call = Call(signature_of(aten.add.Tensor), args, {}, outputs)
        found.append(costs.of(aten.add.Tensor, call, cache.key(aten.add.Tensor, args, {}))[0])
    assert cache.key(aten.add.Tensor, (one, one), {}) == cache.key(
        aten.add.Tensor, (one, other), {}
    )
    assert [(cost.input_bytes, cost.weight_bytes) for cost in found] == [(16, 0), (16, 16)]
    assert [cost.flops for cost in found] == [4, 4]


def test_equal_calls_are_counted_once() -> None:
    """An operator without a formula is run by its parts: once for all calls of one shape."""
    costs = CallCosts(set())
    counted = []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            counted.append(func)
            return func(*args, **(kwargs or {}))

    operator = aten.special_log_ndtr.default
    for key in ("a", "a", "b", None, None):
        given = (torch.zeros(3),)
        call = Call(signature_of(operator), given, {}, (torch.zeros(3),))
        before = len(counted)
        with Counting():
            costs.of(operator, call, key)
        counted.append(len(counted) - before)
    turns = [one for one in counted if isinstance(one, int)]
    assert [bool(turn) for turn in turns] == [True, False, True, True, True]

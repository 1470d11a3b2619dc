"""Scratch memory of single operators, against what torch's allocator was asked for inside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from tui_profiler.probe.cost.call import Call, signature_of
from tui_profiler.probe.cost.workspace import workspace_bytes
from tui_profiler.probe.torch_compat.internals import OpOverload, TorchDispatchMode
from tui_profiler.probe.trace.measured_peak import most_allocated

_FEW = 64
"""Bytes of scalars, which no formula counts."""


class Compares(TorchDispatchMode):
    """Runs each operator once more, and compares its scratch memory with what is told of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[tuple[int, int]]] = {}

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        outputs = tuple(one for one in tree_leaves(result) if isinstance(one, torch.Tensor))
        call = Call(signature_of(func), args, kwargs, outputs)
        kept = sum(one.untyped_storage().nbytes() for one in outputs)
        most = most_allocated(lambda: func(*args, **kwargs), torch.device("cpu"))
        told = workspace_bytes(call) or 0
        self.found.setdefault(call.signature.name, []).append((most - kept, told))
        return result


def scratch(run: Callable[[], object], name: str) -> list[tuple[int, int]]:
    """Return what an operator allocated inside in each of its calls, and what is told of it."""
    with Compares() as mode:
        run()
    return mode.found[f"aten::{name}"]


def test_operators_that_allocate_inside_are_told_to() -> None:
    torch.manual_seed(0)
    image, rows = torch.rand(2, 8, 12, 10), torch.rand(30, 40)
    half = image.to(torch.bfloat16)
    norm, learned = nn.BatchNorm2d(8), image.clone().requires_grad_()
    for run, name in (
        (lambda: nn.Bilinear(12, 20, 9)(torch.rand(7, 12), torch.rand(7, 20)), "_trilinear"),
        (lambda: nn.Unfold(3)(image), "im2col"),
        (lambda: nn.Unfold(3)(half), "im2col"),
        (lambda: norm(image).backward(image), "native_batch_norm_backward"),
        (lambda: norm(learned).backward(image), "native_batch_norm_backward"),
        (lambda: norm(learned).sum().backward(), "native_batch_norm_backward"),
        (lambda: torch.ops.aten._safe_softmax(rows, -1), "_safe_softmax"),
        (lambda: rows.logsumexp(1), "logsumexp"),
        (lambda: half.mean((2, 3)), "mean"),
        (lambda: image.mean((2, 3)), "mean"),
    ):
        for measured, told in scratch(run, name):
            assert abs(measured - told) <= _FEW, (name, measured, told)


def test_a_bilinear_layer_is_told_in_its_forward_and_backward() -> None:
    layer = nn.Bilinear(16, 24, 32)
    first, second = (torch.rand(8, width, requires_grad=True) for width in (16, 24))
    found = scratch(lambda: layer(first, second).sum().backward(), "_trilinear")
    assert len(found) == 4  # The output, and gradients of both inputs and of the weight.
    assert max(measured for measured, _ in found) >= 8 * 16 * 24 * 4
    assert all(abs(measured - told) <= _FEW for measured, told in found)

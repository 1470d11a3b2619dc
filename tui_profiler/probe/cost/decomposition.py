"""An operator without a formula, counted by the operators that it is made of.

1. It is run once more on fake tensors, by torch's table of decompositions or by its own composite
   kernel, under a mode that adds up what comes out. A kernel that asks for their memory is refused.
2. Where one of its parts has no cost either, or running it fails, there is no count: the operator
   is uncosted and named. A custom operator with a kernel of its own is such a one.
3. Only arithmetic is taken from the parts. Bytes are those of the whole call: what a kernel keeps
   to itself is not moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from tui_profiler.probe.torch_compat.internals import (
    FakeTensor,
    FakeTensorMode,
    Operator,
    OpOverload,
    TorchDispatchMode,
    decomposition,
    tree_map_only,
    without_address,
)

Count: TypeAlias = tuple[int, int]
"""Multiply-accumulates, and FLOP beside them."""

_Counter: TypeAlias = Callable[
    [Operator, tuple[object, ...], dict[str, object], object], Count | None
]


class _UncostedPartError(Exception):
    pass


def decomposed_count(
    operator: Operator, args: tuple[object, ...], kwargs: dict[str, object], count: _Counter
) -> Count | None:
    """Give the count of a call by its parts; None where there are none, or one is not known.

    Args:
        operator: one without a formula.
        args: its arguments; left as they are.
        kwargs: likewise.
        count: counts one operator call, given its result.
    """
    parts = decomposition(operator) if isinstance(operator, OpOverload) else None
    if parts is None:
        return None
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            given, keywords = tree_map_only(torch.Tensor, _without_values, (args, kwargs))
        with _Adding(count) as added:
            parts(*given, **keywords)
    except Exception:  # torch's own code, on tensors that have no values
        return None
    return (added.macs, added.arithmetic) if added.calls else None


def _without_values(tensor: torch.Tensor) -> torch.Tensor:
    shape, strides = tuple(tensor.shape), tensor.stride()
    fake = torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device)
    return without_address(fake)


class _Adding(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    """Adds up what is dispatched."""

    def __init__(self, count: _Counter) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch has no types here
        self._count = count
        self.macs = 0
        self.arithmetic = 0
        self.calls = 0

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one part and count it."""
        keywords = kwargs or {}
        result = func(*args, **keywords)
        tree_map_only(FakeTensor, without_address, result)
        found = self._count(func, args, keywords, result)
        if found is None:
            raise _UncostedPartError
        self.macs += found[0]
        self.arithmetic += found[1]
        self.calls += 1
        return result

"""What one operator call costs on paper: arithmetic, traffic, and whether we know."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import NamedTuple

import torch

import tui_profiler.probe.cost.linear_algebra
import tui_profiler.probe.cost.matrix_arithmetic
import tui_profiler.probe.cost.quantised
import tui_profiler.probe.cost.scattering  # noqa: F401 - each enters its formulas
from tui_profiler.probe.cost.arithmetic import ARITHMETIC
from tui_profiler.probe.cost.call import Call, Signature, signature_of
from tui_profiler.probe.cost.decomposition import Count, decomposed_count
from tui_profiler.probe.cost.macs import macs_formula
from tui_profiler.probe.cost.rollup import Own
from tui_profiler.probe.cost.table import Formula
from tui_profiler.probe.cost.traffic import bytes_moved, tensors_in
from tui_profiler.probe.cost.workspace import workspace_bytes
from tui_profiler.probe.cost.zero_cost import is_free
from tui_profiler.probe.torch_compat.internals import Operator

_UNEXPECTED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a formula raises on arguments that it was not written for: then the call is uncosted."""


_REAL_PRODUCTS = 4
"""Multiply-accumulates of real numbers in one of complex numbers: (a + bi)(c + di) + e + fi."""


class _Formulas(NamedTuple):
    macs: Formula | None
    arithmetic: Formula | None
    is_costed: bool


def op_cost(
    operator: Operator,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    outputs: tuple[torch.Tensor, ...],
    *,
    weights: Container[int],
) -> Own:
    """Count one call; ``weights`` are the storage keys of parameters and buffers."""
    signature = signature_of(operator)
    call = Call(signature, args, kwargs, outputs)
    read, weight, written = bytes_moved(call, weights)
    counted = _arithmetic(operator, call)
    if counted is None:
        return Own(0, 0, read, weight, written, ops=1, uncosted=1)
    macs, other = counted
    return Own(macs, 2 * macs + other, read, weight, written, ops=1)


def op_workspace(
    operator: Operator,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    outputs: tuple[torch.Tensor, ...],
) -> int | None:
    """Give the bytes that one call allocates and frees inside; None where that is not known."""
    return workspace_bytes(Call(signature_of(operator), args, kwargs, outputs))


def is_costed(operator: Operator) -> bool:
    """Tell whether an operator has a formula, or is known to compute nothing."""
    return _formulas(operator).is_costed


def _arithmetic(operator: Operator, call: Call) -> Count | None:
    formulas = _formulas(operator)
    if not formulas.is_costed:
        return decomposed_count(operator, call.args, call.kwargs, _count_part)
    try:
        macs = formulas.macs(call) if formulas.macs else 0
        other = formulas.arithmetic(call) if formulas.arithmetic else 0
    except _UNEXPECTED:
        return None
    if macs is None or other is None:
        return None
    return macs * _REAL_PRODUCTS if macs and call.is_complex() else macs, other


def _count_part(
    operator: Operator, args: tuple[object, ...], kwargs: dict[str, object], result: object
) -> Count | None:
    call = Call(signature_of(operator), args, kwargs, tuple(tensors_in(result)))
    return _arithmetic(operator, call)


@lru_cache(maxsize=4096)
def _formulas(operator: Operator) -> _Formulas:
    signature: Signature = signature_of(operator)
    macs = macs_formula(operator, signature.name)
    arithmetic = ARITHMETIC.find(signature.name)
    costed = bool(macs or arithmetic) or signature.is_view or is_free(signature.name)
    return _Formulas(macs, arithmetic, costed)

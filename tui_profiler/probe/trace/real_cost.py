"""What one real forward costs, beside a trace whose figures depend on what is in the data."""

from __future__ import annotations

import torch

from tui_profiler.messages import RealCost
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.failure import one_line
from tui_profiler.probe.trace.record import ForwardError, record
from tui_profiler.probe.trace.trace import Trace
from tui_profiler.probe.trace.tracers import DISPATCH_REAL
from tui_profiler.probe.trace.tree.messages import Frozen


def real_cost(model: torch.nn.Module, traced: Trace) -> RealCost | None:
    """Record a real forward on the inputs of a trace; None where that has no figure to bound.

    Args:
        model: With its values; left as it is.
        traced: Of the same model.
    """
    if not traced.done.bounded or traced.method == "dispatch:real":
        return None
    return recorded_cost(model, traced.inputs)


def recorded_cost(model: torch.nn.Module, inputs: Inputs) -> RealCost:
    """Record a real forward."""
    try:
        recording = record(model, inputs, DISPATCH_REAL, "")
    except ForwardError as error:
        return RealCost(None, one_line(error.error))
    return RealCost(Frozen(recording.places).costs()[0])

"""What operators allocate and free inside, of one real forward on the CPU.

A mark around each operator that the dispatcher sees tells tensors apart from what an operator
allocates and frees before it returns. Workspace is what that adds: the peak less the peak of the
tensors alone, which may be at another moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import Operator, TorchDispatchMode
from tui_profiler.probe.torch_compat.kineto import Allocation
from tui_profiler.probe.trace.measured_peak import most_alive

_MARK = "an operator"


class _Marks(TorchDispatchMode):
    """Puts a mark around every operator that the dispatcher sees."""

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        with record_function(_MARK):
            return func(*args, **(kwargs or {}))


def measured_workspace(model: torch.nn.Module, inputs: Inputs) -> int:
    """Run a model twice and return what its workspace adds to the peak; it may change by that."""
    with torch.no_grad():
        model(*inputs.args, **inputs.kwargs)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as ran, _Marks():
            output = model(*inputs.args, **inputs.kwargs)
        events = _marked(ran.profiler)
        del output
    scratch = _scratch(events)
    every = [event for event, _ in events]
    tensors = [event for position, event in enumerate(every) if position not in scratch]
    return max(0, most_alive(every) - most_alive(tensors))


def _marked(ran: Any) -> list[tuple[Allocation, int | None]]:
    """Return what was allocated and freed, in order of time, each with the mark around it."""
    pending = [(event, None) for event in ran.kineto_results.experimental_event_tree()]
    found: list[tuple[Allocation, int | None]] = []
    while pending:
        event, mark = pending.pop()
        if event.name == "[memory]":
            size, address = int(event.extra_fields.alloc_size), int(event.extra_fields.ptr or 0)
            found.append((Allocation(size, address, event.start_time_ns), mark))
        inside = event.id if event.name == _MARK else mark
        pending.extend((child, inside) for child in event.children)
    return sorted(found, key=lambda one: one[0].at)


def _scratch(events: Sequence[tuple[Allocation, int | None]]) -> set[int]:
    """Return the positions of allocations that end under the mark under which they were made."""
    began: dict[int, int] = {}
    found = set()
    for position, (event, mark) in enumerate(events):
        if event.size_bytes > 0:
            began[event.address] = position
            continue
        start = began.pop(event.address, None)
        if start is not None and mark is not None and events[start][1] == mark:
            found.add(start)
    return found

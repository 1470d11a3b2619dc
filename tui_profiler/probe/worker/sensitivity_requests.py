"""Who measures sensitivity when a viewer asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from torch import nn

from tui_profiler import messages
from tui_profiler.probe.parameters.sensitivity.sensitivity import Meter
from tui_profiler.probe.process.link import Channel
from tui_profiler.probe.process.queued_analyses import without_looks
from tui_profiler.probe.trace.trace import Trace


def measured(
    request: messages.MeasureSensitivity,
    link: Channel,
    now: Callable[[], float],
    model: nn.Module,
    traced: Trace,
    *,
    is_random: bool,
) -> list[messages.Request]:
    """Measure what was asked; gives what else was asked meanwhile, oldest first.

    Args:
        request: which weights, and how they are changed.
        link: where the answers go, and further requests come from.
        now: gives seconds since the command was started.
        model: with values.
        traced: its tree, and the inputs that it runs on.
        is_random: whether its weights are those of an initialisation.
    """
    asked: deque[messages.Request] = deque()
    was_stopped = False

    def is_over() -> bool:
        nonlocal was_stopped
        while (other := link.next_request(0.0)) is not None:
            if isinstance(other, messages.StopAnalysing):
                without_looks(asked)
                was_stopped = True
            else:
                asked.append(other)
                # A look at the values can wait; whatever else is wanted, is wanted now.
                was_stopped = was_stopped or not isinstance(other, messages.AnalyseParameters)
        return was_stopped or link.is_closed

    meter = Meter(model, traced.nodes, traced.inputs, is_random=is_random, tell=link.send, now=now)
    meter.run(request, is_over)
    return list(asked)

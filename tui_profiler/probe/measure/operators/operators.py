"""Times of operators: what one window saw, laid onto the tree.

1. A call of a module is a span of time; an operator belongs to the innermost span that it began in.
2. In a span, operators are met in the order of the trace. What the trace did not see is looked
   through: what it called may be what the trace saw. What was met is not looked into.
3. An operator's time is its own and that of all that it calls; all calls of one forward together.
4. A module whose parts are not called on their own (compiled, scripted) has the operators of all of
   them: what it calls is met there.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np
from torch import nn

from tui_profiler.messages import MemoryWindow, Node, OperatorTimes
from tui_profiler.messages.live import OPERATOR_WINDOWS
from tui_profiler.messages.windows import WindowTimes
from tui_profiler.probe.measure.clock.clock import Forward
from tui_profiler.probe.measure.clock.forward_pattern import event_nodes
from tui_profiler.probe.measure.clock.tree_index import NOWHERE, TreeIndex
from tui_profiler.probe.measure.operators.memory_window import PermanentBytes, memory_window
from tui_profiler.probe.measure.operators.regions import Interval, Span, opaque_nodes, window_times
from tui_profiler.probe.torch_compat.kineto import Allocation, KinetoOperator

LOOK_AHEAD = 8
"""Operators of the trace that may be missing in a row, before one that was seen."""
LOOK_AHEAD_INSIDE = 256
"""The same inside of an opaque module: a compiler makes one kernel of many."""
MOST_OPERATORS = 200_000
"""In one message: 20 bytes each."""
OUTLIER_TIMES = 1.5
"""Of the median of all operators together: a window that took longer was interrupted."""


@dataclass
class _Open:
    """A span that has begun and not ended, and how far its operators were met."""

    span: Span
    expected: Sequence[int]
    position: int = 0


@dataclass
class Joined:
    """One window's operators by node."""

    seconds: dict[int, float] = field(default_factory=dict)
    calls: dict[int, int] = field(default_factory=dict)
    unmatched: int = 0
    """Operators called by a module itself that no node stands for."""
    met: list[Interval] = field(default_factory=list)
    """When operators with a node ran, in order."""


class OperatorClock:
    """The last windows of one traced model."""

    def __init__(self, nodes: Sequence[Node], model: nn.Module) -> None:
        self._names = {i: node.name for i, node in enumerate(nodes) if node.kind == "op"}
        self._opaque = opaque_nodes(nodes, model)
        around = _around(nodes, self._opaque)
        self._expected: dict[int, list[int]] = {}
        for index in self._names:
            parent = nodes[index].parent
            self._expected.setdefault(around.get(parent, parent), []).append(index)
        self._index = TreeIndex(nodes, model)
        self._seconds: dict[int, deque[float]] = {}
        self._joined: deque[dict[int, float]] = deque(maxlen=OPERATOR_WINDOWS)
        self._last = Joined()
        self._last_spans: list[Span] = []
        self._last_seen: Sequence[KinetoOperator] = ()
        self._windows = 0

    def add(self, forward: Forward, seen: Sequence[KinetoOperator]) -> None:
        """Take in one window.

        Args:
            forward: what the module clock recorded of it.
            seen: its operators, in the order in which they began.
        """
        self._last_spans, self._last_seen = self._spans(forward), seen
        self._last = join(self._last_spans, seen, self._expected, self._names, self._opaque)
        self._windows += 1
        self._joined.append(self._last.seconds)
        for node, seconds in self._last.seconds.items():
            self._seconds.setdefault(node, deque(maxlen=OPERATOR_WINDOWS)).append(seconds)

    def message(self, at: float, forward_seconds: float, why_none: str = "") -> OperatorTimes:
        """Return everything that is known.

        Args:
            at: seconds since the command was started.
            forward_seconds: of the last forward in a window.
            why_none: why there are no more windows.
        """
        by_time = sorted(self._seconds, key=lambda node: -self._seconds[node][-1])
        nodes = sorted(by_time[:MOST_OPERATORS])
        means = self._means()
        return OperatorTimes(
            at=at,
            windows=self._windows,
            forward_seconds=forward_seconds,
            unmatched=self._last.unmatched,
            why_none=why_none,
            nodes=array("I", nodes).tobytes(),
            calls=array("I", [self._last.calls.get(node, 0) for node in nodes]).tobytes(),
            per_forward=array("f", [median(self._seconds[node]) for node in nodes]).tobytes(),
            last=array("f", [self._seconds[node][-1] for node in nodes]).tobytes(),
            mean_per_forward=array(
                "f", [means.get(node, median(self._seconds[node])) for node in nodes]
            ).tobytes(),
        )

    def _means(self) -> dict[int, float]:
        """Return each operator's mean over the windows that met it, interrupted windows left out.

        One set of windows for all, so that sums of means are means of sums.
        """
        totals = [sum(one.values()) for one in self._joined]
        most = OUTLIER_TIMES * median(totals) if totals else 0.0
        kept = [one for one, total in zip(self._joined, totals, strict=True) if total <= most]
        found: dict[int, list[float]] = {}
        for one in kept:
            for node, seconds in one.items():
                found.setdefault(node, []).append(seconds)
        return {node: fmean(each) for node, each in found.items()}

    def memory_window(
        self, at: float, forward: Forward, events: Sequence[Allocation] | None, held: PermanentBytes
    ) -> MemoryWindow | None:
        """Return what a forward allocated, None where its events were not read.

        The arguments are as in ``memory_window.py``.
        """
        return None if events is None else memory_window(at, self._spans(forward), events, held)

    def window_times(self, at: float) -> WindowTimes:
        """Return where the time of modules went in the last window, ``at`` seconds since the start.

        That window is forgotten: nothing is given twice.
        """
        spans, seen, self._last_spans, self._last_seen = self._last_spans, self._last_seen, [], ()
        return window_times(at, spans, seen, self._last.met, self._opaque)

    def _spans(self, forward: Forward) -> list[Span]:
        times = np.frombuffer(forward.times, np.float64).reshape(2, -1)
        nodes = event_nodes(forward.modules, times[0], self._index)
        spans = [
            Span(start, end, node)
            for start, end, node in zip(times[0].tolist(), times[1].tolist(), nodes, strict=True)
            if node != NOWHERE
        ]
        # The outer one of two that began together ends later.
        return sorted(spans, key=lambda span: (span.start, -span.end))


def _around(nodes: Sequence[Node], opaque: Collection[int]) -> dict[int, int]:
    """Return the opaque node around each module that is inside of one, itself included."""
    found: dict[int, int] = {}
    for index, node in enumerate(nodes):
        if index in opaque:
            found[index] = index
        elif node.kind == "module" and node.parent in found:
            found[index] = found[node.parent]
    return found


def join(
    spans: Sequence[Span],
    seen: Sequence[KinetoOperator],
    expected: Mapping[int, Sequence[int]],
    names: Mapping[int, str],
    opaque: Collection[int] = (),
) -> Joined:
    """Lay operators onto nodes.

    Args:
        spans: calls of modules, in the order in which they began.
        seen: operators, in the order in which they began.
        expected: nodes of the operators of each module, in the order of the trace.
        names: of the operators' nodes.
        opaque: nodes of modules that have the operators of all their parts.
    """
    found = Joined()
    met_until = -1.0
    outer_end, outer_was_met = -1.0, True
    for operator, within in _inside(spans, seen, expected):
        if operator.start < met_until:
            continue
        if operator.start >= outer_end:
            found.unmatched += not outer_was_met
            outer_end, outer_was_met = operator.end, False
        is_opaque = within.span.node in opaque
        ahead = LOOK_AHEAD_INSIDE if is_opaque else LOOK_AHEAD
        node = _met(operator.name, within, names, ahead)
        if node is not None:
            outer_was_met, met_until = True, operator.end
            found.met.append((operator.start, operator.end))
            seconds = operator.end - operator.start
            found.seconds[node] = found.seconds.get(node, 0.0) + seconds
            found.calls[node] = found.calls.get(node, 0) + 1
    found.unmatched += not outer_was_met
    return found


def _inside(
    spans: Sequence[Span], seen: Sequence[KinetoOperator], expected: Mapping[int, Sequence[int]]
) -> Iterator[tuple[KinetoOperator, _Open]]:
    """Yield every operator with the innermost span that it began in; others are not the model's."""
    running: list[_Open] = []
    coming = 0
    for operator in seen:
        while coming < len(spans) and spans[coming].start <= operator.start:
            _leave(running, spans[coming].start)
            span = spans[coming]
            running.append(_Open(span, expected.get(span.node, ())))
            coming += 1
        _leave(running, operator.start)
        if running:
            yield operator, running[-1]


def _leave(running: list[_Open], now: float) -> None:
    while running and running[-1].span.end <= now:
        running.pop()


def _met(name: str, within: _Open, names: Mapping[int, str], look_ahead: int) -> int | None:
    near = within.expected[within.position : within.position + look_ahead]
    for ahead, node in enumerate(near):
        if names[node] == name:
            within.position += ahead + 1
            return node
    return None

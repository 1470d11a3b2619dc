"""Times of operators: what one window saw, laid onto the tree.

Each operator has a total, and a self time: less the operators that it calls on its thread. Those
that no node stands for are told by name, with the node that called them (``Called``).

1. A call of a module is a span of time; an operator belongs to the innermost span that it began in.
2. In a span, operators are met in the order of the trace. What the trace did not see is looked
   through: what it called may be what the trace saw. What was met is not looked into.
3. An operator's time is its own and that of all that it calls; all calls of one forward together.
4. A module whose parts are not called on their own (compiled, scripted) has the operators of all of
   them: what it calls is met there.
"""

from array import array
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import TypeAlias, TypeVar

from torch import nn

from tui_profiler.messages import CalledOperators, MemoryWindow, Node, OperatorTimes
from tui_profiler.messages.live import OPERATOR_WINDOWS
from tui_profiler.messages.windows import WindowTimes
from tui_profiler.probe.measure.clock.clock import Forward
from tui_profiler.probe.measure.clock.forward_pattern import event_nodes
from tui_profiler.probe.measure.clock.tree_index import NOWHERE, TreeIndex
from tui_profiler.probe.measure.operators.memory_window import PermanentBytes, memory_window
from tui_profiler.probe.measure.operators.regions import (
    Span,
    is_operator,
    opaque_nodes,
    window_times,
)
from tui_profiler.probe.torch_compat.kineto import KinetoOperator, Window

T = TypeVar("T")

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


_Place: TypeAlias = int | tuple[int, str]
"""Node of an operator; of one without: the node that called it, and its name."""


@dataclass
class _Running:
    """An operator that has begun and not ended."""

    operator: KinetoOperator
    place: _Place
    inside: float = 0.0
    """Seconds in the operators that it calls."""


@dataclass
class Joined:
    """One window's operators."""

    seconds: dict[_Place, float] = field(default_factory=dict)
    """With what each calls; of one without a node, less those of its own name."""
    own: dict[_Place, float] = field(default_factory=dict)
    calls: dict[_Place, int] = field(default_factory=dict)
    """Likewise without those inside one of their own name."""
    unmatched: int = 0
    """Operators called by a module itself that no node stands for."""
    met: list[Span] = field(default_factory=list)
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
        self._joined: deque[Joined] = deque(maxlen=OPERATOR_WINDOWS)
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
        self._last = self._join(self._last_spans, seen)
        self._windows += 1
        self._joined.append(replace(self._last, met=[]))
        for place, seconds in self._last.seconds.items():
            if isinstance(place, int):
                self._seconds.setdefault(place, deque(maxlen=OPERATOR_WINDOWS)).append(seconds)

    def _join(self, spans: Sequence[Span], seen: Sequence[KinetoOperator]) -> Joined:
        return join(spans, seen, self._expected, self._names, self._opaque)

    def message(self, at: float, forward_seconds: float, why_none: str = "") -> OperatorTimes:
        """Return everything that is known.

        Args:
            at: seconds since the command was started.
            forward_seconds: of the last forward in a window.
            why_none: why there are no more windows.
        """
        by_time = sorted(self._seconds, key=lambda node: -self._seconds[node][-1])
        nodes = sorted(by_time[:MOST_OPERATORS])
        kept = uninterrupted([(one, sum(one.own.values())) for one in self._joined])
        means, own = means_of(one.seconds for one in kept), means_of(one.own for one in kept)
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
            own_per_forward=array("f", [own.get(node, 0.0) for node in nodes]).tobytes(),
            called=self._called(means, own),
        )

    def _called(
        self, seconds: Mapping[_Place, float], own: Mapping[_Place, float]
    ) -> CalledOperators:
        places = (place for place in own if isinstance(place, tuple))
        shown = sorted(sorted(places, key=lambda place: -own[place])[:MOST_OPERATORS])
        return columns_of(
            shown,
            [self._last.calls.get(place, 0) for place in shown],
            [seconds.get(place, 0.0) for place in shown],
            [own[place] for place in shown],
        )

    def memory_window(
        self,
        at: float,
        forward: Forward,
        window: Window,
        held: PermanentBytes,
    ) -> MemoryWindow | None:
        """Return what a forward allocated, by module and operator.

        Args:
            at: seconds since the command was started.
            forward: what the module clock recorded of it.
            window: that it ran in.
            held: what lives all the time.

        Returns:
            None where its allocations were not read, or none of its calls has a node.
        """
        if window.allocations is None:
            return None
        modules = self._spans(forward)
        spans = _in_order([*modules, *self._join(modules, window.seen).met])
        return memory_window(at, spans, window.allocations, held)

    def window_times(self, at: float) -> WindowTimes:
        """Return where the time of modules went in the last window, ``at`` seconds since the start.

        That window is forgotten: nothing is given twice.
        """
        spans, seen, self._last_spans, self._last_seen = self._last_spans, self._last_seen, [], ()
        return window_times(at, spans, seen, self._last.met, self._opaque)

    def _spans(self, forward: Forward) -> list[Span]:
        began, ended = forward.call_times()
        nodes = event_nodes(forward.modules, began, self._index)
        return _in_order(
            Span(start, end, node)
            for start, end, node in zip(began.tolist(), ended.tolist(), nodes, strict=True)
            if node != NOWHERE
        )


def _in_order(spans: Iterable[Span]) -> list[Span]:
    # The outer one of two that began together ends later.
    return sorted(spans, key=lambda span: (span.start, -span.end))


def uninterrupted(windows: Sequence[tuple[T, float]]) -> list[T]:
    """Return the windows, each given with its seconds, that were not interrupted.

    One set of windows for all, so that sums of means are means of sums.
    """
    most = OUTLIER_TIMES * median(total for _, total in windows) if windows else 0.0
    return [one for one, total in windows if total <= most]


def columns_of(
    shown: Sequence[tuple[int, str]],
    calls: Iterable[int],
    seconds: Iterable[float],
    own: Iterable[float],
) -> CalledOperators:
    """Return operators by node and name, packed."""
    names = sorted({name for _, name in shown})
    places_of = {name: at for at, name in enumerate(names)}
    return CalledOperators(
        names=tuple(names),
        nodes=array("I", [node for node, _ in shown]).tobytes(),
        name_of=array("I", [places_of[name] for _, name in shown]).tobytes(),
        calls=array("I", calls).tobytes(),
        per_forward=array("f", seconds).tobytes(),
        own_per_forward=array("f", own).tobytes(),
    )


def means_of(windows: Iterable[Mapping[T, float]]) -> dict[T, float]:
    """Return the mean of each place over the windows that met it."""
    found: dict[T, list[float]] = {}
    for one in windows:
        for place, seconds in one.items():
            found.setdefault(place, []).append(seconds)
    return {place: fmean(each) for place, each in found.items()}


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
    running: list[_Running] = []
    met_until, met_node = -1.0, -1
    outer_end, outer_was_met = -1.0, True
    for operator, within in _inside(spans, seen, expected):
        _end(running, operator.start, found)
        owner, node = met_node, None
        if operator.start >= met_until:
            if operator.start >= outer_end:
                found.unmatched += not outer_was_met
                outer_end, outer_was_met = operator.end, False
            owner = within.span.node
            ahead = LOOK_AHEAD_INSIDE if owner in opaque else LOOK_AHEAD
            node = _met(operator.name, within, names, ahead)
            if node is not None:
                outer_was_met, met_until, met_node = True, operator.end, node
                found.met.append(Span(operator.start, operator.end, node))
        if node is not None or is_operator(operator.name):
            place = (owner, operator.name) if node is None else node
            _begin(running, _Running(operator, place), found)
    _end(running, float("inf"), found)
    found.unmatched += not outer_was_met
    return found


def _begin(running: list[_Running], new: _Running, found: Joined) -> None:
    seconds = new.operator.end - new.operator.start
    if running:
        running[-1].inside += seconds
    # What runs inside one of its own name counts with the outermost, so that no total has it twice.
    around = next((one for one in running if one.operator.name == new.operator.name), None)
    if around is None or isinstance(new.place, int):
        found.seconds[new.place] = found.seconds.get(new.place, 0.0) + seconds
        found.calls[new.place] = found.calls.get(new.place, 0) + 1
        if around is not None:
            found.seconds[around.place] -= seconds
            found.calls[around.place] -= 1
    running.append(new)


def _end(running: list[_Running], until: float, found: Joined) -> None:
    """End the operators that are over by then."""
    while running and running[-1].operator.end <= until:
        over = running.pop()
        seconds = over.operator.end - over.operator.start - over.inside
        found.own[over.place] = found.own.get(over.place, 0.0) + seconds


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

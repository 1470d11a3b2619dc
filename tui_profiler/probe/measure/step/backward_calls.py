"""Forward, backward and recomputation of each node in one step, from marks on autograd's graph.

The engine runs the nodes of one graph by falling number (``clock/graph_marks.py``). A call made the
nodes from the number at its entry up to that at its exit: its backward begins at the first mark in
that range and ends at the first one below it, or with the pass.

1. A pass inside of a pass (reentrant checkpointing) goes through another graph: its marks are
   apart, and what it did not come to the end of ends with it.
2. Calls of one graph are nested by their numbers, so their stretches are nested by time, and those
   of two branches are apart.
3. Threads number their nodes apart: a pass is laid onto forwards of the thread that it began on,
   or, where it came to none of that, of the one that made what it came to.
4. Waiting for a collective in a pass is nobody's backward: DDP waits in a hook of whatever was run
   last. On a device it is not taken off: its clock is another one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tui_profiler.probe.measure.clock.device_clock import DeviceClock, DeviceMark
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.forward_pattern import event_nodes
from tui_profiler.probe.measure.clock.graph_marks import (
    INNER_BEGAN,
    INNER_ENDED,
    Reached,
    Recomputed,
)
from tui_profiler.probe.measure.clock.tree_index import NOWHERE, TreeIndex
from tui_profiler.probe.measure.step.recorder import Pass
from tui_profiler.probe.measure.step.source_lines import Line
from tui_profiler.probe.torch_compat.modules import is_generated

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ByNode: TypeAlias = dict[int, tuple[float, float]]
"""Seconds in a node, and those without what is inside."""

APART = -2
"""Instead of a node: a time that belongs to none that it is inside of, because checkpointing ran
modules again in it, or because the thread waited for a collective."""
_COMPILED = "backward passes went through compiled autograd, which runs no hooks of the profiler"
_COMPILED_AGAIN = "compiled autograd may have run reentrant checkpointing inside its graphs"
_NOT_NUMBERED = "the autograd graph of some forwards is not known"
FIRST_OTHER = -3
"""Instead of a node: this and those below it are other models, in the order of ``OtherModels``."""


class PassShares(NamedTuple):
    """Where the seconds of a backward pass went, without waits for collectives."""

    line: Line | None
    """Of the program, that it was begun in."""
    modules: float
    """In modules of the model, with what was run again."""
    others: float
    """In other models."""
    outside: float
    """In what no model made: the loss, and whatever else the program computes."""


class _Run:
    """Marks of one pass, without those of passes inside of it: their numbers fall."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.seconds: list[float] = []
        self.ended = math.nan


def _runs(marks: Sequence[tuple[int, float]], ended: float) -> list[_Run]:
    """Return the marks of a pass and of each one inside of it."""
    inside = [_Run()]
    found = inside[:]
    for number, seconds in marks:
        run = inside[-1]
        if number == INNER_BEGAN:
            inside.append(_Run())
            found.append(inside[-1])
        elif number == INNER_ENDED:
            if len(inside) > 1:
                inside.pop().ended = seconds
        elif run.numbers and number > run.numbers[-1]:
            raise NotTimedError("nodes were not reached in the order of their numbers")
        else:
            run.numbers.append(number)
            run.seconds.append(seconds)
    for run in inside:
        run.ended = ended
    return found


def stretches(
    marks: Sequence[tuple[int, float]], entries: Integers, exits: Integers, ended: float
) -> Floats:
    """Return when the backward of each call began and ended; NaN where it was not come to.

    Args:
        marks: (number, second) of one pass, in the order of time.
        entries: (calls,) sequence numbers at the entry of each call.
        exits: (calls,) likewise at its exit.
        ended: second at which the pass had come to all nodes.

    Returns:
        (2, calls) seconds.

    Raises:
        NotTimedError: numbers did not fall: several devices ran at once.
    """
    found = np.full((2, len(entries)), np.nan)
    for run in _runs(marks, ended):
        rising = -np.array(run.numbers, np.int64)
        seconds = np.array([*run.seconds, run.ended])
        first = np.searchsorted(rising, -(exits - 1))
        below = np.searchsorted(rising, -(entries - 1))
        reaches = first < below
        found[0, reaches] = seconds[first[reaches]]
        found[1, reaches] = seconds[below[reaches]]
    return found


def by_node(nodes: Sequence[int], began: Floats, ended: Floats) -> ByNode:
    """Return seconds in each node, and those without what is inside.

    Intervals are nested: of two that overlap one is inside of the other, of two alike the first.
    One inside another of the same node is counted once; what is ``APART`` is in none around it.

    Args:
        nodes: of each interval; -1 where it has none, and its time stays in what is around it.
        began: (intervals,) seconds; NaN where there is no interval.
        ended: (intervals,) likewise.
    """
    found: ByNode = {}
    order = np.lexsort((-np.arange(len(nodes)), -ended, began)).tolist()
    starts, ends = began.tolist(), ended.tolist()
    inside: list[int] = []
    for interval in order:
        node, start, end = nodes[interval], starts[interval], ends[interval]
        if not start <= end or node == -1:
            continue
        while inside and ends[inside[-1]] <= start:
            inside.pop()
        if node == APART and inside:
            end = min(end, ends[inside[-1]])  # DDP tells of a wait afterwards.
        seconds = end - start
        if node == APART:
            for place in {nodes[other] for other in inside}:
                whole, own = found[place]
                found[place] = whole - seconds, own
        if inside:
            around = nodes[inside[-1]]
            whole, own = found[around]
            found[around] = whole, own - seconds
        if node != APART:
            is_inner = any(nodes[other] == node for other in inside)
            whole, own = found.get(node, (0.0, 0.0))
            found[node] = whole + (0.0 if is_inner else seconds), own + seconds
            inside.append(interval)
    return found


class StepTimes:
    """Forward, backward and recomputed seconds of one step, by node.

    Args:
        index: of the model's tree.
        device: that the model runs on; None: a CPU. On a device the seconds are the device's.
    """

    def __init__(self, index: TreeIndex, device: DeviceClock | None = None) -> None:
        self.columns: dict[str, list[ByNode]] = {"forward": [], "backward": [], "recomputed": []}
        self.recompute = 0.0
        """Seconds in which modules were run again."""
        self.why_no_recompute = ""
        """Why that is incomplete; empty if it is complete."""
        self.passes: list[PassShares] = []
        self.others: dict[int, float] = {}
        """Backward seconds of other models, without what is inside, by their places."""
        self.why_not_timed = ""
        """Why not all of it is in the columns; empty where it is."""
        self.why_not_divided = ""
        """Why of a pass it is not known what lies in models; empty where it is known of all."""
        self._is_numbered = True
        """Whether all forwards tell which nodes they made."""
        self._index = index
        self._device = device
        self._calls: list[_Calls] = []

    def add_forward(self, forward: Forward) -> None:
        """Add a forward of the model."""
        began, ended = forward.call_times()
        nodes = event_nodes(forward.modules, began, self._index)
        if forward.numbers is not None:
            self._calls.append(_Calls(forward.thread, nodes, forward.numbers))
        elif forward.setting is not None and forward.setting.autograd == "grad":
            self._is_numbered = False
        if self._device is not None:
            found = self._device.take_calls(forward.times)
            if found is None:
                self.why_not_timed = "the device did not time a forward"
                return
            began, ended = np.array(found.began), np.array(found.ended)
        self.columns["forward"].append(by_node(nodes, began, ended))

    def add_other(self, thread: int, place: int, numbers: Sequence[int]) -> None:
        """Add a call of another model.

        Args:
            thread: that called it.
            place: of the model, counted from 0.
            numbers: as of a forward.
        """
        self._calls.append(_Calls(thread, [FIRST_OTHER - place] * (len(numbers) // 2), numbers))

    def add_pass(
        self,
        one: Pass,
        marks: Sequence[Reached],
        waits: Sequence[tuple[float, float]] = (),
    ) -> None:
        """Add a backward pass through the forwards that were added.

        Args:
            one: the pass.
            marks: of the step.
            waits: from when to when its thread waited for collectives in the step.
        """
        inside = [mark for mark in marks if one.began <= mark.seconds <= one.ended]
        made_on = _thread_of(one, inside)
        nodes: list[int] = []
        intervals: list[Floats] = [np.zeros((2, 0))]
        outer: list[Floats] = [np.zeros((2, 0))]
        try:
            clock = _PassClock(one, self._device)
            again = calls_again(one, self._index)
            # What is run again is inside: it goes first.
            for thread in dict.fromkeys((*(each.thread for _, each in again), made_on)):
                calls = [
                    _Calls(thread, found.nodes, each.numbers)
                    for found, each in again
                    if each.thread == thread
                ]
                calls += [each for each in self._calls if each.thread == thread == made_on]
                numbers = np.array([n for each in calls for n in each.numbers], np.int64)
                reached = [
                    (mark.number, clock.at(mark)) for mark in inside if mark.thread == thread
                ]
                entries, exits = numbers.reshape(-1, 2).T
                intervals.append(stretches(reached, entries, exits, clock.ended))
                nodes += [node for each in calls for node in each.nodes]
            for found, each in again:
                began, ended = clock.calls(found, each)
                self.columns["recomputed"].append(by_node(found.nodes, began, ended))
                kept = _outermost(began, ended)
                outer.append(np.stack([began[kept], ended[kept]]))
        except NotTimedError as error:
            self.why_not_timed = str(error)
            return
        run_again = np.concatenate(outer, axis=1)
        recompute = _together(run_again)
        self.recompute += recompute
        if not one.is_all_seen:
            self.why_no_recompute = _COMPILED_AGAIN
        apart, waited = run_again, 0.0
        if self._device is None:
            waiting = waits_in(one, waits, run_again)
            apart, waited = np.concatenate([run_again, waiting], axis=1), _together(waiting)
        began, ended = np.concatenate([apart, *intervals], axis=1)
        nodes = [*[APART] * apart.shape[1], *nodes]
        times = by_node(nodes, began, ended)
        others = self._take_others(times)
        self.columns["backward"].append(times)
        if one.is_compiled or not self._is_numbered:
            self.why_not_divided = _COMPILED if one.is_compiled else _NOT_NUMBERED
            return
        modules = times.get(0, (0.0, 0.0))[0] + recompute
        outside = max(clock.ended - one.began - waited - modules - others, 0.0)
        self.passes.append(PassShares(one.line, modules, others, outside))

    def _take_others(self, times: ByNode) -> float:
        """Take other models out of the times of a pass; returns their seconds."""
        whole = 0.0
        for node in [node for node in times if node <= FIRST_OTHER]:
            place, (_, own) = FIRST_OTHER - node, times.pop(node)
            self.others[place] = self.others.get(place, 0.0) + own
            whole += own
        return whole


def waits_in(one: Pass, waits: Sequence[tuple[float, float]], run_again: Floats) -> Floats:
    """Return (2, waits) seconds of waits in a pass that lie in nothing that is run again."""
    found = [
        (max(began, one.began), min(ended, one.ended))
        for began, ended in waits
        if began < one.ended and ended > one.began
    ]
    is_again = [
        any(start <= began < stop for start, stop in run_again.T.tolist()) for began, _ in found
    ]
    kept = [each for each, is_in in zip(found, is_again, strict=True) if not is_in]
    return np.array(kept).reshape(-1, 2).T


def _together(intervals: Floats) -> float:
    """Return the seconds of (2, intervals) added up."""
    return float((intervals[1] - intervals[0]).sum())


class _Calls(NamedTuple):
    """Calls of modules, forward or again."""

    thread: int
    nodes: list[int]
    numbers: Sequence[int]
    """At entry and exit of each."""


class CallsAgain(NamedTuple):
    """Calls inside of a backward."""

    began: Floats
    """Seconds of the host."""
    ended: Floats
    nodes: list[int]


class NotTimedError(Exception):
    """A pass has no times by module; says why."""


class _PassClock:
    """Tells when something was in a pass: the host's clock, or the device's.

    The device's seconds are counted from the host's at the beginning.
    """

    def __init__(self, one: Pass, device: DeviceClock | None) -> None:
        self._one = one
        self._device = device
        span = one.device
        self._first = None if span is None else span.began
        self.ended = one.ended
        """Second at which the pass had come to all nodes."""
        if device is not None:
            self.ended = self._since(None if span is None else span.ended)

    def at(self, mark: Reached) -> float:
        """Return the second at which the pass came to a node."""
        return mark.seconds if self._device is None else self._since(mark.mark)

    def calls(self, found: CallsAgain, recomputed: Recomputed) -> Floats:
        """Return (2, calls) seconds at which calls inside of the pass began and ended."""
        if self._device is None:
            return np.stack([found.began, found.ended])
        if len(recomputed.marks) != len(found.nodes):
            raise NotTimedError("the device did not time the recomputation")
        times = [[self._since(mark) for mark in pair] for pair in recomputed.marks]
        return np.array(times).reshape(-1, 2).T

    def _since(self, mark: DeviceMark | None) -> float:
        device, first = self._device, self._first
        seconds = None
        if device is not None and first is not None and mark is not None:
            seconds = device.seconds_since(first, mark)
        if seconds is None:
            raise NotTimedError("the device did not time a backward pass")
        return self._one.began + seconds


def calls_again(one: Pass, index: TreeIndex) -> list[tuple[CallsAgain, Recomputed]]:
    """Return the calls inside a backward on each thread, with the node of each call.

    Calls of compiled autograd's graphs are left out: they are the backward, not recomputation.
    """
    found = []
    for each in one.recomputed:
        calls = _without_graphs(each, index) if one.is_compiled else each
        modules = _modules(calls)
        began, ended = np.array(calls.events[1::3], float), np.array(calls.events[2::3], float)
        nodes = event_nodes(modules, began, index, is_whole=False)
        found.append((CallsAgain(began, ended, nodes), calls))
    return found


def _modules(recomputed: Recomputed) -> list[nn.Module]:
    return recomputed.events[::3]  # type: ignore[return-value]  # by turns


def _without_graphs(recomputed: Recomputed, index: TreeIndex) -> Recomputed:
    """Return the calls without those of captured graphs that are not part of the model."""
    events, numbers, marks = recomputed.events, recomputed.numbers, recomputed.marks
    kept = [
        place
        for place, module in enumerate(_modules(recomputed))
        if index.anywhere(module) != NOWHERE or not is_generated(module)
    ]
    return recomputed._replace(
        events=[part for place in kept for part in events[3 * place : 3 * place + 3]],
        numbers=[part for place in kept for part in numbers[2 * place : 2 * place + 2]],
        marks=[marks[place] for place in kept] if marks else [],
    )


def _thread_of(one: Pass, marks: Sequence[Reached]) -> int:
    """Return the thread that made what a pass went through: its own, or else the only one."""
    threads = {mark.thread for mark in marks} - {again.thread for again in one.recomputed}
    return one.thread if one.thread in threads or len(threads) != 1 else threads.pop()


def _outermost(began: Floats, ended: Floats) -> list[int]:
    """Return the places of the intervals that are inside no other."""
    found: list[int] = []
    reached = -math.inf
    for place in np.lexsort((-ended, began)).tolist():
        if began[place] >= reached:
            found.append(place)
            reached = ended[place]
    return found

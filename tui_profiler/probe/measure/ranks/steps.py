"""Steps of one rank, split into compute, waiting for collectives, and the rest.

A step is the time from one forward's begin to the next one's; of a model under DDP, from one
forward whose gradients are sent round to the next. Waits, backward passes and forwards of DDP are
known from ``collectives.py``, other forwards from the module clock; what is in none is host time.
"""

import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

import torch
from torch import distributed

from tui_profiler.messages import Figure, StepTimes, Unknown
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.ranks import collectives
from tui_profiler.probe.torch_compat.modules import each_parameter

WINDOW = 64
"""Steps that figures speak of."""
LEAST_STEPS = 4
_GPU = "the program only enqueues work for a {device}, which waits for collectives itself"
_IN_OPERATORS = (
    "its parameters are DTensors: collectives run and are waited for inside of operators"
)
_SHARE = "to stay within the budget only a share of the forwards is timed: no two in a row"
_THREADS = "several threads run backward passes or wait for collectives"
_UNENDED = "it accumulates gradients, and not all forwards are timed, to stay within the budget"
_SEVERAL = "several DDP modules run: watch one of them, and not what is inside"
_OVERLAP = "several threads run its forwards at once"

Interval = tuple[float, float]


class Split(NamedTuple):
    """One step; seconds."""

    step: float
    compute: float
    wait: float
    host: float
    forward: float
    backward: float


def split(begin: float, end: float, forward: Interval, spans: Sequence[collectives.Span]) -> Split:
    """Split the step from ``begin`` to ``end``; what is waited inside of compute is no compute."""
    forwards = [(one.began, one.ended) for one in spans if one.kind == "forward"]
    waits = [(one.began, one.ended) for one in spans if one.kind == "wait"]
    backwards = [(one.began, one.ended) for one in spans if one.kind == "backward"]

    def covered(*lists: Iterable[Interval]) -> float:
        return _covered([one for each in lists for one in each], begin, end)

    wait = covered(waits)
    compute = covered([forward], forwards, backwards, waits) - wait
    in_forward = covered([forward], forwards, waits) - wait
    step = end - begin
    return Split(
        step=step,
        compute=compute,
        wait=wait,
        host=step - compute - wait,
        forward=in_forward,
        backward=compute - in_forward,
    )


def middle_half(steps: Iterable[Split]) -> list[Split]:
    """Return the steps whose length is in the middle half: pauses and hiccups are left out."""
    ordered = sorted(steps, key=lambda one: one.step)
    quarter = len(ordered) // 4
    return ordered[quarter : len(ordered) - quarter]


class Steps:
    """The steps of one model, from when the program has a process group until ``close``."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._why_not = _why_not(model)
        self._model = weakref.ref(model)
        self._is_wrapped = False
        """Whether its forwards are those of a DDP module."""
        self._reducer: weakref.ref[object] | None = None
        """Of the DDP module around the model, where the model is not one itself."""
        self._gaps = -1
        """Forwards so far before which others may have run unseen, but for the first."""
        self._heard: collectives.PendingCollectives | None = None
        self._before: Interval | None = None
        self._spans: list[collectives.Span] = []
        self._recent: deque[Split] = deque(maxlen=WINDOW)
        self._steps = self._dropped = 0
        self._is_new = False

    def close(self) -> None:
        """Put back what was replaced."""
        if self._heard is not None:
            collectives.PROCESS.leave(self._heard)
            self._heard = None

    def add(self, forwards: Sequence[Forward]) -> None:
        """Take forwards that the clock recorded, and what was heard meanwhile."""
        if self._heard is None:
            if distributed.is_available() and distributed.is_initialized():
                self._heard = collectives.PROCESS.listen(self._is_wrapper)
            return
        spans, lost = self._heard.take()
        wrapped = [span for span in spans if span.kind == "forward"]
        self._is_wrapped = self._is_wrapped or bool(wrapped)
        # A forward that is told twice is counted once; those that DDP does not tell are only here.
        own = [collectives.Span("forward", 0, one.began, one.ended) for one in forwards]
        self._spans += [*spans, *own]
        if lost or len(self._spans) > collectives.MOST_SPANS:
            # What is missing would be taken for compute or host time.
            self._dropped += len(wrapped) if self._is_wrapped else len(forwards)
            self._spans.clear()
            self._before = None
            return
        self._why_not = self._why_not or self._heard.trouble
        for one in forwards:
            self._gaps += one.since is None
        if self._is_wrapped:
            self._steps_of_wrapper(wrapped)
        else:
            self._steps_of_clock(forwards)
        begin = self._before[0] if self._before is not None else 0.0
        self._spans = [span for span in self._spans if span.ended > begin]

    def _is_wrapper(self, reducer: object) -> bool:
        model = self._model()
        own = getattr(model, "reducer", None)
        if own is not None:
            return reducer is own
        if self._reducer is None or self._reducer() is None:
            self._reducer = weakref.ref(reducer)
        elif self._reducer() is not reducer:
            self._why_not = self._why_not or _SEVERAL
            return False
        return True

    def _steps_of_wrapper(self, forwards: Sequence[collectives.Span]) -> None:
        assert self._heard is not None
        if self._heard.unended and self._gaps > 0:
            self._why_not = self._why_not or _UNENDED
        for one in forwards:
            known = [span for span in self._spans if span.thread in (0, one.thread)]
            self._step((one.began, one.ended), known)

    def _steps_of_clock(self, forwards: Sequence[Forward]) -> None:
        if len({span.thread for span in self._spans if span.thread}) > 1:
            self._why_not = self._why_not or _THREADS
        for forward in forwards:
            if forward.since is None:
                self._before = None
            self._step((forward.began, forward.ended), self._spans)

    def _step(self, forward: Interval, spans: Sequence[collectives.Span]) -> None:
        before, self._before = self._before, forward
        if before is None:
            return
        began = forward[0]
        if began < before[1]:
            self._why_not = _OVERLAP
            return
        inside = [one for one in spans if one.ended > before[0] and one.began < began]
        self._recent.append(split(before[0], began, before, inside))
        self._steps += 1
        self._is_new = True

    def messages(self, at: float) -> tuple[StepTimes, ...]:
        """Return the figures, where there are new ones; ``at`` seconds since it is watched."""
        if self._gaps >= LEAST_STEPS and not self._recent:
            self._gaps = 1  # Told; there were some.
            return (self._message(at, *[Unknown(_SHARE)] * 6),)
        if not self._is_new or len(self._recent) < LEAST_STEPS:
            return ()
        self._is_new = False
        means = [fmean(column) for column in zip(*middle_half(self._recent), strict=True)]
        parts: Sequence[Figure] = means[1:]
        if self._why_not:
            parts = [Unknown(self._why_not)] * 5
        step = Unknown(_OVERLAP) if self._why_not == _OVERLAP else means[0]
        return (self._message(at, step, *parts),)

    def _message(self, at: float, *figures: Figure) -> StepTimes:
        """Return a message with the figures of ``Split``."""
        return StepTimes(
            at=at,
            steps=self._steps,
            window=WINDOW,
            dropped=self._dropped,
            **dict(zip(Split._fields, figures, strict=True)),
        )


def _covered(intervals: list[Interval], begin: float, end: float) -> float:
    """Return the seconds of ``begin`` to ``end`` that lie in any of the intervals."""
    seconds, reached = 0.0, begin
    for low, high in sorted(intervals):
        more = min(high, end) - max(low, reached)
        if more > 0:
            seconds += more
            reached = min(high, end)
    return seconds


def _why_not(model: torch.nn.Module) -> str:
    """Return why a model's steps cannot be split; empty where they can."""
    for parameter in each_parameter(model):
        if parameter.device.type != "cpu":
            return _GPU.format(device=parameter.device.type)
        if type(parameter).__name__ == "DTensor":
            return _IN_OPERATORS
    return ""

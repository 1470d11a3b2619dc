"""One replacement of ``nn.Module.__call__``, and what it records.

1. A thread writes to a list of its own, without a lock: a context variable finds it faster than
   ``threading.local``. The list exists only while the root runs on that thread, so calls of other
   models leave nothing behind.
2. While no forward is recorded, on any thread, the gate is shut: a call costs nothing.

The replacement itself is in ``timed_call.py``.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from math import inf
from operator import is_
from struct import error as NoTimesError
from struct import pack
from threading import get_ident
from time import perf_counter
from typing import TypeAlias

import torch
from torch import nn

from tui_profiler.messages.program import Autograd
from tui_profiler.probe.measure.clock.device_clock import DeviceClock, DeviceEvent
from tui_profiler.probe.measure.clock.forward import Forward, Setting, autograd_now
from tui_profiler.probe.measure.clock.thread_usage import (
    UNDISTURBED,
    CollectorClock,
    ThreadUsage,
    ThreadUsageReader,
)
from tui_profiler.probe.measure.clock.timed_call import Call, timed_call
from tui_profiler.probe.torch_compat.forward_kind import Kind, kind_of
from tui_profiler.probe.torch_compat.internals import is_compiled
from tui_profiler.probe.torch_compat.versions import COMPILES_PARTS_ALONE

Around: TypeAlias = Callable[[Callable[[], object]], object]
"""Runs what it is given, once, and gives what that gave."""

MOST_MET = 10_000
"""Modules called elsewhere: a program may make them by the million."""
_FIELDS = 3
"""Items of one event while a forward runs: module, start, end."""


class Watching:
    """What one watching period replaced, put in its place, and recorded."""

    def __init__(
        self,
        replaced: Call,
        pending_events: int,
        device: DeviceClock | None = None,
        traced: Kind | None = None,
        strangers: Callable[[nn.Module], bool] | None = None,
    ) -> None:
        self.is_wanted = False
        """Whether forwards that begin now are recorded."""
        self._seconds_left = inf
        """Of forwards until no more are wanted."""
        self.watched: Callable[[], nn.Module | None] = _nobody
        """Returns the root while it is wanted. Nothing here keeps the model alive, but for what was
        recorded and not taken."""
        self.ended: float | None = None
        """Second at which the last forward ended; None where others may have run unseen since."""
        self.dropped = 0
        self.replaced = replaced
        self.untraced: Call = self._call_aside if COMPILES_PARTS_ALONE else replaced
        """The same, for calls that Dynamo does not trace."""
        self._in_place: list[None] = []
        """One for each call of a module compiled in place, where its parts must not meet us."""
        self.device = device
        """Sets marks on a GPU's stream around each recorded call."""
        self.longest = pending_events * _FIELDS
        """Items that the events of one forward may take."""
        self.events: ContextVar[list[object] | None] = ContextVar("events", default=None)
        self.around_next: deque[Around] = deque(maxlen=1)
        """What the next forward as traced runs in, whichever thread it is on: taken off when it
        begins."""
        self.asking_seconds = 0.0
        """What it took so far to tell forwards as traced from others, and what threads use."""
        self.collector = CollectorClock()
        self._usage = ThreadUsageReader(collector=self.collector)
        self._traced = traced
        self.met: set[int] = set()
        """As in ``Recorder``; nothing here keeps them alive."""
        self.timed: set[int] = set()
        """Of those, models: their calls are timed as a whole."""
        self.model_seconds: dict[int, float] = {}
        """In calls of the root and of other models, by id, of whole steps of the program alone."""
        self._between: dict[int, float] = {}
        self._in_other: set[int] = set()
        self._strangers = strangers
        self._pending_events = pending_events
        self._pending = 0
        self._is_open = True
        self._finished: deque[Forward] = deque()
        self._under_way: dict[int, list[object]] = {}
        self._modules_before: list[nn.Module] = []
        self.call, self._opened, self._shut = timed_call(self)

    def watch(self, root: nn.Module | None, seconds: float = inf) -> None:
        """Record forwards of ``root`` that begin from now on; None for none.

        Args:
            root: whose forwards.
            seconds: that they may take together before no more are recorded. One always is, and
                after a gap another: one alone does not tell what passes between two.
        """
        if not self.is_wanted:
            self.ended = None
        self._seconds_left = seconds
        self.is_wanted = root is not None
        self.watched = _nobody if root is None else weakref.ref(root)
        self._move_gate()

    @property
    def is_busy(self) -> bool:
        """Whether a forward has begun and not ended."""
        return bool(self._under_way)

    def close(self) -> None:
        """Record nothing any more, and forget what was recorded."""
        self._is_open = False
        self.collector.stop()
        # The gate stays as it is: what was compiled meanwhile may hold the replacement, and would
        # be compiled again for other code. Open, it passes through.
        self.is_wanted, self.watched = False, _nobody
        self._finished.clear()
        self._modules_before = []
        if self.device is not None:
            self.device.close()

    def meet(self, module: nn.Module) -> None:
        """Tell of a module that is called while the root does not run; once, and of so many."""
        if len(self.met) < MOST_MET:
            self.met.add(id(module))
            if self._strangers is not None and self._strangers(module):
                self.timed.add(id(module))

    def run_other(
        self, model: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run a call of a model that is not looked at, and note its time."""
        thread = get_ident()
        if thread in self._in_other:  # Of a part of another one, which is timed with it.
            return self.untraced(model, *args, **kwargs)
        self._in_other.add(thread)
        start = perf_counter()
        try:
            return self.untraced(model, *args, **kwargs)
        finally:
            spent = perf_counter() - start
            self._in_other.discard(thread)
            self._between[id(model)] = self._between.get(id(model), 0.0) + spent

    def _share_out(self, root: nn.Module, seconds: float, *, follows: bool) -> None:
        """Add what models took since the forward before, where nothing ran unseen since."""
        between, self._between = self._between, {}
        if follows:
            between[id(root)] = seconds
            for key, spent in between.items():
                self.model_seconds[key] = self.model_seconds.get(key, 0.0) + spent

    def take(self) -> list[Forward]:
        """Return what finished since the last time."""
        # Each step is atomic under the interpreter's lock: a lock of our own could be held by
        # another thread when the process forks.
        taken = [self._finished.popleft() for _ in range(len(self._finished))]
        self._pending = 0
        self._modules_before = []  # Or the model would be kept alive until its next forward.
        return taken

    def run_entry(
        self, method: Call, model: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run a method that stands for the forward of the root."""
        if self.events.get() is not None or self.watched() is not model:
            return method(model, *args, **kwargs)
        return self.run_root(model, args, kwargs, method)

    def run_root(
        self,
        root: nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        run: Call | None = None,
    ) -> object:
        """Run one forward of the root on this thread, and keep its events if there is room.

        Args:
            root: the model.
            args: what it is given.
            kwargs: likewise.
            run: the method that stands for its forward; None: what was replaced.
        """
        # Before the call: what is given may change in it.
        as_traced = self._traced is None or self._is_as_traced(root, args, kwargs)
        mode = root.training, autograd_now()
        if as_traced and self.around_next and (around := self._taken_around()) is not None:
            try:
                return around(partial(self.run_root, root, args, kwargs, run))
            finally:
                self.ended = perf_counter()  # What was around it is no time of the next one's.
        device = self.device
        events: list[object] = [] if device is None else device.new_forward()
        is_room = self._pending < self._pending_events
        number, start = id(events), 0.0
        mark: DeviceEvent | None = None
        before = self._read_usage(is_before=True)
        try:
            self._under_way[number] = events
            if not self.is_wanted:
                # Recording was stopped since the call began: what runs already is not cut.
                self._move_gate()
            self.events.set(events if is_room else _FULL)
            mark = None if device is None or not is_room else device.begin(events)
            start = perf_counter()
            return (run or self.untraced)(root, *args, **kwargs)
        finally:
            try:
                self._note(
                    events,
                    root,
                    mark,
                    (start, perf_counter()),
                    mode,
                    before,
                    is_room=is_room,
                    as_traced=as_traced,
                )
            finally:
                # A handler of a signal may raise after any call: before these there is none.
                del self._under_way[number]
                self.events.set(None)
                if not self.is_wanted:
                    self._move_gate()

    def _note(
        self,
        events: list[object],
        root: nn.Module,
        mark: DeviceEvent | None,
        times: tuple[float, float],
        mode: tuple[bool, Autograd],
        before: ThreadUsage,
        *,
        is_room: bool,
        as_traced: bool,
    ) -> None:
        """Keep what a forward of the root left, if there was room and nothing interrupted it."""
        start, end = times
        if self.device is not None:
            self.device.end(events, mark)
        if not start:
            return
        is_kept = is_room and len(events) < self.longest
        self._seconds_left -= end - start
        if self._seconds_left <= 0 and not (is_kept and self.ended is None):
            self.is_wanted = False
        if is_kept:
            usage = self._read_usage().since(before)
            setting = Setting(*mode, torch.get_num_threads())
            self._finish(events, root, start, end, as_traced, setting, usage)
        else:
            self._drop(events)

    def _read_usage(self, *, is_before: bool = False) -> ThreadUsage:
        began = perf_counter()
        found = self._usage.read_undisturbed() if is_before else self._usage.read()
        # What was longer was spent waiting for a core, which is none of our doing.
        self.asking_seconds += min(perf_counter() - began, UNDISTURBED)
        return found

    def _drop(self, events: list[object]) -> None:
        self.dropped += 1
        self.ended = None
        if self.device is not None:
            self.device.drop(events)

    def _taken_around(self) -> Around | None:
        try:
            return self.around_next.popleft()
        except IndexError:
            return None  # Another thread was sooner.

    def _is_as_traced(
        self, root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> bool:
        began = perf_counter()
        found = kind_of(root, args, kwargs) == self._traced
        self.asking_seconds += perf_counter() - began
        return found

    def _finish(
        self,
        events: list[object],
        root: nn.Module,
        start: float,
        end: float,
        as_traced: bool,
        setting: Setting,
        usage: ThreadUsage | None = None,
    ) -> None:
        if not self._is_open:
            if self.device is not None:
                self.device.close()
            return
        # At once, and not when it is taken: the floats are still in the cache, the next forward
        # uses their memory again, and what waits is a quarter as large.
        modules: list[nn.Module] = [*events[::_FIELDS], root]  # type: ignore[list-item]  # by turns
        try:
            times = pack(
                f"{2 * len(modules)}d", *events[1::_FIELDS], start, *events[2::_FIELDS], end
            )
        except NoTimesError:  # A handler of a signal raised while a call was noted.
            self._drop(events)
            return
        before = self._modules_before
        # By identity, because a user's module may define equality as it likes.
        if len(before) == len(modules) and all(map(is_, modules, before)):
            modules = before
        self._modules_before = modules
        since = self.ended
        self._share_out(root, end - start, follows=since is not None)
        self.ended = end if since is None else max(since, end)  # Another thread's may be later.
        self._pending += len(modules)
        self._finished.append(Forward(modules, times, since, as_traced, setting, usage))
        if self.device is not None and as_traced:
            self.device.finish(events, modules, times)
        elif self.device is not None:
            self.device.leave_out(events)

    def _move_gate(self) -> None:
        # Another thread may begin to watch between the question and the answer: it has said so
        # before it opens the gate, so asking once more after shutting it is enough.
        is_idle = not self.is_wanted and not self._under_way
        if self._in_place or (is_idle and not is_compiled(self._opened)):
            self.call.__code__ = self._shut
        if not self._in_place and (self.is_wanted or self._under_way):
            self.call.__code__ = self._opened

    def _call_aside(self, module: nn.Module, /, *args: object, **kwargs: object) -> object:
        """Call a module with the gate shut, where it was compiled in place."""
        if module._compiled_call_impl is None:
            return self.replaced(module, *args, **kwargs)
        self._in_place.append(None)
        self._move_gate()
        try:
            return self.replaced(module, *args, **kwargs)
        finally:
            self._in_place.pop()
            self._move_gate()


def _nobody() -> None:
    return None


class _Full(list[object]):
    """Takes nothing: the place of the events of a forward that is dropped."""

    def __len__(self) -> int:
        return sys.maxsize


_FULL = _Full()

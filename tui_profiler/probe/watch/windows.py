"""Operator windows on forwards that a program runs by itself.

1. Now and then one of its forwards, or of its steps of training, runs in torch's raw profiler, on
   its own thread: opening and closing take a millisecond there, reading is done on the probe's
   thread.
2. Only where torch was told to be silent before it was imported: its profiler prints into the
   program's output otherwise. ``run`` sees to that; a program that calls ``watch`` may.
3. Never while another profiler runs, and never twice at a time. A window on a step ends at once
   where the program starts a profiler in it on the same thread, or forks.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from math import inf

import torch
from msgspec.structs import replace
from torch.autograd import profiler

from tui_profiler.messages import MemoryWindow, Message, Node
from tui_profiler.probe.measure.clock.call_recorder import OtherCall
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.operators.backward_operators import BackwardOperatorClock
from tui_profiler.probe.measure.operators.memory_window import PermanentBytes
from tui_profiler.probe.measure.operators.operators import OperatorClock
from tui_profiler.probe.measure.operators.windows import LEAST_SECONDS, pause_seconds
from tui_profiler.probe.measure.step.recorder import Pass, StepRecorder
from tui_profiler.probe.torch_compat.kineto import (
    Window,
    WindowError,
    operators_during,
    unavailable,
)
from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.probe.torch_compat.threads import why_not_record
from tui_profiler.probe.trace.tree.weights import held_bytes
from tui_profiler.system import real_time as time

SILENT = "KINETO_LOG_LEVEL"
"""Environment variable: 99 before torch is imported keeps its profiler from printing."""
EVENT_SECONDS = 0.6e-6
"""What a window adds to each operator, beside opening and closing: about this on torch 2.15."""
FIRST_SECONDS = 1.0
MOST_TRIES = 3
PATIENCE = 8
MOST_SECONDS_OPEN = 60.0
"""Of a window: then nothing waits for its end any more."""


def warm_up() -> None:
    """Set torch's profiler up, once a process; elsewhere than on the main thread it would print.

    Afterwards it stays silent, whatever becomes of the environment.
    """
    if why_no_windows():
        return
    _silent.set()
    if threading.current_thread() is threading.main_thread():
        try:
            with Window():
                pass
        except WindowError:
            return  # The next one says why.
        _warm.set()


def why_no_windows() -> str:
    """Return why no window can be opened in this process; empty where one can."""
    if not _silent.is_set() and os.environ.get(SILENT, "") != "99":
        without = f"without {SILENT}=99 before torch is imported"
        return f"{without}, they would print to the program's output"
    return unavailable()


_silent, _warm = threading.Event(), threading.Event()


class ProgramWindows:
    """Opens windows on one model's own forwards, as rarely as a part of the budget asks for."""

    def __init__(self, nodes: Sequence[Node], model: torch.nn.Module, budget: float) -> None:
        self._operators = OperatorClock(nodes, model)
        self._backward = BackwardOperatorClock(nodes, model)
        self._budget = budget
        self._next = time.monotonic() + FIRST_SECONDS
        self._open: _OneForward | WindowOnStep | None = None
        self._windows = 0
        self._patience = 0
        """Times that others may come before no forward is recorded for the window's sake."""
        self._tries = 0
        self._held = _held(model, nodes)
        self._memory: MemoryWindow | None = None
        self._wants_memory = self._has_times = False
        self._why_none = why_no_windows() or ("" if _warm.is_set() else _NOT_WARM)
        self._recorder: StepRecorder | None = None
        """Of the step that a window waits for or is open on."""
        self._under_way_since = inf
        self._is_told = False
        self._is_new = False
        self._seconds = 0.0

    @property
    def is_open(self) -> bool:
        """Whether forwards are to be recorded for a window that waits for one, or is open on one.

        It waits for one as traced, which may never come: after a while it only takes what comes.
        """
        return self._open is not None and self._patience > 0

    @property
    def is_under_way(self) -> bool:
        """Whether a forward or a step runs in a window: which it was is not known yet."""
        if self._open is None or not self._open.has_begun or self._open.is_over:
            self._under_way_since = inf
            return False
        self._under_way_since = min(self._under_way_since, time.monotonic())
        if time.monotonic() - self._under_way_since < MOST_SECONDS_OPEN:
            return True
        # The thread that trains does something else; it closes the window when it comes back.
        self._open, self._why_none = None, "a step in the window has not ended"
        return False

    def close(self) -> None:
        """Open no more."""
        if self._open is not None and not (
            isinstance(self._open, WindowOnStep) and self.is_under_way
        ):
            self._open.is_over = True
            self._open = None

    def give_up_step(self) -> None:
        """Wait for no step any more: none comes."""
        if isinstance(self._open, WindowOnStep) and self._open.is_waiting:
            self.close()

    def without_windowed(self, forwards: list[Forward]) -> list[Forward]:
        """Return the forwards that ran in no window; one that did is taken in here."""
        window = self._open
        if window is None or not window.is_over:
            self._patience -= bool(forwards)
            return forwards
        self._open = None
        others: list[OtherCall] = []
        if self._recorder is not None:
            others = self._recorder.other_calls()
            self._recorder.window, self._recorder = None, None
        self._take(window, [one for one in forwards if window.holds(one)], others)
        return [one for one in forwards if not window.holds(one)]

    @property
    def wants_memory_next(self) -> bool:
        """Whether the next window is to tell what a forward allocates: on one forward."""
        return self._has_times and self._held is not None

    @property
    def is_due(self) -> bool:
        """Whether the next forward is to be run in a window."""
        return not self._why_none and self._open is None and time.monotonic() >= self._next

    def open_on_step(self, recorder: StepRecorder) -> None:
        """Open a window on the next step of training, forward, backward and optimizer."""
        window = WindowOnStep()
        self._open, self._patience = window, PATIENCE
        self._recorder, recorder.window = recorder, window
        recorder.decide_next()

    def open(self, clock: ModuleClock) -> None:
        """Open a window on the next forward that the clock records."""
        # Times come first: a script may end after one window.
        self._wants_memory = self.wants_memory_next
        self._open, self._patience = _OneForward(with_memory=self._wants_memory), PATIENCE
        clock.run_next_in(self._open.run)

    def messages(self, at: float) -> Sequence[Message]:
        """Return what is to be told, ``at`` seconds since the program is watched."""
        if self._is_told:
            return ()
        self._is_told = bool(self._why_none)
        if not self._is_new and not self._why_none:
            return ()
        self._is_new = False
        if (memory := self._memory) is not None:
            self._memory = None
            return (replace(memory, at=at),)
        told: list[Message] = [self._operators.message(at, self._seconds, self._why_none)]
        told += [self._operators.window_times(at)]
        return [*told, self._backward.message(at)] if self._backward.windows else told

    def _take(
        self,
        window: _OneForward | WindowOnStep,
        inside: list[Forward],
        others: Sequence[OtherCall],
    ) -> None:
        self._next = time.monotonic() + LEAST_SECONDS
        if window.trouble:
            self._tries += 1
            self._why_none = window.trouble if self._tries >= MOST_TRIES else ""
            return
        began = time.perf_counter()
        if isinstance(window, WindowOnStep):
            events = self._take_step(window, inside, others)
            self._plan(window.window.seconds + time.perf_counter() - began, events)
            return
        seen = window.window.read()
        if len(inside) != 1:
            return  # It was not recorded: the governor had the clock off.
        self._is_new = True
        if self._wants_memory and self._held is not None:
            self._wants_memory = False
            self._memory = self._operators.memory_window(0.0, inside[0], window.window, self._held)
            self._held = None  # Once: allocations of forwards as traced are the same.
            self._is_new = self._memory is not None
        else:
            self._operators.add(inside[0], seen)
            self._seconds, self._has_times = inside[0].seconds, True
        self._plan(window.window.seconds + time.perf_counter() - began, len(seen))

    def _take_step(
        self, window: WindowOnStep, inside: list[Forward], others: Sequence[OtherCall]
    ) -> int:
        """Take in a window on a step; returns how many events it had."""
        seen = window.window.read_graph()
        if not window.passes:
            return len(seen)  # The step was broken off.
        self._is_new = True
        called = [one for one in others if window.holds(one)]
        self._backward.add(inside, window.passes, seen, window.seconds, called)
        first = next((one for one in inside if one.as_traced), None)
        if first is not None and window.began <= first.began:
            self._operators.add(first, operators_during(seen, first.began, first.seconds))
            self._seconds, self._has_times = first.seconds, True
        return len(seen)

    def _plan(self, cost_seconds: float, events: int) -> None:
        """Say when the next window is due."""
        cost = cost_seconds + EVENT_SECONDS * events
        self._windows += self._is_new
        self._next = time.monotonic() + pause_seconds(cost, self._budget, self._windows)


_NOT_WARM = "torch's profiler was not set up on the main thread: it would print once"


def _held(model: torch.nn.Module, nodes: Sequence[Node]) -> PermanentBytes | None:
    """Return what lives all the time, None where the model is not on the CPU alone."""
    if any(one.device.type != "cpu" for one in each_parameter(model)):
        return None
    return PermanentBytes(
        held_bytes(model), sum(one.bytes for one in nodes[0].inputs) if nodes else 0
    )


class _OneForward:
    """A window around one forward of the program's."""

    def __init__(self, *, with_memory: bool) -> None:
        self.window = Window(reads_later=True, with_memory=with_memory)
        self.trouble = ""
        self.is_over = False
        self._begin = self._end = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether the program has called the model."""
        return self._begin > 0.0

    def holds(self, forward: Forward) -> bool:
        """Tell whether a recorded forward is the one that ran in the window."""
        return self._begin <= forward.began and forward.began + forward.seconds <= self._end

    def run(self, forward: Callable[[], object]) -> object:
        """Run one forward in the window, or without it where none can be opened."""
        try:
            is_open = not self.is_over and not why_not_record() and bool(self.window.__enter__())
        except Exception as error:  # Ours, whatever it is: it must not reach the program.
            self.trouble = str(error) or type(error).__name__
            is_open = False
        if not is_open:
            self.is_over = True
            return forward()
        self._begin = time.perf_counter()
        try:
            return forward()
        finally:
            self._end = time.perf_counter()
            try:
                self.window.__exit__()
            except Exception as error:
                self.trouble = str(error) or type(error).__name__
            self.is_over = True


class WindowOnStep:
    """A window from the first forward of a step to its end, on the thread that trains.

    Where a step has several backward passes, the window ends with the first that reached the model.
    """

    def __init__(self) -> None:
        self.window = Window(reads_later=True)
        self.trouble = ""
        """Why it could not be opened or closed."""
        self.is_over = False
        self.passes: list[Pass] = []
        self._thread = 0
        self._awaited_since = time.perf_counter()
        self._begin = self._end = 0.0
        self._guard = _ProfilerGuard(self._close)

    @property
    def is_waiting(self) -> bool:
        """Whether it is to begin with the next step."""
        return not self.is_over and not self.has_begun

    @property
    def has_begun(self) -> bool:
        """Whether the program has called the model."""
        return self._begin > 0.0

    @property
    def began(self) -> float:
        """Second at which it was opened."""
        return self._begin

    @property
    def seconds(self) -> float:
        """What it lasted."""
        return self._end - self._begin

    def holds(self, forward: Forward | OtherCall) -> bool:
        """Return whether a call of a model is of the step that ran in the window."""
        return self._awaited_since <= forward.began <= self._end

    def await_forward(self) -> None:
        """Take note that the step begins, on this thread."""
        self._thread = threading.get_ident()
        self._awaited_since = time.perf_counter()

    def begin(self) -> None:
        """Open it on the thread that trains, or give it up where none can be opened."""
        if not self.is_waiting or self._thread != threading.get_ident():
            return  # It could not be closed at the end of the step: that is on another thread.
        try:
            is_open = not why_not_record() and bool(self.window.__enter__())
        except Exception as error:  # Ours, whatever it is: it must not reach the program.
            self.trouble = str(error) or type(error).__name__
            is_open = False
        if not is_open:
            self.is_over = True
            return
        self._begin = time.perf_counter()
        self._guard.put()

    def after_pass(self, one: Pass, *, is_one_of_several: bool) -> None:
        """Keep a pass, and close the window where it is enough."""
        if self._is_open_here:
            self.passes.append(one)
            if is_one_of_several and one.is_reached:
                self._close()

    def after_data(self) -> None:
        """Close it where the step has been broken off: data comes after its end, not before."""
        if self._is_open_here and any(one.is_reached for one in self.passes):
            self._close()

    def after_step(self) -> None:
        """Close it."""
        if self._is_open_here:
            self._close()

    @property
    def _is_open_here(self) -> bool:
        return self.has_begun and not self.is_over and self._thread == threading.get_ident()

    def _close(self) -> None:
        # A profiler is closed on the thread that opened it.
        if not self._is_open_here:
            return
        self._end = time.perf_counter()
        self._guard.take_off()
        try:
            self.window.__exit__()
        except Exception as error:
            self.trouble = str(error) or type(error).__name__
        self.is_over = True


class _ProfilerGuard:
    """Ends a window of ours when the program starts a profiler, or forks, while it is open."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._replaced: list[tuple[str, Callable[..., object], Callable[..., object]]] = []

    def put(self) -> None:
        """Begin to look."""
        _close_before_fork.add(self._close)
        for name in PROFILER_ENTRIES:
            before = getattr(profiler, name, None)
            if before is not None:
                ours = functools.wraps(before)(functools.partial(self._run, before))
                setattr(profiler, name, ours)
                self._replaced.append((name, before, ours))

    def take_off(self) -> None:
        """Look no more."""
        _close_before_fork.discard(self._close)
        while self._replaced:
            name, before, ours = self._replaced.pop()
            if getattr(profiler, name, None) is ours:
                setattr(profiler, name, before)

    def _run(self, before: Callable[..., object], *args: object, **kwargs: object) -> object:
        self._close()
        return before(*args, **kwargs)


PROFILER_ENTRIES = ("_prepare_profiler", "_enable_profiler")
"""Of ``torch.autograd.profiler``, through which the program's own profilers are started."""
_close_before_fork: set[Callable[[], None]] = set()


def _before_fork() -> None:
    for close in [*_close_before_fork]:
        close()


os.register_at_fork(before=_before_fork)

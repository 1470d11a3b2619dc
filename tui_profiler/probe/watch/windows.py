"""Operator windows on forwards that a program runs by itself.

1. Now and then one of its forwards runs in torch's raw profiler, on its own thread: opening and
   closing take a millisecond there, reading is done on the probe's thread.
2. Only where torch was told to be silent before it was imported: its profiler prints into the
   program's output otherwise. ``run`` sees to that; a program that calls ``watch`` may.
3. Never while another profiler runs, and never twice at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence

import torch
from msgspec.structs import replace

from tui_profiler.messages import MemoryWindow, Message, Node
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.operators.memory_window import PermanentBytes
from tui_profiler.probe.measure.operators.operators import OperatorClock
from tui_profiler.probe.measure.operators.windows import LEAST_SECONDS, pause_seconds
from tui_profiler.probe.torch_compat.kineto import Window, WindowError, unavailable
from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.probe.torch_compat.threads import why_not_record
from tui_profiler.probe.trace.tree.weights import held_bytes

SILENT = "KINETO_LOG_LEVEL"
"""Environment variable: 99 before torch is imported keeps its profiler from printing."""
EVENT_SECONDS = 0.6e-6
"""What a window adds to each operator, beside opening and closing: about this on torch 2.15."""
FIRST_SECONDS = 1.0
MOST_TRIES = 3
PATIENCE = 8


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
        self._budget = budget
        self._next = time.monotonic() + FIRST_SECONDS
        self._open: _OneForward | None = None
        self._patience = 0
        """Times that others may come before no forward is recorded for the window's sake."""
        self._tries = 0
        self._held = _held(model, nodes)
        self._memory: MemoryWindow | None = None
        self._wants_memory = self._has_times = False
        self._why_none = why_no_windows() or ("" if _warm.is_set() else _NOT_WARM)
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
        """Whether a forward runs in a window: which one it was is not known yet."""
        return self._open is not None and self._open.has_begun and not self._open.is_over

    def close(self) -> None:
        """Open no more."""
        if self._open is not None:
            self._open.is_over = True
            self._open = None

    def without_windowed(self, forwards: list[Forward]) -> list[Forward]:
        """Return the forwards that ran in no window; one that did is taken in here."""
        window = self._open
        if window is None or not window.is_over:
            self._patience -= bool(forwards)
            return forwards
        self._open = None
        self._take(window, [one for one in forwards if window.holds(one)])
        return [one for one in forwards if not window.holds(one)]

    @property
    def is_due(self) -> bool:
        """Whether the next forward is to be run in a window."""
        return not self._why_none and self._open is None and time.monotonic() >= self._next

    def open(self, clock: ModuleClock) -> None:
        """Open a window on the next forward that the clock records."""
        # Times come first: a script may end after one window.
        self._wants_memory = self._has_times and self._held is not None
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
        times = self._operators.window_times(at)
        return [*told, times] if times is not None else told

    def _take(self, window: _OneForward, inside: list[Forward]) -> None:
        self._next = time.monotonic() + LEAST_SECONDS
        if window.trouble:
            self._tries += 1
            self._why_none = window.trouble if self._tries >= MOST_TRIES else ""
            return
        began = time.perf_counter()
        seen = window.window.read()
        if len(inside) != 1:
            return  # It was not recorded: the governor had the clock off.
        self._is_new = True
        if self._wants_memory and self._held is not None:
            events, self._wants_memory = window.window.allocations, False
            self._memory = self._operators.memory_window(0.0, inside[0], events, self._held)
            self._held = None  # Once: allocations of forwards as traced are the same.
            self._is_new = self._memory is not None
        else:
            self._operators.add(inside[0], seen)
            self._seconds, self._has_times = inside[0].seconds, True
        cost = window.window.seconds + time.perf_counter() - began + EVENT_SECONDS * len(seen)
        self._next = time.monotonic() + pause_seconds(cost, self._budget)


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

"""The probe's thread in a program that is not ours: it waits for viewers, and looks after them.

1. One daemon thread for all watched models of a process. While nobody calls, it sleeps. Other
   threads only give it orders, and never wait for it.
2. Sockets lie where only the user reaches them (``rendezvous.py``), and who calls must be the same
   user by the kernel's word.
3. A forked child has the watched models but not the thread: it gets one of its own, with sockets of
   its own; what the parent has replaced is put back there. The parent's are left alone.
4. Whatever fails here is told to those who look, and ends the looking; the program goes on.
5. When the program ends, the thread ends first: inside of torch it would be torn apart.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import selectors
import socket
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.util import Finalize, register_after_fork

from tui_profiler.messages import Failed
from tui_profiler.probe.calling import Calling, calling_at
from tui_profiler.probe.link import Link
from tui_profiler.probe.measure.energy import EnergyWatch
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.observer import Observer
from tui_profiler.rendezvous import NoPlaceError, is_same_user, remove_stale

MOST_VIEWERS = 32
"""Connections to one model at once; more are hung up on."""
FORKED_CHILD_WAITS_SECONDS = 0.5
"""A child that runs another program at once never gets a socket."""
SAMPLE_SECONDS = 1.0
END_SECONDS = 1.0
"""How long the end of the program may wait for the thread."""
FLOOD_SECONDS = 0.005
"""Between two calls: each takes two threads for a moment, and a viewer may call for ever."""

_ORDINALS = itertools.count()


@dataclass
class _Served:
    """An observer, and where it is called at."""

    observer: Observer
    calling: Calling | None
    """None where nobody can call: a socket could not be made, or its viewer called first."""
    is_called_at: bool
    due: float | None = 0.0
    """``time.monotonic()`` of its next step; None: when it is called."""


class Server:
    """Serves every watched model of this process."""

    def __init__(self) -> None:
        self._watched: dict[Observer, _Served] = {}
        """What is to be served, whatever the thread knows of it yet."""
        self._begin()
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._end_of_program)
        self._end_with_worker()
        register_after_fork(self, Server._end_with_worker)

    def _begin(self) -> None:
        self._served: list[_Served] = []
        self._orders: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_ending = False
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)

    def _end_with_worker(self) -> None:
        # A forked worker of multiprocessing ends without what ``atexit`` was told, and drops what
        # this was told before the fork.
        Finalize(None, self._end_of_program, exitpriority=0)

    def wake(self) -> None:
        """Have the thread look around; never waits, from any thread."""
        with contextlib.suppress(OSError):  # Full: it will wake anyway.
            self._wake_writer.send(b".")

    def add(self, observer: Observer) -> None:
        """Let viewers call for an observer."""
        calling = None
        try:
            calling = calling_at(observer.program.name, next(_ORDINALS))
            self._begin_with(_Served(observer, calling, is_called_at=True))
        except (OSError, NoPlaceError, RuntimeError) as error:  # Or there are too many threads.
            if calling is not None:
                calling.close()
            warnings.warn(f"tui-profiler: nobody can attach: {error}", stacklevel=3)

    def add_called(self, observer: Observer, link: Link) -> None:
        """Serve one viewer, who has called already."""
        observer.admit(link, "")
        self._begin_with(_Served(observer, None, is_called_at=False))

    def _begin_with(self, served: _Served) -> None:
        with self._starting:
            if self._thread is None:
                self._start(0.0)
        self._watched[served.observer] = served
        self._orders.append(lambda: self._serve(served))
        self.wake()

    def remove(self, observer: Observer, why: str) -> None:
        """Serve an observer no more; never waits, and may be called by a finalizer."""
        self._watched.pop(observer, None)
        self._orders.append(lambda: self._end(observer, why))
        self.wake()

    def _start(self, wait_seconds: float) -> None:
        thread = threading.Thread(
            target=self._run, args=(wait_seconds,), name="tui-profiler", daemon=True
        )
        thread.start()
        self._thread = thread

    def _run(self, wait_seconds: float) -> None:
        """Be the thread."""
        if wait_seconds:
            self._selector.select(wait_seconds)  # Its end does not wait for it.
        with contextlib.suppress(OSError):
            remove_stale()
        sampling: threading.Thread | None = None
        while not self._is_ending:
            for key, _ in self._selector.select(self._seconds()):
                if key.data is None:
                    self._drain()
                else:
                    self._accept(key.data)
            while self._orders:
                self._orders.popleft()()
            for served in list(self._served):
                self._step(served)
            if (sampling is None or not sampling.is_alive()) and self._looked_at():
                sampling = threading.Thread(
                    target=self._sample, name="tui-profiler-sample", daemon=True
                )
                sampling.start()
        for served in list(self._served):
            self._end(served.observer, "the program ended")

    def _seconds(self) -> float | None:
        if self._orders or self._is_ending:
            return 0.0
        due = [served.due for served in self._served if served.due is not None]
        return max(min(due) - time.monotonic(), 0.0) if due else None

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_reader.recv(4096)
        for served in self._served:
            served.due = 0.0

    def _serve(self, served: _Served) -> None:
        if served.is_called_at and served.calling is None:
            return
        self._served.append(served)
        if served.calling is not None:
            self._selector.register(served.calling.socket, selectors.EVENT_READ, served)

    def _end(self, observer: Observer, why: str) -> None:
        for served in [one for one in self._served if one.observer is observer]:
            self._served.remove(served)
            if served.calling is not None:
                self._selector.unregister(served.calling.socket)
                served.calling.close()
            try:
                observer.close(why)
            except Exception as error:  # Rule 4: there is nobody left to tell but the program.
                warnings.warn(f"tui-profiler: {type(error).__name__}: {error}", stacklevel=1)

    def _step(self, served: _Served) -> None:
        if served.due is None or served.due > time.monotonic():
            return
        try:
            pause = served.observer.step()
        except Exception as error:  # Rule 4.
            what = "the probe in the program failed"
            why = f"{type(error).__name__}: {error}"
            served.observer.tell(Failed("worker", what, why=why))
            self._end(served.observer, f"{what}: {why}")
            return
        served.due = None if pause is None else time.monotonic() + pause

    def _accept(self, served: _Served) -> None:
        assert served.calling is not None
        try:
            connected, _ = served.calling.socket.accept()
        except OSError:
            return  # It hung up meanwhile, or there are too many open files.
        try:
            if is_same_user(connected) and served.observer.connections < MOST_VIEWERS:
                connected.setblocking(True)
                served.observer.admit(Link(connected, self.wake, self.wake), _role())
                served.due = 0.0
            else:
                connected.close()
        except (OSError, RuntimeError):  # It hung up meanwhile, or there are too many threads.
            connected.close()
        time.sleep(FLOOD_SECONDS)

    def _looked_at(self) -> list[Observer]:
        return [one.observer for one in tuple(self._served) if one.observer.is_looked_at]

    def _sample(self) -> None:
        """Be the thread that reads the machine's counters while anyone looks: drivers are slow."""
        samplers: dict[Observer, Sampler] = {}
        try:
            while (looked_at := self._looked_at()) and not self._is_ending:
                for observer in looked_at:
                    if observer not in samplers:
                        energy = observer.energy.watch = EnergyWatch()
                        energy.start()
                        samplers[observer] = Sampler(observer.program.started_at, energy=energy)
                    observer.post(samplers[observer].sample())
                time.sleep(SAMPLE_SECONDS)
        finally:
            for observer, sampler in samplers.items():
                watch, observer.energy.watch = observer.energy.watch, None
                if watch is not None:
                    watch.close()
                sampler.close()

    def _after_fork(self) -> None:
        """Begin anew in a child; its thread is not there, and the sockets are the parent's."""
        watched = [one for one in self._watched.values() if one.is_called_at]
        for one in self._watched.values():
            one.observer.forget()
            if one.calling is not None:
                one.calling.abandon()
        self._wake_reader.close()
        self._wake_writer.close()
        self._selector.close()
        self._begin()
        self._watched = {}
        for one in watched:
            again = _Served(one.observer, None, is_called_at=True)
            self._watched[one.observer] = again
            self._orders.append(lambda again=again: self._serve_in_child(again))  # type: ignore[misc] # mypy
        if watched:
            self._start(FORKED_CHILD_WAITS_SECONDS)

    def _serve_in_child(self, served: _Served) -> None:
        # Where there is no place for a socket, the parent has said so.
        with contextlib.suppress(OSError, NoPlaceError):
            served.calling = calling_at(served.observer.program.name, next(_ORDINALS))
        self._serve(served)

    def _end_of_program(self) -> None:
        """End the thread, which removes the sockets; they are removed in any case."""
        self._is_ending = True
        self.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(END_SECONDS)
        for served in tuple(self._watched.values()):
            if served.calling is not None:
                served.calling.close()


def _role() -> str:
    data = sys.modules.get("torch.utils.data")
    is_worker = data is not None and data.get_worker_info() is not None
    return "DataLoader worker" if is_worker else ""

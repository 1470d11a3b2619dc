"""The probe's thread in a program that is not ours: it waits for viewers, and looks after them.

1. One daemon thread for all watched models of a process. While nobody calls, it sleeps.
2. Sockets lie where only the user reaches them (``rendezvous.py``), and who calls must be the same
   user by the kernel's word.
3. A forked child has the watched models but not the thread: it gets one of its own, with sockets of
   its own; what the parent has replaced is put back there. The parent's are left alone.
4. Whatever fails here is told to those who look, and ends the looking; the program goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import socket
import struct
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tui_profiler.messages import Failed
from tui_profiler.probe.link import Link
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.observer import Observer
from tui_profiler.rendezvous import NoPlaceError, directory, socket_path

MOST_VIEWERS = 32
"""Connections to one model at once; more are hung up on."""
FORKED_CHILD_WAITS_SECONDS = 0.5
"""A child that runs another program at once never gets a socket."""
SAMPLE_SECONDS = 1.0

_CREDENTIALS = struct.Struct("3i")


@dataclass
class _Served:
    """An observer, and where it is called at."""

    observer: Observer
    ordinal: int
    listening: socket.socket | None = None
    path: Path | None = None
    due: float | None = None
    """``time.monotonic()`` of its next step; None: when it is called."""


class Server:
    """Serves every watched model of this process."""

    def __init__(self) -> None:
        self._served: list[_Served] = []
        self._orders: deque[Callable[[], None]] = deque()
        self._ordinals = 0
        self._thread: threading.Thread | None = None
        self._begin()
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._remove_sockets)

    def _begin(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)

    def wake(self) -> None:
        """Have the thread look around; never waits, from any thread."""
        with contextlib.suppress(OSError):  # Full: it will wake anyway.
            self._wake_writer.send(b".")

    def add(self, observer: Observer) -> None:
        """Let viewers call for an observer."""
        served = _Served(observer, self._ordinals)
        self._ordinals += 1
        why_not = self._listen(served)
        if why_not:
            warnings.warn(f"tui-profiler: nobody can attach: {why_not}", stacklevel=3)
        self._order(lambda: self._serve(served))

    def add_called(self, observer: Observer, link: Link) -> None:
        """Serve one viewer, who has called already."""
        served = _Served(observer, self._ordinals)
        self._ordinals += 1
        observer.admit(link, "")
        self._order(lambda: self._serve(served))

    def remove(self, observer: Observer, why: str) -> None:
        """Serve an observer no more; never waits."""
        self._order(lambda: self._end(observer, why))

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        if self._thread is None:
            self._start(0.0)
        self.wake()

    def _start(self, wait_seconds: float) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(wait_seconds,), name="tui-profiler", daemon=True
        )
        self._thread.start()

    def _listen(self, served: _Served) -> str:
        """Make a socket; gives why there is none."""
        try:
            path = socket_path(
                directory(), os.getpid(), served.ordinal, served.observer.program.name
            )
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unnamed = path.with_suffix(".new")
            unnamed.unlink(missing_ok=True)
            before = os.umask(0o177)
            try:
                listening.bind(str(unnamed))
            finally:
                os.umask(before)
            listening.listen(MOST_VIEWERS)
            listening.setblocking(False)
            unnamed.rename(path)
        except (OSError, NoPlaceError) as error:
            return str(error)
        served.listening, served.path = listening, path
        return ""

    def _serve(self, served: _Served) -> None:
        self._served.append(served)
        served.due = 0.0
        if served.listening is not None:
            self._selector.register(served.listening, selectors.EVENT_READ, served)

    def _end(self, observer: Observer, why: str) -> None:
        for served in [one for one in self._served if one.observer is observer]:
            self._served.remove(served)
            self._hang_up(served)
            observer.close(why)

    def _hang_up(self, served: _Served) -> None:
        if served.listening is not None:
            self._selector.unregister(served.listening)
            served.listening.close()
        if served.path is not None:
            served.path.unlink(missing_ok=True)
        served.listening = served.path = None

    def _run(self, wait_seconds: float) -> None:
        """Be the thread."""
        if wait_seconds:
            time.sleep(wait_seconds)
            for served in self._served:
                if self._listen(served) == "" and served.listening is not None:
                    self._selector.register(served.listening, selectors.EVENT_READ, served)
        sampling: threading.Thread | None = None
        while True:
            for key, _ in self._selector.select(self._seconds()):
                if key.data is None:
                    self._drain()
                else:
                    self._accept(key.data)
            while self._orders:
                self._orders.popleft()()
            for served in list(self._served):
                self._step(served)
            if (sampling is None or not sampling.is_alive()) and self._is_looked_at():
                sampling = threading.Thread(
                    target=self._sample, name="tui-profiler-sample", daemon=True
                )
                sampling.start()

    def _seconds(self) -> float | None:
        if self._orders:
            return 0.0
        due = [served.due for served in self._served if served.due is not None]
        return max(min(due) - time.monotonic(), 0.0) if due else None

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_reader.recv(4096)
        for served in self._served:
            served.due = 0.0

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
        assert served.listening is not None
        try:
            connected, _ = served.listening.accept()
        except OSError:
            return  # It hung up meanwhile, or there are too many open files.
        if not _is_same_user(connected) or served.observer.connections >= MOST_VIEWERS:
            connected.close()
            return
        connected.setblocking(True)
        served.observer.admit(Link(connected, self.wake, self.wake), _role())
        served.due = 0.0

    def _is_looked_at(self) -> bool:
        return any(served.observer.is_looked_at for served in self._served)

    def _sample(self) -> None:
        """Be the thread that reads the machine's counters while anyone looks: drivers are slow."""
        samplers: dict[int, Sampler] = {}
        try:
            while looked_at := [s.observer for s in self._served if s.observer.is_looked_at]:
                for observer in looked_at:
                    sampler = samplers.get(id(observer))
                    if sampler is None:
                        sampler = samplers[id(observer)] = Sampler(observer.program.started_at)
                    observer.tell(sampler.sample())
                time.sleep(SAMPLE_SECONDS)
        finally:
            for sampler in samplers.values():
                sampler.close()

    def _after_fork(self) -> None:
        """Begin anew in a child; its thread is not there, and the sockets are the parent's."""
        served, self._served = self._served, []
        for one in served:
            one.observer.forget()
            if one.listening is not None:
                one.listening.close()
            one.listening = one.path = None
            one.due = None
        self._wake_reader.close()
        self._wake_writer.close()
        self._selector.close()
        self._orders.clear()
        self._begin()
        self._thread = None
        if served:
            self._served = served
            self._start(FORKED_CHILD_WAITS_SECONDS)

    def _remove_sockets(self) -> None:
        for served in self._served:
            if served.path is not None:
                served.path.unlink(missing_ok=True)
                served.path = None


def _is_same_user(connected: socket.socket) -> bool:
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(raw)
    return user in (os.getuid(), 0)


def _role() -> str:
    data = sys.modules.get("torch.utils.data")
    is_worker = data is not None and data.get_worker_info() is not None
    return "DataLoader worker" if is_worker else ""

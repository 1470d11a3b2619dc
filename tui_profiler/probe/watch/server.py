"""The probe's thread in a program that is not ours: it waits for viewers, and looks after them.

1. One daemon thread for all watched models of a process. While nobody calls, it sleeps. Other
   threads only give it orders, and never wait for it.
2. Sockets lie where only the user reaches them (``connection/sockets.py``), and who calls must
   be the same user by the kernel's word.
3. A forked child has the watched models but not the thread: it gets one of its own, with sockets of
   its own; what the parent has replaced is put back there. The parent's are left alone.
4. Whatever fails here is told to those who look, and the program goes on. A failed step ends the
   looking; failed counters do not.
5. The program may close every descriptor, as daemons do: what it closed is made anew.
6. When the program ends, the thread ends first: inside of torch it would be torn apart.
"""

import atexit
import contextlib
import itertools
import os
import select
import socket
import sys
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path

import psutil

from tui_profiler.connection import sockets
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Failed, Printed, Remedy
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.process.own_socket import OwnSocket
from tui_profiler.probe.process.yielding import pause
from tui_profiler.probe.watch.observer import Observer
from tui_profiler.system import real_time as time

MOST_PAUSE_SECONDS = 60.0
"""No step is later than this; where one seems to be, the clock was put back (``libfaketime``)."""
MOST_VIEWERS = 32
"""Connections to one model at once; more are refused. An idle one is closed for a new one."""
FORKED_CHILD_WAITS_SECONDS = 0.5
"""A child that runs another program at once never gets a socket."""
SAMPLE_SECONDS = 1.0
TOLD_FAILURES = 2
"""Readings of the machine's counters that fail in a row before viewers are told; once."""
LOST_SECONDS = 1.0
"""Until it is tried again to make a socket for one that the program has closed."""
END_SECONDS = 1.0
"""How long the end of the program may wait for the thread."""
CALLS_PER_SECOND = 10.0
"""Taken of all models together, others wait in the kernel's backlog. Each takes two threads for a
moment, about 0.7 ms of the interpreter, and a viewer may call in a loop."""
GONE_CALL = 0.25
"""How much a call counts if its caller has hung up already: it starts no thread."""
MOST_CALLS_AT_ONCE = 20.0
"""After a while without calls: a list of programs asks each of them."""

BACKLOG = 32
"""Calls that wait to be taken; more are made to wait by the kernel."""

_FULL = Failed(
    "attach",
    f"full: {MOST_VIEWERS} viewers are attached to it",
    remedies=(Remedy("detaching one of the viewers", ""),),
)
"""Instead of a ``Hello``."""
_ORDINALS = itertools.count()
_MOST_CHARACTERS = 200
"""Of an error's text."""


@dataclass
class _Calling:
    """A socket that listens, and its name."""

    socket: OwnSocket
    path: Path

    def close(self) -> None:
        """Listen no more, and leave nothing behind. May be called twice."""
        self.socket.close()
        with contextlib.suppress(OSError):  # Someone else has cleaned up, or may write no more.
            self.path.unlink(missing_ok=True)


@dataclass
class _Served:
    """An observer, and where it is called at."""

    observer: Observer
    calling: _Calling | None
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
        self._calls_left = MOST_CALLS_AT_ONCE
        self._calls_counted_at = time.monotonic()
        self._opens_at: float | None = None
        """``time.monotonic()`` when calls are taken again; None: they are."""
        self._wake_reader, self._wake_writer = map(OwnSocket, socket.socketpair())

    def _end_with_worker(self) -> None:
        # A forked worker of multiprocessing ends without what ``atexit`` was told, and drops what
        # this was told before the fork.
        Finalize(None, self._end_of_program, exitpriority=0)

    def wake(self) -> None:
        """Have the thread look around; never waits, from any thread."""
        with contextlib.suppress(OSError):  # Full, or closed by the program: it will wake anyway.
            self._wake_writer.send(b".")

    def add(self, observer: Observer) -> None:
        """Let viewers call for an observer."""
        calling = None
        try:
            calling = _calling_for(observer)
            self._begin_with(_Served(observer, calling, is_called_at=True))
        except (
            OSError,
            sockets.NoPlaceError,
            RuntimeError,
        ) as error:  # Or there are too many threads.
            if calling is not None:
                calling.close()
            warnings.warn(f"tui-profiler: no viewer can attach: {error}", stacklevel=3)

    def path_of(self, observer: Observer) -> str:
        """Return the path of an observer's socket; why there is none, where there is none."""
        served = self._watched.get(observer)
        if served is None or served.calling is None:
            return "no socket could be made, or no thread started"
        return str(served.calling.path)

    def add_called(self, observer: Observer, link: Link) -> str:
        """Serve one viewer, who has called already, and let others call.

        Returns:
            Why no others can call; empty where they can.
        """
        observer.admit(link, "")
        calling, why = None, ""
        try:
            calling = _calling_for(observer)
        except (OSError, sockets.NoPlaceError) as error:
            why = str(error)
        try:
            self._begin_with(_Served(observer, calling, is_called_at=calling is not None))
        except RuntimeError:  # There are too many threads.
            if calling is not None:
                calling.close()
            raise
        return why

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
            self._ready(wait_seconds)  # Its end does not wait for it.
            if not self._wake_reader.is_ours:
                pause(wait_seconds)  # Who has closed every descriptor may run another program now.
        with contextlib.suppress(OSError):
            sockets.remove_stale()
        sampling: threading.Thread | None = None
        while not self._is_ending:
            try:
                self._replace_lost()
            except OSError:  # There are too many open files.
                pause(LOST_SECONDS)
                continue
            for served in self._ready(self._seconds()):
                if served is None:
                    self._drain()
                else:
                    self._accept(served)
            while self._orders:
                self._orders.popleft()()
            if self._opens_at is not None and not _seconds_until(self._opens_at):
                self._opens_at = None
            for served in list(self._served):
                self._step(served)
            if (sampling is None or not sampling.is_alive()) and self._looked_at():
                sampling = threading.Thread(
                    target=self._sample, name="tui-profiler-sample", daemon=True
                )
                sampling.start()
        for served in list(self._served):
            self._end(served.observer, "the program ended")
        self._wake_reader.close()
        self._wake_writer.close()

    def _seconds(self) -> float | None:
        if self._orders or self._is_ending:
            return 0.0
        due = [served.due for served in self._served if served.due is not None]
        if self._opens_at is not None:
            due.append(self._opens_at)
        return _seconds_until(min(due)) if due else None

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_reader.receive_at_once(4096)
        for served in self._served:
            served.due = 0.0

    def _replace_lost(self) -> None:
        """Make anew what the program has closed."""
        if not (self._wake_reader.is_ours and self._wake_writer.is_ours):
            lost = self._wake_reader, self._wake_writer
            self._wake_reader, self._wake_writer = map(OwnSocket, socket.socketpair())
            for end in lost:
                end.close()
        for served in self._served:
            if served.calling is not None and not served.calling.socket.is_ours:
                served.calling.close()
                served.calling = None
                try:
                    served.calling = _calling_for(served.observer)
                except (OSError, sockets.NoPlaceError) as error:
                    warnings.warn(f"tui-profiler: no viewer can attach: {error}", stacklevel=1)

    def _ready(self, seconds: float | None) -> list[_Served | None]:
        """Wait until a viewer calls, and return for whom; None stands for ``wake``.

        ``poll`` has no descriptor of its own, and reads nothing from one that is the program's.
        """
        waited: dict[int, _Served | None] = {self._wake_reader.fileno(): None}
        if self._opens_at is None:
            for served in self._served:
                if served.calling is not None:
                    waited[served.calling.socket.fileno()] = served
        asked = select.poll()
        for number in waited:
            if number >= 0:  # Closed by the end of the program.
                asked.register(number, select.POLLIN)
        ready = asked.poll(None if seconds is None else seconds * 1000)
        return [waited[number] for number, _ in ready]

    def _serve(self, served: _Served) -> None:
        if not served.is_called_at or served.calling is not None:
            self._served.append(served)

    def _count_call(self, calls: float) -> None:
        """Take calls off the allowance; where it is used up, hear no more for a while."""
        now = time.monotonic()
        earned = max(now - self._calls_counted_at, 0.0) * CALLS_PER_SECOND
        self._calls_left = min(self._calls_left + earned, MOST_CALLS_AT_ONCE) - calls
        self._calls_counted_at = now
        if self._calls_left < 1.0 and self._opens_at is None:
            self._opens_at = now + (1.0 - self._calls_left) / CALLS_PER_SECOND

    def _end(self, observer: Observer, why: str) -> None:
        for served in [one for one in self._served if one.observer is observer]:
            self._served.remove(served)
            if served.calling is not None:
                served.calling.close()
            try:
                observer.close(why)
            except Exception as error:  # Rule 4: there is nobody left to tell but the program.
                warnings.warn(f"tui-profiler: {type(error).__name__}: {error}", stacklevel=1)

    def _step(self, served: _Served) -> None:
        if served.due is None or _seconds_until(served.due):
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
        if self._opens_at is not None:
            return  # One of another model used the allowance up.
        try:
            connected = served.calling.socket.accept()
        except OSError:
            self._count_call(GONE_CALL)
            return  # There are too many open files, or the program has closed it.
        is_gone = _has_hung_up(connected)
        self._count_call(GONE_CALL if is_gone else 1.0)
        try:
            if is_gone or not sockets.is_same_user(connected):
                connected.close()
            elif served.observer.connections >= MOST_VIEWERS and not served.observer.make_room():
                with connected:
                    OwnSocket(connected).send(encode(_FULL))
            else:
                served.observer.admit(Link(connected, self.wake, self.wake), _role())
                served.due = 0.0
        except (OSError, RuntimeError):  # It hung up meanwhile, or there are too many threads.
            connected.close()

    def _looked_at(self) -> list[Observer]:
        return [one.observer for one in tuple(self._served) if one.observer.is_looked_at]

    def _sample(self) -> None:
        """Be the thread that reads the machine's counters while anyone looks: drivers are slow."""
        samplers: dict[Observer, Sampler] = {}
        failures: Counter[Observer] = Counter()
        """In a row."""
        try:
            while (looked_at := self._looked_at()) and not self._is_ending:
                for observer in looked_at:
                    began = time.thread_time()
                    try:
                        if observer not in samplers:
                            samplers[observer] = _sampler(observer)
                        observer.post(samplers[observer].sample())
                        failures.pop(observer, None)
                    except (OSError, RuntimeError, psutil.Error):
                        pass  # The program has no open file or thread left; later it may again.
                    except Exception as error:  # Rule 4.
                        # It may have put another file under the number of one that was being read.
                        if (sampler := samplers.pop(observer, None)) is not None:
                            _close(observer, sampler)
                        failures[observer] += 1
                        if failures[observer] == TOLD_FAILURES:
                            observer.post(_unread(error))
                    finally:
                        observer.add_sampling(time.thread_time() - began)
                pause(SAMPLE_SECONDS)
        finally:
            for observer, sampler in samplers.items():
                _close(observer, sampler)

    def _after_fork(self) -> None:
        """Begin anew in a child; its thread is not there, and the sockets are the parent's."""
        watched = [one for one in self._watched.values() if one.is_called_at]
        for one in self._watched.values():
            one.observer.forget()
            if one.calling is not None:
                one.calling.socket.close()  # Its name is the parent's.
        self._wake_reader.close()
        self._wake_writer.close()
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
        with contextlib.suppress(OSError, sockets.NoPlaceError):
            served.calling = _calling_for(served.observer)
        self._serve(served)

    def _end_of_program(self) -> None:
        """End the thread, which removes the sockets; they are removed in any case."""
        self._is_ending = True
        self.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(END_SECONDS)
        for served in list(self._watched.values()):
            if served.calling is not None:
                served.calling.close()


def _sampler(observer: Observer) -> Sampler:
    """Return what reads the machine's counters for an observer; those of energy are started.

    Raises:
        OSError: the program has no open file left.
        RuntimeError: no thread can be started.
        psutil.Error: likewise, as psutil says it.
    """
    energy = EnergyWatch()
    made = Sampler(observer.program.started_at, energy=energy)
    try:
        energy.start()
    except RuntimeError:
        made.close()
        raise
    observer.energy.watch = energy
    return made


def _unread(error: Exception) -> Printed:
    why = f"{type(error).__name__}: {str(error)[:_MOST_CHARACTERS]}"
    again = "they are read again every second"
    return Printed(f"tui-profiler: the machine's counters cannot be read; {again}: {why}\n")


def _close(observer: Observer, sampler: Sampler) -> None:
    watch, observer.energy.watch = observer.energy.watch, None
    if watch is not None:
        watch.close()
    sampler.close()


def _calling_for(observer: Observer) -> _Calling:
    """Listen for a model of this process; the socket gets its name once it listens.

    Raises:
        NoPlaceError: there is no place for sockets.
        OSError: it cannot be made.
    """
    folder, name = sockets.directory(), observer.program.name
    path = sockets.socket_path(folder, os.getpid(), next(_ORDINALS), name)
    unnamed = path.with_suffix(".new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        unnamed.unlink(missing_ok=True)
        listening.bind(str(unnamed))
        # Not by umask, which is the whole program's; meanwhile the directory keeps others out.
        os.chmod(unnamed, 0o600)
        listening.listen(BACKLOG)
        unnamed.rename(path)
    except OSError:
        listening.close()
        raise
    return _Calling(OwnSocket(listening), path)


def _seconds_until(due: float) -> float:
    """Return the seconds until a time of ``time.monotonic``; 0 where the clock was put back."""
    left = due - time.monotonic()
    return left if 0.0 < left <= MOST_PAUSE_SECONDS else 0.0


def _has_hung_up(connected: socket.socket) -> bool:
    asked = select.poll()
    asked.register(connected, 0)
    return any(event & select.POLLHUP for _, event in asked.poll(0))


def _role() -> str:
    data = sys.modules.get("torch.utils.data")
    is_worker = data is not None and data.get_worker_info() is not None
    return "DataLoader worker" if is_worker else ""

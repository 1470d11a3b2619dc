"""When a program waits for collectives and runs backward passes, heard on the threads that do so.

Nothing here calls a collective, or changes the order of the program's own: the calls that it makes
anyway are timed.

1. While someone listens, four attributes of torch are replaced, and put back where they are still
   ours; below another replacement ours passes through for ever. Backward passes come from
   ``clock/backward.py``, which replaces a fifth.
2. What is replaced is written in C++, or called from code that Dynamo does not compile: no graph
   changes. Methods of ``DistributedDataParallel`` itself would be compiled again.
3. Nothing of ours raises in the program, waits, or asks a device: two readings of the timer and one
   item of a bounded queue for each call. What did not fit is counted.

| attribute | what it tells | when it is gone |
|---|---|---|
| ``torch._C._distributed_c10d.Work.wait`` | waits for collectives, whoever began them | no wait \
is known, and the reason says so |
| ``torch.distributed._broadcast_coalesced`` | DDP sends buffers round before a forward | counted \
as host time |
| ``Reducer._rebuild_buckets``, ``prepare_for_backward`` (of ``_distributed_c10d``) | what DDP \
calls when a forward begins and when it has ended | waits of DDP are not known |

DDP waits in C++ at the end of a backward pass. How long is the end of the pass less the time at
which the last gradient was ready, of which DDP keeps note for itself (``get_backward_stats``).
"""

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch.compiler import is_dynamo_compiling

from tui_profiler.probe.measure.clock.backward import ENGINE
from tui_profiler.system.real_time import perf_counter

Kind: TypeAlias = Literal["forward", "wait", "backward"]
Call: TypeAlias = Callable[..., object]

MOST_SPANS = 20_000
"""That wait to be taken: a quarter of a second of 20 microseconds each has fewer."""
MOST_WRAPPERS = 16
"""DDP modules whose backward passes are under way at once; those of more are not known."""
_NANOSECOND = 1e-9


class Span(NamedTuple):
    """A time in which a thread did one thing; seconds of ``time.perf_counter``."""

    kind: Kind
    thread: int
    began: float
    ended: float


class PendingCollectives:
    """What one listener was told and has not taken yet.

    Args:
        wants: tells whether forwards of the DDP module with that reducer are to be told.
    """

    def __init__(self, wants: Callable[[object], bool]) -> None:
        self.wants = wants
        self._spans: deque[Span] = deque(maxlen=MOST_SPANS)
        self.told = 0
        self._taken = 0
        self.unended = 0
        """Forwards of DDP modules whose gradients are not sent round: their end is not known."""
        self.trouble = ""
        """Why waits are not known; empty while they are."""

    def put(self, span: Span) -> None:
        """Keep a span; the oldest is dropped where there is no room."""
        self._spans.append(span)
        self.told += 1

    def take(self) -> tuple[list[Span], int]:
        """Return the spans since the last time, by their ends, and how many were dropped."""
        told = self.told
        spans = [self._spans.popleft() for _ in range(len(self._spans))]
        dropped = max(told - self._taken - len(spans), 0)
        self._taken += len(spans) + dropped
        return spans, dropped


class _OnThread(threading.local):
    forward_began = 0.0
    """When the DDP module that runs on this thread was called; 0 for none."""
    is_waiting = False


class Collectives:
    """Hears a process; for all models that are looked at in it."""

    def __init__(self) -> None:
        self._listeners: tuple[PendingCollectives, ...] = ()
        self._replaced: list[tuple[object, str, object, Call]] = []
        self._here = _OnThread()
        self._forwards: dict[int, _Forward] = {}
        """DDP modules between a forward and its backward, by ``id``."""
        self._trouble = ""

    @property
    def is_open(self) -> bool:
        """Whether anyone listens."""
        return bool(self._listeners)

    def listen(self, wants: Callable[[object], bool]) -> PendingCollectives:
        """Begin to be told; the first listener has the attributes replaced."""
        heard = PendingCollectives(wants)
        if not self._listeners:
            self._install()
        heard.trouble = self._trouble
        self._listeners = (*self._listeners, heard)
        return heard

    def leave(self, heard: PendingCollectives) -> None:
        """Be told no more; the last one to leave has everything put back."""
        before = self._listeners
        self._listeners = tuple(one for one in before if one is not heard)
        if before and not self._listeners:
            self._uninstall()

    def _install(self) -> None:
        from torch import distributed  # noqa: PLC0415 # only where the program uses it

        self._trouble = ""
        bound = getattr(torch._C, "_distributed_c10d", None)
        work, reducer = getattr(bound, "Work", None), getattr(bound, "Reducer", None)
        self._replace(work, "wait", self._timed_wait)
        self._trouble = ENGINE.listen(self) or self._trouble
        self._replace(reducer, "_rebuild_buckets", self._begun_forward)
        self._replace(reducer, "prepare_for_backward", self._ended_forward)
        if hasattr(distributed, "_broadcast_coalesced"):
            self._replace(distributed, "_broadcast_coalesced", self._timed_wait)

    def _replace(self, owner: object, name: str, made: Callable[[Call], Call]) -> None:
        before, stored = getattr(owner, name, None), getattr(owner, "__dict__", {}).get(name)
        if not callable(before) or stored is None:
            self._trouble = f"this version of torch has no {name}"
            return
        ours = functools.wraps(before)(made(before))
        try:
            setattr(owner, name, ours)
        except (AttributeError, TypeError) as error:
            self._trouble = f"this version of torch does not allow timing {name}: {error}"
            return
        # What is stored, not what is got of it: a method of pybind's is a function once it is got.
        self._replaced.append((owner, name, stored, ours))

    def _uninstall(self) -> None:
        ENGINE.leave(self)
        for owner, name, stored, ours in reversed(self._replaced):
            if getattr(owner, "__dict__", {}).get(name) is ours:
                setattr(owner, name, stored)
        self._replaced = []
        self._forwards.clear()

    def _tell(self, kind: Kind, began: float, ended: float, reducer: object = None) -> None:
        span = Span(kind, get_ident(), began, ended)
        for heard in self._listeners:
            if reducer is None or heard.wants(reducer):
                heard.put(span)

    def _timed_wait(self, before: Call) -> Call:
        def wait(*args: object, **kwargs: object) -> object:
            here = self._here
            if here.is_waiting or not self._listeners or is_dynamo_compiling():
                return before(*args, **kwargs)
            here.is_waiting = True
            began = perf_counter()
            try:
                return before(*args, **kwargs)
            finally:
                self._tell("wait", began, perf_counter())
                here.is_waiting = False

        return wait

    def before_pass(self) -> None:
        """Do nothing: what counts is when a backward pass ended."""

    def after_pass(self, began: float, ended: float) -> None:
        """Tell of a backward pass, and of what it waited for."""
        self._tell_wait_of_wrappers(began, ended)
        self._tell("backward", began, ended)

    def _begun_forward(self, before: Call) -> Call:
        def rebuild_buckets(*args: object, **kwargs: object) -> object:
            if self._listeners and not is_dynamo_compiling():
                if self._here.forward_began:
                    self._count_unended()
                self._here.forward_began = perf_counter()
            return before(*args, **kwargs)

        return rebuild_buckets

    def _ended_forward(self, before: Call) -> Call:
        def prepare_for_backward(*args: object, **kwargs: object) -> object:
            result = before(*args, **kwargs)
            if args and self._listeners and not is_dynamo_compiling():
                self._note(args[0], perf_counter())
            return result

        return prepare_for_backward

    def _note(self, reducer: object, now: float) -> None:
        """Tell the forward of a DDP module, and keep from when it counts."""
        began, self._here.forward_began = self._here.forward_began, 0.0
        try:
            if began:
                self._tell("forward", began, now, reducer)
            if id(reducer) in self._forwards or len(self._forwards) < MOST_WRAPPERS:
                self._forwards[id(reducer)] = _Forward(weakref.ref(reducer), now, _ready(reducer))
            else:
                self._is_in_trouble(f"more than {MOST_WRAPPERS} DDP modules run at once")
        except Exception as error:  # Ours, whatever it is: it must not reach the program.
            self._is_in_trouble(f"DDP does not report when gradients are ready: {error}")

    def _count_unended(self) -> None:
        for heard in self._listeners:
            heard.unended += 1

    def _tell_wait_of_wrappers(self, began: float, ended: float) -> None:
        """Tell how long the pass that has ended waited for gradients of other ranks."""
        last = 0.0
        try:
            for key, forward in tuple(self._forwards.items()):
                reducer = forward.reducer()
                ready = () if reducer is None else _ready(reducer)
                if ready != forward.ready_before:
                    last = max(last, forward.at + max(ready, default=0) * _NANOSECOND)
                    self._forwards.pop(key, None)
        except Exception as error:  # As above.
            self._is_in_trouble(f"DDP does not report when gradients are ready: {error}")
        if began < last < ended:
            self._tell("wait", last, ended)

    def _is_in_trouble(self, why: str) -> None:
        for heard in self._listeners:
            heard.trouble = heard.trouble or why


class _Forward(NamedTuple):
    """A forward of a DDP module whose backward has not been."""

    reducer: weakref.ref[object]
    at: float
    """Second at which it ended: from here on DDP counts."""
    ready_before: tuple[int, ...]
    """What DDP said then, of a pass before."""


def _ready(reducer: object) -> tuple[int, ...]:
    """Return when each gradient of a DDP module was ready, in nanoseconds since its forward."""
    return tuple(reducer.get_backward_stats())  # type: ignore[attr-defined]  # torch's Reducer


PROCESS = Collectives()
"""Of this process: what is replaced is replaced once, however many models are looked at."""

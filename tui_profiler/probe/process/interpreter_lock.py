"""What differs without the GIL, in a free-threaded build of Python.

1. ``append``, ``popleft`` and an assignment are atomic with and without the GIL, and so is ``list``
   of a dict, of a set or of a view of a dict. ``list`` and ``tuple`` of a deque are not: it may
   change meanwhile, which raises (``copied``).
2. Frames of another running thread cannot be read: they are freed meanwhile, and the interpreter
   crashes. Source: Python's how-to on free threading, "Frame objects"; python/cpython#152355.
3. Since Python 3.14 a new thread starts with a copy of the context of the thread that starts it
   (``sys.flags.thread_inherit_context``). There, per-thread values are not context variables
   (``OwnVariable``).
4. Reading and replacing an attribute are two steps. Where both must be one step, and performance
   does not matter, a lock that is free in a forked child guards them (``RareLock``).
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from types import FrameType
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

NO_FRAMES = "free-threaded Python cannot read the stack of a running thread"


def is_locked() -> bool:
    """Return whether the GIL is enabled; once enabled, it stays so."""
    asked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return asked()


def readable_frames(*, are_locked: Callable[[], bool] = is_locked) -> dict[int, FrameType]:
    """Return the innermost frames of all threads; without the GIL, of this thread only."""
    if are_locked():
        return sys._current_frames()
    return {threading.get_ident(): sys._getframe(1)}


def running_threads() -> set[int]:
    """Return the identifiers of all running threads; without the GIL, of those Python knows.

    Python does not know a thread that C++ started, unless it was asked for the thread.
    """
    if is_locked():
        return set(sys._current_frames())
    return {one.ident for one in threading.enumerate() if one.ident is not None}


def copied(queue: deque[T]) -> list[T]:
    """Return a copy of a queue that other threads append to."""
    while True:
        with suppress(RuntimeError):  # It changed meanwhile.
            return list(queue)


class Variable(Protocol[T]):
    """A variable with a separate value per thread."""

    @property
    def get(self) -> Callable[[], T]:
        """A function that returns this thread's value."""
        ...

    @property
    def set(self) -> Callable[[T], object]:
        """A function that sets this thread's value."""
        ...


class OwnVariable(Generic[T_co]):
    """A per-thread variable that new threads do not inherit.

    Args:
        default: value on a thread that has not set it.
    """

    def __init__(self, default: T_co) -> None:
        class Own(threading.local):
            value = default

        own = Own()
        # No Python code: it is called at each call of a module.
        self.get: Callable[[], T_co] = partial(getattr, own, "value")
        self.set: Callable[[T_co], None] = partial(setattr, own, "value")


def threads_inherit() -> bool:
    """Return whether a new thread inherits the context variables of the thread that starts it."""
    return bool(getattr(sys.flags, "thread_inherit_context", False))


def own_variable(name: str, default: T, *, is_inherited: bool) -> Variable[T]:
    """Return a per-thread variable.

    Args:
        name: of the context variable.
        default: value on a thread that has not set it.
        is_inherited: whether new threads inherit context variables, which are faster otherwise.
    """
    if is_inherited:
        return OwnVariable(default)
    found: ContextVar[T] = ContextVar(name, default=default)
    return found


class RareLock:
    """A lock for rare operations; it is free in a forked child."""

    def __init__(self) -> None:
        self._free()
        os.register_at_fork(after_in_child=self._free)

    def _free(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        with suppress(RuntimeError):  # In a child that was forked while it was held.
            self._lock.release()

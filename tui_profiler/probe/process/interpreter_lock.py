"""What differs where Python runs without the interpreter's lock, in a free-threaded build.

1. ``append``, ``popleft`` and an assignment are one step with and without the lock, and so is
   ``list`` of a dict, of a set or of a view of a dict. ``list`` and ``tuple`` of a queue are not:
   it may be changed meanwhile, which raises (``copied``).
2. Frames of another thread that runs cannot be read: they are freed meanwhile, and the interpreter
   crashes. Source: Python's how-to on free threading, "Frame objects"; python/cpython#152355.
3. Since Python 3.14 a new thread begins with a copy of the context of the thread that starts it
   (``sys.flags.thread_inherit_context``). What is one thread's own lies in no context variable
   there (``OwnVariable``).
4. Reading and replacing an attribute are two steps. Where they must be one, and are seldom, they
   are inside of a lock that a forked child finds free (``RareLock``).
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

NO_FRAMES = "a free-threaded Python cannot read the stack of a thread that runs"


def is_locked() -> bool:
    """Return whether one thread at a time runs Python; once it does, it stays so."""
    asked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return asked()


def readable_frames(*, are_locked: Callable[[], bool] = is_locked) -> dict[int, FrameType]:
    """Return the innermost frames of all threads; of this thread alone where there is no lock."""
    if are_locked():
        return sys._current_frames()
    return {threading.get_ident(): sys._getframe(1)}


def copied(queue: deque[T]) -> list[T]:
    """Return what is in a queue that other threads append to."""
    while True:
        with suppress(RuntimeError):  # It was changed meanwhile.
            return list(queue)


class Variable(Protocol[T]):
    """Has another value on each thread."""

    @property
    def get(self) -> Callable[[], T]:
        """Returns this thread's value."""
        ...

    @property
    def set(self) -> Callable[[T], object]:
        """Sets it."""
        ...


class OwnVariable(Generic[T_co]):
    """A variable of each thread that no other one begins with.

    Args:
        default: its value on a thread that has not set it.
    """

    def __init__(self, default: T_co) -> None:
        class Own(threading.local):
            value = default

        own = Own()
        # No line of Python: it is asked at each call of a module.
        self.get: Callable[[], T_co] = partial(getattr, own, "value")
        self.set: Callable[[T_co], None] = partial(setattr, own, "value")


def threads_inherit() -> bool:
    """Return whether a new thread begins with the context variables of the one that starts it."""
    return bool(getattr(sys.flags, "thread_inherit_context", False))


def own_variable(name: str, default: T, *, is_inherited: bool) -> Variable[T]:
    """Return a variable of each thread.

    Args:
        name: of it.
        default: its value on a thread that has not set it.
        is_inherited: whether new threads inherit context variables, which are found faster.
    """
    if is_inherited:
        return OwnVariable(default)
    found: ContextVar[T] = ContextVar(name, default=default)
    return found


class RareLock:
    """A lock for what is done seldom; a forked child begins with it free."""

    def __init__(self) -> None:
        self._free()
        os.register_at_fork(after_in_child=self._free)

    def _free(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        with suppress(RuntimeError):  # In a child that was forked inside of it.
            self._lock.release()

"""Waits for a program's own next forward, and has it recorded.

1. ``nn.Module.__call__`` is replaced only until a forward was recorded.
2. One forward is taken, by whichever thread comes first; the others run on as they are.
3. A forward that something else looks into (another mode, a transform, a capture) is let alone,
   and the next one is waited for; ``waits_because`` says why.
"""

from __future__ import annotations

import builtins
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from types import FunctionType

import torch
from torch.compiler import is_dynamo_compiling

from tui_profiler.probe.module_call import Call, present_call, put_call, take_off
from tui_profiler.probe.thread_internals import why_not_record
from tui_profiler.probe.trace.careful import LOOP_SECONDS
from tui_profiler.probe.trace.overheard import Hearing

MOST_TRIES = 5
"""Forwards whose recording may fail before we give up: each of them was slower for it."""


class Loop:
    """A forward that is recorded no further, of what may be no model but a loop around one.

    Args:
        module: whose forward it is.
        seconds: how soon after now it returns where it is one of a slow model after all.
    """

    def __init__(self, module: weakref.ref[torch.nn.Module], seconds: float) -> None:
        self.module = module
        self.goes_on = True
        self.is_model = False
        self._until = time.perf_counter() + seconds

    def end(self) -> None:
        """Note that it returned, or raised."""
        self.is_model = time.perf_counter() < self._until
        self.goes_on = False


class Listener:
    """One wait for one forward.

    Args:
        wanted: tells whether a call is the beginning of a forward to record. It is asked at every
            call of a module, so it must be quick.
        name: of the root node; its class where empty.
        heard: called once a forward was recorded, on the thread that ran it: must be quick.
        loop_seconds: how long a forward that runs one model again and again is recorded.
    """

    def __init__(
        self,
        wanted: Callable[[torch.nn.Module], bool],
        name: str,
        heard: Callable[[], None],
        loop_seconds: float = LOOP_SECONDS,
    ) -> None:
        self._wanted = wanted
        self._name = name
        self._heard = heard
        self._loop_seconds = loop_seconds
        self._free = threading.Semaphore(1)
        self._tries = 0
        self._replaced: Call | None = None
        self._call: Call | None = None
        self._under_way: Hearing | None = None
        self.hearing: Hearing | None = None
        """Of the forward that was recorded."""
        self.root: weakref.ref[torch.nn.Module] | None = None
        """The module whose forward it was."""
        self.waits_because = ""
        self.loop: Loop | None = None
        """A forward that is no model's but a program's loop around one."""
        self.gave_up = ""
        """Why it waits no longer, though nothing was recorded."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return self.hearing is not None or bool(self.gave_up)

    @property
    def is_recording(self) -> bool:
        """Whether a forward is being recorded, which ends only through what was replaced."""
        under_way = self._under_way
        return under_way is not None and not under_way.trouble

    @property
    def nested(self) -> Call | None:
        """What calls go through while a forward is recorded; None at other times."""
        under_way = self._under_way
        return under_way.nested if under_way is not None else None

    def install(self) -> None:
        """Begin to wait."""
        self._replaced = present_call()
        self._call = _replacement(self, self._replaced)
        put_call(self._call)

    def uninstall(self) -> None:
        """Wait no longer; a forward that is being recorded goes on, and is forgotten.

        On the thread of that forward, such as in a child that it has forked, it is recorded no
        further.
        """
        under_way = self._under_way
        if under_way is not None and under_way.is_of_this_thread:
            under_way.leave_early()
        call, self._call = self._call, None
        if call is not None and self._replaced is not None:
            take_off(call, self._replaced)
        if self.hearing is None:
            self.gave_up = self.gave_up or "nobody waits any more"

    def claims(self, module: torch.nn.Module) -> bool:
        """Take a call as the one to record; no other is taken until it is over."""
        if not self._wanted(module):
            return False
        self.waits_because = why_not_record()
        return not self.waits_because and self._free.acquire(blocking=False)

    def listen(
        self,
        forward: Call,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Run a forward that was claimed, and keep what was heard."""
        # It is kept by what it calls: holding the model or itself, it would keep both for a while.
        left_early = partial(self._leave, weakref.ref(module))
        hearing = Hearing(module, self._name, left_early, self._loop_seconds)
        self._under_way = hearing
        try:
            return hearing.run(forward, args, kwargs)
        finally:
            if self.loop is not None:
                self.loop.end()
            self._tries += 1
            self.waits_because = hearing.trouble
            if not hearing.trouble:
                self.root = weakref.ref(module)
                self.hearing = hearing
                self._heard()
            elif self._tries >= MOST_TRIES:
                self.gave_up = hearing.trouble
                self._heard()
            self._under_way = None  # Last: whoever sees it must find what came of it.
            self._free.release()

    def _leave(self, module: weakref.ref[torch.nn.Module], why: str) -> None:
        self.loop = Loop(module, self._loop_seconds)
        self.gave_up = why
        self._heard()


# The one below is only its code, as in ``measure/timed_call.py``: what it reads are globals of its
# own. With a closure, what was compiled while we listen would be compiled again afterwards.
# ruff: noqa: F821 - they are defined there
listener: Listener
replaced: Call


def _listening_call(self: torch.nn.Module, /, *args: object, **kwargs: object) -> object:
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if (nested := listener.nested) is not None:
        return nested(self, *args, **kwargs)
    if listener.is_over or not listener.claims(self):
        return replaced(self, *args, **kwargs)
    return listener.listen(replaced, self, args, kwargs)


def _replacement(owner: Listener, before: Call) -> Call:
    names = {
        "__builtins__": builtins,  # which Dynamo wants to find here
        "listener": owner,
        "replaced": before,
        "is_dynamo_compiling": is_dynamo_compiling,
    }
    return FunctionType(_listening_call.__code__.replace(), names, "listening_call")

"""Waits for a program's own next forward, and has it recorded.

1. ``nn.Module.__call__`` is replaced only until a forward was recorded.
2. One forward is taken, by whichever thread comes first; the others run on as they are.
3. A forward that something else looks into (another mode, a transform, a capture) is let alone,
   and the next one is waited for; ``waits_because`` says why.
4. Where a clock is wanted, it takes the listener's place before the recorded forward returns, on
   the thread that ran it: a script of three forwards has ended before another thread could do so.
5. ``generate`` of transformers takes ``model.__call__`` once for all its tokens: where the listener
   was in place, what it calls after that goes on to the clock.
"""

import builtins
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import NamedTuple, TypeAlias

import torch
from torch.compiler import is_dynamo_compiling

from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat import module_call
from tui_profiler.probe.torch_compat.entry_method import EntryMethod, entry_above, holds
from tui_profiler.probe.torch_compat.forward_kind import Kind, kind_of
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.torch_compat.threads import modules_called, why_not_record
from tui_profiler.probe.torch_compat.versions import COMPILES_PARTS_ALONE
from tui_profiler.probe.trace.record_program_forward import LOOP_SECONDS, ProgramForwardRecorder
from tui_profiler.system import real_time as time

MakesClock: TypeAlias = Callable[[torch.nn.Module, Kind | None, EntryMethod | None], ModuleClock]
"""Makes a clock for a model, for forwards like a recorded one, of a method where that ran."""

LOOP_PARTS = 64
LOOP_TIMES = 4
ENTRY_SECONDS = 2.0
"""A method that has called parts so often, one of them so many times, for so long, and was not
called again, is a loop. One step of a large model calls more parts and takes longer, each once."""
LOOK_SECONDS = 0.01
"""Between two walks up the stack, which take about 0.05 ms, for parts of a watched model."""
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


class Methods(NamedTuple):
    """Which methods are entries: they stand for the forward of a model."""

    are_found: bool = False
    """Whether a model is looked for above the one that is called
    (``torch_compat/entry_method.py``)."""
    watched: weakref.ref[torch.nn.Module] | None = None
    """The one model that is waited for, whose methods are entries too where its program calls none
    but its parts; None: ``are_found`` says whether any are."""
    trained: weakref.ref[torch.nn.Module] | None = None
    """A model of which only a method is taken that runs it in training mode."""
    seconds: float = ENTRY_SECONDS
    """How long a method that is not called again may call parts."""


_NO_METHODS = Methods()


class Listener:
    """One wait for one forward.

    Args:
        wanted: tells whether a call is the beginning of a forward to record. It is asked at every
            call of a module, so it must be quick.
        name: of the root node; its class where empty.
        heard: called when a forward was recorded, on the thread that ran it: must be quick.
        loop_seconds: how long a forward that runs one model again and again is recorded.
        methods: that stand for the forward of a model.
        is_chosen: tells whether a model is one that the user wants to see.
        makes_clock: of forwards after the recorded one; None: no clock is put on here.
        kind: of the forward to record; None: any.
    """

    def __init__(
        self,
        wanted: Callable[[torch.nn.Module], bool],
        name: str,
        heard: Callable[[], None],
        loop_seconds: float = LOOP_SECONDS,
        *,
        methods: Methods = _NO_METHODS,
        is_chosen: Callable[[torch.nn.Module], bool] = lambda model: True,
        makes_clock: MakesClock | None = None,
        kind: Kind | None = None,
    ) -> None:
        self._makes_clock = makes_clock
        self._kind = kind
        self._is_ended = False
        self._clock: ModuleClock | None = None
        self._is_chosen = is_chosen
        self._methods = methods
        self._watched, self._trained = methods.watched, methods.trained
        model = methods.watched() if methods.watched is not None else None
        self._parts = frozenset(map(id, each_module(model))) if model is not None else frozenset()
        self._looks_at = 0.0
        """``time.perf_counter()`` before which no stack is walked for a call of a part."""
        self.entry_ran = False
        """Whether what was recorded is a call of ``entry``."""
        self._refused: set[tuple[int, str]] = set()
        self._below = self._again = 0
        """Calls of parts below the entry since it was found, and of the one it was found by."""
        self._found_by = 0
        """``id`` of that one."""
        self._found_at = 0.0
        self.entry: EntryMethod | None = None
        """The method that stands for the forward of the root, where its program calls that."""
        self._wanted = wanted
        self._name = name
        self._heard = heard
        self._loop_seconds = loop_seconds
        self._free = threading.Semaphore(1)
        self._tries = 0
        self._replaced: module_call.Call | None = None
        self._call: module_call.Call | None = None
        self._code = _listening_call.__code__.replace()
        self._passing: list[None] = []
        """One for each call that passes by."""
        self._under_way: ProgramForwardRecorder | None = None
        self.heir: module_call.Call | None = None
        """What the clock that has taken the place put there."""
        self.hearing: ProgramForwardRecorder | None = None
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
    def nested(self) -> module_call.Call | None:
        """What calls go through while a forward is recorded; None at other times."""
        under_way = self._under_way
        return under_way.nested if under_way is not None else None

    def install(self) -> None:
        """Begin to wait."""
        with module_call.CHANGING:
            self._replaced = module_call.present_call()
            self._call = _replacement(self, self._replaced)
            module_call.put_call(self._call)

    def uninstall(self) -> None:
        """Wait no longer; a forward that is being recorded goes on, and is forgotten.

        On the thread of that forward, such as in a child that it has forked, it is recorded no
        further.
        """
        under_way = self._under_way
        if under_way is not None and under_way.is_of_this_thread:
            under_way.leave_early()
        self._is_ended = True
        call, self._call = self._call, None
        clock, self._clock = self._clock, None
        if clock is not None:
            clock.uninstall()
        elif self.entry is not None:
            self.entry.take_off()
        if call is not None and self._replaced is not None:
            module_call.take_off(call, self._replaced)
        if self.hearing is None:
            self.gave_up = self.gave_up or "the request was cancelled"

    def take_clock(self) -> ModuleClock | None:
        """Wait no longer, and give the clock that has taken the place, None where none has."""
        clock, self._clock = self._clock, None
        if clock is None:
            self.uninstall()
        return clock

    def pass_by(
        self,
        forward: module_call.Call,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Call a module that was compiled in place, where its parts must not meet the listener."""
        call = self._call
        own = getattr(torch.nn.Module, "_wrapped_call_impl", None)
        if not isinstance(call, FunctionType) or not isinstance(own, FunctionType):
            return forward(module, *args, **kwargs)
        self._passing.append(None)
        call.__code__ = own.__code__.replace()
        try:
            return forward(module, *args, **kwargs)
        finally:
            self._passing.pop()
            if not self._passing:
                call.__code__ = self._code

    def claims(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> bool:
        """Take a call as the one to record; no other is taken until it is over."""
        is_wanted = self._wanted(module)
        if self._watched is not None and id(module) in self._parts:
            watched = self._watched()
            if self._is_below_entry(module, watched) or not is_wanted:
                return False
        elif not is_wanted:
            trained = self._trained() if self._trained is not None else None
            if trained is not None and trained.training and holds(trained, module):
                self._is_below_entry(module, trained)
            return False
        elif self._methods.are_found and self._is_below_entry(module):
            return False
        if self._kind is not None and kind_of(module, args, kwargs) != self._kind:
            return False
        if not self._is_chosen(module) or not self._is_taken():
            return False
        self.entry_ran = False
        return True

    def _is_taken(self) -> bool:
        self.waits_because = why_not_record()
        return not self.waits_because and self._free.acquire(blocking=False)

    def _is_below_entry(self, module: torch.nn.Module, of: torch.nn.Module | None = None) -> bool:
        """Tell whether a call is one of a part whose model is run by a method of its own.

        Args:
            module: that is called.
            of: the one model whose methods are looked for; None: of any.
        """
        entry = self.entry
        if entry is None:
            if of is not None and (module is of or not self._is_time_to_look()):
                return False
            entry = entry_above(module, of)
            above = entry.model() if entry is not None else None
            if entry is None or above is None or entry.key in self._refused:
                return False
            if not self._is_chosen(above):
                return False
            self.entry, self._found_at = entry, time.perf_counter()
            self._below, self._again, self._found_by = 0, 0, id(module)
            entry.put(self._entered)
        model = entry.model()
        if model is not module and model is not None and holds(model, module):
            self._below += 1
            self._again += id(module) == self._found_by
            is_often = self._below >= LOOP_PARTS and self._again >= LOOP_TIMES
            if not is_often or time.perf_counter() - self._found_at < self._methods.seconds:
                return True
        elif model is not None and model is not module:
            return False
        # It was never called again, or its model is called as well.
        entry.take_off()
        self._refused.add(entry.key)
        self.entry = None
        return False

    def _is_time_to_look(self) -> bool:
        """Tell whether to walk the stack again for a model whose own call is waited for."""
        now = time.perf_counter()
        if 0.0 <= self._looks_at - now <= LOOK_SECONDS:
            return False
        self._looks_at = now + LOOK_SECONDS
        return True

    def _entered(
        self,
        method: module_call.Call,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Run a method that stands for the forward of its model."""
        is_inside = next(modules_called(sys._getframe()), None) is not None
        is_other = self._trained is not None and not module.training
        if is_other or self.is_over or is_inside or self.nested is not None or not self._is_taken():
            return method(module, *args, **kwargs)
        self.entry_ran = True
        return self.listen(method, module, args, kwargs)

    def listen(
        self,
        forward: module_call.Call,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Run a forward that was claimed, and keep what was heard."""
        # It is kept by what it calls: holding the model or itself, it would keep both for a while.
        left_early = partial(self._leave, weakref.ref(module))
        hearing = ProgramForwardRecorder(module, self._name, left_early, self._loop_seconds)
        self._under_way = hearing
        try:
            return hearing.run(forward, args, kwargs, nested=self._replaced)
        finally:
            if self.loop is not None:
                self.loop.end()
            self._tries += 1
            self.waits_because = hearing.trouble
            if not hearing.trouble:
                self.root = weakref.ref(module)
                self._hand_over(module, hearing.kind)
                self.hearing = hearing
                self._heard()
            elif self._tries >= MOST_TRIES:
                self.gave_up = hearing.trouble
                self._heard()
            self._under_way = None  # Last: whoever sees it must find what came of it.
            self._free.release()

    def _hand_over(self, module: torch.nn.Module, kind: Kind | None) -> None:
        """Put the clock in the place of the listener, unless another replacement lies above it."""
        call, replaced = self._call, self._replaced
        if (
            self._makes_clock is None
            or call is None
            or replaced is None
            or not module_call.is_present(call)
        ):
            return
        try:
            if self.entry is not None:
                self.entry.take_off()
            clock = self._makes_clock(module, kind, self.entry if self.entry_ran else None)
            clock.install(instead_of=(call, replaced))
        except Exception as error:  # Ours: it must not reach the program.
            self.waits_because = f"{type(error).__name__}: {error}"
            return
        if not clock.is_installed:
            return  # Another replacement was put above it meanwhile.
        self._clock, self.heir = clock, clock.call
        if self._is_ended:  # By another thread, which did not see the clock.
            clock.uninstall()

    def _leave(self, module: weakref.ref[torch.nn.Module], why: str) -> None:
        self.loop = Loop(module, self._loop_seconds)
        self.gave_up = why
        self._heard()


# The one below is only its code, as in ``measure/clock/timed_call.py``: what it reads are globals
# of its own. With a closure, what was compiled while we listen would be compiled again afterwards.
# ruff: noqa: F821 - they are defined there
listener: Listener
replaced: module_call.Call
compiles_parts_alone: bool
is_present: Callable[[module_call.Call], bool]


def _listening_call(self: torch.nn.Module, /, *args: object, **kwargs: object) -> object:
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if (nested := listener.nested) is not None:
        return nested(self, *args, **kwargs)
    if (heir := listener.heir) is not None and is_present(heir):
        return heir(self, *args, **kwargs)
    if listener.is_over or not listener.claims(self, args, kwargs):
        if compiles_parts_alone and self._compiled_call_impl is not None:
            return listener.pass_by(replaced, self, args, kwargs)
        return replaced(self, *args, **kwargs)
    return listener.listen(replaced, self, args, kwargs)


def _replacement(owner: Listener, before: module_call.Call) -> module_call.Call:
    names = {
        "__builtins__": builtins,  # which Dynamo wants to find here
        "listener": owner,
        "replaced": before,
        "compiles_parts_alone": COMPILES_PARTS_ALONE,
        "is_dynamo_compiling": is_dynamo_compiling,
        "is_present": module_call.is_present,
    }
    return FunctionType(owner._code, names, "listening_call")

"""A stack and a recorder for a forward that a program runs: their mistakes stay their own.

A module whose forward is a whole loop around another one, such as one that trains, may not return
for hours. It is known by what it has run again and again, and recorded no further.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from tui_profiler.probe.cost.call import Call, signature_of, tensors_in
from tui_profiler.probe.torch_compat.internals import Operator
from tui_profiler.probe.torch_compat.modules import has_parameters
from tui_profiler.probe.torch_compat.threads import innermost_mode, pop_mode, push_mode
from tui_profiler.probe.trace.recorder import RecorderAroundCompiler
from tui_profiler.probe.trace.torchscript.walk import run_as_a_whole
from tui_profiler.probe.trace.tree.growing_tree import Frame, Place, Places
from tui_profiler.probe.trace.tree.module_stack import ModuleStack

Forward: TypeAlias = Callable[..., object]

LOOP_SECONDS = 10.0
"""A forward that takes no longer, recorded, is one of a model."""
LOOP_CALLS = 8
"""What is called so often from a longer one, and has parameters, is the model inside of a loop."""
_IN_THE_ROOT = 2
"""Frames while the root runs, and nothing inside of it."""


class GuardedStack(ModuleStack):
    """Keeps its own mistakes from the program that it listens to."""

    def __init__(self, places: Places, loop_seconds: float) -> None:
        super().__init__(places)
        self._loop_seconds = loop_seconds
        self.trouble = ""
        self.repeated: Place | None = None
        """A model that the root has run again and again."""
        self._began = time.perf_counter()

    @property
    def is_of_this_thread(self) -> bool:
        """Whether the forward runs on the thread that asks."""
        return self._thread == threading.get_ident()

    @property
    def is_around_a_loop(self) -> bool:
        """Whether the root is no model but a program's loop around one; asked before each call."""
        if self.repeated is None or len(self.frames) != _IN_THE_ROOT:
            return False
        return time.perf_counter() - self._began >= self._loop_seconds

    def enter(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Place:
        """Put a call on the stack, or what stands for it where that failed."""
        depth = len(self.frames)
        try:
            place = super().enter(module, args, kwargs)
            place.note = place.note or run_as_a_whole(module)
            if place.calls == LOOP_CALLS and depth == _IN_THE_ROOT and has_parameters(module):
                self.repeated = place
            return place
        except Exception as error:
            self.trouble = self.trouble or f"{type(error).__name__}: {error}"
            if len(self.frames) == depth:  # What ``end`` takes off again.
                self.frames.append(Frame(self.running.place))
            return self.running.place

    def leave(self, place: Place, output: object) -> None:
        """Note what a call gave, where that can be done."""
        try:
            super().leave(place, output)
        except Exception as error:
            self.trouble = self.trouble or f"{type(error).__name__}: {error}"


class GuardedRecorder(RecorderAroundCompiler):  # type: ignore[no-untyped-call] # torch has no types
    """Runs every operator exactly once, as it is; its own mistakes stay its own."""

    trouble = ""
    _is_on = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would import torch._dynamo to hide us from it, at the first operator: two seconds,
        # in which the program's threads wait for the interpreter again and again.
        return False

    def __enter__(self) -> GuardedRecorder:
        push_mode(self)
        self._is_on = True
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_on:
            pop_mode()
            self._is_on = False

    def leave_early(self) -> bool:
        """Record no more, on the thread that is recorded; False: another mode is in the way."""
        if self._is_on and innermost_mode() is not self:
            return False
        self.__exit__()
        return True

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        keywords = kwargs or {}
        result = func(*args, **keywords)
        if not self.trouble:
            try:
                self._note(func, args, keywords, result)
            except Exception as error:
                self.trouble = f"{func}: {type(error).__name__}: {error}"
        return result

    def _note(
        self, func: Operator, args: tuple[object, ...], kwargs: dict[str, object], result: object
    ) -> None:
        if func is torch.ops.prim.device.default:
            return
        call = Call(signature_of(func), args, kwargs, ())
        written = [t for name in call.signature.written for t in tensors_in(call.get(name))]
        self._record(func, call, written, result)


class HiddenRecorder(GuardedRecorder):  # type: ignore[no-untyped-call] # torch has no types
    """The same where ``torch._dynamo`` is imported: it must not compile us."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return True

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return super().__torch_dispatch__(func, types, args, kwargs)


def stacked(stack: GuardedStack, forward: Forward, leave_early: Callable[[], bool]) -> Forward:
    """Return what runs a call of a module, and keeps the stack where it is of the stack's thread.

    Args:
        stack: kept.
        forward: runs the call.
        leave_early: asked where the root is no model, and tells whether the stack is kept no more.
    """

    def call(self: torch.nn.Module, /, *args: object, **kwargs: object) -> object:
        if not stack.is_watching() or (stack.is_around_a_loop and leave_early()):
            return forward(self, *args, **kwargs)
        place = stack.enter(self, args, kwargs)
        try:
            output = forward(self, *args, **kwargs)
            stack.leave(place, output)
        finally:
            stack.end()
        return output

    return call

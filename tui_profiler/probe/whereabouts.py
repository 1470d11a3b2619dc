"""Which model a script runs.

A script does not say what its model is. It is the outermost module with parameters that it calls:
a layer may be called alone first, to learn the shape of what it gives, and a model may be put aside
for the next one and stay alive. A module whose forward is a whole loop around another one, such as
one that trains, is no model: what it calls is.
"""

from __future__ import annotations

import sys
import time
import weakref

from torch import nn

from tui_profiler.probe.listener import Loop
from tui_profiler.probe.modules import has_parameters
from tui_profiler.probe.thread_internals import modules_called
from tui_profiler.probe.trace.places import class_name
from tui_profiler.probe.trace.weights import all_modules

MOST_MET = 64
"""Models that are told apart."""
SETTLED_SECONDS = 2.0
"""A model that was called sooner than this ago is still the one that is run."""
WAIT_SECONDS = 10.0


class Whereabouts:
    """Tells models from their parts, and notices that another than the one looked at is run.

    Args:
        wait_seconds: how long the other one's next forward is waited for, and how long nothing is
            noticed after one was waited for in vain.
    """

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._until = 0.0
        self._not_before = 0.0
        self._rested = False
        """Whether it was noticed by what is looked at not being called."""
        self._loops: tuple[Loop, ...] = ()
        self._met: list[tuple[weakref.ref[nn.Module], str]] = []
        """Models that were called, by any thread, with their classes."""

    def is_model(self, module: nn.Module) -> bool:
        """Tell whether a call that begins on this thread is one of a model, not of its part."""
        if not has_parameters(module) or self._is_loop(module):
            return False
        return self._outermost([*modules_called(sys._getframe())]) is None

    def meet(self, module: nn.Module) -> None:
        """Take note of a call that begins on this thread, where it is one of a model."""
        if self.is_model(module):
            self.note(module)

    def note(self, model: nn.Module) -> None:
        """Take note of a model that is run."""
        if len(self._met) < MOST_MET and all(ref() is not model for ref, _ in list(self._met)):
            self._met.append((weakref.ref(model), class_name(model)))

    def others(self, root: nn.Module) -> tuple[str, ...]:
        """Give the classes of the models that were met, but for ``root`` and its parts."""
        met = list(self._met)
        if all(ref() is root for ref, _ in met):
            return ()
        own = {id(module) for module in all_modules(root)}
        return tuple({name: None for ref, name in met if id(ref()) not in own})

    def pass_over(self, loop: Loop) -> None:
        """Take what a module calls for models, and itself for none."""
        self._loops = (*(one for one in self._loops if one.module() is not None), loop)

    @property
    def patience(self) -> int:
        """How many times as long the next forward is recorded before it is taken for a loop.

        It doubles with each that was taken for one and returned soon: those were slow models.
        """
        return 1 << sum(one.is_model for one in self._loops)

    @property
    def innermost_loop(self) -> nn.Module | None:
        """What was passed over last, of all whose forwards still go on."""
        return next((one.module() for one in self._loops[::-1] if one.goes_on), None)

    def is_elsewhere(self, root: nn.Module, idle_seconds: float) -> bool:
        """Tell whether a forward of another model is to be waited for.

        Args:
            root: what is looked at.
            idle_seconds: since its last forward ended.
        """
        now = time.monotonic()
        if now < self._not_before:
            return False
        self._rested = idle_seconds >= SETTLED_SECONDS
        if not self._rested and not self._is_inside(root):
            return False
        self._until = now + self._wait_seconds
        return True

    def is_in_vain(self, idle_seconds: float) -> bool:
        """Tell whether it is not waited for any more: for too long, or who rested is run again.

        Whoever is run meanwhile is slower: each call of a part is looked at.
        """
        is_back = self._rested and idle_seconds < SETTLED_SECONDS
        return is_back or time.monotonic() >= self._until

    def give_up(self) -> None:
        """Notice nothing for a while."""
        self._not_before = time.monotonic() + self._wait_seconds

    def _is_inside(self, root: nn.Module) -> bool:
        """Tell whether a thread is in a call of another model that called ``root``."""
        frames = sys._current_frames()
        found = False
        # One by one: held by a name of ours, our own frame would hold itself, and what is below it.
        while frames:
            calls = [*modules_called(frames.popitem()[1])]
            around = self._outermost(calls)
            found |= around is not None and around is not root and any(one is root for one in calls)
        return found

    def _outermost(self, calls: list[nn.Module]) -> nn.Module | None:
        """Give the model among calls inside of each other, innermost first."""
        models = (one for one in calls[::-1] if has_parameters(one) and not self._is_loop(one))
        return next(models, None)

    def _is_loop(self, module: nn.Module) -> bool:
        return any(one.module() is module and not one.is_model for one in self._loops)

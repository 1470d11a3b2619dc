"""Which model a script runs, by the stacks of its threads.

A script does not say what its model is. It is the outermost module with parameters that it calls:
a layer may be called alone first, to learn the shape of what it gives, and a model may be put aside
for the next one and stay alive.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Iterator
from types import FrameType

from torch import nn

from tui_profiler.probe.modules import has_parameters
from tui_profiler.probe.thread_internals import modules_called

SETTLED_SECONDS = 2.0
"""A model that was called sooner than this ago is still the one that is run."""
WAIT_SECONDS = 10.0


def is_model(module: nn.Module) -> bool:
    """Tell whether a call that begins on this thread is one of a model, not of a part of one."""
    return has_parameters(module) and _outermost(sys._getframe()) is None


class Whereabouts:
    """Notices that another model than the one that is looked at is run, or one around it.

    Args:
        wait_seconds: how long the other one's next forward is waited for.
    """

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._other: weakref.ref[nn.Module] | None = None
        self._until = 0.0
        self._never_again: list[weakref.ref[nn.Module]] = []

    def is_elsewhere(self, root: nn.Module, idle_seconds: float) -> bool:
        """Look at every thread's stack.

        Args:
            root: what is looked at.
            idle_seconds: since its last forward ended.
        """
        for other in _others(root, idle_seconds):
            if all(one() is not other for one in self._never_again):
                self._other, self._until = weakref.ref(other), time.monotonic() + self._wait_seconds
                return True
        return False

    def is_in_vain(self) -> bool:
        """Tell whether the other model is not waited for any more; then it is not noticed again."""
        if time.monotonic() < self._until:
            return False
        if self._other is not None:
            self._never_again.append(self._other)
        return True


def _others(root: nn.Module, idle_seconds: float) -> Iterator[nn.Module]:
    for frame in sys._current_frames().values():
        other = _outermost(frame)
        if other is None or other is root:
            continue
        if idle_seconds >= SETTLED_SECONDS or any(one is root for one in modules_called(frame)):
            yield other


def _outermost(frame: FrameType | None) -> nn.Module | None:
    """Give the model that the thread of a frame is in."""
    return next((one for one in [*modules_called(frame)][::-1] if has_parameters(one)), None)

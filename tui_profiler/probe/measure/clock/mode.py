"""How forwards ran and which backward passes there were, summed up for viewers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from statistics import median

from msgspec.structs import replace

from tui_profiler.messages import ModeSeen, Unknown
from tui_profiler.messages.program import ENOUGH_FORWARDS, Setting
from tui_profiler.probe.measure.clock import forward
from tui_profiler.probe.measure.clock.backward import BackwardPasses
from tui_profiler.probe.measure.clock.forward import Forward

LAST_FORWARDS = 256
MOST_SETTINGS = 16
_ENQUEUED = Unknown("the program only enqueues the backward pass for a GPU")


class Modes:
    """What was observed of the forwards of one model.

    Args:
        passes: of the program; None: nothing runs a backward pass.
        is_on_gpu: a pass ends before its kernels do.
    """

    def __init__(self, passes: BackwardPasses | None = None, *, is_on_gpu: bool = False) -> None:
        self._passes = passes
        self._is_on_gpu = is_on_gpu
        self._last: deque[tuple[forward.Setting, bool]] = deque(maxlen=LAST_FORWARDS)
        self._forwards = 0
        self._said: tuple[object, ...] | None = None

    def add(self, forwards: Iterable[Forward]) -> None:
        """Take forwards that the clock recorded."""
        for one in forwards:
            if one.setting is not None:
                self._last.append((one.setting, one.as_traced))
                self._forwards += 1

    def messages(self, at: float) -> tuple[ModeSeen, ...]:
        """Return what was observed where that differs from what was returned before.

        Args:
            at: seconds since the command was started.
        """
        if not self._last:
            return ()
        found = ModeSeen(
            at,
            tuple(
                Setting(*setting, as_traced, count)
                for (setting, as_traced), count in Counter(self._last).most_common(MOST_SETTINGS)
            ),
            self._forwards,
            0,
        )
        if (passes := self._passes) is not None:
            passes.refresh()
            found = replace(
                found,
                passes=Unknown(passes.trouble) if passes.trouble else passes.passes,
                reached=passes.reached,
            )
            if passes.seconds:
                seconds = _ENQUEUED if self._is_on_gpu else median(tuple(passes.seconds))
                found = replace(found, pass_seconds=seconds)
        kinds = frozenset(replace(one, forwards=0) for one in found.settings)
        said = (kinds, found.passes, found.reached, min(found.forwards, ENOUGH_FORWARDS))
        if said == self._said:
            return ()
        self._said = said
        return (found,)

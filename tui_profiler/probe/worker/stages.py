"""What a stage of the worker needs of it. No torch here: a file of parameters is shown without."""

from contextlib import AbstractContextManager
from typing import Protocol

from tui_profiler.messages.live import Stage
from tui_profiler.probe.measure.energy.meter import EnergyWatch


class Stages(Protocol):
    """Reports stages to the viewer."""

    def now(self) -> float:
        """Return seconds since the start of the command."""
        ...

    def stage(self, stage: Stage, detail: str = "") -> AbstractContextManager[list[str]]:
        """Report the start and the end of a stage; details are appended to the list."""
        ...

    @property
    def energy(self) -> EnergyWatch:
        """Energy counters of this machine."""
        ...

    def rest(self) -> None:
        """Idle for a while, if that measures the machine's idle power."""
        ...

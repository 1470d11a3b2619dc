"""One look at a counter of energy, and what can be looked at."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.energy import EnergyOf


class Reading(NamedTuple):
    """One counter at one moment."""

    of: EnergyOf
    name: str
    gpu: int
    joules: Figure
    """Ever growing; where it is unknown, ``watts`` are integrated."""
    watts: Figure = Unknown("no power reading")
    limit_watts: float | None = None


class Source(Protocol):
    """What can be asked for energy."""

    def read(self, now: float) -> tuple[Reading, ...] | Unknown:
        """Look at all counters."""
        ...

    def close(self) -> None:
        """End it."""
        ...

"""What every vendor's GPUs are asked, and a library that is opened when it is first asked.

1. Nothing here raises because of a driver: one that is absent, too old, or dies in the middle of a
   session is an ``Unknown`` with its reason, and one GPU's failure never hides the others. What a
   binding of another release raises is caught for each vendor (``gpus.py``), and when it is opened.
2. A driver that failed is opened again after 30 s, not before: opening can take seconds. A library
   that is not installed is looked for once in a process, by the probe's warm-up: a search asks the
   program's own finders, and an import would hold up its threads.
3. Calls can block while a GPU falls off its bus, so that they belong in a thread (``watch.py``).
"""

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Generic, NamedTuple, Protocol, TypeVar

from tui_profiler.messages import Figure, Gpu, GpuProcess, Unknown
from tui_profiler.messages.hardware import EnergyOf

RETRY_SECONDS = 30.0
MOST_PROCESSES = 16
NOT_TOLD = Unknown("this GPU does not report it")
NEEDS_SECOND = Unknown("needs a second sample")
_T = TypeVar("_T")


class OfProcesses(NamedTuple):
    """The processes that use one GPU."""

    number: int
    processes: tuple[GpuProcess, ...] | Unknown
    uuid: str
    """As ``Gpu.uuid``: another process may number the GPUs differently, or see others."""


def sure_uuid(told: str) -> str:
    """Return a UUID as the driver told it, empty where that identifies no GPU."""
    return told if told.upper() != "N/A" and told.strip("0-") else ""


def most_memory_first(found: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    """Return the processes with most memory, at most ``MOST_PROCESSES``."""

    def held(one: GpuProcess) -> float:
        return 0.0 if isinstance(one.memory_bytes, Unknown) else one.memory_bytes

    return tuple(sorted(found, key=held, reverse=True)[:MOST_PROCESSES])


def unexpected(error: Exception) -> Unknown:
    """Return the reason where a vendor's binding raised what it does not document."""
    return Unknown(f"GPU counters failed: {type(error).__name__}: {error}")


def import_binding(name: str, library: str, missing: Unknown) -> ModuleType | Unknown:
    """Return the imported Python binding of a vendor's library, or why it cannot be imported.

    Args:
        name: of the module.
        library: that it binds, which is installed.
        missing: reason if the binding is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        return missing
    except OSError as error:  # It searches other folders, or a dependency is missing.
        return Unknown(f"{name} does not find {library}: {error}")
    except Exception as error:  # It binds every function on import, and may raise anything.
        return Unknown(f"{name} does not match {library}: {error}")


def unless_absent(opened: _T | Unknown, cards: Path, vendor: str, absent: Unknown) -> _T | Unknown:
    """Return what was opened, or ``absent`` if that failed and the vendor has no card here.

    Without a card of the vendor, a library that is missing or fails is not an error.
    """
    return absent if isinstance(opened, Unknown) and not _has_card(cards, vendor) else opened


def _has_card(cards: Path, vendor: str) -> bool:
    """Return whether the kernel lists a graphics card with this PCI vendor number."""
    for path in cards.glob("card*/device/vendor"):
        try:
            if path.read_text(encoding="ascii").strip() == vendor:
                return True
        except (OSError, ValueError):
            continue  # It was taken out meanwhile.
    return False


class EnergyReading(NamedTuple):
    """One energy counter at one moment."""

    of: EnergyOf
    name: str
    gpu: int
    """Its number; -1 of other counters."""
    joules: Figure
    """Ever growing; where it is unknown, ``watts`` are integrated."""
    watts: Figure = Unknown("no power reading")
    limit_watts: float | None = None


class Driver(Protocol):
    """GPUs of one vendor, numbered from 0; ``now`` is seconds of a clock that only goes forward."""

    vendor: str
    absent: tuple[Unknown, ...]
    """Answers where the machine has no such GPU."""
    not_installed: tuple[Unknown, ...]
    """Answers where it has one and no library: not worth a line beside other GPUs."""

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures."""
        ...

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Ask every GPU for energy and power."""
        ...

    def processes(self, now: float) -> tuple[OfProcesses, ...] | Unknown:
        """Return the processes that use each GPU."""
        ...

    def close(self) -> None:
        """End the session; the next question would open another."""
        ...


class Opened(Generic[_T]):
    """What a function opened; a failure is its answer until it is tried again.

    Args:
        opening: returns what is opened, or why it cannot be.
        closing: ends it; raises nothing.
    """

    def __init__(self, opening: Callable[[], _T | Unknown], closing: Callable[[_T], None]) -> None:
        self._opening = opening
        self._closing = closing
        self._opened: _T | None = None
        self._failure = Unknown("not opened")
        self._retry_at = float("-inf")

    def get(self, now: float) -> _T | Unknown:
        """Return it, opened now if it was not."""
        if self._opened is None:
            if now < self._retry_at:
                return self._failure
            try:
                found = self._opening()
            except Exception as error:  # the border to a vendor's library (rule 1)
                found = unexpected(error)
            if isinstance(found, Unknown):
                return self.fail(found, now)
            self._opened = found
        return self._opened

    def fail(self, why: Unknown, now: float) -> Unknown:
        """Close it; for a while this is the answer."""
        self.close()
        self._failure, self._retry_at = why, now + RETRY_SECONDS
        return why

    def close(self) -> None:
        """Close it; the next question opens it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._closing(opened)

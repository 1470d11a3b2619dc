"""Energy counters: what one look at them tells, and those of the CPU packages and their memory.

Each package counts microjoules up to a range of its own and begins again at 0; power is the
difference over time. Source: Linux, Documentation/power/powercap/powercap.rst.

1. Only domains named ``package-N`` are summed. ``core`` and ``uncore`` lie inside their package,
   ``psys`` (the whole board) contains the packages, ``dram`` is beside them.
2. The sum is known only if every package is: a part of it would look like a frugal machine.
3. Only the root user reads the counters since CVE-2020-8694.
"""

import errno
import os
from pathlib import Path
from typing import Protocol

from tui_profiler.gpus.driver import EnergyReading
from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.hardware import EnergyOf


class Source(Protocol):
    """What can be asked for energy."""

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Look at all counters."""
        ...

    def close(self) -> None:
        """End it."""
        ...


_PACKAGE, _DRAM = "package", "dram"
_LIMIT = "constraint_0_power_limit_uw"
"""The first limit of a package is the one for long times."""

# The counters move about every millisecond: over less, that step would show, not the power.
_LEAST_SECONDS = 0.01

# The smallest range, 65 kJ, is used up in a minute at 1 kW; after more the counter may have
# begun again unseen.
_MOST_SECONDS = 60.0

_NEEDS_SECOND = Unknown("needs a second sample")
NO_RAPL = Unknown("no RAPL counters on this machine")
_MISSED = Unknown("RAPL counters were not read for over a minute and may have wrapped")


class Rapl:
    """The energy counters of this machine, and what they said last.

    Args:
        root: Folder of the power capping classes; None for this machine's.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._domains = _named(root or _powercap(), _PACKAGE)
        self._energy: list[int] = []
        self._read_at = 0.0
        self._watts: Figure = _NEEDS_SECOND

    def watts(self, now: float) -> Figure:
        """Return the mean power of all packages since the last call.

        Args:
            now: Seconds of a clock that only goes forward.
        """
        if isinstance(self._domains, Unknown):
            return self._domains
        seconds = now - self._read_at
        if self._energy and seconds < _LEAST_SECONDS:
            return self._watts
        try:
            energy = [_microjoules(domain / "energy_uj") for domain in self._domains]
            if not self._energy or seconds > _MOST_SECONDS:
                self._watts = _NEEDS_SECOND
            else:
                used = sum(map(_difference, self._domains, self._energy, energy))
                self._watts = used / 1e6 / seconds
        except OSError as error:
            self._energy = []
            return Unknown(_reason(error))
        self._energy, self._read_at = energy, now
        return self._watts


class RaplEnergy:
    """Energy since it was made, of all packages and of all memory beside them.

    Args:
        root: As for ``Rapl``.
    """

    def __init__(self, root: Path | None = None) -> None:
        root = root or _powercap()
        self._counters: list[tuple[EnergyOf, str, _Ever | Unknown]] = [
            ("package", "processor packages", _ever(_named(root, _PACKAGE))),
            ("dram", "memory of the processors", _ever(_named(root, _DRAM))),
        ]

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Look at all counters; where there are no packages, say why."""
        _, _, packages = self._counters[0]
        if isinstance(packages, Unknown):
            return packages
        return tuple(
            EnergyReading(of, name, -1, counter.joules(now), limit_watts=counter.limit_watts)
            for of, name, counter in self._counters
            if not isinstance(counter, Unknown)
        )

    def close(self) -> None:
        """Nothing is held open."""


class _Ever:
    """The sum of some domains, that never begins again."""

    def __init__(self, domains: list[Path]) -> None:
        self._domains = domains
        self._before: list[int] = []
        self._read_at = 0.0
        self._microjoules = 0
        self.limit_watts = _limit_watts(domains)
        """What they may draw for long, all together; None where one does not tell."""

    def joules(self, now: float) -> Figure:
        before, seconds = self._before, now - self._read_at
        try:
            after = [_microjoules(domain / "energy_uj") for domain in self._domains]
            if before:
                self._microjoules += sum(map(_difference, self._domains, before, after))
        except OSError as error:
            self._before = []
            return Unknown(_reason(error))
        self._before, self._read_at = after, now
        return _MISSED if before and seconds > _MOST_SECONDS else self._microjoules / 1e6


def _limit_watts(domains: list[Path]) -> float | None:
    try:
        return sum(_microjoules(domain / _LIMIT) / 1e6 for domain in domains) or None
    except OSError:
        return None


def _powercap() -> Path:
    """Return the kernel's folder; ``HOST_SYS`` names where a container has its host's ``/sys``."""
    return Path(os.environ.get("HOST_SYS") or "/sys") / "class" / "powercap"


def _ever(domains: list[Path] | Unknown) -> _Ever | Unknown:
    return domains if isinstance(domains, Unknown) else _Ever(domains)


def _named(root: Path, prefix: str) -> list[Path] | Unknown:
    """Return the domains whose name begins so."""
    domains = sorted(root.glob("intel-rapl:*"))
    if not domains:
        return NO_RAPL
    found = []
    for domain in domains:
        try:
            if (domain / "name").read_text(encoding="ascii").startswith(prefix):
                found.append(domain)
        except FileNotFoundError:
            # Container runtimes mask what the links point to.
            return Unknown("RAPL counters are hidden from this container")
        except OSError as error:
            return Unknown(_reason(error))
    return found or Unknown("no RAPL counter of a CPU package")


def _difference(domain: Path, before: int, after: int) -> int:
    """Return the microjoules between two readings, across the end of the counter's range."""
    if after >= before:
        return after - before
    return after - before + _microjoules(domain / "max_energy_range_uj")


def _microjoules(counter: Path) -> int:
    content = counter.read_bytes()
    if not content.strip().isdigit():
        raise OSError(errno.EINVAL, "not a number", str(counter))
    return int(content)


def _reason(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "RAPL counters need root"
    return f"RAPL counters cannot be read: {os.strerror(error.errno or 0)}"

"""Power of the CPU packages, from the energy counters of RAPL.

Each package counts microjoules up to a range of its own and begins again at 0; power is the
difference over time. Source: Linux, Documentation/power/powercap/powercap.rst.

1. Only domains named ``package-N`` are summed. ``core`` and ``uncore`` lie inside their package,
   ``psys`` (the whole board) contains the packages, ``dram`` is beside them.
2. The sum is known only if every package is: a part of it would look like a frugal machine.
3. Only the root user reads the counters since CVE-2020-8694.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tui_profiler.messages import Figure, Unknown

_POWERCAP = Path("/sys/class/powercap")

# The counters move about every millisecond: over less, that step would show, not the power.
_LEAST_SECONDS = 0.01

# The smallest range, 65 kJ, is used up in a minute at 1 kW; after more the counter may have
# begun again unseen.
_MOST_SECONDS = 60.0

_NEEDS_SECOND = Unknown("needs a second sample")


class Rapl:
    """The energy counters of this machine, and what they said last.

    Args:
        root: Folder of the power capping classes.
    """

    def __init__(self, root: Path = _POWERCAP) -> None:
        self._domains = _packages(root)
        self._energy: list[int] = []
        self._read_at = 0.0
        self._watts: Figure = _NEEDS_SECOND

    def watts(self, now: float) -> Figure:
        """Give the mean power of all packages since the last call.

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


def _packages(root: Path) -> list[Path] | Unknown:
    domains = sorted(root.glob("intel-rapl:*"))
    if not domains:
        return Unknown("no RAPL counters on this machine")
    packages = []
    for domain in domains:
        try:
            if (domain / "name").read_text(encoding="ascii").startswith("package"):
                packages.append(domain)
        except FileNotFoundError:
            # Container runtimes mask what the links point to.
            return Unknown("RAPL counters are hidden from this container")
        except OSError as error:
            return Unknown(_reason(error))
    return packages or Unknown("no RAPL counter of a CPU package")


def _difference(domain: Path, before: int, after: int) -> int:
    """Give the microjoules between two readings, across the end of the counter's range."""
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

"""How busy and how fast the cores are that this process may use, from Linux's own files.

psutil reads the same files, but the position in its lists is not the core's number once a core is
offline, and it asks every core of the machine for its frequency: 4 ms of CPU with 192 cores.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tui_profiler.messages import Core, Figure, Unknown

_STAT = Path("/proc/stat")
_CORE_FOLDERS = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_NO_STAT = Unknown("this system has no /proc/stat")

# The kernel counts in ticks of 10 ms: over fewer than these a core could only look idle or full.
_LEAST_TICKS = 5

# The frequency is the mean of at most so many cores, spread evenly, to bound what asking costs.
_ASKED_CORES = 16


class CoreMeter:
    """Remembers what each core had done when it was last looked at."""

    def __init__(self, cores: Sequence[int], stat: Path = _STAT) -> None:
        self._cores = cores
        self._stat = stat
        self._before = self._now = _ticks(stat)
        self._utilisation: dict[int, float] = {}

    def utilisation(self) -> tuple[Core, ...]:
        """Return the cores in the order of their numbers, each with its use since the last look.

        Empty until there is a first interval of 50 ms to speak of. After a shorter interval the
        figures are those of the last one, and the next reaches back to its end. Offline cores are
        left out.
        """
        now = self._now = _ticks(self._stat)
        present = [core for core in self._cores if core in now]
        for core in present:
            busy, idle, _ = now[core]
            busy_before, idle_before, _ = self._before.setdefault(core, now[core])
            # iowait, which is in idle, can run backwards (proc_stat(5)).
            busy_ticks, idle_ticks = max(0, busy - busy_before), max(0, idle - idle_before)
            if busy_ticks + idle_ticks >= _LEAST_TICKS:
                self._utilisation[core] = busy_ticks / (busy_ticks + idle_ticks)
                self._before[core] = now[core]
        if any(core not in self._utilisation for core in present):
            return ()
        return tuple(Core(self._utilisation[core]) for core in present)

    @property
    def stolen_seconds(self) -> Figure:
        """Of all cores since boot, at the last look: the hypervisor ran something else on them."""
        stolen = [self._now[core][2] for core in self._cores if core in self._now]
        return sum(stolen) / _TICKS_PER_SECOND if stolen else _NO_STAT


def frequency_hertz(
    cores: Sequence[int], core_folders: Path = _CORE_FOLDERS, cpuinfo: Path = _CPUINFO
) -> Figure:
    """Return the mean clock of the cores, as the frequency driver tells it or else /proc/cpuinfo.

    A virtual machine usually has no driver and tells its nominal clock.
    """
    step = -(-len(cores) // _ASKED_CORES) or 1
    asked = cores[::step]
    found = list(_from_driver(asked, core_folders)) or list(_from_cpuinfo(asked, cpuinfo))
    if not found:
        return Unknown("no core frequency from this kernel")
    return sum(found) / len(found)


def _ticks(stat: Path) -> dict[int, tuple[int, int, int]]:
    """Read each core's busy, idle and stolen ticks since boot; empty where there is no such file.

    Waiting for a disk is idle; time that a hypervisor stole is busy. Guests are inside user.
    Source: proc_stat(5), as psutil.cpu_percent counts it.
    """
    try:
        lines = stat.read_bytes().splitlines()
    except OSError:
        return {}
    cores: dict[int, tuple[int, int, int]] = {}
    for line in lines[1:]:
        if not line.startswith(b"cpu"):
            break
        name, *fields = line.split()
        user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen = map(
            int, fields[:8]
        )
        busy = user + nice + system + interrupts + soft_interrupts + stolen
        cores[int(name[3:])] = (busy, idle + waiting, stolen)
    return cores


def _from_driver(cores: Sequence[int], folders: Path) -> Iterator[float]:
    for core in cores:
        try:
            kilohertz = int((folders / f"cpu{core}" / "cpufreq" / "scaling_cur_freq").read_bytes())
        except (OSError, ValueError):
            continue  # offline, no driver, or "<unknown>"
        yield kilohertz * 1e3


def _from_cpuinfo(cores: Sequence[int], cpuinfo: Path) -> Iterator[float]:
    """Read no further than the last of ``cores``: the kernel makes this file core by core."""
    wanted = set(cores)
    is_wanted = False
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                field, _, value = line.partition(":")
                match field.strip():
                    case "processor":
                        if not wanted:
                            return
                        number = int(value)
                        is_wanted = number in wanted
                        wanted.discard(number)
                    case "cpu MHz" if is_wanted and float(value) > 0:
                        yield float(value) * 1e6
    except (OSError, ValueError):
        return  # not there, or not as x86 writes it

"""What kept this process from its cores, or held their clocks down, from the kernel's counters.

1. The CPU quota of each control group that the process is in, its own and those around it: a group
   that has used it up waits for the next period (``cpu.stat``; of version 1 in nanoseconds, of
   version 2 in microseconds, of all cores together).
2. Heat: x86 counts how often and how long a core and its package were held down. Files of four
   cores are read at most.

Source: Linux, admin-guide/cgroup-v2.rst, "CPU Interface Files"; scheduler/sched-bwc.rst,
"Statistics"; ABI/testing/sysfs-devices-system-cpu, ``thermal_throttle``.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tui_profiler.messages import Figure, Throttle, Unknown
from tui_profiler.system.control_group import group_folders

_THIS_PROCESS = Path("/proc/self")
_CORE_FOLDERS = Path("/sys/devices/system/cpu")
_ASKED_CORES = 4
_NO_GROUP = Unknown("no control group that accounts for CPU time")
_NO_HEAT = Unknown("this processor reports no throttling by heat")


class ThrottleCounters:
    """Reads the counters of one process and its cores.

    Args:
        cores: the kernel's numbers of those that it may use.
        process: folder with ``cgroup`` and ``mountinfo`` of the process.
        core_folders: where the kernel describes its cores.
    """

    def __init__(
        self,
        cores: Sequence[int],
        process: Path = _THIS_PROCESS,
        core_folders: Path = _CORE_FOLDERS,
    ) -> None:
        folders, is_version_2 = group_folders(process, "cpu") or ([], True)
        self._groups = [folder / "cpu.stat" for folder in folders]
        self._time = ("throttled_usec", 1e6) if is_version_2 else ("throttled_time", 1e9)
        step = -(-len(cores) // _ASKED_CORES) or 1
        self._heat = [core_folders / f"cpu{core}" / "thermal_throttle" for core in cores[::step]]

    def read(self) -> Throttle:
        """Return what every counter says now."""
        found = [_fields(path) for path in self._groups]
        groups = [fields for fields in found if fields is not None]
        name, per_second = self._time
        seconds = sum(fields.get(name, 0) for fields in groups) / per_second
        periods = float(sum(fields.get("nr_throttled", 0) for fields in groups))
        return Throttle(
            quota_seconds=seconds if groups else _NO_GROUP,
            quota_periods=periods if groups else _NO_GROUP,
            heat_seconds=self._heat_seconds(),
            heat_events=self._heat_events(),
        )

    def _heat_seconds(self) -> Figure:
        found = _numbers(folder / "core_throttle_total_time_ms" for folder in self._heat)
        return sum(found) / 1e3 if found else _NO_HEAT

    def _heat_events(self) -> Figure:
        of_cores = _numbers(folder / "core_throttle_count" for folder in self._heat)
        # Each core of a package has the package's count.
        of_package = _numbers(folder / "package_throttle_count" for folder in self._heat)
        return float(sum(of_cores) + max(of_package, default=0)) if of_cores else _NO_HEAT


def _fields(path: Path) -> dict[str, int] | None:
    """Read ``name number`` lines; None where there is no such file."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}
    except (OSError, ValueError):
        return None


def _numbers(paths: Iterable[Path]) -> list[int]:
    """Read files that hold one number each; those that are not there are left out."""
    found = []
    for path in paths:
        try:
            found.append(int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # Offline, another processor, or another kernel.
    return found

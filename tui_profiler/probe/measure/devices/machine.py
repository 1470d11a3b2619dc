"""What this machine is and how much of it this process may use: cores, caches, memory.

A control group can allow less memory than the machine has, and the kernel then kills the process
long before the machine is full: where such a limit is the lower one, it is the total, and what the
group uses is what is used.

Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, ``cache/index*``.
"""

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tui_profiler.messages import Cache
from tui_profiler.system.control_group import group_folders

_THIS_PROCESS = Path("/proc/self")
_CPUINFO = Path("/proc/cpuinfo")


class Memory(NamedTuple):
    """Memory of the machine, or of the control group where its limit is lower."""

    used_bytes: int
    """In use and not to be had back by dropping file cache."""
    total_bytes: int

    @property
    def free_bytes(self) -> int:
        """The rest."""
        return max(self.total_bytes - self.used_bytes, 0)


class ControlGroup(NamedTuple):
    """The files of the group that limits this process's memory the most."""

    limit: Path
    usage: Path
    statistics: Path
    cache_field: str
    """Which line of ``statistics`` counts the file cache that the kernel drops when it is short."""


def allowed_cores() -> tuple[int, ...]:
    """Return the kernel's numbers of the logical cores that the calling thread may run on.

    Cpusets of the control group are in it. Ask early: an OpenMP runtime that binds threads narrows
    the main thread to one core once it has started.
    """
    if sys.platform == "linux":
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def processor_name(cpuinfo: Path = _CPUINFO) -> str:
    """Name the processor; the architecture where the kernel knows no name, as on most Arm."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                field, _, value = line.partition(":")
                if field.strip() == "model name" and value.strip():
                    return " ".join(value.split())
    except OSError:
        pass  # no /proc: the architecture below is all there is
    return platform.processor() or platform.machine()


def memory(group: ControlGroup | None) -> Memory:
    """Measure memory now: the machine's, or the group's where its limit is lower.

    Args:
        group: What ``memory_group`` found for this process; looked for once, as it does not change.
    """
    machine = psutil.virtual_memory()
    if group is not None:
        limit, usage = _number(group.limit), _number(group.usage)
        if limit is not None and usage is not None and limit < machine.total:
            return Memory(max(0, usage - _cache_bytes(group)), limit)
    return Memory(machine.total - machine.available, machine.total)


def free_memory_bytes(group: ControlGroup | None) -> int:
    """Return what a process can still take: of the machine, and of its group where that is less.

    Args:
        group: What ``memory_group`` found for this process.
    """
    free = int(psutil.virtual_memory().available)
    if group is not None:
        limit, usage = _number(group.limit), _number(group.usage)
        if limit is not None and usage is not None:
            free = min(free, max(limit - usage + _cache_bytes(group), 0))
    return free


def memory_group(process: Path = _THIS_PROCESS) -> ControlGroup | None:
    """Find the control group with the lowest memory limit, from this process's own upwards.

    Args:
        process: Folder with ``cgroup`` and ``mountinfo`` of the process.

    Returns:
        None where there is no limit, or no control groups at all.
    """
    found = group_folders(process, "memory")
    if found is None:
        return None
    folders, is_version_2 = found
    limits: dict[ControlGroup, int] = {}
    for folder in folders:
        group = _files(folder, is_version_2=is_version_2)
        limit = _number(group.limit)
        if limit is not None:
            limits[group] = limit
    return min(limits, key=limits.__getitem__, default=None)


def _files(folder: Path, *, is_version_2: bool) -> ControlGroup:
    statistics = folder / "memory.stat"
    if is_version_2:
        return ControlGroup(
            folder / "memory.max", folder / "memory.current", statistics, "inactive_file"
        )
    return ControlGroup(
        folder / "memory.limit_in_bytes",
        folder / "memory.usage_in_bytes",
        statistics,
        "total_inactive_file",
    )


def _number(path: Path) -> int | None:
    """Read a file that holds one number; None where there is none, or it says ``max``."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _cache_bytes(group: ControlGroup) -> int:
    try:
        lines = group.statistics.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    for line in lines:
        field, _, value = line.partition(" ")
        if field == group.cache_field:
            return int(value)
    return 0


_CORE_FOLDERS = Path("/sys/devices/system/cpu")
_FACTORS = {"K": 2**10, "M": 2**20, "G": 2**30}
_HOLD_DATA = ("Data", "Unified")


def caches(cores: Sequence[int], folders: Path = _CORE_FOLDERS) -> tuple[Cache, ...]:
    """Return one for each level, nearest first; none where the kernel does not describe them.

    Of cores that differ, as of two speeds, the smallest cache of a level is given.

    Args:
        cores: the kernel's numbers of those that may be used.
        folders: where the kernel describes its cores.
    """
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for core in cores:
        for folder in sorted((folders / f"cpu{core}" / "cache").glob("index*")):
            described = _described(folder)
            if described is not None:
                level, size_bytes, shared_by = described
                sharers = found.setdefault(level, {})
                sharers[shared_by] = (size_bytes, len(_numbers(shared_by)))
    return tuple(
        Cache(
            level,
            min(size for size, _ in each.values()),
            max(n for _, n in each.values()),
            len(each),
        )
        for level, each in sorted(found.items())
    )


def _described(folder: Path) -> tuple[int, int, str] | None:
    try:
        kind = (folder / "type").read_text(encoding="ascii").strip()
        level = int((folder / "level").read_text(encoding="ascii"))
        text = (folder / "size").read_text(encoding="ascii").strip()
        shared_by = (folder / "shared_cpu_list").read_text(encoding="ascii").strip()
        size_bytes = int(text.rstrip("KMG")) * _FACTORS.get(text[-1:], 1)
    except (OSError, ValueError):
        return None
    return (level, size_bytes, shared_by) if kind in _HOLD_DATA and size_bytes > 0 else None


def _numbers(listed: str) -> set[int]:
    """Read the kernel's list of cores: ``0-3,8``."""
    numbers: set[int] = set()
    for part in listed.split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers

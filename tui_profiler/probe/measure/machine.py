"""What this machine is and how much of it this process may use: processor, cores, memory.

A control group can allow less memory than the machine has, and the kernel then kills the process
long before the machine is full: where such a limit is the lower one, it is the total, and what the
group uses is what is used.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import NamedTuple

import psutil

_THIS_PROCESS = Path("/proc/self")
_CPUINFO = Path("/proc/cpuinfo")


class Machine(NamedTuple):
    """The facts about the machine that do not change while a process runs."""

    cpu: str
    """Processor name, as the kernel spells it."""
    cores: int
    """Logical cores that this process may use."""
    memory_bytes: int
    """Physical memory, or the control group's limit where that is lower."""


class Memory(NamedTuple):
    """Memory of the machine, or of the control group where its limit is lower."""

    used_bytes: int
    """In use and not to be had back by dropping file cache."""
    total_bytes: int


class ControlGroup(NamedTuple):
    """The files of the group that limits this process's memory the most."""

    limit: Path
    usage: Path
    statistics: Path
    cache_field: str
    """Which line of ``statistics`` counts the file cache that the kernel drops when it is short."""


def environment_cpu() -> Machine:
    """Describe the processor and memory that this process was given."""
    return Machine(processor_name(), len(allowed_cores()), memory(memory_group()).total_bytes)


def allowed_cores() -> tuple[int, ...]:
    """Give the kernel's numbers of the logical cores that the calling thread may run on.

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


def memory_group(process: Path = _THIS_PROCESS) -> ControlGroup | None:
    """Find the control group with the lowest memory limit, from this process's own upwards.

    Source: cgroups(7) for ``cgroup``, proc_pid_mountinfo(5) for ``mountinfo``.

    Args:
        process: Folder with ``cgroup`` and ``mountinfo`` of the process.

    Returns:
        None where there is no limit, or no control groups at all.
    """
    try:
        memberships = (process / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (process / "mountinfo").read_text(encoding="utf-8").splitlines()
        path, is_version_2 = _membership(memberships)
        found = _mount(mounts, is_version_2=is_version_2)
    except (OSError, ValueError):
        return None  # not Linux, or a sandbox that writes these files its own way
    if path is None or found is None:
        return None
    limits: dict[ControlGroup, int] = {}
    for folder in _folders(path, *found):
        group = _files(folder, is_version_2=is_version_2)
        limit = _number(group.limit)
        if limit is not None:
            limits[group] = limit
    return min(limits, key=limits.__getitem__, default=None)


def _membership(lines: list[str]) -> tuple[str | None, bool]:
    """Give the path of the group that accounts for memory, and whether it is version 2.

    A hybrid host lists both; memory is then with version 1 if any of its lines says so.
    """
    unified: str | None = None
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return path, False
        if number == "0" and not controllers:
            unified = path
    return unified, True


def _mount(lines: list[str], *, is_version_2: bool) -> tuple[str, Path] | None:
    """Give which group is mounted where: its path in the hierarchy, and the mount point."""
    for line in lines:
        place, _, kind = line.partition(" - ")
        root, mount_point = place.split()[3:5]
        file_system, _, options = kind.split(" ", 2)
        if is_version_2:
            is_ours = file_system == "cgroup2"
        else:
            is_ours = file_system == "cgroup" and "memory" in options.split(",")
        if is_ours:
            return _unescaped(root), Path(_unescaped(mount_point))
    return None


def _unescaped(path: str) -> str:
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(escape, character)
    return path


def _folders(path: str, root: str, mount_point: Path) -> list[Path]:
    """List the folders of a group and of all groups around it, as far as they are mounted.

    In a container without a namespace of its own, ``path`` begins with the root that is mounted;
    in one with a namespace it may lead out of it (``/../..``): then the mount point is the group.
    """
    inside = path.removeprefix(root) if root != "/" else path
    folder = mount_point / inside.lstrip("/")
    if ".." in folder.parts or not folder.is_dir():
        folder = mount_point
    folders = [folder]
    while folders[-1] != mount_point:
        folders.append(folders[-1].parent)
    return folders


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

"""The control groups of a process, and the kernel's out-of-memory kills.

Source: cgroups(7), proc_pid_mountinfo(5), proc_vmstat(5); ``memory.events`` in the kernel's
``admin-guide/cgroup-v2.rst``, ``memory.oom_control`` in ``admin-guide/cgroup-v1/memory.rst``.
"""

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

_VMSTAT = Path("/proc/vmstat")
_FIELD = "oom_kill"
"""Killed processes, whatever ran out: a control group or the machine. Counted before the signal is
sent."""


class Verdict(NamedTuple):
    """Whether a process that was killed was killed for memory."""

    by_kernel: bool | None
    """True: very likely, as the counter is that of its group; None: not known."""
    why: str
    """The counters, in words."""


class OutOfMemoryKills:
    """The ``oom_kill`` counters from when a process starts until it was killed.

    Args:
        process: folder with ``cgroup`` and ``mountinfo`` of the process.
        vmstat: the counters of the machine.
    """

    def __init__(self, process: Path, vmstat: Path = _VMSTAT) -> None:
        found = group_folders(process, "memory")
        self._group: Path | None = None
        if found is not None:
            (folder, *_), is_version_2 = found
            self._group = folder / ("memory.events" if is_version_2 else "memory.oom_control")
        self._vmstat = vmstat
        self._in_group, self._on_machine = self._kills()

    def verdict(self) -> Verdict:
        """Return whether the kernel has killed it for memory; to be asked once it is gone."""
        group, machine = self._kills()
        in_group, on_machine = _since(self._in_group, group), _since(self._on_machine, machine)
        if in_group:
            why = f"oom_kill of its control group, of any processes, rose by {in_group}"
            return Verdict(True, why)
        if on_machine == 0:
            return Verdict(False, "oom_kill of the machine did not rise")
        if in_group == 0:
            return Verdict(False, "oom_kill of its control group did not rise")
        if on_machine:
            return Verdict(None, f"oom_kill of the machine rose by {on_machine}, of any processes")
        return Verdict(None, "no oom_kill counter can be read")

    def _kills(self) -> tuple[int | None, int | None]:
        return _counter(self._group), _counter(self._vmstat)


def _counter(path: Path | None) -> int | None:
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) for line in lines if line.split()[0] == _FIELD), None)
    except (OSError, ValueError, IndexError):
        return None


def _since(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


Controller: TypeAlias = Literal["memory", "cpu"]


def group_folders(process: Path, controller: Controller) -> tuple[list[Path], bool] | None:
    """Find the folders of the group of a controller, and of all groups around it.

    Args:
        process: folder with ``cgroup`` and ``mountinfo`` of the process.
        controller: what the group accounts for.

    Returns:
        The folders, from the process's own upwards, and whether they are of version 2. None where
        there are no control groups.
    """
    try:
        memberships = (process / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (process / "mountinfo").read_text(encoding="utf-8").splitlines()
        path, is_version_2 = _membership(memberships, controller)
        found = _mount(mounts, "" if is_version_2 else controller)
    except (OSError, ValueError):
        return None  # Not Linux, or a sandbox that writes these files its own way.
    if path is None or found is None:
        return None
    return _folders(path, *found), is_version_2


def _membership(lines: list[str], controller: Controller) -> tuple[str | None, bool]:
    """Return the path of the group of a controller, and whether it is version 2.

    A hybrid host lists both; a controller is with version 1 if any of its lines says so.
    """
    unified: str | None = None
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path, False
        if number == "0" and not controllers:
            unified = path
    return unified, True


def _mount(lines: list[str], controller: str) -> tuple[str, Path] | None:
    """Return which group is mounted where: its path in the hierarchy, and the mount point.

    Args:
        lines: of ``mountinfo``.
        controller: of version 1; empty: version 2.
    """
    for line in lines:
        place, _, kind = line.partition(" - ")
        root, mount_point = place.split()[3:5]
        file_system, _, options = kind.split(" ", 2)
        is_version_1 = file_system == "cgroup" and controller in options.split(",")
        if is_version_1 if controller else file_system == "cgroup2":
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

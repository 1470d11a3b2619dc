"""The caches of this machine that hold data, from the kernel's own description.

Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, ``cache/index*``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tui_profiler.messages import Cache

_CORE_FOLDERS = Path("/sys/devices/system/cpu")
_FACTORS = {"K": 2**10, "M": 2**20, "G": 2**30}
_HOLD_DATA = ("Data", "Unified")


def caches(cores: Sequence[int], folders: Path = _CORE_FOLDERS) -> tuple[Cache, ...]:
    """Give one for each level, nearest first; none where the kernel does not describe them.

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

"""The caches of a machine, from a tree of files like the kernel's."""

from __future__ import annotations

from pathlib import Path

from tui_profiler.messages import Cache
from tui_profiler.probe.measure.devices.machine import caches


def describe(
    root: Path, core: int, index: int, *, level: int, kind: str, size: str, by: str
) -> None:
    folder = root / f"cpu{core}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", by)):
        (folder / name).write_text(f"{text}\n")


def test_each_level_is_counted_once_for_the_cores_that_share_it(tmp_path: Path) -> None:
    for core in range(4):
        describe(tmp_path, core, 0, level=1, kind="Data", size="48K", by=str(core))
        describe(tmp_path, core, 1, level=1, kind="Instruction", size="32K", by=str(core))
        pair = "0-1" if core < 2 else "2-3"
        describe(tmp_path, core, 2, level=2, kind="Unified", size="2048K", by=pair)
        describe(tmp_path, core, 3, level=3, kind="Unified", size="300M", by="0-3,8-11")

    assert caches(range(4), tmp_path) == (
        Cache(1, 48 << 10, 1, 4),
        Cache(2, 2 << 20, 2, 2),
        Cache(3, 300 << 20, 8, 1),
    )


def test_of_cores_that_differ_the_smaller_cache_is_told(tmp_path: Path) -> None:
    describe(tmp_path, 0, 0, level=1, kind="Data", size="48K", by="0")
    describe(tmp_path, 1, 0, level=1, kind="Data", size="32K", by="1")

    assert caches([0, 1], tmp_path) == (Cache(1, 32 << 10, 1, 2),)


def test_a_kernel_that_describes_none_gives_none(tmp_path: Path) -> None:
    describe(tmp_path, 0, 0, level=1, kind="Data", size="", by="0")

    assert caches([0, 1], tmp_path) == ()

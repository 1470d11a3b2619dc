"""Quota and heat, from folders like the kernel's, and from a real control group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tui_profiler.messages import Throttle, Unknown
from tui_profiler.probe.measure.devices.throttling import ThrottleCounters

NO_GROUP = Unknown("no control group that accounts for CPU time")
NO_HEAT = Unknown("this processor reports no throttling by heat")


def in_group(folder: Path, version: int, path: str = "/jobs/one") -> Path:
    """Write a process in a control group and return the folder that groups are mounted at."""
    line = f"0::{path}" if version == 2 else f"3:cpu,cpuacct:{path}"
    (folder / "cgroup").write_text(f"{line}\n", encoding="utf-8")
    kind = "cgroup2 none rw" if version == 2 else "cgroup none rw,cpu,cpuacct"
    mounted = folder / "mounted"
    mount = f"1 2 0:3 / {mounted} rw - {kind}\n"
    (folder / "mountinfo").write_text(mount, encoding="utf-8")
    (mounted / path.lstrip("/")).mkdir(parents=True)
    return mounted


@pytest.mark.parametrize(
    ("version", "line", "unit"),
    [(1, "throttled_time", 1_000_000_000), (2, "throttled_usec", 1_000_000)],
)
def test_the_quotas_of_all_groups_around_a_process_count(
    tmp_path: Path, version: int, line: str, unit: int
) -> None:
    mounted = in_group(tmp_path, version)
    for group, periods, seconds in (("jobs", 3, 2), ("jobs/one", 4, 5)):
        text = f"nr_periods 90\nnr_throttled {periods}\n{line} {seconds * unit}\n"
        (mounted / group / "cpu.stat").write_text(text)
    # The root of version 2 has no quota, and says nothing of one.
    (mounted / "cpu.stat").write_text("usage_usec 12345\n")
    counters = ThrottleCounters((0,), tmp_path, tmp_path / "no cores")
    assert counters.read() == Throttle(7.0, 7.0, NO_HEAT, NO_HEAT)
    text = f"nr_throttled 9\n{line} {unit // 4}\n"
    (mounted / "jobs" / "one" / "cpu.stat").write_text(text)
    assert counters.read().quota_seconds == 2.25


@pytest.mark.parametrize("text", ["", "nr_throttled many\n", None])
def test_a_group_that_says_nothing_is_no_zero(tmp_path: Path, text: str | None) -> None:
    mounted = in_group(tmp_path, 2, "/one")
    if text is not None:
        (mounted / "one" / "cpu.stat").write_text(text)
    found = ThrottleCounters((0,), tmp_path, tmp_path / "no cores").read()
    # A group without a quota has the file, and no such lines.
    assert found.quota_seconds == (0.0 if text == "" else NO_GROUP)
    nowhere = ThrottleCounters((0,), tmp_path / "nowhere", tmp_path).read()
    assert (nowhere.quota_seconds, nowhere.quota_periods) == (NO_GROUP, NO_GROUP)


def test_heat_is_of_cores_and_their_package(tmp_path: Path) -> None:
    for core in range(8):
        folder = tmp_path / f"cpu{core}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(f"{core}\n")
        (folder / "package_throttle_count").write_text("40\n")
        (folder / "core_throttle_total_time_ms").write_text("250\n")
    found = ThrottleCounters(range(8), tmp_path, tmp_path).read()
    # Four of the eight cores are asked: 0, 2, 4 and 6.
    assert (found.heat_events, found.heat_seconds) == (12 + 40, 1.0)
    (tmp_path / "cpu4" / "thermal_throttle" / "core_throttle_count").write_text("offline")
    assert ThrottleCounters(range(8), tmp_path, tmp_path).read().heat_events == 8 + 40
    # Older kernels have no times.
    for core in range(8):
        (tmp_path / f"cpu{core}" / "thermal_throttle" / "core_throttle_total_time_ms").unlink()
    older = ThrottleCounters(range(8), tmp_path, tmp_path).read()
    assert (older.heat_events, older.heat_seconds) == (48.0, NO_HEAT)


LIMITED = """
import sys, time
from pathlib import Path
import msgspec
group = Path(sys.argv[1])
(group / "cgroup.procs").write_text(str(__import__("os").getpid()))
from tui_profiler.probe.measure.devices.throttling import ThrottleCounters
counters = ThrottleCounters((0,))
before, used = counters.read(), time.process_time()
until = time.monotonic() + 60
while counters.read().quota_periods < before.quota_periods + 5 and time.monotonic() < until:
    pass
print(msgspec.json.encode((before, counters.read(), time.process_time() - used)).decode())
"""


def test_a_real_quota_is_counted() -> None:
    """A group of a hundredth of a core: what it takes above that, it is throttled for."""
    root = Path("/sys/fs/cgroup")
    version = 1 if (root / "cpu").is_dir() else 2
    group = (root / "cpu" if version == 1 else root) / f"tui-profiler-test-{os.getpid()}"
    try:
        group.mkdir()
        quota = "cpu.cfs_quota_us" if version == 1 else "cpu.max"
        (group / quota).write_text("1000" if version == 1 else "1000 100000")
    except OSError:
        if group.is_dir():
            group.rmdir()
        pytest.skip("no control group can be limited in CPU time")
    try:
        if version == 1:
            # Beside busy groups it would not use up even that.
            (group / "cpu.shares").write_text("262144")
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, str(group)],
            capture_output=True,
            check=True,
            timeout=300,
        )
    finally:
        group.rmdir()
    before, after, used = msgspec.json.decode(done.stdout, type=tuple[Throttle, Throttle, float])
    assert not isinstance(after.quota_periods, Unknown)
    assert not isinstance(before.quota_periods, Unknown)
    assert not isinstance(after.quota_seconds, Unknown)
    assert not isinstance(before.quota_seconds, Unknown)
    periods = after.quota_periods - before.quota_periods
    assert periods >= 5
    # Each throttled period of 100 ms has at most 99 in which it may not run, and several cores.
    assert 0.02 * periods <= after.quota_seconds - before.quota_seconds
    assert used < 60

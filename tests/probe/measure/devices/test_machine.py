"""What the machine is, and how much of it is ours: against psutil, /proc, and made-up groups."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tui_profiler.probe.measure.devices.environment import environment
from tui_profiler.probe.measure.devices.machine import (
    ControlGroup,
    allowed_cores,
    memory,
    memory_group,
    processor_name,
)

GIB = 1 << 30
VERSION_1_UNLIMITED = 9223372036854771712


def process(folder: Path, *, cgroup: str, mountinfo: str) -> Path:
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(mountinfo)
    return folder


def version_2(folder: Path, *, most: str, used: int = 0, cache: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cache}\nactive_file 3\n")
    return folder


def version_1(folder: Path, *, most: int, used: int = 0, cache: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{most}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {cache}\n")
    return folder


def mount_2(root: str, mount_point: Path) -> str:
    return (
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        f"41 31 0:38 {root} {mount_point} rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    )


def mount_1(root: str, mount_point: Path) -> str:
    return (
        f"33 31 0:30 {root} {mount_point}-cpu rw - cgroup cgroup rw,cpu\n"
        f"35 31 0:32 {root} {mount_point} rw,relatime - cgroup cgroup rw,memory\n"
    )


def test_this_machine_is_what_psutil_and_the_kernel_say() -> None:
    machine = environment()

    assert machine.cores == len(os.sched_getaffinity(0))
    assert 0 < machine.memory_bytes <= psutil.virtual_memory().total
    assert machine.cpu


def test_cores_that_are_forbidden_are_not_counted() -> None:
    core = min(os.sched_getaffinity(0))
    program = (
        f"import os; os.sched_setaffinity(0, {{{core}}})\n"
        "from tui_profiler.probe.measure.devices.machine import allowed_cores\n"
        "print(*allowed_cores())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert said.stdout.split() == [str(core).encode()]


def test_the_processor_is_called_what_the_kernel_calls_it(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel\t\t: 17\nmodel name\t: Some  CPU @ 2.60GHz \n")

    assert processor_name(cpuinfo) == "Some CPU @ 2.60GHz"


def test_a_processor_without_a_name_is_its_architecture(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nCPU implementer\t: 0x41\n")
    architecture = platform.processor() or platform.machine()

    assert processor_name(cpuinfo) == architecture
    assert processor_name(tmp_path / "missing") == architecture


def test_without_a_group_memory_is_the_machines() -> None:
    used, total = memory(None)
    machine = psutil.virtual_memory()

    assert total == machine.total
    assert used == pytest.approx(machine.total - machine.available, rel=0.2)


def test_a_limit_is_the_total_and_dropping_cache_is_no_use(tmp_path: Path) -> None:
    version_2(tmp_path / "mount/app", most=str(2 * GIB), used=GIB, cache=GIB // 4)
    here = process(
        tmp_path / "self", cgroup="0::/app\n", mountinfo=mount_2("/", tmp_path / "mount")
    )

    assert memory(memory_group(here)) == (GIB - GIB // 4, 2 * GIB)


def test_the_lowest_limit_counts_even_if_it_is_further_up(tmp_path: Path) -> None:
    version_2(tmp_path / "mount/pod/app", most=str(4 * GIB), used=1)
    version_2(tmp_path / "mount/pod", most=str(3 * GIB), used=2 * GIB)
    version_2(tmp_path / "mount", most="max", used=9 * GIB)
    here = process(
        tmp_path / "self", cgroup="0::/pod/app\n", mountinfo=mount_2("/", tmp_path / "mount")
    )

    assert memory(memory_group(here)) == (2 * GIB, 3 * GIB)


def test_a_group_without_a_limit_leaves_the_machines_memory(tmp_path: Path) -> None:
    version_2(tmp_path / "mount/app", most="max", used=GIB)
    here = process(
        tmp_path / "self", cgroup="0::/app\n", mountinfo=mount_2("/", tmp_path / "mount")
    )

    assert memory_group(here) is None


def test_version_1_is_read_as_well(tmp_path: Path) -> None:
    version_1(tmp_path / "memory/app", most=2 * GIB, used=GIB, cache=GIB // 2)
    version_1(tmp_path / "memory", most=VERSION_1_UNLIMITED, used=9 * GIB)
    here = process(
        tmp_path / "self",
        cgroup="5:cpuset,memory:/app\n2:cpu:/\n0::/elsewhere\n",
        mountinfo=mount_1("/", tmp_path / "memory"),
    )

    assert memory(memory_group(here)) == (GIB // 2, 2 * GIB)


def test_a_version_1_limit_above_the_machine_is_none(tmp_path: Path) -> None:
    version_1(tmp_path / "memory", most=VERSION_1_UNLIMITED, used=1)
    here = process(
        tmp_path / "self", cgroup="4:memory:/\n", mountinfo=mount_1("/", tmp_path / "memory")
    )

    assert memory(memory_group(here)).total_bytes == psutil.virtual_memory().total


def test_a_container_sees_its_own_group_at_the_mount_point(tmp_path: Path) -> None:
    version_1(tmp_path / "memory", most=GIB, used=100)
    here = process(
        tmp_path / "self",
        cgroup="4:memory:/docker/4f2a\n",
        mountinfo=mount_1("/docker/4f2a", tmp_path / "memory"),
    )

    assert memory(memory_group(here)) == (100, GIB)


def test_a_group_inside_a_containers_own_is_found_below_the_mount_point(tmp_path: Path) -> None:
    version_1(tmp_path / "memory", most=2 * GIB, used=200)
    version_1(tmp_path / "memory/job", most=GIB, used=100)
    here = process(
        tmp_path / "self",
        cgroup="4:memory:/docker/4f2a/job\n",
        mountinfo=mount_1("/docker/4f2a", tmp_path / "memory"),
    )

    assert memory(memory_group(here)) == (100, GIB)


@pytest.mark.parametrize("path", ["/../other", "/not/mounted/here"])
def test_a_group_outside_the_mount_is_the_mount(tmp_path: Path, path: str) -> None:
    version_2(tmp_path / "mount", most=str(GIB), used=7)
    version_2(tmp_path / "other", most=str(GIB // 2), used=9)
    here = process(
        tmp_path / "self", cgroup=f"0::{path}\n", mountinfo=mount_2("/", tmp_path / "mount")
    )

    assert memory(memory_group(here)) == (7, GIB)


def test_a_mount_point_with_a_blank_is_found(tmp_path: Path) -> None:
    version_2(tmp_path / "a mount/app", most=str(GIB), used=7)
    mountinfo = mount_2("/", tmp_path / "a mount").replace("a mount", r"a\040mount")
    here = process(tmp_path / "self", cgroup="0::/app\n", mountinfo=mountinfo)

    assert memory(memory_group(here)) == (7, GIB)


def test_no_control_groups_at_all_is_no_group(tmp_path: Path) -> None:
    unmounted = process(tmp_path / "self", cgroup="0::/\n", mountinfo="")
    garbled = process(tmp_path / "garbled", cgroup="memory\n", mountinfo="22 - \n")

    assert memory_group(tmp_path / "missing") is None
    assert memory_group(unmounted) is None
    assert memory_group(garbled) is None


def test_a_group_that_vanishes_leaves_the_machines_memory(tmp_path: Path) -> None:
    gone = ControlGroup(tmp_path / "a", tmp_path / "b", tmp_path / "c", "inactive_file")

    assert memory(gone).total_bytes == psutil.virtual_memory().total


def test_cores_come_in_the_kernels_order() -> None:
    assert list(allowed_cores()) == sorted(os.sched_getaffinity(0))

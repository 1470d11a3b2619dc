"""How busy and fast the cores are: over made-up files by value, and this machine's after work."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tui_profiler.messages import Unknown
from tui_profiler.probe.measure.devices.cores import CoreMeter, frequency_hertz

CPUINFO = """\
processor\t: 0
model name\t: Some CPU
cpu MHz\t\t: 2000.000

processor\t: 1
cpu MHz\t\t: 3000.500

processor\t: 2
cpu MHz\t\t: 9000.000
"""


def write_stat(path: Path, cores: dict[int, str]) -> Path:
    lines = ["cpu  9 9 9 9 9 9 9 9 0 0", *(f"cpu{core} {ticks}" for core, ticks in cores.items())]
    path.write_text("\n".join([*lines, "intr 12345 0 0", "ctxt 99", ""]))
    return path


def shares(meter: CoreMeter) -> list[float]:
    return [core.utilisation for core in meter.utilisation()]


def test_use_is_the_share_of_ticks_that_were_not_idle(tmp_path: Path) -> None:
    stat = write_stat(tmp_path / "stat", {0: "10 0 0 100 0 0 0 0 0 0", 1: "0 0 0 0 0 0 0 0 0 0"})
    meter = CoreMeter([0, 1], stat)
    # user nice system idle iowait irq softirq steal guest guest_nice
    write_stat(stat, {0: "20 10 5 150 20 1 2 2 9 9", 1: "0 0 0 100 0 0 0 0 0 0"})

    assert shares(meter) == [30 / 100, 0.0]


def test_only_the_cores_asked_for_are_given_by_their_number(tmp_path: Path) -> None:
    idle = "0 0 0 0 0 0 0 0 0 0"
    stat = write_stat(tmp_path / "stat", {0: idle, 2: idle, 5: idle})  # 1, 3 and 4 are offline
    meter = CoreMeter([1, 2, 5], stat)
    write_stat(
        stat,
        {
            0: "100 0 0 0 0 0 0 0 0 0",
            2: "50 0 0 50 0 0 0 0 0 0",
            5: "25 0 0 75 0 0 0 0 0 0",
        },
    )

    assert shares(meter) == [0.5, 0.25]


def test_there_is_no_use_before_there_is_an_interval(tmp_path: Path) -> None:
    stat = write_stat(tmp_path / "stat", {0: "7 0 0 100 0 0 0 0 0 0"})
    meter = CoreMeter([0], stat)

    assert shares(meter) == []


def test_an_interval_of_few_ticks_is_left_to_the_next(tmp_path: Path) -> None:
    stat = write_stat(tmp_path / "stat", {0: "0 0 0 0 0 0 0 0 0 0"})
    meter = CoreMeter([0], stat)
    write_stat(stat, {0: "10 0 0 10 0 0 0 0 0 0"})
    first = shares(meter)
    write_stat(stat, {0: "12 0 0 10 0 0 0 0 0 0"})
    too_soon = shares(meter)
    write_stat(stat, {0: "12 0 0 18 0 0 0 0 0 0"})

    assert (first, too_soon, shares(meter)) == ([0.5], [0.5], [0.2])


def test_waiting_time_that_runs_backwards_is_no_negative_use(tmp_path: Path) -> None:
    stat = write_stat(tmp_path / "stat", {0: "0 0 0 10 90 0 0 0 0 0"})
    meter = CoreMeter([0], stat)
    write_stat(stat, {0: "10 0 0 12 80 0 0 0 0 0"})

    assert shares(meter) == [1.0]


def test_a_core_that_comes_online_is_given_once_it_has_an_interval(tmp_path: Path) -> None:
    stat = write_stat(tmp_path / "stat", {})
    meter = CoreMeter([3], stat)
    write_stat(stat, {3: "10 0 0 10 0 0 0 0 0 0"})
    before = shares(meter)
    write_stat(stat, {3: "20 0 0 40 0 0 0 0 0 0"})

    assert (before, shares(meter)) == ([], [0.25])


def test_steal_is_of_the_cores_asked_for_since_boot(tmp_path: Path) -> None:
    stat = write_stat(tmp_path / "stat", dict.fromkeys((0, 1, 2), "1 1 1 1 1 1 1 50 1 1"))
    meter = CoreMeter([1, 2, 3], stat)
    ticks = os.sysconf("SC_CLK_TCK")
    assert meter.stolen_seconds == 100 / ticks
    write_stat(stat, {1: "1 1 1 1 1 1 1 80 1 1"})
    meter.utilisation()
    assert meter.stolen_seconds == 80 / ticks


def test_steal_is_what_psutil_says_it_is() -> None:
    before = sum(getattr(one, "steal", 0.0) for one in psutil.cpu_times(percpu=True))
    found = CoreMeter(range(psutil.cpu_count() or 1)).stolen_seconds
    after = sum(getattr(one, "steal", 0.0) for one in psutil.cpu_times(percpu=True))
    assert not isinstance(found, Unknown)
    assert before - 0.005 <= found <= after + 0.005


def test_a_kernel_without_the_file_has_no_cores_to_tell_of(tmp_path: Path) -> None:
    meter = CoreMeter([0], tmp_path / "missing")
    assert meter.utilisation() == ()
    assert isinstance(meter.stolen_seconds, Unknown)


def test_a_core_kept_busy_is_seen_busy_and_psutil_agrees() -> None:
    core = min(os.sched_getaffinity(0))
    allowed = os.sched_getaffinity(0)
    numbered = sorted(
        int(line.split()[0][3:])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("cpu") and line[3].isdigit()
    )
    os.sched_setaffinity(0, {core})  # this thread's
    try:
        psutil.cpu_percent(percpu=True)
        meter = CoreMeter([core])
        end = os.times().user + 0.4
        while os.times().user < end:
            pass
        theirs = psutil.cpu_percent(percpu=True)[numbered.index(core)]
        ours = shares(meter)
    finally:
        os.sched_setaffinity(0, allowed)

    assert ours[0] > 0.8
    assert ours[0] == pytest.approx(theirs / 100, abs=0.1)


def test_frequency_is_the_mean_of_what_the_driver_says(tmp_path: Path) -> None:
    for core, kilohertz in ((0, 1_000_000), (1, 2_000_000), (2, 9_000_000)):
        folder = tmp_path / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{kilohertz}\n")

    assert frequency_hertz([0, 1], tmp_path, tmp_path / "cpuinfo") == 1.5e9


def test_an_offline_core_is_not_in_the_mean(tmp_path: Path) -> None:
    folder = tmp_path / "cpu1" / "cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_cur_freq").write_text("2000000\n")

    assert frequency_hertz([0, 1], tmp_path, tmp_path / "cpuinfo") == 2e9


def test_without_a_driver_the_processor_table_is_read(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(CPUINFO)

    assert frequency_hertz([0, 1], tmp_path, cpuinfo) == 2500.25e6
    assert frequency_hertz([1], tmp_path, cpuinfo) == 3000.5e6


@pytest.mark.parametrize(
    "table", ["processor\t: 0\nBogoMIPS\t: 50.00\n", "processor\t: 0\ncpu MHz\t\t: 0.000\n", ""]
)
def test_a_kernel_that_does_not_tell_the_clock_is_a_reason(tmp_path: Path, table: str) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(table)

    assert frequency_hertz([0], tmp_path, cpuinfo) == Unknown("no core frequency from this kernel")
    assert frequency_hertz([0], tmp_path, tmp_path / "missing") == Unknown(
        "no core frequency from this kernel"
    )


def test_a_few_cores_speak_for_many(tmp_path: Path) -> None:
    for core in range(64):
        folder = tmp_path / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text("0\n" if core % 4 else "3000000\n")

    assert frequency_hertz(range(64), tmp_path, tmp_path / "cpuinfo") == 3e9

"""Disk, network and context switches: against what this process really did."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from tui_profiler.messages import Unknown
from tui_profiler.probe.measure.devices.disk_network import TrafficMeter

MEGABYTES = 8


def test_the_first_figures_need_a_second_look() -> None:
    meter = TrafficMeter(psutil.Process(), 100.0)

    assert meter.traffic(100.01).process_read_bytes == Unknown("needs a second sample")


def test_what_is_written_to_storage_is_this_process_s_and_the_machine_s(tmp_path: Path) -> None:
    meter = TrafficMeter(psutil.Process(), 100.0)
    with (tmp_path / "written").open("wb") as file:
        file.write(os.urandom(MEGABYTES << 20))
        file.flush()
        os.fsync(file.fileno())
    traffic = meter.traffic(104.0)

    if isinstance(traffic.process_written_bytes, Unknown) or not traffic.process_written_bytes:
        pytest.skip("the temporary folder is no storage, or is not counted")
    # Four seconds by the meter's clock.
    assert traffic.process_written_bytes * 4 == pytest.approx(MEGABYTES << 20, rel=0.2)


def test_waiting_gives_the_core_away() -> None:
    meter = TrafficMeter(psutil.Process(), 100.0)
    thread = threading.Thread(target=lambda: [time.sleep(0.0005) for _ in range(40)])
    thread.start()
    thread.join()
    traffic = meter.traffic(102.0)

    # Forty naps of another thread in two seconds by the meter's clock, and a little else.
    assert not isinstance(traffic.voluntary_switches, Unknown)
    assert 20 <= traffic.voluntary_switches < 100


def test_a_look_that_comes_too_soon_gives_the_figures_before() -> None:
    meter = TrafficMeter(psutil.Process(), 100.0)
    first = meter.traffic(101.0)

    assert meter.traffic(101.01) is first

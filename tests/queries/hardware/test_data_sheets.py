"""The table of data sheets, against what the hardware is made of."""

from __future__ import annotations

import pytest

from tui_profiler.queries.hardware.data_sheets import data_sheet, data_sheets

UNITS = {
    "V100-SXM2": (80, 1024, 1.53),
    "T4": (40, 1024, 1.59),
    "A100-40": (108, 2048, 1.41),
    "A100-80": (108, 2048, 1.41),
    "A10": (72, 1024, 1.695),
    "RTX-3090": (82, 512, 1.695),
    "L4": (58, 1024, 2.04),
    "L40S": (142, 1024, 2.52),
    "RTX-4090": (128, 512, 2.52),
    "H100-PCIe": (114, 4096, 1.62),
    "H100-SXM": (132, 4096, 1.83),
    "H200-SXM": (132, 4096, 1.83),
    "B200": (148, 8192, 1.86),
    "RTX-5090": (170, 512, 2.407),
    "MI210": (104, 1024, 1.7),
    "MI300X": (304, 2048, 2.1),
    "MI325X": (304, 2048, 2.1),
}
"""Multiprocessors or compute units, 16-bit FLOPs of each per clock, GHz: from the architectures'
white papers, not from the data sheets."""
BUSES = {
    "V100-SXM2": (4096, 1.752),
    "T4": (256, 10),
    "A100-40": (5120, 2.43),
    "A100-80": (5120, 3.186),
    "A10": (384, 12.5),
    "RTX-3090": (384, 19.5),
    "L4": (192, 12.5),
    "L40S": (384, 18),
    "RTX-4090": (384, 21),
    "H100-PCIe": (5120, 3.186),
    "H100-SXM": (5120, 5.23),
    "H200-SXM": (6144, 6.25),
    "B200": (8192, 7.8),
    "RTX-5090": (512, 28),
    "MI210": (4096, 3.2),
    "MI300X": (8192, 5.2),
    "MI325X": (8192, 6.0),
}
"""Width of the memory bus in bits, gigabits a second of each."""


def test_every_device_is_checked() -> None:
    assert set(UNITS) == set(BUSES) == {one.name for one in data_sheets()}


@pytest.mark.parametrize("name", UNITS)
def test_peaks_are_dense_and_those_of_the_units(name: str) -> None:
    sheet = data_sheet(name)
    assert sheet is not None
    units, per_clock, gigahertz = UNITS[name]
    assert sheet.flops_per_second["float16"] == pytest.approx(
        units * per_clock * gigahertz * 1e9, rel=0.02
    )


@pytest.mark.parametrize("name", BUSES)
def test_bandwidths_are_those_of_the_bus(name: str) -> None:
    sheet = data_sheet(name)
    assert sheet is not None
    bits, gigabits = BUSES[name]
    assert sheet.bytes_per_second == pytest.approx(bits * gigabits * 1e9 / 8, rel=0.03)


@pytest.mark.parametrize("name", UNITS)
def test_narrower_dtypes_are_no_slower(name: str) -> None:
    sheet = data_sheet(name)
    assert sheet is not None
    rates = sheet.flops_per_second
    assert rates["float64"] <= rates["float32"] <= rates["float16"]
    assert rates.get("bfloat16", rates["float16"]) == rates["float16"]
    assert rates.get("float8_e4m3fn", rates["float16"]) >= rates["float16"]
    assert sheet.vector_flops_per_second <= rates["float16"]
    assert sheet.source


@pytest.mark.parametrize("typed", ["H100-SXM", "h100_sxm", "H100 sxm", "h100sxm"])
def test_a_device_is_found_however_it_is_written(typed: str) -> None:
    found = data_sheet(typed)
    assert found is not None
    assert found.name == "H100-SXM"
    assert data_sheet("H100") is None  # There are two.

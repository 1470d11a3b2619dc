"""Temperature of the processor, from folders like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_profiler.messages import Temperature, Unknown
from tui_profiler.probe.measure.devices.temperature import Thermometer

NOT_TOLD = Unknown("this sensor does not report it")


def sensors(hwmon: Path, number: int, driver: str, *rows: tuple[str, int, int | None]) -> Path:
    """Write one driver with its sensors: label, value and limit in 0.001 degrees."""
    folder = hwmon / f"hwmon{number}"
    folder.mkdir()
    (folder / "name").write_text(f"{driver}\n")
    for index, (label, degrees, critical) in enumerate(rows, 1):
        (folder / f"temp{index}_input").write_text(f"{degrees}\n")
        if label:
            (folder / f"temp{index}_label").write_text(f"{label}\n")
        if critical is not None:
            (folder / f"temp{index}_crit").write_text(f"{critical}\n")
    return folder


def test_each_package_has_its_own_sensor_and_other_sensors_are_left_out(tmp_path: Path) -> None:
    sensors(tmp_path, 0, "acpitz", ("", 90_000, 105_000))
    sensors(tmp_path, 2, "coretemp", ("Package id 0", 71_500, 100_000), ("Core 0", 80_000, 100_000))
    sensors(tmp_path, 10, "coretemp", ("Package id 1", 66_000, 100_000))
    assert Thermometer(tmp_path).temperatures() == (
        Temperature("Package id 0", 71.5, 100.0),
        Temperature("Package id 1", 66.0, 100.0),
    )


def test_packages_whose_sensors_have_one_name_are_told_apart(tmp_path: Path) -> None:
    sensors(tmp_path, 1, "coretemp")
    for number, degrees in enumerate((45_000, 61_000), 2):
        sensors(tmp_path, number, "k10temp", ("Tctl", degrees, None))
    assert Thermometer(tmp_path).temperatures() == (
        Temperature("Tctl (0)", 45.0, NOT_TOLD),
        Temperature("Tctl (1)", 61.0, NOT_TOLD),
    )


@pytest.mark.parametrize(
    ("driver", "rows", "expected"),
    [
        (
            "k10temp",
            [("Tctl", 80_000, None), ("Tccd1", 90_000, None)],
            Temperature("Tctl", 80.0, NOT_TOLD),
        ),
        # Without the offset of Tctl.
        (
            "k10temp",
            [("Tctl", 80_000, None), ("Tdie", 53_000, None)],
            Temperature("Tdie", 53.0, NOT_TOLD),
        ),
        # The hottest core where there is none for the package.
        (
            "coretemp",
            [("Core 0", 50_000, 99_000), ("Core 1", 61_000, 99_000), ("Core 2", 40_000, 99_000)],
            Temperature("Core 1", 61.0, 99.0),
        ),
        ("cpu_thermal", [("", 47_200, 110_000)], Temperature("cpu_thermal", 47.2, 110.0)),
        ("cpu0_thermal", [("", 47_200, None)], Temperature("cpu0_thermal", 47.2, NOT_TOLD)),
    ],
)
def test_the_sensor_of_the_package_is_chosen(
    tmp_path: Path, driver: str, rows: list[tuple[str, int, int | None]], expected: Temperature
) -> None:
    sensors(tmp_path, 1, driver, *rows)
    assert Thermometer(tmp_path).temperatures() == (expected,)


def test_a_machine_without_sensors_says_so(tmp_path: Path) -> None:
    sensors(tmp_path, 0, "nvme", ("Composite", 40_000, None))
    sensors(tmp_path, 1, "coretemp")
    for folder in (tmp_path, tmp_path / "nowhere"):
        found = Thermometer(folder).temperatures()
        assert found == Unknown("no temperature sensor of the processor")


def test_a_sensor_that_fails_is_no_zero_and_is_read_again(tmp_path: Path) -> None:
    sensor = sensors(tmp_path, 0, "k10temp", ("Tctl", 0, None)) / "temp1_input"
    thermometer = Thermometer(tmp_path)
    sensor.write_text("")
    failed = Temperature("Tctl", Unknown("this sensor cannot be read"), NOT_TOLD)
    assert thermometer.temperatures() == (failed,)
    sensor.write_text("51250\n")
    assert thermometer.temperatures() == (Temperature("Tctl", 51.25, NOT_TOLD),)

"""How hot the processor is: one sensor of each package, from the kernel's hwmon.

1. Intel's ``coretemp`` labels one sensor for the package, and others for the cores. Where it has
   none for the package, the hottest core is given.
2. AMD's ``k10temp`` has ``Tctl``, which cooling goes by, with an offset on some processors, and on
   those also ``Tdie``, without it. ``Tccd1`` and following are parts of the package.
3. On Arm thermal zones of the cores are ``cpu_thermal``, ``cpu0_thermal``, ``soc_thermal``.
4. Where several packages have sensors of one name, as two sockets of AMD do, the package's place in
   the kernel's order is added: ``Tctl (0)``, ``Tctl (1)``.
5. Sensors of the mainboard (``acpitz``, ``nct6775``) are not the processor's: they are not given.

Source: Linux, Documentation/hwmon/coretemp.rst, k10temp.rst, sysfs-interface.rst (thousandths of a
degree Celsius).
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tui_profiler.messages import Figure, Temperature, Unknown

_HWMON = Path("/sys/class/hwmon")
_NO_SENSOR = Unknown("no temperature sensor of the processor")
_X86 = {"coretemp": ("Package id",), "k10temp": ("Tdie", "Tctl"), "zenpower": ("Tdie", "Tctl")}
"""Labels of the package by driver, the best first."""
_ARM = re.compile(r"(cpu|soc|cluster|cpuss)[-_]?\d*(_\d+)?[-_]thermal")


class _Sensor(NamedTuple):
    name: str
    input: Path

    def reading(self) -> Temperature:
        return Temperature(
            self.name,
            _degrees(self.input),
            _degrees(self.input.with_name(self.input.name.replace("_input", "_crit"))),
        )


class Thermometer:
    """The sensors of the processor's packages, found once.

    Args:
        hwmon: where the kernel lists its sensors.
    """

    def __init__(self, hwmon: Path = _HWMON) -> None:
        packages: list[list[_Sensor]] = []
        for folder in sorted(hwmon.glob("hwmon*"), key=lambda path: (len(path.name), path.name)):
            driver = _text(folder / "name")
            sensors = _sensors(folder, driver)
            if driver in _X86:
                packages.append(_of_package(sensors, _X86[driver]))
            elif _ARM.fullmatch(driver):
                packages.append(sensors[:1])
        self._packages = _told_apart([sensors for sensors in packages if sensors])

    def temperatures(self) -> tuple[Temperature, ...] | Unknown:
        """Return the temperature of each package now."""
        found = [
            max((one.reading() for one in sensors), key=_hotness) for sensors in self._packages
        ]
        return tuple(found) or _NO_SENSOR


def _sensors(folder: Path, driver: str) -> list[_Sensor]:
    inputs = sorted(folder.glob("temp*_input"), key=lambda path: (len(path.name), path.name))
    return [
        _Sensor(_text(path.with_name(path.name.replace("_input", "_label"))) or driver, path)
        for path in inputs
    ]


def _of_package(sensors: list[_Sensor], labels: tuple[str, ...]) -> list[_Sensor]:
    """Return the sensor with the best label, or all where none has one."""
    for label in labels:
        found = [one for one in sensors if one.name.startswith(label)]
        if found:
            return found[:1]
    return sensors


def _told_apart(packages: list[list[_Sensor]]) -> list[list[_Sensor]]:
    """Return the sensors of each package, with its place where others have the same name."""
    packages_with = Counter(name for sensors in packages for name in {one.name for one in sensors})
    return [
        [
            one._replace(name=f"{one.name} ({place})") if packages_with[one.name] > 1 else one
            for one in sensors
        ]
        for place, sensors in enumerate(packages)
    ]


def _hotness(one: Temperature) -> float:
    return float("-inf") if isinstance(one.celsius, Unknown) else one.celsius


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _degrees(path: Path) -> Figure:
    try:
        return int(path.read_text(encoding="ascii")) / 1e3
    except FileNotFoundError:
        return Unknown("this sensor does not report it")
    except (OSError, ValueError):
        return Unknown("this sensor cannot be read")

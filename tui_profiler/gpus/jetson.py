"""The GPU of an NVIDIA Jetson, from the kernel's files, where NVML does not know it or its figures.

1. Up to JetPack 5 there is no NVML, and from 6 it leaves most figures of this GPU unknown: what it
   knows is kept, the rest is filled from files.
2. Power is measured on supply rails (INA3221, millivolts and milliamperes). Where one of them
   supplies the GPU alone it is the GPU's power; that of all the module is told as the module's. A
   rail that the GPU shares, as of Orin (``VDD_GPU_SOC``), is no figure of the GPU.
3. It has no memory of its own and no energy counter; power is integrated by who asks for energy.

Source: NVIDIA, Jetson Linux Developer Guide, "Platform Power and Performance", for rails and their
labels; Linux, Documentation/ABI/testing/sysfs-class-devfreq, hwmon/ina3221.rst; the ``load`` of the
driver nvgpu is in thousandths.
"""

import os
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import fields, replace

from tui_profiler.gpus.driver import NOT_TOLD, Driver, EnergyReading, OfProcesses
from tui_profiler.messages import EccErrors, Figure, Gpu, GpuLinks, Unknown

_ROOT = Path("/")
_TEGRA = b"nvidia,tegra"
_CHIPS = frozenset({"gp10b", "gv11b", "ga10b", "gb10b", "gpu"})
"""Names of the GPU in the device tree: Xavier, Orin and Thor among them."""
_OF_GPU = ("GPU", "VDD_GPU", "POM_5V_GPU", "VDD_SYS_GPU")
_OF_MODULE = ("VDD_IN", "VIN_SYS_5V0", "POM_5V_IN", "VIN")
_SHARED = Unknown("this GPU has no memory of its own")
_NO_COUNTER = Unknown("a Jetson has no energy counter")
_NONE = Unknown("a Jetson has none")


class _Files(NamedTuple):
    """Where the GPU of this machine is described."""

    load: Path
    hertz: Path
    degrees: Path | None
    gpu_rail: tuple[Path, Path] | None
    """Its voltage and current."""
    module_rail: tuple[Path, Path] | None
    shared_rail: str
    """Label of a rail that supplies the GPU and something else."""


class Jetson:
    """NVIDIA's GPUs by NVML, and on a Jetson by files.

    Args:
        nvml: asked first.
        root: where ``/sys`` and ``/proc`` are.
    """

    vendor = "NVIDIA"

    def __init__(self, nvml: Driver, root: Path = _ROOT) -> None:
        self._nvml = nvml
        self.absent = nvml.absent
        self.not_installed = nvml.not_installed
        self._root = root
        self._files = _found(root)

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures."""
        answer = self._nvml.gpus(now)
        if self._files is None:
            return answer
        own = self._gpu(self._files)
        if isinstance(answer, Unknown):
            return (own,)
        return (_filled(answer[0], own),) if len(answer) == 1 else answer

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Ask every GPU for energy and power."""
        answer = self._nvml.energy(now)
        if self._files is None:
            return answer
        watts = self._watts(self._files)
        if isinstance(answer, Unknown):
            return (EnergyReading("gpu", self._name(), 0, _NO_COUNTER, watts),)
        one = answer[0]
        if len(answer) == 1 and isinstance(one.joules, Unknown) and isinstance(one.watts, Unknown):
            return (one._replace(watts=watts),)
        return answer

    def processes(self, now: float) -> tuple[OfProcesses, ...] | Unknown:
        """Return the processes that use each GPU; files do not tell."""
        answer = self._nvml.processes(now)
        is_known = not isinstance(answer, Unknown) or self._files is None
        return answer if is_known else (OfProcesses(0, NOT_TOLD, ""),)

    def close(self) -> None:
        """End the session of NVML; the next question would open another."""
        self._nvml.close()

    def _gpu(self, files: _Files) -> Gpu:
        load, hertz = _number(files.load), _number(files.hertz)
        module = _power(files.module_rail)
        watts = self._watts(files)
        return Gpu(
            name=self._name(),
            utilisation=load if isinstance(load, Unknown) else load / 1e3,
            memory_bytes=_SHARED,
            memory_total_bytes=_SHARED,
            temperature_celsius=_degrees(files.degrees),
            power_watts=watts,
            power_limit_watts=NOT_TOLD,
            clock_hertz=hertz,
            throttled_by=NOT_TOLD,
            index=0,
            # There is no other to be seen.
            cuda_index=0 if os.environ.get("CUDA_VISIBLE_DEVICES", "0") == "0" else None,
            power_instant_watts=watts,
            power_average_watts=NOT_TOLD,
            module_watts=module,
            memory_watts=NOT_TOLD,
            energy_joules=_NO_COUNTER,
            memory_clock_hertz=NOT_TOLD,
            pcie_sent_bytes=_NONE,
            pcie_received_bytes=_NONE,
            pcie_generation=_NONE,
            pcie_width=_NONE,
            processes=NOT_TOLD,
            fan_share=NOT_TOLD,
            fan_rpm=NOT_TOLD,
            ecc=EccErrors(*[NOT_TOLD] * len(EccErrors.__struct_fields__)),
            links=GpuLinks(*[_NONE] * len(GpuLinks.__struct_fields__)),
        )

    def _watts(self, files: _Files) -> Figure:
        if files.gpu_rail is None and files.shared_rail:
            return Unknown(
                f"not measured alone (rail {files.shared_rail} also supplies other parts)"
            )
        return _power(files.gpu_rail)

    def _name(self) -> str:
        model = _text(self._root / "proc" / "device-tree" / "model").strip("\0\n")
        return model or "NVIDIA Jetson"


def _found(root: Path) -> _Files | None:
    """Find the GPU of a Jetson; None on any other machine."""
    try:
        if _TEGRA not in (root / "proc" / "device-tree" / "compatible").read_bytes():
            return None
    except OSError:
        return None
    classes = root / "sys" / "class"
    for frequency in sorted((classes / "devfreq").glob("*")):
        name = _text(frequency / "device" / "of_node" / "name").strip("\0\n").lower()
        if name not in _CHIPS:
            continue
        rails = _rails(classes / "hwmon")
        shared = (label for label in rails if "GPU" in label and label not in _OF_GPU)
        return _Files(
            frequency / "device" / "load",
            frequency / "cur_freq",
            _zone(classes / "thermal"),
            next((rails[label] for label in _OF_GPU if label in rails), None),
            next((rails[label] for label in _OF_MODULE if label in rails), None),
            next(shared, ""),
        )
    return None


def _rails(hwmon: Path) -> dict[str, tuple[Path, Path]]:
    """Return voltage and current of every supply rail that is measured, by label."""
    found = {}
    for folder in sorted(hwmon.glob("hwmon*")):
        if _text(folder / "name").strip() != "ina3221":
            continue
        for path in sorted(folder.glob("in*_label")):
            number = path.name.removeprefix("in").removesuffix("_label")
            rail = folder / f"in{number}_input", folder / f"curr{number}_input"
            if rail[1].exists():
                found[_text(path).strip()] = rail
    return found


def _zone(thermal: Path) -> Path | None:
    for zone in sorted(thermal.glob("thermal_zone*")):
        if _text(zone / "type").strip().lower() in ("gpu-thermal", "gpu-therm"):
            return zone / "temp"
    return None


def _power(rail: tuple[Path, Path] | None) -> Figure:
    if rail is None:
        return NOT_TOLD
    millivolts, milliamperes = map(_number, rail)
    if isinstance(millivolts, Unknown) or isinstance(milliamperes, Unknown):
        return millivolts if isinstance(millivolts, Unknown) else milliamperes
    return millivolts * milliamperes / 1e6


def _degrees(zone: Path | None) -> Figure:
    found = NOT_TOLD if zone is None else _number(zone)
    return found if isinstance(found, Unknown) else found / 1e3


def _filled(told: Gpu, own: Gpu) -> Gpu:
    """Return what NVML told, its unknown figures from the files."""
    return replace(
        told,
        **{
            field.name: getattr(own, field.name)
            for field in fields(Gpu)
            if isinstance(getattr(told, field.name), Unknown)
            and not isinstance(getattr(own, field.name), Unknown)
        },
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> Figure:
    try:
        return float(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return NOT_TOLD
    except (OSError, ValueError):
        return Unknown("the kernel's file cannot be read")

"""AMD GPUs through ``amdsmi``, AMD's own Python binding of ``libamd_smi.so``.

1. The library is looked for where ``amdsmi`` looks, before ``amdsmi`` is imported: it prints to
   standard output where there is none.
2. ``amdsmi`` gives ``"N/A"`` for what a GPU does not report.
3. A GPU is ``cuda:N`` of a process with a ROCm build of torch, which names the serial number of the
   chip as the UUID, each of its 16 hexadecimal digits as the byte of the character.
4. The library is started and never shut down: it does not count who started it (``amdsmi_init`` of
   amd_smi.cc), so that closing one session would end the others of this process, torch's and the
   user's own among them. It ends with the process.

Source: AMD SMI Python API reference, ROCm 7; units from the structs of amdsmi.h (``power_cap``
microwatts, ``pcie_speed`` megatransfers per second, clocks megahertz, energy in steps of
``counter_resolution`` microjoules).
"""

import ctypes
import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from tui_profiler.gpus.driver import (
    NOT_TOLD,
    EnergyReading,
    OfProcesses,
    Opened,
    import_binding,
    most_memory_first,
    sure_uuid,
    unless_absent,
)
from tui_profiler.messages import EccErrors, Figure, Gpu, GpuLinks, GpuProcess, Unknown, known

_CARDS = Path("/sys/class/drm")
_VENDOR = "0x1002"
_LIBRARY = "libamd_smi.so"
_NO_LIBRARY = Unknown(f"{_LIBRARY} of ROCm is not installed")
_NO_BINDING = Unknown("amdsmi is not installed (pip install 'tui-profiler[amd]')")
_OLD = Unknown("not supported by the installed amdsmi")
_NO_AGGREGATE = Unknown("the AMD driver has no aggregate count")
_NO_LINKS = Unknown("AMD's XGMI is not read")
_ONE_POWER = Unknown("an AMD GPU reports its own power only")
_BOTH_DIRECTIONS = Unknown("not read: amdsmi blocks for 1 s per call")
_NOT_ASKED = Unknown("not asked yet: two GPUs per sample, in turns")
_NO_SHARE = Unknown("amdsmi does not report it per process")
_REASONS = {
    2: NOT_TOLD.reason,
    3: _OLD.reason,
    10: "permission denied (needs groups render and video)",
    31: "the GPU was not found",
    32: "the AMD driver was lost",
    34: "the AMD driver is not loaded",
    40: NOT_TOLD.reason,
}
# After these no call of the session can succeed.
_ENDS_SESSION = frozenset({32, 34})
_ASKED_AT_ONCE = 2
_VIOLATIONS = {
    "active_ppt_pwr": "power limit",
    "active_socket_thrm": "temperature",
    "active_hbm_thrm": "HBM temperature",
    "active_vr_thrm": "temperature of the voltage regulators",
    "active_prochot_thrm": "temperature, by hardware",
}
# Megatransfers per second of one lane, by generation (PCI Express Base Specification).
_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}
_T = TypeVar("_T")


class _Session(NamedTuple):
    library: ModuleType
    devices: "tuple[_Device, ...]"


class Amd:
    """One session of amdsmi: opened at the first question, to be closed.

    Args:
        cuda_uuids: As for ``Gpus``.
        cards: where the kernel lists graphics cards.
    """

    vendor = "AMD"
    absent: tuple[Unknown, ...] = (Unknown("no AMD GPU on this machine"),)
    not_installed: tuple[Unknown, ...] = (_NO_LIBRARY, _NO_BINDING)

    def __init__(
        self,
        cuda_uuids: Callable[[], tuple[str, ...] | None] = lambda: None,
        cards: Path = _CARDS,
    ) -> None:
        self._cuda_uuids = cuda_uuids
        self._cards = cards
        self._session = Opened(self._open, lambda _: None)

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures; at most 200 ms of it for what throttles them."""
        seen = [_serial(uuid) for uuid in self._cuda_uuids() or ()]
        return self._each(now, lambda one: one.gpu(seen))

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Ask every GPU for energy and power."""
        return self._each(now, _Device.energy)

    def processes(self, now: float) -> tuple[OfProcesses, ...] | Unknown:
        """Return the processes that use each GPU."""
        return self._each(now, lambda one: OfProcesses(one.index, one.processes(), one.uuid))

    def close(self) -> None:
        """Forget the handles; the library itself stays (rule 4)."""
        self._session.close()

    def _each(self, now: float, ask: "Callable[[_Device], _T]") -> tuple[_T, ...] | Unknown:
        session = self._session.get(now)
        if isinstance(session, Unknown):
            return session
        try:
            return tuple(ask(device) for device in session.devices)
        except session.library.AmdSmiException as error:
            return self._session.fail(_reason(error), now)

    def _open(self) -> _Session | Unknown:
        return unless_absent(self._library(), self._cards, _VENDOR, self.absent[0])

    def _library(self) -> _Session | Unknown:
        library = import_library()
        if isinstance(library, Unknown):
            return library
        try:
            library.amdsmi_init()
            handles = library.amdsmi_get_processor_handles()
        except library.AmdSmiException as error:
            return _reason(error)
        if not handles:
            return Unknown("amdsmi finds no GPU")
        turns = -(-len(handles) // _ASKED_AT_ONCE)
        devices = (_Device(library, index, handle, turns) for index, handle in enumerate(handles))
        return _Session(library, tuple(devices))


@cache
def import_library() -> ModuleType | Unknown:
    """Import amdsmi where its library is; what is missing is not looked for again."""
    if not any(map(_loads, _libraries())):
        return _NO_LIBRARY
    return import_binding("amdsmi", _LIBRARY, _NO_BINDING)


def _libraries() -> list[Path | str]:
    """Return the places where amdsmi looks for its library, in its order."""
    root = os.getenv("ROCM_HOME", os.getenv("ROCM_PATH"))
    package = importlib.util.find_spec("amdsmi")
    places: list[Path | str] = [Path(root) / "lib" / _LIBRARY] if root else []
    places.append(_LIBRARY)
    if package is not None and package.origin:
        places.append(Path(package.origin).with_name(_LIBRARY))
    return [*places, Path(root or "/opt/rocm") / "lib" / _LIBRARY]


def _loads(library: Path | str) -> bool:
    try:
        ctypes.CDLL(str(library))
    except OSError:
        return False
    return True


class _Device:
    """One GPU, by its handle.

    Args:
        library: amdsmi, started.
        index: place in its list.
        handle: as the library gave it.
        turns: in one of so many samples it is asked what throttles it.
    """

    def __init__(self, library: ModuleType, index: int, handle: object, turns: int) -> None:
        self._turn, self._turns = index, turns
        self._throttles: str | Unknown = _NOT_ASKED
        self._library = library
        self._handle = handle
        self.index = index
        chip = self._ask("amdsmi_get_gpu_asic_info")
        named = "" if isinstance(chip, Unknown) else str(chip.get("market_name", ""))
        self._name = named if named not in ("", "N/A") else "AMD GPU"
        self._serial = "" if isinstance(chip, Unknown) else _hexadecimal(chip.get("asic_serial"))
        uuid = self._ask("amdsmi_get_gpu_device_uuid")
        self.uuid = "" if isinstance(uuid, Unknown) else sure_uuid(str(uuid))

    def gpu(self, seen: list[str]) -> Gpu:
        """Ask for everything.

        Args:
            seen: serial numbers of the GPUs that HIP sees, in its order.
        """
        kind = self._library.AmdSmiMemoryType.VRAM
        instant, average = self._watts()
        link = self._ask("amdsmi_get_pcie_info")
        link = link if isinstance(link, Unknown) else link["pcie_metric"]
        return Gpu(
            name=self._name,
            utilisation=_figure(self._ask("amdsmi_get_gpu_activity"), "gfx_activity", 0.01),
            memory_bytes=_figure(self._ask("amdsmi_get_gpu_memory_usage", kind)),
            memory_total_bytes=_figure(self._ask("amdsmi_get_gpu_memory_total", kind)),
            temperature_celsius=self._degrees(),
            power_watts=average if isinstance(instant, Unknown) else instant,
            power_limit_watts=self._limit_watts(),
            clock_hertz=self._clock(self._library.AmdSmiClkType.GFX),
            throttled_by=self._throttled_by(),
            index=self.index,
            uuid=self.uuid,
            cuda_index=seen.index(self._serial) if self._serial and self._serial in seen else None,
            power_instant_watts=instant,
            power_average_watts=average,
            module_watts=_ONE_POWER,
            memory_watts=_ONE_POWER,
            energy_joules=self._joules(),
            memory_clock_hertz=self._clock(self._library.AmdSmiClkType.MEM),
            pcie_sent_bytes=_BOTH_DIRECTIONS,
            pcie_received_bytes=_BOTH_DIRECTIONS,
            pcie_generation=_generation(_figure(link, "pcie_speed")),
            pcie_width=_figure(link, "pcie_width"),
            processes=self.processes(),
            fan_share=self._fan_share(),
            fan_rpm=_figure(self._ask("amdsmi_get_gpu_fan_rpms", 0)),
            ecc=self._ecc(),
            links=GpuLinks(*[_NO_LINKS] * len(GpuLinks.__struct_fields__)),
        )

    def energy(self) -> EnergyReading:
        """Ask for energy and power."""
        instant, average = self._watts()
        watts = average if isinstance(instant, Unknown) else instant
        limit = known(self._limit_watts())
        return EnergyReading("gpu", self._name, self.index, self._joules(), watts, limit)

    def processes(self) -> tuple[GpuProcess, ...] | Unknown:
        """Return the processes that use it, most memory first; at most ``MOST_PROCESSES``."""
        listed = self._ask("amdsmi_get_gpu_process_list")
        if isinstance(listed, Unknown):
            return listed
        return most_memory_first(
            GpuProcess(int(one["pid"]), _figure(one["memory_usage"], "vram_mem"), _NO_SHARE)
            for one in listed
        )

    def _watts(self) -> tuple[Figure, Figure]:
        """Return the power of the moment, and a mean; each GPU reports one of them."""
        answer = self._ask("amdsmi_get_power_info")
        return _figure(answer, "current_socket_power"), _figure(answer, "average_socket_power")

    def _limit_watts(self) -> Figure:
        return _figure(self._ask("amdsmi_get_power_cap_info"), "power_cap", 1e-6)

    def _joules(self) -> Figure:
        answer = self._ask("amdsmi_get_energy_count")
        steps, microjoules = (
            _figure(answer, name) for name in ("energy_accumulator", "counter_resolution")
        )
        if isinstance(steps, Unknown) or isinstance(microjoules, Unknown):
            return steps if isinstance(steps, Unknown) else microjoules
        return steps * microjoules / 1e6

    def _degrees(self) -> Figure:
        """Return the hottest point of the chip, which it throttles by; else its edge."""
        sensors = self._library.AmdSmiTemperatureType
        now = self._library.AmdSmiTemperatureMetric.CURRENT
        hottest = _figure(self._ask("amdsmi_get_temp_metric", sensors.HOTSPOT, now))
        if not isinstance(hottest, Unknown):
            return hottest
        return _figure(self._ask("amdsmi_get_temp_metric", sensors.EDGE, now))

    def _clock(self, kind: object) -> Figure:
        return _figure(self._ask("amdsmi_get_clock_info", kind), "clk", 1e6)

    def _throttled_by(self) -> str | Unknown:
        """Return what throttles it, as it was when its turn was: asking takes 100 ms."""
        self._turn += 1
        if self._turn % self._turns == 0:
            active = self._ask("amdsmi_get_violation_status")
            self._throttles = active if isinstance(active, Unknown) else _throttles(active)
        return self._throttles

    def _fan_share(self) -> Figure:
        speed, most = (
            _figure(self._ask(f"amdsmi_get_gpu_fan_speed{which}", 0)) for which in ("", "_max")
        )
        if isinstance(speed, Unknown) or isinstance(most, Unknown):
            return speed if isinstance(speed, Unknown) else most
        return speed / most if most else NOT_TOLD

    def _ecc(self) -> EccErrors:
        counts = self._ask("amdsmi_get_gpu_total_ecc_count")
        corrected, uncorrected = (
            _figure(counts, f"{kind}_count") for kind in ("correctable", "uncorrectable")
        )
        ever = corrected if isinstance(corrected, Unknown) else _NO_AGGREGATE
        return EccErrors(corrected, uncorrected, ever, ever)

    def _ask(self, name: str, *arguments: object) -> Any:
        """Ask one function: its answer, or ``Unknown``.

        Raises:
            amdsmi.AmdSmiException: The driver is gone, for all GPUs.
        """
        function = getattr(self._library, name, None)
        if function is None:
            return _OLD
        try:
            return function(self._handle, *arguments)
        except self._library.AmdSmiException as error:
            if _code(error) in _ENDS_SESSION:
                raise
            return _reason(error)


def _code(error: Exception) -> int:
    return int(getattr(error, "err_code", None) or 0)


def _reason(error: Exception) -> Unknown:
    said = " ".join(str(getattr(error, "err_info", error)).split())
    return Unknown(_REASONS.get(_code(error)) or f"amdsmi error {_code(error)}: {said}")


def _throttles(active: dict[str, object]) -> str | Unknown:
    told = {name: active.get(name) for name in _VIOLATIONS}
    if not any(isinstance(value, bool) for value in told.values()):
        return NOT_TOLD
    return ", ".join(_VIOLATIONS[name] for name, value in told.items() if value is True)


def _figure(answer: Any, name: str | None = None, unit: float = 1.0) -> Figure:
    """Return a number of an answer, in units; ``N/A`` is none."""
    if isinstance(answer, Unknown):
        return answer
    value = answer if name is None else answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOT_TOLD
    return float(value * unit)


def _generation(speed: Figure) -> Figure:
    if isinstance(speed, Unknown):
        return speed
    found = _GENERATIONS.get(round(speed))
    return NOT_TOLD if found is None else float(found)


def _hexadecimal(serial: object) -> str:
    """Return a serial number as HIP has it: 16 digits, without ``0x``."""
    digits = str(serial).removeprefix("0x").lower()
    return digits if len(digits) == 16 else ""


def _serial(uuid: str) -> str:
    """Return the serial number in a UUID as torch tells it of HIP; empty of any other."""
    try:
        return bytes.fromhex(uuid.replace("-", "")).decode("ascii").lower()
    except ValueError:
        return ""

"""Intel GPUs through ``pyzes``, Intel's own Python binding of Level Zero's Sysman.

1. Busy time, energy and bytes are counters beside a clock of the driver: utilisation, power and
   traffic are differences between two samples.
2. Of domains those of the whole card are read; a GPU of several tiles has others for each tile.
3. ``pyzes`` 0.1 binds neither fans nor error counters nor links between GPUs, and looks for the
   loader in Debian's folder only.
4. A GPU that was lost has other handles when it is back: all are listed anew after 30 s.

Source: oneAPI Level Zero Specification 1.13, Sysman: ``zes_engine_stats_t``,
``zes_power_energy_counter_t`` (microjoules, microseconds), ``zes_freq_state_t`` (megahertz),
``zes_pci_stats_t`` (bytes), ``zes_power_limit_ext_desc_t`` (milliwatts), ``ze_result_t``.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from tui_profiler.gpus.driver import (
    NEEDS_SECOND,
    NOT_TOLD,
    RETRY_SECONDS,
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
_VENDOR = "0x8086"
_LOADER = "libze_loader.so.1"
_NO_GPU = Unknown("no Intel GPU on this machine")
_NO_LOADER = Unknown(f"{_LOADER} of Level Zero is not installed")
_NO_BINDING = Unknown("pyzes is not installed (pip install 'tui-profiler[intel]')")
_NOT_BOUND = Unknown("pyzes has no function for it")
_SHARED = Unknown("this GPU has no memory of its own")
_ONE_POWER = Unknown("only the power of the whole card is read")
_NO_SHARE = Unknown("Level Zero does not report it per process")
_LOST, _UNINITIALISED = 0x70000001, 0x78000001
_REASONS = {
    1: "the Intel driver is not ready",
    _LOST: "the GPU was lost",
    0x70000006: "the GPU needs a reset",
    0x70010000: "permission denied (needs group render)",
    0x70010001: NOT_TOLD.reason,
    0x70020000: "a library of the Intel driver is missing",
    _UNINITIALISED: "the Intel driver is not loaded",
    0x78000003: NOT_TOLD.reason,
}
_GONE = frozenset({_LOST, _UNINITIALISED})
# zes_freq_throttle_reason_flags_t. The last two are 0x1 | 0x2 and 0x8 of newer drivers.
_THROTTLES = {
    0x1: "power limit",
    0x2: "burst power limit",
    0x4: "current limit",
    0x8: "temperature",
    0x10: "power supply",
    0x20: "clock setting",
    0x40: "clock limit of the GPU",
    0x80: "voltage",
    0x100: "temperature",
    0x200: "power limit",
}
_ALL_ENGINES, _COMPUTE, _RENDER_AND_COMPUTE = 0, 1, 11
_GPU, _MEMORY = 0, 1
"""Of frequency domains."""
_SENSORS = (1, 0)
"""Of the GPU, of the whole card; the hottest point of either."""
_IN_DEVICE, _IS_GPU, _SUSTAINED, _OF_POWER = 1, 1, 1, 2
_T = TypeVar("_T")


class _Domain(NamedTuple):
    """One thing of a GPU that is read by a handle of its own."""

    handle: Any
    kind: int
    is_of_tile: bool


class Intel:
    """One session of Sysman: opened at the first question, to be closed.

    Args:
        cards: where the kernel lists graphics cards.
    """

    vendor = "Intel"
    absent: tuple[Unknown, ...] = (_NO_GPU,)
    not_installed: tuple[Unknown, ...] = (_NO_LOADER, _NO_BINDING)

    def __init__(self, cards: Path = _CARDS) -> None:
        self._cards = cards
        self._devices = Opened(self._open, lambda _: None)
        self._list_again_at: float | None = None
        """Half a minute after one was lost: until then the others answer."""

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures."""
        return self._each(now, _Device.gpu)

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Ask every GPU for energy and power."""
        return self._each(now, _Device.energy)

    def processes(self, now: float) -> tuple[OfProcesses, ...] | Unknown:
        """Return the processes that use each GPU."""
        return self._each(now, lambda one: OfProcesses(one.index, one.processes(), one.uuid))

    def close(self) -> None:
        """Forget the handles: Sysman itself has no end but that of the process."""
        self._devices.close()
        self._list_again_at = None

    def _each(self, now: float, ask: "Callable[[_Device], _T]") -> tuple[_T, ...] | Unknown:
        if self._list_again_at is not None and now >= self._list_again_at:
            self.close()
        devices = self._devices.get(now)
        if isinstance(devices, Unknown):
            return devices
        answers = tuple(ask(device) for device in devices)
        if self._list_again_at is None and any(device.is_gone for device in devices):
            self._list_again_at = now + RETRY_SECONDS
        return answers

    def _open(self) -> "tuple[_Device, ...] | Unknown":
        return unless_absent(_open(), self._cards, _VENDOR, _NO_GPU)


@cache
def import_library() -> ModuleType | Unknown:
    """Import pyzes where the loader is; what is missing is not looked for again."""
    try:
        ctypes.CDLL(_LOADER)
    except OSError:
        return _NO_LOADER
    return import_binding("pyzes", _LOADER, _NO_BINDING)


def _open() -> "tuple[_Device, ...] | Unknown":
    """Start Sysman and list the GPUs of all its drivers."""
    library = import_library()
    if isinstance(library, Unknown):
        return library
    code = library.zesInit(0)
    if code:
        return _reason(code)
    handles = [
        handle
        for driver in _listed(library.zesDriverGet, library.zes_driver_handle_t)
        for handle in _listed(library.zesDeviceGet, library.zes_device_handle_t, driver)
    ]
    described = [(handle, _described(library, handle)) for handle in handles]
    gpus = [(handle, one) for handle, one in described if one is None or one.type == _IS_GPU]
    devices = (_Device(library, index, *one) for index, one in enumerate(gpus))
    return tuple(devices) or Unknown("Level Zero finds no GPU")


def _described(library: ModuleType, handle: Any) -> Any:
    found = library.zes_device_properties_t(stype=library.ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES)
    code = library.zesDeviceGetProperties(handle, ctypes.byref(found))
    return None if code else found.core


def _listed(function: Callable[..., int], kind: Any, *of: Any) -> list[Any]:
    """Return the handles that a function lists; none where it fails."""
    many = ctypes.c_uint32(0)
    if function(*of, ctypes.byref(many), None) or not many.value:
        return []
    handles = (kind * many.value)()
    return [] if function(*of, ctypes.byref(many), handles) else list(handles)[: many.value]


class _Device:
    """One GPU, by its handle, and the handles of what is read of it."""

    def __init__(self, library: ModuleType, index: int, handle: Any, described: Any) -> None:
        self._library = library
        self._handle = handle
        self.index = index
        self.is_gone = False
        """Whether no handle of it works any more."""
        name = b"" if described is None else described.name
        self._name = name.decode(errors="replace") or "Intel GPU"
        self.uuid = "" if described is None else sure_uuid(bytes(described.uuid.id).hex())
        self._engines = self._domains("EngineGroups", "Engine", "engine")
        self._powers = self._domains("PowerDomains", "Power", "pwr", "power")
        self._clocks = self._domains("FrequencyDomains", "Frequency", "freq")
        self._sensors = self._domains("TemperatureSensors", "Temperature", "temp")
        self._memories = self._domains("MemoryModules", "Memory", "mem")
        self._before: dict[object, tuple[int, int]] = {}
        """Value and microseconds of each counter at the last sample."""

    def gpu(self) -> Gpu:
        """Ask for everything."""
        link = self._read("zesDevicePciGetState", self._handle, "zes_pci_state_t", "PCI_STATE")
        traffic = self._read("zesDevicePciGetStats", self._handle, "zes_pci_stats_t")
        used, total = self._memory()
        counter = self._energy()
        clock = self._clock(_GPU)
        watts = self._rate("energy", counter, "energy")
        return Gpu(
            name=self._name,
            utilisation=self._utilisation(),
            memory_bytes=used,
            memory_total_bytes=total,
            temperature_celsius=self._degrees(),
            power_watts=watts,
            power_limit_watts=self._limit_watts(),
            clock_hertz=_member(clock, "actual", 1e6),
            throttled_by=clock if isinstance(clock, Unknown) else _throttles(clock.throttleReasons),
            index=self.index,
            uuid=self.uuid,
            power_instant_watts=_ONE_POWER,
            power_average_watts=watts,
            module_watts=_ONE_POWER,
            memory_watts=_ONE_POWER,
            energy_joules=_member(counter, "energy", 1e-6),
            memory_clock_hertz=_member(self._clock(_MEMORY), "actual", 1e6),
            pcie_sent_bytes=self._rate("sent", traffic, "txCounter", 1e6),
            pcie_received_bytes=self._rate("received", traffic, "rxCounter", 1e6),
            pcie_generation=link if isinstance(link, Unknown) else _member(link.speed, "gen"),
            pcie_width=link if isinstance(link, Unknown) else _member(link.speed, "width"),
            processes=self.processes(),
            fan_share=_NOT_BOUND,
            fan_rpm=_NOT_BOUND,
            ecc=EccErrors(*[_NOT_BOUND] * len(EccErrors.__struct_fields__)),
            links=GpuLinks(*[_NOT_BOUND] * len(GpuLinks.__struct_fields__)),
        )

    def energy(self) -> EnergyReading:
        """Ask for energy and power."""
        counter = self._energy()
        joules, watts = _member(counter, "energy", 1e-6), self._rate("energy", counter, "energy")
        limit = known(self._limit_watts())
        return EnergyReading("gpu", self._name, self.index, joules, watts, limit)

    def processes(self) -> tuple[GpuProcess, ...] | Unknown:
        """Return the processes that use it, most memory first; at most ``MOST_PROCESSES``."""
        states = self._states(
            "zesDeviceProcessesGetState", self._handle, "zes_process_state_t", "PROCESS_STATE"
        )
        if isinstance(states, Unknown):
            return states
        return most_memory_first(
            GpuProcess(int(one.processId), float(one.memSize), _NO_SHARE) for one in states
        )

    def _domains(self, listing: str, kind: str, short: str, properties: str = "") -> list[_Domain]:
        """List what is read by a handle of its own, with what it is."""
        library, found = self._library, []
        struct = f"zes_{properties or short}_properties_t"
        constant = f"{(properties or short).upper()}_PROPERTIES"
        handles = _listed(
            getattr(library, f"zesDeviceEnum{listing}"),
            getattr(library, f"zes_{short}_handle_t"),
            self._handle,
        )
        for handle in handles:
            told = self._read(f"zes{kind}GetProperties", handle, struct, constant)
            if not isinstance(told, Unknown):
                what = getattr(told, "location", getattr(told, "type", 0))
                found.append(_Domain(handle, int(what), bool(told.onSubdevice)))
        return found

    def _utilisation(self) -> Figure:
        """Return the share of time in which the engines of the card, or the busiest tile, ran."""
        for kind in (_ALL_ENGINES, _RENDER_AND_COMPUTE, _COMPUTE):
            engines = _whole([one for one in self._engines if one.kind == kind])
            shares = [
                self._rate(
                    ("engine", place, kind),
                    self._read("zesEngineGetActivity", one.handle, "zes_engine_stats_t"),
                    "activeTime",
                )
                for place, one in enumerate(engines)
            ]
            told = [share for share in shares if not isinstance(share, Unknown)]
            if told:
                return min(max(told), 1.0)
            if shares:
                return shares[0]
        return NOT_TOLD

    def _memory(self) -> tuple[Figure, Figure]:
        """Return the bytes in use and those there are, in all modules of the card."""
        modules = [one for one in self._memories if one.kind == _IN_DEVICE]
        if not modules:
            return _SHARED, _SHARED
        states = [
            self._read("zesMemoryGetState", one.handle, "zes_mem_state_t", "MEM_STATE")
            for one in modules
        ]
        for state in states:
            if isinstance(state, Unknown):
                return state, state  # A part of the sum would look like a smaller card.
        return (
            float(sum(state.size - state.free for state in states)),
            float(sum(state.size for state in states)),
        )

    def _degrees(self) -> Figure:
        for kind in _SENSORS:
            for sensor in _whole([one for one in self._sensors if one.kind == kind]):
                celsius = ctypes.c_double()
                code = self._library.zesTemperatureGetState(sensor.handle, ctypes.byref(celsius))
                return self._failed(code) if code else celsius.value
        return NOT_TOLD

    def _energy(self) -> Any:
        for domain in _whole(self._powers):
            return self._read(
                "zesPowerGetEnergyCounter", domain.handle, "zes_power_energy_counter_t"
            )
        return NOT_TOLD

    def _limit_watts(self) -> Figure:
        """Return the limit for long times."""
        for domain in _whole(self._powers):
            limits = self._states(
                "zesPowerGetLimitsExt",
                domain.handle,
                "zes_power_limit_ext_desc_t",
                "POWER_LIMIT_EXT_DESC",
            )
            if isinstance(limits, Unknown):
                return limits
            for one in limits:
                if one.level == _SUSTAINED and one.limitUnit == _OF_POWER and one.limit > 0:
                    return float(one.limit / 1e3)
        return NOT_TOLD

    def _clock(self, kind: int) -> Any:
        for domain in _whole([one for one in self._clocks if one.kind == kind]):
            return self._read(
                "zesFrequencyGetState", domain.handle, "zes_freq_state_t", "FREQ_STATE"
            )
        return NOT_TOLD

    def _rate(self, key: object, counter: Any, name: str, unit: float = 1.0) -> Figure:
        """Return what a counter counted per microsecond of the driver's clock, in units."""
        if isinstance(counter, Unknown):
            return counter
        now = int(getattr(counter, name)), int(counter.timestamp)
        before = self._before.get(key)
        self._before[key] = now
        if before is None or now[1] <= before[1] or now[0] < before[0]:
            return NEEDS_SECOND  # Or the counter began again.
        return float((now[0] - before[0]) / (now[1] - before[1]) * unit)

    def _read(self, function: str, handle: Any, struct: str, constant: str = "") -> Any:
        """Read a struct by a function, or say why not."""
        found = getattr(self._library, struct)()
        if constant:
            found.stype = getattr(self._library, f"ZES_STRUCTURE_TYPE_{constant}")
        code = getattr(self._library, function)(handle, ctypes.byref(found))
        return self._failed(code) if code else found

    def _states(self, function: str, handle: Any, struct: str, constant: str) -> Any:
        """Read all structs that a function lists, or say why not."""
        many, list_states = ctypes.c_uint32(0), getattr(self._library, function)
        code = list_states(handle, ctypes.byref(many), None)
        states = (getattr(self._library, struct) * many.value)()
        for state in states:
            state.stype = getattr(self._library, f"ZES_STRUCTURE_TYPE_{constant}")
        if not code and many.value:
            code = list_states(handle, ctypes.byref(many), states)
        return self._failed(code) if code else states[: many.value]

    def _failed(self, code: int) -> Unknown:
        self.is_gone = self.is_gone or code in _GONE
        return _reason(code)


def _whole(domains: Sequence[_Domain]) -> Sequence[_Domain]:
    """Return those of the whole card; those of the tiles where there are no others."""
    return [one for one in domains if not one.is_of_tile] or domains


def _member(struct: Any, name: str, unit: float = 1.0) -> Figure:
    """Return a member in units; below 0 it is not known."""
    if isinstance(struct, Unknown):
        return struct
    value: float = getattr(struct, name)
    return NOT_TOLD if value < 0 else float(value * unit)


def _throttles(flags: int) -> str:
    words = [word for bit, word in _THROTTLES.items() if flags & bit]
    unnamed = flags & ~sum(_THROTTLES)
    return ", ".join(dict.fromkeys([*words, *([f"reason {unnamed:#x}"] if unnamed else [])]))


def _reason(code: int) -> Unknown:
    return Unknown(_REASONS.get(code) or f"Level Zero error {code:#x}")

"""One NVIDIA GPU through NVML: every figure by itself known or unknown.

Source: NVIDIA, NVML API Reference Guide, for functions, units and error codes, ``nvmlReturn_t`` and
``nvmlClocksEventReasons``; for power and its scopes the notes at ``NVML_FI_DEV_POWER_INSTANT`` and
``NVML_POWER_SCOPE_*`` in nvml.h.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tui_profiler.gpus.driver import NEEDS_SECOND, most_memory_first
from tui_profiler.messages import EccErrors, Figure, Gpu, GpuLinks, GpuProcess, MigDevice, Unknown

# nvmlReturn_t. Written down here, since pynvml is imported only where there is a driver.
_UNINITIALIZED, _NOT_SUPPORTED, _NOT_FOUND, _DRIVER_NOT_LOADED = 1, 3, 6, 9
FUNCTION_NOT_FOUND, _GPU_IS_LOST, _RESET_REQUIRED, _VERSION_MISMATCH = 13, 15, 16, 18
_ARGUMENT_VERSION, _DEPRECATED = 25, 26

NO_DRIVER = Unknown("no NVIDIA driver on this machine")
_OLD_DRIVER = Unknown("this NVIDIA driver does not report it")

_REASONS = {
    _UNINITIALIZED: "the NVIDIA driver was lost",
    2: "no GPU with this index",
    _NOT_SUPPORTED: "this GPU does not report it",
    4: "permission denied",
    _NOT_FOUND: "the NVIDIA driver has none",
    _DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    12: NO_DRIVER.reason,
    FUNCTION_NOT_FOUND: _OLD_DRIVER.reason,
    _GPU_IS_LOST: "the GPU was lost",
    _RESET_REQUIRED: "the GPU needs a reset",
    _VERSION_MISMATCH: "the NVIDIA driver and its library differ in version",
}

# Not held down: 0x1 is idle. 0x8 (hardware slowdown) is the sum of 0x40 and 0x80 on GPUs that tell
# them apart, and is left out where one of them is set.
_HARDWARE_SLOWDOWN, _HARDWARE_CAUSES, _IDLE = 0x8, 0x40 | 0x80, 0x1
_THROTTLES = {
    0x2: "clock setting",
    0x4: "power limit",
    _HARDWARE_SLOWDOWN: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature",
    0x40: "temperature, by hardware",
    0x80: "power brake",
    0x100: "display clock",
    0x200: "board limit",
    0x400: "reliability",
}


def reason(error: Exception) -> Unknown:
    """Say why a call failed.

    Args:
        error: a ``pynvml.NVMLError``.
    """
    code: int = getattr(error, "value", 0)
    return Unknown(_REASONS.get(code) or f"NVML error {code}: {error}")


def _reason_of_code(code: int) -> Unknown:
    """Say why one value of several in an answer is missing."""
    return Unknown(_REASONS.get(code) or f"NVML error {code}")


def _throttles(answer: int | Unknown) -> str | Unknown:
    """Put the reasons that hold the clock down into words; an idle GPU is not held down."""
    if isinstance(answer, Unknown):
        return answer
    reasons = answer & ~_IDLE
    if reasons & _HARDWARE_CAUSES:
        reasons &= ~_HARDWARE_SLOWDOWN
    words = [word for bit, word in _THROTTLES.items() if reasons & bit]
    unnamed = reasons & ~sum(_THROTTLES)
    if unnamed:
        words.append(f"reason {unnamed:#x}")
    return ", ".join(words)


# After these no call of the session can succeed.
_ENDS_SESSION = frozenset({_UNINITIALIZED, _DRIVER_NOT_LOADED, _VERSION_MISMATCH})
# After these no call to this GPU can.
_ENDS_GPU = frozenset({_GPU_IS_LOST, _RESET_REQUIRED})
# After these an older function may know the answer.
_TRY_OLDER = frozenset({FUNCTION_NOT_FOUND, _ARGUMENT_VERSION, _DEPRECATED})

_TEMPERATURE_OF_GPU = 0
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_MEMORY_VERSION_2 = 0x02000028
_POWER_AVERAGE, _POWER_INSTANT = 185, 186
_SCOPE_GPU, _SCOPE_MODULE, _SCOPE_MEMORY = 0, 1, 2
_PCIE_SENT, _PCIE_RECEIVED = 0, 1
_SAMPLES_BACK_MICROSECONDS = 2_000_000

_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
# Fields of NVLink, and the scope that is all links of the GPU.
_ALL_LINKS = 0xFFFFFFFF
_LINK_SPEED, _LINK_COUNT = 90, 91
_LINKS_SENT, _LINKS_RECEIVED = 138, 139
_LINK_ERRORS = (38, 52, 59)
"""CRC errors of flow control, replays, recoveries; each of all lanes."""
_LINK_FIELDS = (
    _LINK_COUNT,
    _LINK_SPEED,
    (_LINKS_SENT, _ALL_LINKS),
    (_LINKS_RECEIVED, _ALL_LINKS),
    *_LINK_ERRORS,
)
# nvmlValueType_t, as the members of nvmlValue_t.
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_NO_LINKS = Unknown("this GPU has no NVLink")
_NO_FAN = Unknown("this GPU has no fan")

_POWERS = (
    (_POWER_INSTANT, _SCOPE_GPU),
    (_POWER_AVERAGE, _SCOPE_GPU),
    (_POWER_INSTANT, _SCOPE_MODULE),
    (_POWER_INSTANT, _SCOPE_MEMORY),
)


class Device:
    """One GPU: what it is called, and whether it still answers.

    Args:
        library: pynvml, initialised.
        index: NVML's number of the GPU.
        name: What to call it if it does not say its name.
    """

    def __init__(self, library: ModuleType, index: int, name: str) -> None:
        self._library = library
        self.index = index
        self.name = name
        self.lost: Unknown | None = None
        self.retry_at = float("inf")
        self._handle = self._ask(("nvmlDeviceGetHandleByIndex", index))
        if isinstance(self._handle, Unknown):
            self.lost = self._handle
        answer = self._ask(("nvmlDeviceGetName", self._handle))
        if not isinstance(answer, Unknown):
            self.name = f"{index}: {answer}"
        self.uuid = _text(self._ask(("nvmlDeviceGetUUID", self._handle)))
        self._links_before: dict[int, tuple[int, int]] = {}
        """Microseconds and value, by the field of a counter."""

    def gpu(self) -> Gpu:
        """Ask for everything; 40 ms where the link's traffic is told, which NVML watches so long.

        Raises:
            pynvml.NVMLError: The driver is gone, for all GPUs.
        """
        handle = self._handle
        memory = self._memory(handle)
        instant, average, module, of_memory = self._powers()
        return Gpu(
            name=self.name,
            utilisation=_figure(
                self._ask(("nvmlDeviceGetUtilizationRates", handle)), lambda rates: rates.gpu / 100
            ),
            memory_bytes=_figure(memory, lambda memory: memory.used),
            memory_total_bytes=_figure(memory, lambda memory: memory.total),
            temperature_celsius=_figure(
                self._ask(
                    ("nvmlDeviceGetTemperatureV", handle, _TEMPERATURE_OF_GPU),
                    ("nvmlDeviceGetTemperature", handle, _TEMPERATURE_OF_GPU),
                )
            ),
            power_watts=self.watts(),
            power_limit_watts=self.limit_watts(),
            clock_hertz=self._clock(_CLOCK_SM),
            throttled_by=_throttles(
                self._ask(
                    ("nvmlDeviceGetCurrentClocksEventReasons", handle),
                    ("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
                )
            ),
            index=self.index,
            uuid=self.uuid,
            power_instant_watts=instant,
            power_average_watts=average,
            module_watts=module,
            memory_watts=of_memory,
            energy_joules=self.joules(),
            memory_clock_hertz=self._clock(_CLOCK_MEMORY),
            pcie_sent_bytes=self._pcie(_PCIE_SENT),
            pcie_received_bytes=self._pcie(_PCIE_RECEIVED),
            pcie_generation=_figure(self._ask(("nvmlDeviceGetCurrPcieLinkGeneration", handle))),
            pcie_width=_figure(self._ask(("nvmlDeviceGetCurrPcieLinkWidth", handle))),
            fan_share=self._fan_share(),
            fan_rpm=_figure(self._ask(("nvmlDeviceGetFanSpeedRPM", handle))),
            ecc=self._ecc(),
            links=self._links(),
            processes=self.processes(),
            mig=self._slices(),
        )

    def joules(self) -> Figure:
        """Return the energy since the driver was loaded."""
        return _figure(
            self._ask(("nvmlDeviceGetTotalEnergyConsumption", self._handle)), _from_milli
        )

    def watts(self) -> Figure:
        """Return the power as ``nvmlDeviceGetPowerUsage`` has it."""
        return _figure(self._ask(("nvmlDeviceGetPowerUsage", self._handle)), _from_milli)

    def limit_watts(self) -> Figure:
        """Return the most power that it may draw."""
        return _figure(
            self._ask(
                ("nvmlDeviceGetEnforcedPowerLimit", self._handle),
                ("nvmlDeviceGetPowerManagementLimit", self._handle),
            ),
            _from_milli,
        )

    def processes(self) -> tuple[GpuProcess, ...] | Unknown:
        """Return the processes that use it, most memory first; at most ``MOST_PROCESSES``."""
        # Without its version pynvml raises what is no NVMLError where the driver is old.
        running = self._ask(
            ("nvmlDeviceGetComputeRunningProcesses_v3", self._handle),
            ("nvmlDeviceGetComputeRunningProcesses_v2", self._handle),
        )
        if isinstance(running, Unknown):
            return running
        used = self._process_utilisation()
        found = [
            GpuProcess(
                pid=process.pid,
                memory_bytes=Unknown("this driver does not report it per process")
                if process.usedGpuMemory is None
                else float(process.usedGpuMemory),
                utilisation=used
                if isinstance(used, Unknown)
                else used.get(process.pid, Unknown("no recent kernel of this process")),
            )
            for process in running
        ]
        return most_memory_first(found)

    def _memory(self, handle: object) -> Any:
        return self._ask(
            ("nvmlDeviceGetMemoryInfo", handle, _MEMORY_VERSION_2),
            ("nvmlDeviceGetMemoryInfo", handle),
        )

    def _clock(self, kind: int) -> Figure:
        return _figure(
            self._ask(("nvmlDeviceGetClockInfo", self._handle, kind)), lambda mega: mega * 1e6
        )

    def _pcie(self, direction: int) -> Figure:
        # NVML's KB are 1,024 bytes (nvidia-smi shows MB/s from the same figure).
        return _figure(
            self._ask(("nvmlDeviceGetPcieThroughput", self._handle, direction)),
            lambda kilo: kilo * 1024,
        )

    def _powers(self) -> tuple[Figure, Figure, Figure, Figure]:
        """Return the power of the moment and the mean of a second, then of module and memory."""
        answer = self._ask(("nvmlDeviceGetFieldValues", self._handle, _POWERS))
        if isinstance(answer, Unknown):
            return answer, answer, answer, answer
        instant, average, module, memory = (
            _reason_of_code(field.nvmlReturn) if field.nvmlReturn else field.value.uiVal / 1e3
            for field in answer
        )
        return instant, average, module, memory

    def _fan_share(self) -> Figure:
        """Return the speed of the fastest fan."""
        fans = self._ask(("nvmlDeviceGetNumFans", self._handle))
        if isinstance(fans, Unknown):
            return _figure(self._ask(("nvmlDeviceGetFanSpeed", self._handle)), _from_percent)
        speeds = [
            _figure(self._ask(("nvmlDeviceGetFanSpeed_v2", self._handle, fan)), _from_percent)
            for fan in range(fans)
        ]
        turning = [speed for speed in speeds if not isinstance(speed, Unknown)]
        return max(turning) if turning else next(iter(speeds), _NO_FAN)

    def _ecc(self) -> EccErrors:
        return EccErrors(
            *(
                _figure(self._ask(("nvmlDeviceGetTotalEccErrors", self._handle, kind, since)))
                for since in (_VOLATILE, _AGGREGATE)
                for kind in (_CORRECTED, _UNCORRECTED)
            )
        )

    def _links(self) -> GpuLinks:
        fields = self._ask(("nvmlDeviceGetFieldValues", self._handle, _LINK_FIELDS))
        if isinstance(fields, Unknown):
            return GpuLinks(*[fields] * len(GpuLinks.__struct_fields__))
        count, speed, sent, received, *errors = fields
        links = _value(count)
        if links == 0 or count.nvmlReturn == _NOT_SUPPORTED:
            return GpuLinks(*[_NO_LINKS] * len(GpuLinks.__struct_fields__))
        states = [
            self._ask(("nvmlDeviceGetNvLinkState", self._handle, link))
            for link in range(0 if isinstance(links, Unknown) else int(links))
        ]
        known = [state for state in states if not isinstance(state, Unknown)]
        found = [_value(one) for one in errors]
        counted = [one for one in found if not isinstance(one, Unknown)]
        return GpuLinks(
            count=links,
            active=float(sum(known)) if known else next(iter(states), links),
            link_bytes=_figure(_value(speed), lambda mega: mega * 1e6),
            sent_bytes=self._link_rate(sent),
            received_bytes=self._link_rate(received),
            errors=sum(counted) if counted else found[0],
        )

    def _link_rate(self, field: Any) -> Figure:
        """Return the bytes per second of a counter of KiB, by the driver's own clock."""
        value, at = _value(field), int(field.timestamp)
        if isinstance(value, Unknown):
            return value
        before = self._links_before.get(field.fieldId)
        self._links_before[field.fieldId] = at, int(value)
        if before is None or at <= before[0] or value < before[1]:
            return NEEDS_SECOND  # Or the counter began again.
        return (value - before[1]) * 1024 / ((at - before[0]) / 1e6)

    def _process_utilisation(self) -> dict[int, float] | Unknown:
        """Return the newest share of each process; the driver's clock counts Unix microseconds."""
        newest = self._ask(("nvmlDeviceGetProcessUtilization", self._handle, 0))
        if newest == _reason_of_code(_NOT_FOUND):
            return {}
        if isinstance(newest, Unknown):
            return newest
        samples = [sample for sample in newest if sample.timeStamp]
        since = max((sample.timeStamp for sample in samples), default=0)
        found: dict[int, tuple[int, float]] = {}
        for sample in samples:
            before = found.get(sample.pid, (0, 0.0))[0]
            if sample.timeStamp >= max(before, since - _SAMPLES_BACK_MICROSECONDS):
                found[sample.pid] = (sample.timeStamp, sample.smUtil / 100)
        return {pid: share for pid, (_, share) in found.items()}

    def _slices(self) -> tuple[MigDevice, ...]:
        """Name the slices of a GPU that is divided; a GPU that cannot be has none."""
        mode = self._ask(("nvmlDeviceGetMigMode", self._handle))
        if isinstance(mode, Unknown) or not mode[0]:
            return ()
        most = self._ask(("nvmlDeviceGetMaxMigDeviceCount", self._handle))
        slices = []
        for number in range(0 if isinstance(most, Unknown) else most):
            handle = self._ask(("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, number))
            if isinstance(handle, Unknown):
                continue  # A place without a slice.
            memory = self._memory(handle)
            slices.append(
                MigDevice(
                    name=_text(self._ask(("nvmlDeviceGetName", handle))) or f"slice {number}",
                    uuid=_text(self._ask(("nvmlDeviceGetUUID", handle))),
                    memory_bytes=_figure(memory, lambda memory: memory.used),
                    memory_total_bytes=_figure(memory, lambda memory: memory.total),
                )
            )
        return tuple(slices)

    def _ask(self, *questions: tuple[Any, ...]) -> Any:
        """Ask the first function that this driver has: its answer, or ``Unknown``.

        Raises:
            pynvml.NVMLError: The driver is gone, for all GPUs.
        """
        failure = self.lost
        for name, *arguments in questions:
            if self.lost is not None:
                break
            function = getattr(self._library, name, None)
            if function is None:  # an older pynvml, in a process that is not ours
                failure = _OLD_DRIVER
                continue
            try:
                return function(*arguments)
            except self._library.NVMLError as error:
                if error.value in _ENDS_SESSION:
                    raise
                failure = reason(error)
                if error.value in _ENDS_GPU:
                    self.lost = failure
                if error.value not in _TRY_OLDER:
                    break
        return failure


def _figure(answer: Any, convert: Callable[[Any], float] = float) -> Figure:
    return answer if isinstance(answer, Unknown) else float(convert(answer))


def _text(answer: Any) -> str:
    return "" if isinstance(answer, Unknown) else str(answer)


def _from_milli(answer: int) -> float:
    return answer / 1e3


def _from_percent(answer: int) -> float:
    return answer / 100


def _value(field: Any) -> Figure:
    """Return the value of a field, by its type."""
    if field.nvmlReturn:
        return _reason_of_code(field.nvmlReturn)
    if field.valueType >= len(_VALUES):
        return Unknown(f"NVML value of type {field.valueType}")
    return float(getattr(field.value, _VALUES[field.valueType]))

"""One NVIDIA GPU through NVML: every figure by itself known or unknown.

Source: NVIDIA, NVML API Reference Guide, for functions, units and error codes, ``nvmlReturn_t`` and
``nvmlClocksEventReasons``; for power and its scopes the notes at ``NVML_FI_DEV_POWER_INSTANT`` and
``NVML_POWER_SCOPE_*`` in nvml.h.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tui_profiler.messages import Figure, Gpu, GpuProcess, MigDevice, Unknown

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
    4: "no permission to read it",
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


def _throttles(answer: int | Unknown) -> str:
    """Put the reasons that hold the clock down into words; an idle GPU is not held down."""
    if isinstance(answer, Unknown):
        return ""
    reasons = answer & ~_IDLE
    if reasons & _HARDWARE_CAUSES:
        reasons &= ~_HARDWARE_SLOWDOWN
    words = [word for bit, word in _THROTTLES.items() if reasons & bit]
    unnamed = reasons & ~sum(_THROTTLES)
    if unnamed:
        words.append(f"reason {unnamed:#x}")
    return ", ".join(words)


MOST_PROCESSES = 16

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
        self._uuid = _text(self._ask(("nvmlDeviceGetUUID", self._handle)))

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
            uuid=self._uuid,
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
        """Return who computes on it, most memory first; at most ``MOST_PROCESSES``."""
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
        found.sort(
            key=lambda one: -(one.memory_bytes if isinstance(one.memory_bytes, float) else 0)
        )
        return tuple(found[:MOST_PROCESSES])

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

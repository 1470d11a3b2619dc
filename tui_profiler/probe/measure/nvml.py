"""Counters of NVIDIA GPUs through NVML, every figure by itself known or unknown.

1. Nothing here raises because of a driver: one that is absent, too old, or dies in the middle of a
   session is an ``Unknown`` with its reason, and one GPU's failure never hides the others.
2. A driver or GPU that failed is asked again after 30 s, not before: opening can take seconds.
3. Calls can block while a GPU falls off its bus, so that they belong in a thread (``gpus.py``).

Source: NVIDIA, NVML API Reference Guide, for functions, units and error codes.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tui_profiler.messages import Figure, Gpu, Unknown

_RETRY_SECONDS = 30.0

_NO_DRIVER = Unknown("no NVIDIA driver on this machine")

# nvmlReturn_t. Written down here, since pynvml is imported only where there is a driver.
_UNINITIALIZED, _NOT_SUPPORTED, _DRIVER_NOT_LOADED, _FUNCTION_NOT_FOUND = 1, 3, 9, 13
_GPU_IS_LOST, _RESET_REQUIRED, _VERSION_MISMATCH, _ARGUMENT_VERSION, _DEPRECATED = (
    15,
    16,
    18,
    25,
    26,
)

_REASONS = {
    _UNINITIALIZED: "the NVIDIA driver was lost",
    2: "no GPU with this index",
    _NOT_SUPPORTED: "this GPU does not report it",
    4: "no permission to read it",
    _DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    12: "no NVIDIA driver on this machine",
    _FUNCTION_NOT_FOUND: "this NVIDIA driver does not report it",
    _GPU_IS_LOST: "the GPU was lost",
    _RESET_REQUIRED: "the GPU needs a reset",
    _VERSION_MISMATCH: "the NVIDIA driver and its library differ in version",
}
# After these no call of the session can succeed.
_ENDS_SESSION = frozenset({_UNINITIALIZED, _DRIVER_NOT_LOADED, _VERSION_MISMATCH})
# After these no call to this GPU can.
_ENDS_GPU = frozenset({_GPU_IS_LOST, _RESET_REQUIRED})
# After these an older function may know the answer.
_TRY_OLDER = frozenset({_FUNCTION_NOT_FOUND, _ARGUMENT_VERSION, _DEPRECATED})

# nvmlClocksEventReasons. Not held down: 0x1 is idle. 0x8 (hardware slowdown) is the sum of 0x40
# and 0x80 on GPUs that tell them apart, and is left out where one of them is set.
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

_TEMPERATURE_OF_GPU = 0
_CLOCK_SM = 1
_MEMORY_VERSION_2 = 0x02000028


class Nvml:
    """One NVML session: opened at the first question, to be closed.

    Args:
        device_indices: NVML's numbers of the GPUs to ask, which ``CUDA_VISIBLE_DEVICES`` does not
            change; None for all.
    """

    def __init__(self, device_indices: Sequence[int] | None = None) -> None:
        self._indices = device_indices
        self._library: ModuleType | None = None
        self._failure = _NO_DRIVER
        self._retry_at = float("-inf")
        self._devices: dict[int, _Device] = {}

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures.

        Args:
            now: Seconds of a clock that only goes forward.
        """
        if self._library is None:
            if now < self._retry_at:
                return self._failure
            opened = _open()
            if isinstance(opened, Unknown):
                return self._fail(opened, now)
            self._library = opened
        try:
            count: int = self._library.nvmlDeviceGetCount()
            indices = range(count) if self._indices is None else self._indices
            gpus = tuple(self._gpu(self._library, index, now) for index in indices)
        except self._library.NVMLError as error:
            self.close()
            return self._fail(_reason(error), now)
        return gpus if count else Unknown("no NVIDIA GPU on this machine")

    def close(self) -> None:
        """End the session; the next question would open another."""
        library, self._library = self._library, None
        self._devices.clear()
        if library is not None:
            try:
                library.nvmlShutdown()
            except library.NVMLError:
                return  # the driver is gone, and the session with it

    def _fail(self, why: Unknown, now: float) -> Unknown:
        self._failure, self._retry_at = why, now + _RETRY_SECONDS
        return why

    def _gpu(self, library: ModuleType, index: int, now: float) -> Gpu:
        device = self._devices.get(index)
        if device is None or now >= device.retry_at:
            name = device.name if device else f"{index}: GPU"
            device = self._devices[index] = _Device(library, index, name)
        gpu = device.gpu()
        if device.lost is not None and device.retry_at == float("inf"):
            device.retry_at = now + _RETRY_SECONDS
        return gpu


class _Device:
    """One GPU: what it is called, and whether it still answers.

    Args:
        library: pynvml, initialised.
        index: NVML's number of the GPU.
        name: What to call it if it does not say its name.
    """

    def __init__(self, library: ModuleType, index: int, name: str) -> None:
        self._library = library
        self.name = name
        self.lost: Unknown | None = None
        self.retry_at = float("inf")
        self._handle = self._ask(("nvmlDeviceGetHandleByIndex", index))
        if isinstance(self._handle, Unknown):
            self.lost = self._handle
        answer = self._ask(("nvmlDeviceGetName", self._handle))
        if not isinstance(answer, Unknown):
            self.name = f"{index}: {answer}"

    def gpu(self) -> Gpu:
        handle = self._handle
        memory = self._ask(
            ("nvmlDeviceGetMemoryInfo", handle, _MEMORY_VERSION_2),
            ("nvmlDeviceGetMemoryInfo", handle),
        )
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
            power_watts=_figure(self._ask(("nvmlDeviceGetPowerUsage", handle)), _from_milli),
            power_limit_watts=_figure(
                self._ask(
                    ("nvmlDeviceGetEnforcedPowerLimit", handle),
                    ("nvmlDeviceGetPowerManagementLimit", handle),
                ),
                _from_milli,
            ),
            clock_hertz=_figure(
                self._ask(("nvmlDeviceGetClockInfo", handle, _CLOCK_SM)), lambda mega: mega * 1e6
            ),
            throttled_by=_throttles(
                self._ask(
                    ("nvmlDeviceGetCurrentClocksEventReasons", handle),
                    ("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
                )
            ),
        )

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
                failure = Unknown(_REASONS[_FUNCTION_NOT_FOUND])
                continue
            try:
                return function(*arguments)
            except self._library.NVMLError as error:
                if error.value in _ENDS_SESSION:
                    raise
                failure = _reason(error)
                if error.value in _ENDS_GPU:
                    self.lost = failure
                if error.value not in _TRY_OLDER:
                    break
        return failure


def _open() -> ModuleType | Unknown:
    """Start a session; looks for the driver first, because importing pynvml takes 34 ms."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return _NO_DRIVER
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return Unknown("nvidia-ml-py is not installed")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        if error.value == _FUNCTION_NOT_FOUND:
            return Unknown("this NVIDIA driver is too old")
        return _reason(error)
    return library


def _reason(error: Exception) -> Unknown:
    code: int = getattr(error, "value", 0)
    return Unknown(_REASONS.get(code) or f"NVML error {code}: {error}")


def _figure(answer: Any, convert: Callable[[Any], float] = float) -> Figure:
    return answer if isinstance(answer, Unknown) else float(convert(answer))


def _from_milli(answer: int) -> float:
    return answer / 1e3


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

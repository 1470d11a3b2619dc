"""Counters of NVIDIA GPUs through NVML, every figure by itself known or unknown.

1. Nothing here raises because of a driver: one that is absent, too old, or dies in the middle of a
   session is an ``Unknown`` with its reason, and one GPU's failure never hides the others.
2. A driver or GPU that failed is asked again after 30 s, not before: opening can take seconds.
3. Calls can block while a GPU falls off its bus, so that they belong in a thread (``gpus.py``).
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeVar

from msgspec.structs import replace

from tui_profiler.messages import Figure, Gpu, Unknown
from tui_profiler.probe.measure.devices.nvml_device import Device
from tui_profiler.probe.measure.devices.nvml_words import FUNCTION_NOT_FOUND, NO_DRIVER, reason
from tui_profiler.probe.measure.devices.visible_devices import Present, cuda_indices

_RETRY_SECONDS = 30.0
_T = TypeVar("_T")


class Nvml:
    """One NVML session: opened at the first question, to be closed.

    Args:
        device_indices: NVML's numbers of the GPUs to ask, which ``CUDA_VISIBLE_DEVICES`` does not
            change; None for all.
        cuda_uuids: Tells which GPUs CUDA itself sees, in its order, once it was started in this
            process; None before. What the environment says is only a forecast of that.
    """

    def __init__(
        self,
        device_indices: Sequence[int] | None = None,
        cuda_uuids: Callable[[], tuple[str, ...] | None] = lambda: None,
    ) -> None:
        self._indices = device_indices
        self._cuda_uuids = cuda_uuids
        self._library: ModuleType | None = None
        self._failure = NO_DRIVER
        self._retry_at = float("-inf")
        self._devices: dict[int, Device] = {}

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures.

        Args:
            now: Seconds of a clock that only goes forward.
        """
        found = self._each(now, Device.gpu)
        return found if isinstance(found, Unknown) else self._numbered(found)

    def energy(self, now: float) -> tuple[tuple[str, Figure, Figure, Figure], ...] | Unknown:
        """Ask every GPU for its name, joules since the driver was loaded, watts, and their limit.

        Args:
            now: As for ``gpus``.
        """
        return self._each(now, lambda one: (one.name, one.joules(), one.watts(), one.limit_watts()))

    def close(self) -> None:
        """End the session; the next question would open another."""
        library, self._library = self._library, None
        self._devices.clear()
        if library is not None:
            try:
                library.nvmlShutdown()
            except library.NVMLError:
                return  # the driver is gone, and the session with it

    def _each(self, now: float, ask: Callable[[Device], _T]) -> tuple[_T, ...] | Unknown:
        if self._indices is not None and not self._indices:
            return ()  # None is asked for, so no driver is opened.
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
            answers = tuple(self._answer(self._library, index, now, ask) for index in indices)
        except self._library.NVMLError as error:
            self.close()
            return self._fail(reason(error), now)
        return answers if count else Unknown("no NVIDIA GPU on this machine")

    def _answer(
        self, library: ModuleType, index: int, now: float, ask: Callable[[Device], _T]
    ) -> _T:
        device = self._devices.get(index)
        if device is None or now >= device.retry_at:
            name = device.name if device else f"{index}: GPU"
            device = self._devices[index] = Device(library, index, name)
        answer = ask(device)
        if device.lost is not None and device.retry_at == float("inf"):
            device.retry_at = now + _RETRY_SECONDS
        return answer

    def _fail(self, why: Unknown, now: float) -> Unknown:
        self._failure, self._retry_at = why, now + _RETRY_SECONDS
        return why

    def _numbered(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """Say which GPU, or which slice of one, is which ``cuda:N`` of this process."""
        if self._indices is not None:
            return gpus  # Not all of them: a position among these says nothing.
        present = tuple(
            Present(gpu.name.partition(": ")[2], gpu.uuid, tuple(part.uuid for part in gpu.mig))
            for gpu in gpus
        )
        numbers = cuda_indices(present, os.environ, self._cuda_uuids())
        return tuple(
            replace(
                gpu,
                cuda_index=numbers.get(gpu.uuid),
                mig=tuple(replace(part, cuda_index=numbers.get(part.uuid)) for part in gpu.mig),
            )
            for gpu in gpus
        )


def import_library() -> ModuleType | Unknown:
    """Import pynvml, 34 ms; not where there is no driver."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return NO_DRIVER
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return Unknown("nvidia-ml-py is not installed")


def _open() -> ModuleType | Unknown:
    """Start a session."""
    library = import_library()
    if isinstance(library, Unknown):
        return library
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        if error.value == FUNCTION_NOT_FOUND:
            return Unknown("this NVIDIA driver is too old")
        return reason(error)
    return library

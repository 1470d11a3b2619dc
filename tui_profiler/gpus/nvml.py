"""Counters of NVIDIA GPUs through NVML, every figure by itself known or unknown.

A GPU that failed is asked again after 30 s, as the driver is (``driver.py``).

Which GPU of the driver is which ``cuda:N`` of this process:

NVML counts every GPU of the machine in the order of the PCI bus; CUDA counts those that
``CUDA_VISIBLE_DEVICES`` leaves, in the order written there, and by itself the fastest first.

Source: NVIDIA, CUDA C++ Programming Guide, "CUDA Environment Variables"; Multi-Instance GPU User
Guide, "CUDA Device Enumeration".

1. The list ends before the first entry that names nothing: what follows is not visible.
2. An entry is a number, a UUID or the beginning of one, ``GPU-…`` or ``MIG-…``.
3. A process computes on one slice of a divided GPU at most, so that CUDA shows one.
4. Numbers are sure only in the order of the bus, or where all GPUs are of one kind.
"""

import ctypes
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import TypeVar

from msgspec.structs import replace

from tui_profiler.gpus.driver import RETRY_SECONDS, EnergyReading, OfProcesses, Opened
from tui_profiler.gpus.nvml_device import FUNCTION_NOT_FOUND, NO_DRIVER, Device, reason
from tui_profiler.messages import Gpu, Unknown, known

NO_GPUS = Unknown("no NVIDIA GPU on this machine")
NO_BINDING = Unknown("nvidia-ml-py is not installed")
_UNSURE = "?"


def cuda_indices(
    gpus: Sequence[Gpu],
    environment: Mapping[str, str],
    seen: Sequence[str] | None = None,
) -> dict[str, int]:
    """Return N of ``cuda:N`` by UUID, of GPUs and slices; what is not visible or sure is left out.

    Args:
        gpus: every GPU of the machine, in NVML's order.
        environment: with ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``, as CUDA found it.
        seen: UUIDs as CUDA tells them, with or without what is before the first dash, in its order;
            None where it was not asked.
    """
    if seen is not None:
        known = [uuid for gpu in gpus for uuid in (gpu.uuid, *_slices(gpu))]
        return {
            uuid: number
            for number, one in enumerate(seen)
            for uuid in known
            if uuid and _bare(uuid) == _bare(one)
        }
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        visible = [_whole(gpu) for gpu in gpus] if _is_in_bus_order(gpus, environment) else []
    else:
        visible = _listed(listed, gpus, environment)
    if len(set(visible)) != len(visible):
        return {}  # CUDA refuses a list that names one twice.
    if any(uuid.startswith("MIG-") for uuid in visible):
        visible = [next(uuid for uuid in visible if uuid.startswith("MIG-"))]
    sure = (pair for pair in enumerate(visible) if pair[1] and not pair[1].startswith(_UNSURE))
    return {uuid: number for number, uuid in sure}


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-")


def _slices(gpu: Gpu) -> tuple[str, ...]:
    """Return ``MIG-…`` of each slice, where a GPU is divided."""
    return tuple(part.uuid for part in gpu.mig)


def _whole(gpu: Gpu) -> str:
    """Return what CUDA shows of a GPU named as a whole: of a divided one, the first slice."""
    return gpu.mig[0].uuid if gpu.mig else gpu.uuid


def _is_in_bus_order(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> bool:
    one_kind = len({gpu.name.partition(": ")[2] for gpu in gpus}) <= 1
    return one_kind or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


def _listed(listed: str, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[str]:
    visible: list[str] = []
    for entry in (part.strip() for part in listed.split(",")):
        if entry.isdigit():
            if int(entry) >= len(gpus):
                break
            sure = _is_in_bus_order(gpus, environment)
            visible.append(_whole(gpus[int(entry)]) if sure else _UNSURE + entry)
        elif uuid := _named(entry, gpus):
            visible.append(uuid)
        else:
            break
    return visible


def _named(entry: str, gpus: Sequence[Gpu]) -> str:
    """Return the one UUID that begins so; empty where there is none or several."""
    if not entry.startswith(("GPU-", "MIG-")):
        return ""
    of_gpus = [_whole(gpu) for gpu in gpus if gpu.uuid.startswith(entry)]
    of_slices = [uuid for gpu in gpus for uuid in _slices(gpu) if uuid.startswith(entry)]
    found = of_gpus or of_slices
    return found[0] if len(found) == 1 else ""


_T = TypeVar("_T")


class Nvml:
    """One NVML session: opened at the first question, to be closed.

    Args:
        device_indices: NVML's numbers of the GPUs to ask, which ``CUDA_VISIBLE_DEVICES`` does not
            change; None for all.
        cuda_uuids: Tells which GPUs CUDA itself sees, in its order, once it was started in this
            process; None before. What the environment says is only a forecast of that.
    """

    vendor = "NVIDIA"
    absent: tuple[Unknown, ...] = (NO_DRIVER, NO_GPUS)
    not_installed: tuple[Unknown, ...] = (NO_BINDING,)

    def __init__(
        self,
        device_indices: Sequence[int] | None = None,
        cuda_uuids: Callable[[], tuple[str, ...] | None] = lambda: None,
    ) -> None:
        self._indices = device_indices
        self._cuda_uuids = cuda_uuids
        self._library = Opened(_open, _shut_down)
        self._devices: dict[int, Device] = {}

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures."""
        found = self._each(now, Device.gpu)
        return found if isinstance(found, Unknown) else self._numbered(found)

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Ask every GPU for joules since the driver was loaded, watts, and their limit."""
        return self._each(
            now,
            lambda one: EnergyReading(
                "gpu", one.name, one.index, one.joules(), one.watts(), known(one.limit_watts())
            ),
        )

    def processes(self, now: float) -> tuple[OfProcesses, ...] | Unknown:
        """Return the number of each GPU, and the processes that use it."""
        return self._each(now, lambda one: OfProcesses(one.index, one.processes(), one.uuid))

    def close(self) -> None:
        """End the session; the next question would open another."""
        self._devices.clear()
        self._library.close()

    def _each(self, now: float, ask: Callable[[Device], _T]) -> tuple[_T, ...] | Unknown:
        if self._indices is not None and not self._indices:
            return ()  # None is asked for, so no driver is opened.
        library = self._library.get(now)
        if isinstance(library, Unknown):
            return library
        try:
            count: int = library.nvmlDeviceGetCount()
            indices = range(count) if self._indices is None else self._indices
            answers = tuple(self._answer(library, index, now, ask) for index in indices)
        except library.NVMLError as error:
            self._devices.clear()
            return self._library.fail(reason(error), now)
        return answers if count else NO_GPUS

    def _answer(
        self, library: ModuleType, index: int, now: float, ask: Callable[[Device], _T]
    ) -> _T:
        device = self._devices.get(index)
        if device is None or now >= device.retry_at:
            name = device.name if device else f"{index}: GPU"
            device = self._devices[index] = Device(library, index, name)
        answer = ask(device)
        if device.lost is not None and device.retry_at == float("inf"):
            device.retry_at = now + RETRY_SECONDS
        return answer

    def _numbered(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """Say which GPU, or which slice of one, is which ``cuda:N`` of this process."""
        if self._indices is not None:
            return gpus  # Not all of them: a position among these says nothing.
        numbers = cuda_indices(gpus, os.environ, self._cuda_uuids())
        return tuple(
            replace(
                gpu,
                cuda_index=numbers.get(gpu.uuid),
                mig=tuple(replace(part, cuda_index=numbers.get(part.uuid)) for part in gpu.mig),
            )
            for gpu in gpus
        )


@cache
def import_library() -> ModuleType | Unknown:
    """Import pynvml, 34 ms; not where there is no driver, which is not looked for again."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return NO_DRIVER
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return NO_BINDING


def _shut_down(library: ModuleType) -> None:
    try:
        library.nvmlShutdown()
    except library.NVMLError:
        return  # the driver is gone, and the session with it


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

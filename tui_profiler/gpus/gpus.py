"""All GPUs of this machine, whoever made them, numbered one after another.

1. A GPU gets its number when it is first seen, and keeps it: NVIDIA's come first with NVML's
   numbers, those of the next vendor follow. No number is given twice: where a driver fails at first
   and another vendor has its numbers by then, its GPUs follow those. All ``Gpus`` of a process use
   the same numbers (``NUMBERS``), so samples, energy and replays agree. Another process, such as
   the viewer, may number the GPUs differently or, outside a container, see others: across processes
   a GPU is identified by its UUID.
2. A vendor whose driver is there and fails, beside others that answer, is one GPU without figures.
   One whose library is not installed is told only where no GPU answers: most laptops have a second
   GPU that no process uses.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from tui_profiler.gpus.amd import Amd
from tui_profiler.gpus.driver import Driver, EnergyReading, OfProcesses, unexpected
from tui_profiler.gpus.intel import Intel
from tui_profiler.gpus.jetson import Jetson
from tui_profiler.gpus.nvml import Nvml
from tui_profiler.messages import Gpu, Unknown

NO_GPU = Unknown("no GPU driver on this machine")
_NOT_NUMBERED = -1
_T = TypeVar("_T")


class Numbers:
    """The number of each GPU, assigned at the first request.

    Thread-safe without a lock, which another thread could hold when the process forks: each step is
    atomic.
    """

    def __init__(self) -> None:
        self._firsts: dict[str, int] = {}
        """Number of a vendor's first GPU."""
        self._numbers: dict[tuple[str, int], int] = {}
        """By vendor and the driver's index."""
        self._taken: dict[int, tuple[str, int]] = {}

    def number(self, vendor: str, index: int) -> int:
        """Return the number of a GPU, assigned at the first call.

        Args:
            vendor: of the driver.
            index: number that the driver has for the GPU.
        """
        key = vendor, index
        if key not in self._numbers:
            free = max(list(self._taken), default=-1) + 1
            number = self._firsts.setdefault(vendor, free) + index
            while self._taken.setdefault(number, key) != key:
                number += 1
            self._numbers.setdefault(key, number)
        return self._numbers[key]


NUMBERS = Numbers()
"""Shared by every ``Gpus`` of this process."""


class Gpus:
    """One session with each driver: opened at the first question, to be closed.

    The questions are those of ``Driver``.

    Args:
        device_indices: NVML's numbers of the GPUs to ask, which ``CUDA_VISIBLE_DEVICES`` does not
            change, and no other vendor's; None for all.
        cuda_uuids: Tells which GPUs CUDA or HIP itself sees, in its order, once it was started in
            this process; None before. What the environment says is only a forecast of that.
        drivers: Of each vendor; None for those of this machine.
        numbers: Of their GPUs; None for those of this process, or new ones if drivers are given.
    """

    def __init__(
        self,
        device_indices: Sequence[int] | None = None,
        cuda_uuids: Callable[[], tuple[str, ...] | None] = lambda: None,
        drivers: Sequence[Driver] | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        if numbers is None:
            numbers = NUMBERS if drivers is None else Numbers()
        if drivers is None:
            nvml = Nvml(device_indices, cuda_uuids)
            all_vendors: list[Driver] = [Jetson(nvml), Amd(cuda_uuids), Intel()]
            drivers = [nvml] if device_indices is not None else all_vendors
        self._drivers = tuple(drivers)
        self._numbers = numbers

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Ask every GPU for all its figures."""

        def numbered(gpu: Gpu, number_of: Callable[[int], int]) -> Gpu:
            number = number_of(gpu.index)
            return replace(gpu, index=number, name=f"{number}: {_model(gpu.name)}")

        return self._each(lambda one: one.gpus(now), numbered, unknown_gpu)

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        """Ask every GPU for energy and power."""

        def numbered(one: EnergyReading, number_of: Callable[[int], int]) -> EnergyReading:
            number = number_of(one.gpu)
            return one._replace(gpu=number, name=f"GPU {number}: {_model(one.name)}")

        def failed(vendor: str, why: Unknown) -> EnergyReading:
            return EnergyReading("gpu", f"GPU {vendor} GPU", _NOT_NUMBERED, why, why)

        return self._each(lambda one: one.energy(now), numbered, failed)

    def processes(self, now: float) -> tuple[OfProcesses, ...] | Unknown:
        """Return the number of each GPU, and the processes that use it."""
        return self._each(
            lambda one: one.processes(now),
            lambda of, number_of: of._replace(number=number_of(of.number)),
            lambda _vendor, why: OfProcesses(_NOT_NUMBERED, why, ""),
        )

    def close(self) -> None:
        """End all sessions; the next question would open others."""
        for driver in self._drivers:
            driver.close()

    def _each(
        self,
        ask: Callable[[Driver], tuple[_T, ...] | Unknown],
        numbered: Callable[[_T, Callable[[int], int]], _T],
        failed: Callable[[str, Unknown], _T],
    ) -> tuple[_T, ...] | Unknown:
        found: list[_T] = []
        failures: list[tuple[Driver, Unknown]] = []
        is_answered = False
        for driver in self._drivers:
            try:
                answer = ask(driver)
            except Exception as error:  # the border of one vendor: the others are asked anyway
                answer = unexpected(error)
            if not isinstance(answer, Unknown):
                is_answered = True
                found += [
                    numbered(one, partial(self._numbers.number, driver.vendor)) for one in answer
                ]
            elif answer not in driver.absent:
                failures.append((driver, answer))
        if found:
            rest = [(who, why) for who, why in failures if why not in who.not_installed]
            return (*found, *(failed(driver.vendor, why) for driver, why in rest))
        if len(failures) == 1:
            return failures[0][1]
        if failures:
            return Unknown("; ".join(f"{driver.vendor}: {why.reason}" for driver, why in failures))
        return () if is_answered else NO_GPU


def unknown_gpu(vendor: str, why: Unknown) -> Gpu:
    """Return a GPU of which nothing is known but the reason."""
    return Gpu(f"{vendor} GPU", why, why, why, why, why, why, why, throttled_by=why)


def _model(name: str) -> str:
    """Return a name without the number before it."""
    number, colon, rest = name.partition(": ")
    return rest if colon and number.isdecimal() else name

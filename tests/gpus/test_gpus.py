"""GPUs of several vendors in one machine: numbers, failures, and who is absent."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from tui_profiler.gpus.driver import (
    EnergyReading,
    OfProcesses,
    Opened,
    import_binding,
    unless_absent,
)
from tui_profiler.gpus.gpus import Gpus, Numbers, unknown_gpu
from tui_profiler.messages import Gpu, GpuProcess, Unknown

MISSING = Unknown("its library is not installed")
ABSENT, BROKEN = Unknown("none of this vendor"), Unknown("the driver is not loaded")


class Vendors:
    """Some GPUs of one vendor; or why there are none, at the moment."""

    absent: tuple[Unknown, ...] = (ABSENT,)
    not_installed: tuple[Unknown, ...] = (MISSING,)

    def __init__(self, vendor: str, answer: int | Unknown) -> None:
        self.vendor = vendor
        self.answer = answer
        self.is_open = True

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        if isinstance(self.answer, Unknown):
            return self.answer
        names = (f"{self.vendor} {letter}" for letter in "AB"[: self.answer])
        return tuple(Gpu(name, *[now] * 7, "", index=index) for index, name in enumerate(names))

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        found = self.gpus(now)
        if isinstance(found, Unknown):
            return found
        return tuple(EnergyReading("gpu", one.name, one.index, now, 2.0, 3.0) for one in found)

    def processes(self, now: float) -> tuple[OfProcesses, ...] | Unknown:
        found = self.gpus(now)
        if isinstance(found, Unknown):
            return found
        return tuple(
            OfProcesses(one.index, (GpuProcess(one.index, now, now),), "") for one in found
        )

    def close(self) -> None:
        self.is_open = False


def test_vendors_are_numbered_one_after_another() -> None:
    drivers = [Vendors("X", 2), Vendors("Y", ABSENT), Vendors("Z", 1)]
    gpus = Gpus(drivers=drivers)
    found, energy, processes = gpus.gpus(1.0), gpus.energy(1.0), gpus.processes(1.0)
    assert not isinstance(found, Unknown)
    assert not isinstance(energy, Unknown)
    assert not isinstance(processes, Unknown)
    assert [(one.index, one.name) for one in found] == [(0, "0: X A"), (1, "1: X B"), (2, "2: Z A")]
    assert [(one.gpu, one.name) for one in energy] == [
        (0, "GPU 0: X A"),
        (1, "GPU 1: X B"),
        (2, "GPU 2: Z A"),
    ]
    assert [of.number for of in processes] == [0, 1, 2]
    gpus.close()
    assert not any(driver.is_open for driver in drivers)


def test_a_vendor_that_fails_is_one_gpu_without_figures_and_moves_no_other() -> None:
    first, second = Vendors("X", 2), Vendors("Y", 1)
    gpus = Gpus(drivers=[first, second])
    before = gpus.gpus(0.0)
    assert not isinstance(before, Unknown)
    first.answer = BROKEN
    after = gpus.gpus(0.0)
    assert after == (before[2], unknown_gpu("X", BROKEN))
    energy = gpus.energy(0.0)
    assert not isinstance(energy, Unknown)
    assert [(one.gpu, one.joules) for one in energy] == [(2, 0.0), (-1, BROKEN)]
    first.answer = 1
    second.answer = MISSING  # Beside others, that is no failure.
    alone = gpus.gpus(0.0)
    assert not isinstance(alone, Unknown)
    assert [one.index for one in alone] == [0]
    second.answer = 1
    again = gpus.gpus(0.0)
    assert not isinstance(again, Unknown)
    assert [one.index for one in again] == [0, 2]


def test_no_number_is_given_twice_where_a_driver_or_a_gpu_appears_later() -> None:
    first, second = Vendors("X", BROKEN), Vendors("Y", 1)
    gpus = Gpus(drivers=[first, second])
    found = gpus.processes(0.0)
    assert found == ((0, (GpuProcess(0, 0.0, 0.0),), ""), (-1, BROKEN, ""))
    first.answer = 1
    later = gpus.gpus(0.0)
    assert not isinstance(later, Unknown)
    assert [(one.index, one.name) for one in later] == [(1, "1: X A"), (0, "0: Y A")]
    second.answer = 2
    more = gpus.energy(0.0)
    assert not isinstance(more, Unknown)
    assert [one.name for one in more] == ["GPU 1: X A", "GPU 0: Y A", "GPU 2: Y B"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nothing_of_that_name", "not installed"),
        ("raise OSError('no libdrm.so')", "{name} does not find libgpu.so: no libdrm.so"),
        ("raise AttributeError('gpuInit')", "{name} does not match libgpu.so: gpuInit"),
    ],
)
def test_a_binding_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    name = f"binding_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    found = import_binding(name, "libgpu.so", Unknown("not installed"))
    assert found == Unknown(why.format(name=name))


def test_a_driver_failure_is_reported_only_if_a_card_exists(tmp_path: Path) -> None:
    assert unless_absent(BROKEN, tmp_path, "0x1002", ABSENT) == ABSENT
    assert unless_absent(3, tmp_path, "0x1002", ABSENT) == 3
    card = tmp_path / "card0" / "device"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x1002\n")
    assert unless_absent(BROKEN, tmp_path, "0x1002", ABSENT) == BROKEN


def test_what_the_binding_of_one_vendor_raises_hides_no_other() -> None:
    class OfAnotherRelease(Vendors):
        """Its binding names a figure otherwise."""

        def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
            raise KeyError("pcie_metric")

    gpus = Gpus(drivers=[Vendors("X", 1), OfAnotherRelease("Y", 1)])
    why = Unknown("GPU counters failed: KeyError: 'pcie_metric'")
    found = gpus.gpus(0.0)
    assert not isinstance(found, Unknown)
    assert [(one.name, one.utilisation) for one in found] == [("0: X A", 0.0), ("Y GPU", why)]
    assert gpus.energy(0.0) == (
        EnergyReading("gpu", "GPU 0: X A", 0, 0.0, 2.0, 3.0),
        EnergyReading("gpu", "GPU Y GPU", -1, why, why),
    )
    assert gpus.processes(0.0) == ((0, (GpuProcess(0, 0.0, 0.0),), ""), (-1, why, ""))


def test_every_gpus_has_the_same_numbers_if_a_driver_fails_at_first() -> None:
    class NoEnergy(Vendors):
        """Its binding has everything but energy."""

        def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
            raise KeyError("energy_accumulator")

    first, second, third = Vendors("X", BROKEN), NoEnergy("Y", 2), Vendors("Z", 1)
    numbers, drivers = Numbers(), (first, second, third)
    sampler, energy, replay = (Gpus(drivers=drivers, numbers=numbers) for _ in range(3))
    early = sampler.gpus(0.0)
    first.answer = 1  # The driver answers from now on, before the first request for energy.
    counted, late = energy.energy(0.0), replay.gpus(0.0)
    assert not isinstance(early, Unknown)
    assert not isinstance(counted, Unknown)
    assert not isinstance(late, Unknown)
    assert [one.name for one in early] == ["0: Y A", "1: Y B", "2: Z A", "X GPU"]
    assert [one.name for one in counted] == ["GPU 3: X A", "GPU 2: Z A", "GPU Y GPU"]
    assert [one.name for one in late] == ["3: X A", "0: Y A", "1: Y B", "2: Z A"]


def test_concurrent_threads_get_the_same_numbers() -> None:
    every, asked = [(vendor, index) for vendor in "XYZ" for index in range(40)], 8
    numbers, begin = Numbers(), threading.Barrier(asked)
    found: list[dict[tuple[str, int], int]] = []

    def ask(seed: int) -> None:
        mixed = random.Random(seed).sample(every, len(every))
        begin.wait()
        found.append({key: numbers.number(*key) for key in mixed})

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(asked)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == asked
    assert all(one == found[0] for one in found)
    assert len({*found[0].values()}) == len(every)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((ABSENT, ABSENT), Unknown("no GPU driver on this machine")),
        ((ABSENT, BROKEN), BROKEN),
        (
            (BROKEN, BROKEN),
            Unknown("X: the driver is not loaded; Y: the driver is not loaded"),
        ),
        ((0, ABSENT), ()),
        ((ABSENT, MISSING), MISSING),
    ],
)
def test_without_gpus_the_reasons_are_told(
    answers: tuple[int | Unknown, int | Unknown], expected: object
) -> None:
    drivers = [Vendors(vendor, answer) for vendor, answer in zip("XY", answers, strict=True)]
    assert Gpus(drivers=drivers).gpus(0.0) == expected


def test_what_failed_to_open_is_opened_again_after_half_a_minute() -> None:
    answers: list[str | Unknown] = ["open", "open again"]
    refusals = [AttributeError("zesInit")]
    closed: list[str] = []

    def opening() -> str | Unknown:
        if refusals:
            raise refusals.pop()
        return answers.pop(0)

    opened = Opened(opening, closed.append)
    refused = Unknown("GPU counters failed: AttributeError: zesInit")
    assert opened.get(0.0) == opened.get(29.9) == refused
    assert opened.get(30.0) == opened.get(31.0) == "open"
    assert opened.fail(ABSENT, 32.0) == opened.get(33.0) == ABSENT
    assert closed == ["open"]
    assert opened.get(62.0) == "open again"

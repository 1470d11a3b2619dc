"""Energy accounts over counters that move at known rates; all time is the test's own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.probe.measure.energy.test_rapl import count, domain
from tui_profiler.gpus.driver import EnergyReading
from tui_profiler.messages import Account, EnergyTotals, Unknown
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.energy.rapl import RaplEnergy

STEP_SECONDS = 0.1


class Clock:
    """A clock that the test moves, and the energy that was used up to now."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.joules = 0.0
        self.watts = 0.0

    def now(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds
        self.joules += self.watts * seconds


class Stepping:
    """A counter that tells its energy as it was at the last step, as NVML's does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = 0.0
        self._next_step = clock.seconds
        self.answer: Unknown | None = None

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        if now >= self._next_step:
            self._told = self._clock.joules
            while self._next_step <= now:
                self._next_step += STEP_SECONDS
        if self.answer is not None:
            return self.answer
        return (EnergyReading("gpu", "GPU 0", 0, self._told, limit_watts=700.0),)

    def close(self) -> None:
        pass


class PowerOnly:
    """A GPU without a counter of energy."""

    def __init__(self, clock: Clock, watts: Callable[[], float]) -> None:
        self._clock = clock
        self._watts = watts

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        return (EnergyReading("gpu", "GPU 0", 0, Unknown("no counter"), self._watts()),)

    def close(self) -> None:
        pass


def look_for(
    watch: EnergyWatch, clock: Clock, seconds: float, chance: random.Random, work: list[float]
) -> None:
    """Let time pass with forwards of 20 ms, looking now and then as the threads would."""
    end = clock.seconds + seconds
    while clock.seconds < end:
        step = chance.uniform(0.04, 0.065)
        clock.pass_by(step)
        work[0] += step / 0.02
        watch.look()


def test_energy_time_and_work_are_those_between_steps_whatever_is_looked_at() -> None:
    clock, work = Clock(), [0.0]
    watch = EnergyWatch([Stepping(clock)], clock.now)
    clock.watts = 300.0
    watch.become("running", lambda: work[0])
    look_for(watch, clock, 10.0, random.Random(1), work)
    account = watch.account("gpu", 0, "running")

    assert account.seconds == pytest.approx(10.0, abs=0.3)
    assert account.steps == pytest.approx(100, abs=3)
    assert account.joules / account.seconds == pytest.approx(300, rel=0.01)
    assert account.joules / account.work == pytest.approx(300 * 0.02, rel=0.01)  # 6 J a forward


@pytest.mark.parametrize("seed", range(20))
def test_five_seconds_are_within_two_percent(seed: int) -> None:
    clock, work = Clock(), [0.0]
    watch = EnergyWatch([Stepping(clock)], clock.now)
    clock.watts = 450.0
    watch.become("running", lambda: work[0])
    look_for(watch, clock, 5.0, random.Random(seed), work)
    account = watch.account("gpu", 0, "running")

    assert account.joules / account.work == pytest.approx(9.0, rel=0.02)


def test_idle_and_running_are_apart_and_what_lies_between_is_in_neither() -> None:
    clock, work, chance = Clock(), [0.0], random.Random(2)
    watch = EnergyWatch([Stepping(clock)], clock.now)
    for _ in range(4):
        clock.watts = 50.0
        watch.become("idle")
        look_for(watch, clock, 2.0, chance, work)
        clock.watts = 400.0
        watch.become("running", lambda: work[0])
        look_for(watch, clock, 2.0, chance, work)
    idle, running = (watch.account("gpu", 0, name) for name in ("idle", "running"))

    assert idle.joules / idle.seconds == pytest.approx(50, rel=0.03)
    assert running.joules / running.seconds == pytest.approx(400, rel=0.03)
    # Each change costs the step that it falls in.
    assert 16 - 8 * 0.3 < idle.seconds + running.seconds < 16


def test_a_look_during_which_the_activity_changes_belongs_to_neither() -> None:
    clock, work, chance = Clock(), [0.0], random.Random(8)
    source = Stepping(clock)
    watch = EnergyWatch([source], clock.now)
    clock.watts = 50.0
    watch.become("idle")
    look_for(watch, clock, 2.0, chance, work)
    before = watch.account("gpu", 0, "idle")

    def changing(now: float) -> tuple[EnergyReading, ...] | Unknown:
        watch.become("running", lambda: work[0])
        return read(now)

    read, source.energy = source.energy, changing  # type: ignore[method-assign] # once, as a slow driver
    clock.pass_by(0.2)
    watch.look()
    source.energy = read  # type: ignore[method-assign]
    clock.watts = 400.0
    look_for(watch, clock, 2.0, chance, work)

    assert watch.account("gpu", 0, "idle") == before
    running = watch.account("gpu", 0, "running")
    assert running.joules / running.seconds == pytest.approx(400, rel=0.03)


def test_a_new_loop_begins_its_account_anew_and_keeps_idle_power() -> None:
    clock, work, chance = Clock(), [0.0], random.Random(3)
    watch = EnergyWatch([Stepping(clock)], clock.now)
    clock.watts = 100.0
    watch.become("idle")
    look_for(watch, clock, 2.0, chance, work)
    watch.become("running", lambda: work[0])
    look_for(watch, clock, 2.0, chance, work)
    watch.become("running", lambda: work[0], anew=True)
    [totals] = told(watch)

    assert totals.running == Account()
    assert totals.idle.steps >= 15


def test_power_without_a_counter_is_integrated_and_says_so() -> None:
    clock, work = Clock(), [0.0]
    watts = itertools.cycle([200.0, 400.0])
    watch = EnergyWatch([PowerOnly(clock, lambda: next(watts))], clock.now)
    watch.become("running", lambda: work[0])
    look_for(watch, clock, 10.0, random.Random(4), work)
    [totals] = told(watch)

    assert totals.source == "power"
    assert totals.running.joules / totals.running.seconds == pytest.approx(300, rel=0.05)


def test_power_that_rises_is_integrated_by_its_mean() -> None:
    """From 0 W by 1 W per second: t²/2 joules; by the power at either end it would be t² ± t."""
    clock, work = Clock(), [0.0]
    watch = EnergyWatch([PowerOnly(clock, clock.now)], clock.now)
    clock.seconds = 10.0
    watch.become("running", lambda: work[0])
    for _ in range(5):
        watch.look()
        clock.pass_by(1.0)
    [totals] = told(watch)

    last = 14.0
    first = last - totals.running.seconds
    assert totals.running.seconds > 1
    assert totals.running.joules == pytest.approx((last**2 - first**2) / 2)


def test_a_sensor_that_looks_a_quarter_of_the_time_is_right_on_what_is_not_in_step_with_it() -> (
    None
):
    """As on A100 and H100: 25 ms of each 100 are seen, while forwards take turns at two powers."""
    clock, work, chance = Clock(), [0.0], random.Random(5)

    def seen() -> float:
        # What the sensor saw last: the power at the last quarter that it looked in.
        at = clock.seconds - (clock.seconds % 0.1)
        return 600.0 if (at % period) < period / 2 else 100.0

    period = 0.0731  # of two phases; in step with nothing
    watch = EnergyWatch([PowerOnly(clock, seen)], clock.now)
    watch.become("running", lambda: work[0])
    look_for(watch, clock, 60.0, chance, work)
    account = watch.account("gpu", 0, "running")

    assert account.joules / account.seconds == pytest.approx(350, rel=0.1)


def test_a_counter_that_fails_says_why_and_loses_only_the_gap() -> None:
    clock, work, chance = Clock(), [0.0], random.Random(6)
    source = Stepping(clock)
    watch = EnergyWatch([source], clock.now)
    clock.watts = 100.0
    watch.become("running", lambda: work[0])
    look_for(watch, clock, 3.0, chance, work)
    before = watch.account("gpu", 0, "running")
    source.answer = Unknown("the GPU was lost")
    look_for(watch, clock, 3.0, chance, work)
    source.answer = None
    look_for(watch, clock, 3.0, chance, work)
    after = watch.account("gpu", 0, "running")

    assert before.seconds == pytest.approx(3.0, abs=0.3)
    assert after.joules / after.seconds == pytest.approx(100, rel=0.01)
    assert after.seconds < 6.3


def test_a_machine_that_slept_is_not_a_step() -> None:
    clock, work, chance = Clock(), [0.0], random.Random(7)
    watch = EnergyWatch([Stepping(clock)], clock.now)
    clock.watts = 100.0
    watch.become("running", lambda: work[0])
    look_for(watch, clock, 2.0, chance, work)
    clock.pass_by(3600.0)
    look_for(watch, clock, 2.0, chance, work)

    assert watch.account("gpu", 0, "running").seconds < 4.3


def test_no_counter_is_a_reason_and_is_not_asked_for_ever() -> None:
    clock = Clock()
    source = Stepping(clock)
    source.answer = Unknown("no GPU driver on this machine")
    watch = EnergyWatch([source], clock.now)

    assert watch.look() is False
    assert watch.totals() == Unknown("no GPU driver on this machine")


def test_a_driver_that_may_come_back_is_asked_again() -> None:
    clock = Clock()
    source = Stepping(clock)
    source.answer = Unknown("the NVIDIA driver is not loaded")
    watch = EnergyWatch([source], clock.now)

    assert watch.look() is True
    assert watch.totals() == Unknown("the NVIDIA driver is not loaded")


def test_packages_and_memory_are_two_counters_of_the_processor(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=0, most=1_000_000_000)
    (package / "constraint_0_power_limit_uw").write_text("205000000\n")
    memory = domain(tmp_path, "0:0", "dram", energy=0)
    clock, energy = Clock(), itertools.count(0, 10_000_000)
    watch = EnergyWatch([RaplEnergy(tmp_path)], clock.now)
    watch.become("running", lambda: clock.seconds * 2)  # two forwards a second
    for _ in range(121):
        microjoules = next(energy)
        count(package, microjoules % 1_000_000_000)  # begins again once in this time
        count(memory, microjoules // 10)
        watch.look()
        clock.pass_by(0.05)
    of_package, of_memory = sorted(told(watch), key=lambda one: one.of != "package")

    # 10 J in 50 ms are 200 W, and 100 J for each of two forwards a second.
    assert of_package.running.joules / of_package.running.seconds == pytest.approx(200)
    assert of_package.running.joules / of_package.running.work == pytest.approx(100)
    assert of_package.running.joules == pytest.approx(1190)  # 119 steps of 10 J
    assert of_package.limit_watts == 205
    assert of_memory.running.joules / of_memory.running.seconds == pytest.approx(20)
    assert (of_memory.of, of_memory.limit_watts) == ("dram", None)


def told(watch: EnergyWatch) -> tuple[EnergyTotals, ...]:
    found = watch.totals()
    assert not isinstance(found, Unknown), found
    return found

"""Energy of what this process does, from counters looked at a few times in each of their steps.

1. Counters move in steps (NVML's about every 100 ms). An account is kept from step to step, with
   the work that was done between: energy, time and work always speak of the same time.
2. Time in which the activity changed is in no account, so that idle power never holds a forward.
3. The moments of looking are random, so that nothing that repeats can be in step with them.
4. Where a GPU has no counter its power is integrated instead, and the account says so. On A100 and
   H100 the sensor looks at the power a quarter of the time only (Yang et al., arXiv 2312.02741).
5. Counters are read in threads of their own: a driver that hangs holds up no forward and no sample.
"""

import random
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tui_profiler.gpus.driver import EnergyReading
from tui_profiler.gpus.gpus import NO_GPU, Gpus
from tui_profiler.messages import Account, EnergyTotals, Figure, Unknown
from tui_profiler.messages.hardware import LEAST_STEPS, Activity, EnergyOf, EnergySource
from tui_profiler.probe.measure.energy.rapl import NO_RAPL, RaplEnergy, Source
from tui_profiler.system import real_time as time

LOOK_SECONDS = 0.04
LOOK_MORE_SECONDS = 0.025
"""The wait between two looks: so long, and at random up to so much longer."""
ABSENT_SECONDS = 30.0
IDLE_SECONDS = 2.0
"""Idle power is known after so long, and as many steps as any energy."""
_NO_EPOCH = -1
_ABSENT_FOR_GOOD = (NO_GPU, NO_RAPL)
_MOST_GAP_SECONDS = 2.0
"""After a longer gap between two looks, as of a machine that slept, an account begins anew."""


class _Edge(NamedTuple):
    at: float
    joules: float
    work: float
    epoch: int


class Ledger:
    """One counter's accounts, kept from step to step."""

    def __init__(self, reading: EnergyReading) -> None:
        self._reading = reading
        self._accounts: dict[Activity, Account] = {}
        self._why = ""
        self._source: EnergySource = "counter"
        self._stands_at: float | None = None
        self._edge: _Edge | None = None
        self._integral = 0.0
        self._last_look: tuple[float, float] | None = None

    def enter(
        self, reading: EnergyReading, at: float, activity: Activity, *, work: float, epoch: int
    ) -> None:
        """Take a look; where the counter has moved, the step that ends goes to its account.

        Args:
            reading: what the counter says.
            at: Seconds of a clock that only goes forward.
            activity: what is under way.
            work: how much of it was done, of a number that only grows within an epoch.
            epoch: another number whenever the activity changed, be it back.
        """
        self._reading = reading
        if self._last_look is not None and at - self._last_look[0] > _MOST_GAP_SECONDS:
            self._stands_at = self._edge = self._last_look = None
        joules = self._joules(reading, at)
        if isinstance(joules, Unknown):
            self._why = joules.reason
            self._stands_at = self._edge = None
            return
        self._why = ""
        before, self._stands_at = self._stands_at, joules
        if before is None or before == joules:
            return  # Within a step; power is integrated, and stands still only where it is 0.
        edge, self._edge = self._edge, _Edge(at, joules, work, epoch)
        if edge is None or edge.epoch != epoch or joules < edge.joules:
            return
        account = self._accounts.get(activity, Account())
        self._accounts[activity] = Account(
            account.seconds + at - edge.at,
            account.joules + joules - edge.joules,
            account.steps + 1,
            account.work + work - edge.work,
        )

    @property
    def is_read(self) -> bool:
        """Whether the last look gave a figure."""
        return not self._why

    def forget(self, activity: Activity) -> None:
        """Begin an account anew."""
        self._accounts.pop(activity, None)

    def account(self, activity: Activity) -> Account:
        """Return an account."""
        return self._accounts.get(activity, Account())

    def totals(self) -> EnergyTotals:
        """Return what is told of this counter."""
        reading = self._reading
        return EnergyTotals(
            of=reading.of,
            name=reading.name,
            gpu=reading.gpu,
            source=self._source,
            running=self.account("running"),
            idle=self.account("idle"),
            limit_watts=reading.limit_watts,
            why=self._why,
        )

    def _joules(self, reading: EnergyReading, at: float) -> Figure:
        """Return the counter, or the integral of power up to now where there is none."""
        before, self._last_look = self._last_look, (at, 0.0)
        if not isinstance(reading.joules, Unknown):
            self._source = "counter"
            return reading.joules
        if isinstance(reading.watts, Unknown):
            return reading.joules
        self._source = "power"
        self._last_look = (at, reading.watts)
        if before is not None:
            self._integral += (before[1] + reading.watts) / 2 * (at - before[0])
        return self._integral


class EnergyWatch:
    """All counters of this machine, and what this process does meanwhile.

    Args:
        sources: What is read; None for this machine's.
        now: Gives seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        sources: Sequence[Source] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = (RaplEnergy(), Gpus()) if sources is None else tuple(sources)
        self._now = now
        self._lock = threading.Lock()
        self._ledgers: dict[tuple[EnergyOf, int], Ledger] = {}
        self._why: dict[int, str] = {}
        self._activity: Activity = "other"
        self._work: Callable[[], float] = _no_work
        self._epoch = 0
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Look at every source from now on, each in a thread of its own; once."""
        for number in range(len(self._sources)):
            thread = threading.Thread(
                target=self._watch, args=(number,), name="tui-profiler-energy", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the threads; one whose driver hangs is left behind."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(1.0)

    def become(
        self, activity: Activity, work: Callable[[], float] | None = None, *, anew: bool = False
    ) -> None:
        """Say what this process does from now on.

        Args:
            activity: what is under way.
            work: tells how much of it was done; asked from other threads.
            anew: forget the account of the same activity before.
        """
        with self._lock:
            self._activity, self._work = activity, work or _no_work
            self._epoch += 1
            if anew:
                for ledger in self._ledgers.values():
                    ledger.forget(activity)

    def look(self, number: int = 0) -> bool:
        """Look at one source now; false where it has no counter at all, and never will."""
        epoch = self._epoch
        answer = self._sources[number].energy(self._now())
        with self._lock:
            why = _nothing(answer)
            if why is not None:
                self._why[number] = why.reason
            else:
                self._why.pop(number, None)
            # A look during which the activity changed belongs to neither.
            epoch = epoch if epoch == self._epoch else _NO_EPOCH
            at, work = self._now(), self._work()
            for reading in () if isinstance(answer, Unknown) else answer:
                self._enter(reading, at, work, epoch)
        return why not in _ABSENT_FOR_GOOD

    def _enter(self, reading: EnergyReading, at: float, work: float, epoch: int) -> None:
        key = (reading.of, reading.gpu)
        if key not in self._ledgers and _nothing((reading,)) is not None:
            return
        ledger = self._ledgers.setdefault(key, Ledger(reading))
        ledger.enter(reading, at, self._activity, work=work, epoch=epoch)

    def totals(self) -> tuple[EnergyTotals, ...] | Unknown:
        """Return every counter's totals, or why there is none."""
        with self._lock:
            found = tuple(ledger.totals() for _, ledger in sorted(self._ledgers.items()))
            reasons = "; ".join(self._why[number] for number in sorted(self._why))
        return found or Unknown(reasons or "energy counters have not been read yet")

    @property
    def activity(self) -> Activity:
        """What this process does now, as it was told last."""
        return self._activity

    def has_rested(self) -> bool:
        """Say if idle power is known of every counter that is read."""
        with self._lock:
            idle = [ledger.account("idle") for ledger in self._ledgers.values() if ledger.is_read]
            return all(one.seconds >= IDLE_SECONDS and one.steps >= LEAST_STEPS for one in idle)

    def account(self, of: EnergyOf, gpu: int, activity: Activity) -> Account:
        """Return one account of one counter; an empty one where there is none."""
        with self._lock:
            ledger = self._ledgers.get((of, gpu))
            return Account() if ledger is None else ledger.account(activity)

    def _watch(self, number: int) -> None:
        wait = LOOK_SECONDS
        while not self._is_over.is_set() and self.look(number):
            with self._lock:
                wait = ABSENT_SECONDS if number in self._why else LOOK_SECONDS
            self._is_over.wait(wait + random.uniform(0, LOOK_MORE_SECONDS))
        self._sources[number].close()


def _no_work() -> float:
    return 0.0


def _nothing(answer: tuple[EnergyReading, ...] | Unknown) -> Unknown | None:
    """Return the reason where no counter in an answer tells anything."""
    if isinstance(answer, Unknown):
        return answer
    for reading in answer:
        if not isinstance(reading.joules, Unknown) or not isinstance(reading.watts, Unknown):
            return None
    return next((one.joules for one in answer if isinstance(one.joules, Unknown)), None)

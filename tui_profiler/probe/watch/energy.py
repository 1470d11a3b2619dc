"""Energy of a program's own forwards: the machine's counters beside the forwards recorded."""

from __future__ import annotations

from msgspec.structs import replace

from tui_profiler.messages import Sample, Unknown
from tui_profiler.messages.energy import Activity
from tui_profiler.messages.live import State
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.watch.times import RecordedTimes

NOT_ALL_COUNTED = Unknown(
    "a share of the forwards is recorded here, so none can be counted beside the energy"
)


class OwnEnergy:
    """Tells the counters what the program does, while there are any.

    The counters are another thread's, which takes them up and puts them down with ``watch``.
    """

    def __init__(self) -> None:
        self.watch: EnergyWatch | None = None
        """The counters, while someone has them looked at."""
        self._times: RecordedTimes | None = None

    def follow(self, state: State, times: RecordedTimes) -> None:
        """Take note of what the program does now, and of what is recorded of it."""
        self._times = times
        activity: Activity = "idle" if state == "waiting" else "running"
        self._become(activity if times.records_all else "other")

    def rest(self) -> None:
        """Nothing is recorded any more."""
        self._times = None
        self._become("other")

    def beside(self, sample: Sample) -> Sample:
        """Give a sample without energy where not every forward is counted beside it."""
        is_whole = self._times is None or self._times.records_all
        return sample if is_whole else replace(sample, energy=NOT_ALL_COUNTED)

    def _become(self, activity: Activity) -> None:
        watch = self.watch
        if watch is not None and watch.activity != activity:
            watch.become(activity, self._work)

    def _work(self) -> float:
        """Give the forwards that were recorded; from any thread."""
        times = self._times
        return float(times.forwards) if times is not None else 0.0

"""A device with one stream that runs what was launched when it is told to, by its own clock."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from tui_profiler.probe.measure.clock.device_clock import DeviceEvent


class SimulatedEvent:
    """A mark; it is reached when everything launched before it has run."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self.place = -1
        """Behind how many launches; -1 where it was never set."""
        self.reached_at: float | None = None

    def record(self) -> None:
        self._device.record(self)

    def query(self) -> bool:
        assert self.place >= 0, "asked before it was set"
        return self.reached_at is not None


class SimulatedDevice:
    """Launches wait until ``run``; nothing here can be waited for."""

    def __init__(self) -> None:
        self._stream: list[float | SimulatedEvent] = []
        self._marks: list[SimulatedEvent] = []
        self._now = 0.0
        self.made = 0
        self.capturing = False
        self.recorded_while_capturing = 0
        self.fails_with = ""
        self.is_idle = False
        """Whether it runs at once what is launched."""
        self.mark_seconds = 0.0
        """What setting a mark takes on the host, for which an idle device waits."""

    def event(self) -> SimulatedEvent:
        self.made += 1
        return SimulatedEvent(self)

    def seconds_between(self, began: DeviceEvent, ended: DeviceEvent) -> float:
        assert isinstance(began, SimulatedEvent)
        assert isinstance(ended, SimulatedEvent)
        if began.reached_at is None or ended.reached_at is None:
            raise RuntimeError("CUDA error: device not ready")
        return ended.reached_at - began.reached_at

    def is_capturing(self) -> bool:
        return self.capturing

    def asking(self) -> AbstractContextManager[None]:
        return nullcontext()

    def launch(self, seconds: float) -> None:
        if not self.capturing:
            self._stream.append(seconds)
            self._go_on()

    def record(self, event: SimulatedEvent) -> None:
        if self.fails_with:
            raise RuntimeError(self.fails_with)
        self.recorded_while_capturing += self.capturing
        event.place, event.reached_at = len(self._stream), None
        if self.is_idle:
            self._now += self.mark_seconds
        self._stream.append(event)
        self._marks.append(event)
        self._go_on()

    def forget_one_mark(self) -> None:
        """Have the first mark not be reached, as if it were on another stream."""
        self._marks[1].reached_at = None

    def _go_on(self) -> None:
        if self.is_idle:
            self.run()

    def run(self, steps: int | None = None) -> None:
        """Carry out what was launched, all of it or some of it."""
        count = len(self._stream) if steps is None else steps
        done, self._stream = self._stream[:count], self._stream[count:]
        for step in done:
            if isinstance(step, SimulatedEvent):
                step.reached_at = self._now
            else:
                self._now += step

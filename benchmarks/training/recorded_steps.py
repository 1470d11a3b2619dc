"""Steps of training in this process, each recorded whole, step by step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import TracebackType

from torch import nn

from tui_profiler.messages import BackwardOperators, Node
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.clock.graph_marks import Reached
from tui_profiler.probe.measure.clock.tree_index import TreeIndex
from tui_profiler.probe.measure.operators.backward_operators import BackwardOperatorClock
from tui_profiler.probe.measure.step.backward_calls import StepTimes
from tui_profiler.probe.measure.step.recorder import Pass, StepRecorder
from tui_profiler.probe.watch.windows import WindowOnStep


class RecordedSteps:
    """Watches a model from ``with`` on, as a watched program is, but every step.

    Args:
        model: it is not kept alive.
        nodes: of its tree.
        device: that it runs on; None: a CPU.
        recorder: makes what records the steps.
    """

    def __init__(
        self,
        model: nn.Module,
        nodes: Sequence[Node],
        device: DeviceClock | None = None,
        recorder: Callable[[ModuleClock, Callable[[], bool]], StepRecorder] = StepRecorder,
    ) -> None:
        self.clock = ModuleClock(model, device=device)
        self._device = device
        self.recorder = recorder(self.clock, lambda: True)
        self.nodes, self._model = nodes, weakref.ref(model)
        self._index = TreeIndex(nodes, model)
        self.pass_seconds = 0.0
        """Of the backward passes of the last step: what the engine took."""
        self.trouble = ""
        self._forwards: list[Forward] = []
        self._passes: list[Pass] = []
        self._marks: list[Reached] = []

    def __enter__(self) -> RecordedSteps:
        self.clock.install()
        self.recorder.start()
        self.recorder.is_driving = True
        self.clock.record_step(is_recorded=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.recorder.close()
        self.clock.uninstall()

    def open_window(self) -> WindowOnStep:
        """Have the next step run in an operator window; ``close`` of it ends the step."""
        window = WindowOnStep()
        self.recorder.window = window
        window.await_forward()
        self.clock.call_before_next(window.begin)
        return window

    def backward_operators(self, window: WindowOnStep) -> BackwardOperators:
        """Return what the step in a window ran; instead of ``take``."""
        window.after_step()
        self.recorder.window = None
        self.collect()
        model = self._model()
        assert model is not None
        clock = BackwardOperatorClock(self.nodes, model)
        clock.add(self._forwards, window.passes, window.window.read_graph(), window.seconds)
        self._forwards, self._passes, self._marks = [], [], []
        return clock.message(0.0)

    def collect(self) -> None:
        """Take what was told so far, on any thread."""
        self._forwards += self.clock.take()
        marks, self.trouble = self.clock.take_marks()
        self._marks += marks
        passes = self.recorder.passes
        self._passes += [passes.popleft() for _ in range(len(passes))]
        self.recorder.marks.clear()
        self.recorder.ends.clear()

    def take(self) -> StepTimes:
        """Return the times of what ran since the last time: call it after each step."""
        self.collect()
        if self._device is not None:
            self._device.read()
        times = StepTimes(self._index, self._device)
        for forward in self._forwards:
            times.add_forward(forward)
        for one in self._passes:
            times.add_pass(one, self._marks)
        self.pass_seconds = sum(one.ended - one.began for one in self._passes)
        self.trouble = self.trouble or times.why_not_timed
        self._forwards, self._passes, self._marks = [], [], []
        return times


def seconds(times: StepTimes, column: str, node: int) -> tuple[float, float]:
    """Return seconds in a node in a step, all its calls together, and without what is inside."""
    found = [one[node] for one in times.columns[column] if node in one]
    return sum(whole for whole, _ in found), sum(own for _, own in found)

"""A model watched as a program's is, but every step of it recorded, and read on another thread.

Values are read in some steps, and others run in an operator window, as soon as the one before was
read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from torch import nn

from benchmarks.training.recorded_steps import RecordedSteps, seconds
from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.operators.backward_operators import EVALUATED
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.values.step_values import StepValues
from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.probe.watch.windows import WindowOnStep

PAUSE_SECONDS = 0.005


class _ReadSteps(StepRecorder):
    """Has the values of every step read that does not run in a window."""

    def __init__(self, clock: ModuleClock, records_next: Callable[[], bool]) -> None:
        self.parameters: frozenset[int] = frozenset()
        self.read: list[StepValues] = []
        super().__init__(clock, records_next)

    @property
    def next_values(self) -> StepValues:  # type: ignore[override]  # always one
        self.read.append(StepValues(self.parameters))
        return self.read[-1]

    @next_values.setter
    def next_values(self, values: StepValues | None) -> None:
        pass


class Watched:
    """Call it with the model; from then on until the end of ``with`` it is watched."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Of the root: forward, backward and recomputed, all steps together."""
        self.trouble = ""
        self.windows = 0
        """That saw a backward."""
        self.values: set[str] = set()
        """Kinds of values that were read."""
        self.why_not_read: set[str] = set()
        self._steps: RecordedSteps | None = None
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __call__(self, model: nn.Module) -> None:
        """Begin."""
        self._steps = RecordedSteps(model, module_nodes(model), recorder=_ReadSteps)
        recorder = self._steps.recorder
        assert isinstance(recorder, _ReadSteps)
        recorder.parameters = frozenset(map(id, each_parameter(model)))
        self._read_values = recorder.read
        self._steps.__enter__()
        self._reader.start()

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._steps is not None:
            self._is_over.set()
            self._reader.join()
            self._take_window(self._steps)
            times = self._steps.take()
            self.seconds = {name: seconds(times, name, 0)[0] for name in times.columns}
            self.trouble = self.trouble or self._steps.trouble
            for each in self._read_values:
                self.values |= {row.kind for row in each.rows}
                self.why_not_read.add(each.trouble)
            self._steps.__exit__(kind, error, traceback)

    def _read(self) -> None:
        while self._steps is not None and not self._is_over.wait(PAUSE_SECONDS):
            self._steps.collect()
            window = self._steps.recorder.window
            # A step does not run in a window and is read.
            if self._read_values and (window is None or window.is_over):
                self._take_window(self._steps)
                self._steps.recorder.window = WindowOnStep()

    def _take_window(self, steps: RecordedSteps) -> None:
        window, steps.recorder.window = steps.recorder.window, None
        if isinstance(window, WindowOnStep):
            window.after_step()  # Where the program has ended in it.
            self.trouble = self.trouble or window.trouble
            seen = window.window.read_graph()
            self.windows += any(one.name.startswith(EVALUATED) for one in seen)

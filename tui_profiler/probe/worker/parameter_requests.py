"""Requests about parameters: reading their values, and measuring sensitivity.

1. Values are read in slices of time: between forwards within the profiling budget, and all the time
   where nothing runs. In a worker nothing else writes to the parameters; buffers that a forward
   writes to are read again (``parameters/analysis.py``).
2. Sensitivity is measured while the model is paused: it runs the model with changed weights.
3. No torch here: a file of parameters is shown without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tui_profiler import messages
from tui_profiler.probe.process.link import Channel, drop_analyses
from tui_profiler.probe.process.wire_names import writable

if TYPE_CHECKING:
    from torch import nn

    from tui_profiler.probe.parameters.analysis import Analysis
    from tui_profiler.probe.parameters.subjects import Subject
    from tui_profiler.probe.trace.trace import Trace

IDLE_SLICE_SECONDS = 0.05
"""Between two checks for requests, where nothing runs."""
_MOST_REASON = 300


class WeightReader:
    """Reads the tensors of one model or file.

    Args:
        link: to the viewer.
        now: returns seconds since the start of the command.
        subjects: returns the tensors.
        weights: source of the values.
    """

    def __init__(
        self,
        link: Channel,
        now: Callable[[], float],
        subjects: Callable[[], Sequence[Subject]],
        weights: str,
    ) -> None:
        self._link = link
        self._now = now
        self._subjects = subjects
        self._weights = weights
        self._analysis: Analysis | None = None

    @property
    def is_reading(self) -> bool:
        """Whether an analysis is under way."""
        return self._analysis is not None

    def begin(self, request: messages.AnalyseParameters) -> None:
        """Start an analysis, instead of a running one."""
        self.stop()
        try:
            subjects = self._subjects()
            # For a file, torch was imported just now.
            from tui_profiler.probe.parameters.analysis import Analysis  # noqa: PLC0415

            analysis = Analysis(subjects, self._weights, self._link.send, self._now, request)
        except Exception as error:  # The border: building the model again may raise anything.
            why = writable(f"{type(error).__name__}: {error}"[:_MOST_REASON])
            self._link.send(messages.ParametersDone(self._now(), 0.0, 0, 0, why=why))
            return
        self._analysis = analysis

    def advance(self, seconds: float, share: float = 1.0) -> None:
        """Read for so long; ``share`` of the time goes to such slices."""
        if self._analysis is not None and self._analysis.advance(seconds, share):
            self._analysis = None

    def tell(self, share: float) -> None:
        """Report progress, with the share of the time that goes to reading from now on."""
        if self._analysis is not None:
            self._analysis.tell(share)

    def stop(self) -> None:
        """Stop the analysis; its results so far remain."""
        if self._analysis is not None:
            self._analysis.stop()
            self._analysis = None

    def next_request(self) -> messages.Request | None:
        """Return the next request, reading meanwhile; None: the viewer disconnected."""
        while self._analysis is not None and not self._link.is_closed:
            if (request := self._link.next_request(0.0)) is not None:
                return request
            self.advance(IDLE_SLICE_SECONDS)
        return self._link.next_request(None)


def measured(
    request: messages.MeasureSensitivity,
    link: Channel,
    now: Callable[[], float],
    model: nn.Module,
    traced: Trace,
    *,
    is_random: bool,
) -> list[messages.Request]:
    """Measure sensitivity; return other requests that came meanwhile, oldest first.

    Args:
        request: which weights, and how they are changed.
        link: to the viewer.
        now: returns seconds since the start of the command.
        model: with values.
        traced: its tree and inputs.
        is_random: whether its weights are randomly initialised.
    """
    from tui_profiler.probe.parameters.sensitivity import Meter  # noqa: PLC0415 # rule 3

    asked: deque[messages.Request] = deque()
    was_stopped = False

    def is_over() -> bool:
        nonlocal was_stopped
        while (other := link.next_request(0.0)) is not None:
            if isinstance(other, messages.StopAnalysing):
                drop_analyses(asked)
            asked.append(other)
            # Reading values can wait; any other request stops the measurement.
            was_stopped = was_stopped or not isinstance(other, messages.AnalyseParameters)
        return was_stopped or link.is_closed

    meter = Meter(model, traced.nodes, traced.inputs, is_random=is_random, tell=link.send, now=now)
    meter.run(request, is_over)
    return list(asked)


def refuse(
    request: messages.MeasureSensitivity, link: Channel, now: Callable[[], float], reason: str
) -> None:
    """Answer that nothing is measured."""
    at, none = now(), messages.Unknown("no forward was run")
    link.send(
        messages.SensitivityStarted(at, request.scheme, 0, is_random=False, under=request.under)
    )
    link.send(messages.SensitivityDone(at, request.scheme, 0.0, 0, none, none, reason))

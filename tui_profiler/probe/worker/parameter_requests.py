"""Who looks at the parameters when a viewer asks: an analysis, and what is asked meanwhile.

Nothing of the model runs while reading weights, so that neither disturbs the other;
the heartbeat goes on. Whatever else is asked is kept for whoever comes after, and ends the analysis
where it cannot wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tui_profiler import messages
from tui_profiler.probe.process.link import Channel, Link
from tui_profiler.probe.process.queued_analyses import without_looks
from tui_profiler.probe.process.wire_names import writable

if TYPE_CHECKING:
    from tui_profiler.probe.parameters.values import Subject

ANALYSING = "reading weights"
_MOST_REASON = 300


class Analyst:
    """Looks at the tensors of one model or file.

    Args:
        link: where the answers go, and further requests come from.
        now: gives seconds since the command was started.
        subjects: gives the tensors, when they are first asked for.
        weights: where the values came from.
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

    def run(self, request: messages.AnalyseParameters) -> list[messages.Request]:
        """Look at the parameters; gives what else was asked meanwhile, oldest first."""
        asked: deque[messages.Request] = deque()

        def is_over() -> bool:
            over = self._link.is_closed
            while (other := self._link.next_request(0.0)) is not None:
                if isinstance(other, messages.StopAnalysing):
                    without_looks(asked)
                    over = True
                    continue
                asked.append(other)
                over = over or not isinstance(
                    other,
                    messages.Pause | messages.Resume | messages.Step | messages.MeasureSensitivity,
                )
            return over

        try:
            subjects = self._subjects()
            # Of a file, torch is only imported by now.
            from tui_profiler.probe.parameters.analysis import Analysis  # noqa: PLC0415

            analysis = Analysis(subjects, self._weights, self._link.send, self._now)
            analysis.run(request, is_over)
        except Exception as error:  # The border: building the model anew may raise anything.
            why = writable(f"{type(error).__name__}: {error}"[:_MOST_REASON])
            self._link.send(messages.ParametersDone(self._now(), 0.0, 0, 0, why=why))
        return list(asked)


def refuse(
    request: messages.MeasureSensitivity, link: Link, now: Callable[[], float], reason: str
) -> None:
    """Say why nothing is measured."""
    at, none = now(), messages.Unknown("no forward was run")
    link.send(
        messages.SensitivityStarted(at, request.scheme, 0, is_random=False, under=request.under)
    )
    link.send(messages.SensitivityDone(at, request.scheme, 0.0, 0, none, none, reason))

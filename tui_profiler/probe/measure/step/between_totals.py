"""Evaluations and inference between steps added up, since counting of steps began."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.training import Between, BetweenKind
from tui_profiler.probe.measure.step.between_steps import Gap
from tui_profiler.probe.measure.step.source_lines import Line, source_lines

MOST_LINES = 1_000
"""Lines of the program that samples are counted of; those of others are left out."""
_NOT_CALLED = Unknown("the model was not called there, or by another method than in steps")
_NOT_COUNTED = Unknown("forwards in steps that are not recorded were not counted")


@dataclass
class _Total:
    count: int = 0
    first: int = 0
    """Step that the first one came before, as ``last``."""
    last: int = 0
    seconds: float = 0.0
    data_seconds: float = 0.0
    known: int = 0
    """Of ``count``, those whose forwards were counted."""
    calls: int = 0
    """Of these."""
    call_seconds: float = 0.0
    lines: Counter[Line] = field(default_factory=Counter)

    @property
    def why_no_calls(self) -> Unknown:
        """Why no forwards were counted."""
        return _NOT_CALLED if self.known else _NOT_COUNTED


class BetweenTotals:
    """All time since counting began, and what of it lay between steps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Of steps, with what lay between them."""
        self.steps = 0
        self.longest = 0.0
        """Seconds of the longest time between two steps."""
        self._kinds: dict[BetweenKind, _Total] = {}

    @property
    def is_seen(self) -> bool:
        """Whether anything lay between steps so far."""
        return bool(self._kinds)

    def add(self, gaps: Sequence[Gap], lines: Iterable[Line]) -> None:
        """Add what lies before the next step.

        Args:
            gaps: before it, of any kind.
            lines: of samples in them; they count for the first kind.
        """
        for kind in dict.fromkeys(one.kind for one in gaps):
            those = [one for one in gaps if one.kind == kind]
            total = self._kinds.setdefault(kind, _Total(first=self.steps))
            total.count += 1
            total.last = self.steps
            seconds = sum(one.seconds for one in those)
            total.seconds += seconds
            self.longest = max(self.longest, seconds)
            total.data_seconds += sum(one.data_seconds for one in those)
            if all(one.are_calls_known for one in those):
                total.known += 1
                total.calls += sum(one.calls for one in those)
                total.call_seconds += sum(one.call_seconds for one in those)
        if gaps:
            counted = self._kinds[gaps[0].kind].lines
            for line in lines:
                if line in counted or len(counted) < MOST_LINES:
                    counted[line] += 1

    def calls_per_second(self, per_step: float) -> Figure:
        """Return forwards of the model per second of all time.

        Args:
            per_step: forwards of a step.
        """
        if not self.seconds:
            return Unknown("no step has ended")
        calls = per_step * self.steps
        for total in self._kinds.values():
            if not total.calls:
                return total.why_no_calls
            calls += total.calls / total.known * total.count
        return calls / self.seconds

    def messages(self) -> tuple[Between, ...]:
        """Return each kind that was seen, most time first."""
        return tuple(
            Between(
                kind=kind,
                count=total.count,
                every=(total.last - total.first) / (total.count - 1) if total.count > 1 else 0.0,
                seconds=total.seconds / total.count,
                share=total.seconds / self.seconds if self.seconds else 0.0,
                forwards=total.calls / total.known if total.calls else total.why_no_calls,
                forward_seconds=(
                    total.call_seconds / total.known if total.calls else total.why_no_calls
                ),
                data_seconds=total.data_seconds / total.count,
                lines=source_lines(total.lines),
                samples=total.lines.total(),
            )
            for kind, total in sorted(self._kinds.items(), key=lambda one: -one[1].seconds)
        )

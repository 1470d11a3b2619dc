"""A step divided into what the thread that trains does: each moment belongs to one part."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

PartName: TypeAlias = Literal[
    "data", "transfer", "forward", "backward", "clip", "optimizer", "communication", "other"
]


class Span(NamedTuple):
    """A time in which the thread did one thing; seconds of ``time.perf_counter``."""

    part: PartName
    began: float
    ended: float


class Division(NamedTuple):
    """What a step was divided into."""

    seconds: dict[str, float]
    """Of each part, ``other`` included: they add up to the step."""
    other: list[tuple[float, float]]
    """From when to when ``other`` was, in the order of time."""


def divide(began: float, ended: float, spans: Iterable[Span]) -> Division:
    """Give each moment of a step to the innermost span that it is in, or to ``other``."""
    seconds: dict[str, float] = {"other": 0.0}
    other: list[tuple[float, float]] = []
    inside: list[Span] = []
    now = began

    def until(moment: float) -> None:
        nonlocal now
        moment = min(moment, ended)
        if moment <= now:
            return
        part: PartName = inside[-1].part if inside else "other"
        seconds[part] = seconds.get(part, 0.0) + moment - now
        if part == "other":
            other.append((now, moment))
        now = moment

    for span in sorted(spans, key=lambda one: (one.began, -one.ended)):
        while inside and inside[-1].ended <= span.began:
            until(inside[-1].ended)
            inside.pop()
        until(span.began)
        # What ends after the span around it is cut there: a wait that DDP tells of afterwards.
        inside.append(
            span if not inside else span._replace(ended=min(span.ended, inside[-1].ended))
        )
    while inside:
        until(inside[-1].ended)
        inside.pop()
    until(ended)
    return Division(seconds, other)

"""What a trial says of a prediction: it held, there was less or more to gain, or it is refuted.

A trial's interval holds the true median with at least 95 % probability. A prediction that lies in
it held, unless it holds no gain as well; one that lies above it promised too much, and is refuted
where not even a gain is certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain
from tui_profiler.messages import TrialProgress, TrialResult, Unknown, known
from tui_profiler.messages.trials import WHOLE_MODEL
from tui_profiler.session import Session

Word: TypeAlias = Literal[
    "held",
    "less",
    "more",
    "refuted",
    "no gain",
    "gained",
    "undecided",
    "untested",
    "running",
    "waits",
    "can be tried",
    "no trial",
    "not here",
]
"""``less`` and ``more``: gained, but not as predicted. ``no gain`` and ``gained``: there was no
prediction, or a bound. ``undecided``: the interval holds both no gain and
as much as was predicted. ``untested``: the trial measured nothing. ``not here``:
there is a trial, but nothing to run it."""
REFUTED: tuple[Word, ...] = ("refuted", "no gain")


class Measured(Struct, frozen=True):
    """The share of a forward's time that a trial saved; negative where it took longer."""

    share: float
    low: float
    """Lower end of the interval."""
    high: float


class Advice(Struct, frozen=True):
    """A finding, and what its trial says of it."""

    finding: Finding
    word: Word
    result: TrialResult | None = None
    """None where it was not tried."""
    progress: TrialProgress | None = None
    """None where it is not under way."""
    measured: Measured | None = None


Column: TypeAlias = Literal["rank", "title", "saves", "predicted", "measured", "verdict", "error"]
"""What advice can be ordered by; ``rank`` is the order in which it is given."""


def in_order(found: Iterable[Advice], column: Column, *, descending: bool) -> tuple[Advice, ...]:
    """Return advice by a column; what has no figure there goes last either way.

    Args:
        found: in the order of its rank, which is kept among equal ones.
        column: what it is ordered by.
        descending: the largest first, texts from Z to A.
    """
    every = tuple(found)
    match column:
        case "rank":
            return every
        case "title" | "saves" | "verdict":
            return tuple(sorted(every, key=lambda one: _text(one, column), reverse=descending))
        case _:
            figures = [(_figure(one, column), one) for one in every]
    with_figure = [(value, one) for value, one in figures if value is not None]
    with_figure.sort(key=lambda pair: pair[0], reverse=descending)
    return (*(one for _, one in with_figure), *(one for value, one in figures if value is None))


def _text(one: Advice, column: Column) -> str:
    if column == "title":
        return one.finding.title.casefold()
    return one.finding.gain.of if column == "saves" else one.word


def _figure(one: Advice, column: Column) -> float | None:
    if column == "predicted":
        return known(one.finding.gain.share)
    if column == "measured":
        return one.measured.share if one.measured is not None else None
    error = one.result.error if one.result is not None else None
    return error.relative if error is not None else None


def advice(session: Session, found: tuple[Finding, ...]) -> tuple[Advice, ...]:
    """Set beside findings what trials say of them, in the order given; then what else was tried."""
    known_kinds = {finding.kind for finding in found}
    others = (of_result(one) for one in session.trials if one.kind not in known_kinds)
    every = (*found, *{one.kind: one for one in others}.values())
    return tuple(_advice(session, finding) for finding in every)


def _advice(session: Session, finding: Finding) -> Advice:
    if finding.trial is None:
        return Advice(finding, "no trial")
    running = session.trial
    result = next((one for one in reversed(session.trials) if one.kind == finding.trial), None)
    saved = measured(result) if result is not None else None
    if running is not None and running.kind == finding.trial:
        return Advice(finding, "running", result, running, saved)
    if running is not None and finding.trial in running.waiting:
        return Advice(finding, "waits", result, None, saved)
    if result is None:
        return Advice(finding, "can be tried")
    word: Word = verdict(finding.gain, saved) if saved is not None else "untested"
    return Advice(finding, word, result, None, saved)


def measured(result: TrialResult) -> Measured | None:
    """Return the share of time that a trial saved, None where it measured nothing."""
    speedup, low, high = result.speedup, result.low, result.high
    if result.outcome != "measured" or not speedup or not low or not high:
        return None
    return Measured(1 - 1 / speedup, 1 - 1 / low, 1 - 1 / high)


def verdict(gain: Gain, saved: Measured) -> Word:
    """Judge a prediction by what was measured."""
    is_gain, may_gain = saved.low > 0, saved.high > 0
    predicted = gain.share
    if isinstance(predicted, Unknown) or gain.of != "time":
        return "gained" if is_gain else "undecided" if may_gain else "no gain"
    if gain.is_bound:
        if not is_gain:
            return "undecided" if may_gain and saved.high > predicted / 2 else "no gain"
        return "more" if saved.low > predicted else "held"
    if not is_gain and saved.high >= predicted:
        return "undecided"
    if predicted > saved.high:
        return "less" if is_gain else "refuted"
    return "more" if predicted < saved.low else "held"


NOTHING = Unknown("no evidence for this change in the session")


def of_result(result: TrialResult) -> Finding:
    """Return the finding that stands beside a trial without a prediction."""
    return Finding(
        kind=result.kind,
        title=f"{result.kind}, tried without evidence of a gain",
        why="No finding of this session suggests this change.",
        nodes=(max(result.node, 0) if result.node != WHOLE_MODEL else 0,),
        evidence=(
            Evidence("pairs of calls that were compared", result.pairs, "count", "measured"),
        ),
        gains=(Gain("time", NOTHING, "a share of a forward"),),
        trial=result.kind,
    )

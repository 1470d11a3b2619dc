"""Which rank of a run holds the others up, by how much, and in which module.

Ranks that meet in a collective all take as long as the slowest: their steps tell nothing. Who is
late waits least, because the others are there already; everyone else waits for it.
"""

from collections.abc import Container, Iterable, Sequence
from statistics import median
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import duration, share
from tui_profiler.formatting.text import safe
from tui_profiler.messages import StepTimes, Unknown, known
from tui_profiler.queries.panel.state import is_stale, state
from tui_profiler.queries.time.step_seconds import timed_backward
from tui_profiler.session import Session
from tui_profiler.session.session_group import Rank, SessionGroup

WARNS = 0.10
"""Of a step, in which the others wait for the straggler."""
IS_CRITICAL = 0.20
STUCK_STEPS = 5.0
STUCK_SECONDS = 5.0
"""Without a new step for so long, and for as long as so many, figures speak of what is over."""
ORDER_STEP = 0.05
"""Ranks whose skew differs by less of a step keep their order, so that rows stay put."""
Level: TypeAlias = Literal["unknown", "even", "warning", "critical"]
_PARTS = {
    "forward": "its forward takes",
    "backward": "its backward takes",
    "host": "outside of forward, backward and collectives it takes",
}


class RankRow(Struct, frozen=True):
    """One row of the ranks screen."""

    key: str
    """Of the process; empty where none was found for the rank."""
    number: int
    pid: int | None
    words: str
    """What it does now, or why there is nothing to see."""
    is_live: bool
    times: StepTimes | None = None
    skew: float | None = None
    """Seconds that the rank that waits most waits more: how late this one is."""
    skew_share: float | None = None
    """Of a step."""


class Verdict(Struct, frozen=True):
    """Who holds the others up."""

    level: Level
    lines: tuple[str, ...]
    """Sentences with figures; safe."""
    key: str = ""
    """Of the straggler; empty where there is none."""


def rank_rows(group: SessionGroup, now: float) -> tuple[RankRow, ...]:
    """Return a row for each rank, the one that holds up the others first, gone ones last."""
    measured = _measured(group.ranks, now)
    most = max((wait for _, wait in measured.values()), default=None)
    rows = [_row(rank, now, measured.get(rank.key), most) for rank in group.ranks]
    there = {rank.number for rank in group.ranks}
    rows += [
        RankRow("", number, None, "not found here: it watches no model, or runs elsewhere", False)
        for number in range(group.expected)
        if number not in there
    ]
    return tuple(sorted(rows, key=_badness))


Column: TypeAlias = Literal["badness", "rank", "pid", "step", "compute", "wait", "host", "late"]
"""What rows can be ordered by; ``badness`` is the order of ``rank_rows``."""


def in_order(
    rows: Iterable[RankRow], column: Column, *, descending: bool = True
) -> tuple[RankRow, ...]:
    """Return rows by a column; those without a figure there come last either way.

    Args:
        rows: in the order of ``rank_rows``, which is kept among equal ones.
        column: what they are ordered by.
        descending: the largest first.
    """
    every = tuple(rows)
    if column == "badness":
        return every
    figures = [(_figure(one, column), one) for one in every]
    with_figure = [(value, one) for value, one in figures if value is not None]
    with_figure.sort(key=lambda pair: pair[0], reverse=descending)
    return (*(one for _, one in with_figure), *(one for value, one in figures if value is None))


def _figure(one: RankRow, column: Column) -> float | None:
    times = one.times if one.key and not one.words.startswith("gone") else None
    match column:
        case "rank":
            return one.number
        case "pid":
            return one.pid
        case "late":
            return one.skew
        case "step" | "compute" | "wait" | "host" if times is not None:
            return known(getattr(times, column))
        case _:
            return None


def verdict(group: SessionGroup, now: float) -> Verdict:
    """Name the straggler: the rank with the least wait, where the others wait for it.

    What is lost is by how much it waits less and is busy longer, whichever is less: ranks speak of
    steps that are not quite the same ones, and a difference of waits alone may be of the steps.
    """
    measured = _measured(group.ranks, now)
    if len(measured) < 2:
        return Verdict("unknown", _why_unknown(group, now))
    late = min(measured, key=lambda key: measured[key][1])
    others = [measured[key] for key in measured if key != late]
    step = median(step for step, _ in measured.values())
    theirs, its = median(wait for _, wait in others), measured[late][1]
    busy = (measured[late][0] - its) - median(step - wait for step, wait in others)
    lost = max(min(theirs - its, busy), 0.0)
    lost_share = lost / step if step > 0 else 0.0
    unknown = [str(one.number) for one in group.ranks if _may_be_slow(one, measured)]
    if lost_share < WARNS:
        if unknown:
            none = f"no straggler among {len(measured)} ranks"
            return Verdict("unknown", (f"{none}, no steps known of rank {', '.join(unknown)}",))
        little = f"{duration(lost)} of a step, {share(lost_share)}, are lost for the busiest rank"
        return Verdict("even", (f"no straggler: {little}",))
    rank = next(rank for rank in group.ranks if rank.key == late)
    if unknown and its >= WARNS * step:  # A rank that is later by as much is what it waits for.
        least = (
            f"rank {rank.number} waits least of {len(measured)} ranks, {duration(its)} of a step"
        )
        later = f"no steps known of rank {', '.join(unknown)}, which may be later"
        return Verdict("unknown", (f"{least}; {later}",))
    sentence = (
        f"rank {rank.number} is the straggler: in a step of {duration(step)} it waits"
        f" {duration(its)}, the others {duration(theirs)}; {share(lost_share)} of the step is lost"
    )
    level: Level = "critical" if lost_share >= IS_CRITICAL else "warning"
    reason = _where(rank, [one for one in group.ranks if one.key in measured and one != rank])
    return Verdict(level, (sentence, reason), late)


def reference(group: SessionGroup, key: str, now: float) -> str:
    """Return the rank to compare one with: the straggler; for it, the one that waits most."""
    late = verdict(group, now).key
    if late and late != key:
        return late
    measured = _measured((rank for rank in group.ranks if rank.key != key), now)
    if measured:
        return max(measured, key=lambda one: measured[one][1])
    alive = (rank.key for rank in group.ranks if rank.key != key and not rank.is_gone)
    return next(alive, "")


def parts(times: StepTimes) -> tuple[float, float, float] | None:
    """Return seconds of compute, wait and host of a step, None where they cannot be told apart."""
    compute, wait, host = known(times.compute), known(times.wait), known(times.host)
    return None if compute is None or wait is None or host is None else (compute, wait, host)


def _is_stuck(rank: Rank, now: float) -> bool:
    """Tell whether a rank has told of no new step for some time, though it is there."""
    times = rank.session.steps
    if times is None or rank.is_gone:
        return False
    return now - times.at > max(STUCK_STEPS * (known(times.step) or 0.0), STUCK_SECONDS)


def _measured(ranks: Iterable[Rank], now: float) -> dict[str, tuple[float, float]]:
    """Return seconds of step and wait by key, of those that run and of which both are known."""
    found: dict[str, tuple[float, float]] = {}
    for rank in ranks:
        times = rank.session.steps
        if times is None or rank.is_gone or _is_stuck(rank, now):
            continue
        step, wait = known(times.step), known(times.wait)
        if step is not None and wait is not None:
            found[rank.key] = (step, wait)
    return found


def _may_be_slow(rank: Rank, measured: Container[str]) -> bool:
    return rank.key not in measured and not rank.is_gone


def _row(
    rank: Rank, now: float, measured: tuple[float, float] | None, most: float | None
) -> RankRow:
    found = state(rank.session, now)
    words = " ".join(part for part in (found.words, found.detail) if part)
    ended = rank.session.ended
    if ended is not None:
        words = f"gone: {safe(_last_words(rank.session))}"
    times, skew, of_step = rank.session.steps, None, None
    is_stuck = _is_stuck(rank, now)
    if is_stuck and times is not None and found.kind == "live":
        words = f"no step for {duration(now - times.at)}"
    if measured is not None and most is not None:
        step, wait = measured
        skew = most - wait
        of_step = skew / step if step > 0 else None
    elif times is not None and ended is None and isinstance(times.wait, Unknown):
        words = safe(times.wait.reason)
    return RankRow(
        key=rank.key,
        number=rank.number,
        pid=rank.program.pid,
        words=words,
        is_live=found.kind == "live" and not is_stuck,
        times=times,
        skew=skew,
        skew_share=of_step,
    )


def _last_words(session: Session) -> str:
    if session.loop is not None and session.loop.state == "finished" and session.loop.detail:
        return session.loop.detail
    if session.ended is not None and session.ended.last_line:
        return session.ended.last_line
    return "it disconnected"


def _badness(row: RankRow) -> tuple[int, int, int, int]:
    if not row.key:
        return (3, 0, row.number, 0)
    if row.words.startswith("gone"):
        return (2, 0, row.number, row.pid or 0)
    if row.skew_share is None:
        return (1, 0, row.number, row.pid or 0)
    return (0, -int(row.skew_share / ORDER_STEP), row.number, row.pid or 0)


def _why_unknown(group: SessionGroup, now: float) -> tuple[str, ...]:
    there = [rank for rank in group.ranks if not rank.is_gone]
    if group.ranks and len(there) < 2:
        return ("fewer than two ranks: nothing to compare",)
    stuck = [str(rank.number) for rank in there if _is_stuck(rank, now)]
    if stuck:
        silent = [str(rank.number) for rank in there if is_stale(rank.session, now)]
        none = f"no steps at present: no new ones of rank {', '.join(stuck)}"
        what = "it is stopped, or another thread holds the GIL"
        of_silent = f"no response from rank {', '.join(silent)}: {what}"
        return (none, of_silent) if silent else (none,)
    for rank in group.ranks:
        times = rank.session.steps
        if times is not None and not rank.is_gone:
            for figure in (times.step, times.wait):
                if isinstance(figure, Unknown):
                    who = f"rank {rank.number}"
                    return (f"no straggler can be named: {safe(figure.reason)} ({who})",)
    return ("waits for steps of two ranks at least",)


def _where(rank: Rank, others: Sequence[Rank]) -> str:
    """Say which part of the straggler's step is longer than the others', and by how much."""
    more: dict[str, float] = {}
    for part in _PARTS:
        its = _seconds(rank, part)
        theirs = [seconds for one in others if (seconds := _seconds(one, part)) is not None]
        if its is not None and theirs:
            more[part] = its - median(theirs)
    if not more or max(more.values()) <= 0:
        return "no part of its step is longer than the others'"
    worst = max(more, key=lambda part: more[part])
    return f"{_PARTS[worst]} {duration(more[worst])} longer than the others"


def _seconds(rank: Rank, part: str) -> float | None:
    times = rank.session.steps
    return None if times is None else known(getattr(times, part))


class ModuleDifference(Struct, frozen=True):
    """One module in two ranks; seconds without modules called inside."""

    path: str
    type: str
    first: float | None
    """Of one forward; None where the rank has no such module, or it was not called."""
    second: float | None
    first_backward: float | None = None
    """Its backward in a step; None also where that is not timed by module."""
    second_backward: float | None = None

    @property
    def difference(self) -> float | None:
        """Seconds that the first rank spends more."""
        return _more(self.first, self.second)

    @property
    def backward_difference(self) -> float | None:
        """The same in the backward of a step."""
        return _more(self.first_backward, self.second_backward)


def _more(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def module_differences(first: Session, second: Session) -> tuple[ModuleDifference, ...]:
    """Align the modules of two ranks by path, the largest difference first.

    Compared is a module's own time: else all that hold a slow one would be as far apart. A path
    that was called from several places is one line.
    """
    left, right = _modules(first), _modules(second)
    backward, their_backward = _backwards(first), _backwards(second)
    found = []
    for path in [*left, *(path for path in right if path not in left)]:
        mine, theirs = left.get(path), right.get(path)
        shown = mine or theirs
        assert shown is not None
        found.append(
            ModuleDifference(
                path=safe(path),
                type=safe(shown[0]),
                first=mine[1] if mine else None,
                second=theirs[1] if theirs else None,
                first_backward=backward.get(path),
                second_backward=their_backward.get(path),
            )
        )
    return tuple(sorted(found, key=_distance))


def _distance(one: ModuleDifference) -> tuple[bool, float]:
    more, more_backward = one.difference, one.backward_difference
    apart = max(abs(more or 0.0), abs(more_backward or 0.0))
    return (more is None and more_backward is None, -apart)


def _backwards(session: Session) -> dict[str, float]:
    """Return seconds of the own backward in a step, by path; none where that is not timed."""
    found: dict[str, float] = {}
    tree, training = session.tree, session.training
    if tree is None or training is None or timed_backward(session, 0) is None:
        return found
    for index, node in enumerate(tree.nodes):
        step = training.of(index)
        if node.kind == "module" and step is not None:
            found[node.path] = found.get(node.path, 0.0) + step.own_backward
    return found


def _modules(session: Session) -> dict[str, tuple[str, float]]:
    """Return type and self time of a forward in seconds, by path, of the modules with times."""
    found: dict[str, tuple[str, float]] = {}
    if session.tree is None or session.timings is None:
        return found
    for index, node in enumerate(session.tree.nodes):
        if node.kind != "module":
            continue
        own = session.timings.own_per_forward(index)
        if own is not None:
            _, before = found.get(node.path, ("", 0.0))
            found[node.path] = (node.type, before + own)
    return found

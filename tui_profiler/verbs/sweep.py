"""``sweep``: one model at many settings, each visit in its own worker, in rounds.

1. A worker per visit: points do not share memory, caches or threads, each has its own peak, and a
   crash costs one point.
2. Every second round runs backwards, so that a machine that gets warmer or busier slows the first
   points as much as the last.
3. A failed point is not visited again; the others go on.
4. A forward whose predicted peak does not fit is not run: the kernel might kill another process.
"""

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from tui_profiler.figures.units import clock, duration, size
from tui_profiler.messages import NO_FORWARD, LoadSpec, ModelFacts, Request, Start, Unknown, known
from tui_profiler.queries.cost.memory_compared import comparison
from tui_profiler.queries.cost.totals import batch_axis
from tui_profiler.queries.sweep import Point, Sweep, Visit, points, visit_of, with_sequence
from tui_profiler.session import EMPTY, Session
from tui_profiler.source import Source
from tui_profiler.verbs import outcome
from tui_profiler.verbs.report import followed, is_complete, report

Begin: TypeAlias = Callable[[Request], Source]
"""Starts a probe with its first request."""

START_SECONDS = 6.0
"""Estimate for starting a worker, before the first has run: mostly imports."""


async def sweep(
    wanted: Sweep,
    spec: LoadSpec,
    begin: Begin,
    *,
    seconds: float,
    now: Callable[[], float],
    progress: Callable[[str], None],
    kept: Callable[[Sweep], None],
) -> Sweep:
    """Visit every point in every round.

    Args:
        wanted: its axes and rounds, without visits.
        spec: the model, with every setting that is not an axis.
        begin: called for each visit, after the previous one ended.
        seconds: time limit of a visit.
        now: a monotonic clock.
        progress: called with a line per visit.
        kept: called with the sweep so far after each visit.
    """
    found = wanted
    facts: ModelFacts | None = None
    if any(axis.name == "sequence" for axis in wanted.axes):
        session = await report(
            begin(Start(replace(spec, run=False))), measuring=False, progress=lambda _: None
        )
        if session.tree is None or session.model is None:
            return replace(found, visits=(_failed(session, 0, 0, 0.0),))
        found, facts = _with_facts(found, session), session.model
    order = turns(len(points(wanted.axes)), wanted.rounds)
    for count, (turn, place) in enumerate(order):
        if any(visit.failure and visit.place == place for visit in found.visits):
            continue
        began = now()
        asked = spec_at(spec, found, points(found.axes)[place], facts)
        if isinstance(asked, Unknown):
            visit, session = Visit(place, turn, asked.reason, bad_argument=True), EMPTY
        else:
            # If the time is over, the session shows what is missing.
            session, _ = await followed(
                begin(Start(asked)),
                lambda found: bool(_too_large(found)) or _is_whole(found, runs=wanted.runs),
                seconds=seconds,
            )
            if wanted.runs and _is_whole(session, runs=True):
                session = outcome.measured(session)
            visit = _visit(session, asked, place, turn, took=now() - began, most=seconds)
        found = _with_facts(replace(found, visits=(*found.visits, visit)), session)
        kept(found)
        progress(_told(found, visit, count, order))
        if _is_hopeless(found, session):
            break
    return found


def turns(points: int, rounds: int) -> tuple[tuple[int, int], ...]:
    """Return (round, index of a point) of every visit, in order."""
    there = range(points)
    return tuple(
        (turn, place)
        for turn in range(rounds)
        for place in (there if turn % 2 == 0 else reversed(there))
    )


def estimated_seconds(
    wanted: Sweep, done: tuple[Visit, ...] = (), *, left: int | None = None
) -> float:
    """Return the seconds of the remaining visits: by those done, else an estimate.

    Args:
        wanted: the sweep.
        done: the visits so far.
        left: number of remaining visits; None: all that are not done.
    """
    if left is None:
        left = len(points(wanted.axes)) * wanted.rounds - len(done)
    took = [visit.took_seconds for visit in done if not visit.failure]
    running = wanted.seconds / wanted.rounds if wanted.runs else 0.0
    each = sum(took) / len(took) if took else START_SECONDS + running
    return left * each


def spec_at(
    spec: LoadSpec, wanted: Sweep, point: Point, facts: ModelFacts | None = None
) -> LoadSpec | Unknown:
    """Return the request for one point.

    Args:
        spec: of the model.
        wanted: its axes name the values of the point.
        point: one value per axis.
        facts: of the traced model; only a sequence axis needs them.
    """
    running = wanted.seconds / wanted.rounds
    # No figure of a sweep needs the roofline.
    asked = replace(spec, run=wanted.runs, seconds=running, ceilings=False, started_at=0.0)
    for axis, value in zip(wanted.axes, point.values, strict=True):
        match axis.name:
            case "batch":
                asked = replace(asked, batch=int(value))
            case "threads":
                asked = replace(asked, threads=int(value))
            case "dtype":
                asked = replace(asked, dtype=str(value))
            case "sequence":
                given = facts.inputs if facts is not None else ()
                typed = with_sequence(given, int(value), batch_axis(facts))
                if isinstance(typed, Unknown):
                    return typed
                asked = replace(asked, inputs=typed)
    return asked


def exit_code(found: Sweep) -> int:
    """Return 130 if interrupted, 2 if all points were refused, 1 if one failed, else 0."""
    bad = [visit for visit in found.visits if visit.failure]
    if found.interrupted:
        return outcome.INTERRUPTED
    if not bad:
        return outcome.DONE
    refused = len(bad) == len(found.visits) and all(visit.bad_argument for visit in bad)
    return outcome.BAD_ARGUMENTS if refused else outcome.MODEL_FAILED


def _is_whole(session: Session, *, runs: bool) -> bool:
    """Return whether it is complete; the peak needs a sample after the first forward."""
    if not is_complete(session, measuring=runs):
        return False
    first = next((record for record in session.stages if record.stage == "first run"), None)
    if not runs or first is None or session.failure is not None or session.ended is not None:
        return True
    return session.sample is not None and session.sample.at >= first.started_at + (
        first.seconds or 0.0
    )


def _too_large(session: Session) -> str:
    """Return that the predicted peak exceeds the free memory; empty where it fits."""
    sample, model, compared = session.sample, session.model, comparison(session)
    if sample is None or compared is None or model is None or model.device != "cpu":
        return ""
    if session.timings is not None:  # It ran: it fits, whatever was predicted.
        return ""
    wanted = known(compared.peak.predicted) or 0.0
    free = sample.memory_total_bytes - sample.memory_bytes + (known(sample.process_bytes) or 0.0)
    if wanted <= free:
        return ""
    return f"predicted peak {size(wanted)}, free memory {size(free)}: not run"


def _visit(
    session: Session, asked: LoadSpec, place: int, turn: int, *, took: float, most: float
) -> Visit:
    large = _too_large(session) if asked.run else ""
    if large:
        return Visit(place, turn, large, took_seconds=took)
    if session.tree is None or session.tree.done is None or _has_failed(session):
        return _failed(session, place, turn, took, asked)
    if not _is_whole(session, runs=asked.run):
        return Visit(place, turn, f"stopped after {duration(most)}", took_seconds=took)
    if not session.tree.has_forward:
        return Visit(place, turn, NO_FORWARD, bad_argument=True, took_seconds=took)
    batch = session.model.batch if session.model is not None else None
    if asked.batch is not None and batch != asked.batch:
        none = batch_axis(session.model)
        what = (
            none.reason if isinstance(none, Unknown) else f"its inputs have a batch axis of {none}"
        )
        return Visit(place, turn, what, bad_argument=True, took_seconds=took)
    return visit_of(session, place=place, turn=turn, took_seconds=took)


def _has_failed(session: Session) -> bool:
    return session.has_failed or (session.ended is not None and not session.ended.expected)


def _failed(
    session: Session, place: int, turn: int, took: float, asked: LoadSpec | None = None
) -> Visit:
    lines = outcome.complaint(session, debug=False)
    remedies = outcome.commands(lines)
    if asked is not None and asked.inputs:  # The sweep set them.
        remedies = [one for one in remedies if not one.startswith("--input")]
    return Visit(
        place,
        turn,
        failure=lines[0] if lines else "the worker sent nothing",
        remedy=remedies[0] if remedies else "",
        bad_argument=outcome.exit_code(session) == outcome.BAD_ARGUMENTS,
        took_seconds=took,
    )


def _with_facts(found: Sweep, session: Session) -> Sweep:
    return replace(
        found,
        facts=found.facts or session.model,
        environment=found.environment or session.environment,
    )


def _is_hopeless(found: Sweep, session: Session) -> bool:
    """Return whether the first two points failed to load for the same reason."""
    failed = [visit.failure for visit in found.visits]
    is_loading = session.failure is not None and session.failure.stage == "load model"
    return is_loading and len(failed) == 2 and bool(failed[0]) and failed[0] == failed[1]


def _told(found: Sweep, visit: Visit, count: int, order: tuple[tuple[int, int], ...]) -> str:
    point = points(found.axes)[visit.place]
    at = " ".join(
        f"{axis.name} {value}" for axis, value in zip(found.axes, point.values, strict=True)
    )
    said = visit.failure or (
        "on paper"
        if isinstance(visit.latency_p50, Unknown)
        else f"{duration(visit.latency_p50)} per {'step' if visit.is_step else 'forward'}"
    )
    failed = {one.place for one in found.visits if one.failure}
    left = sum(place not in failed for _, place in order[count + 1 :])
    about = estimated_seconds(found, found.visits, left=left)
    until = f"; about {clock(about)} left" if left else ""
    return f"{count + 1}/{len(order)} {at}: {said}{until}"

"""``verify``: count a model, then let other counters count it, each in a worker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from tui_profiler.figures.units import duration
from tui_profiler.messages import Counter, CountWith, LoadSpec, Request, SecondOpinion, Start
from tui_profiler.queries.cost.verification import Verification, no_opinion, verify_verdict
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.verbs import outcome
from tui_profiler.verbs.report import report

Begin: TypeAlias = Callable[[Request], Source]
"""Starts a probe whose first request this is."""

COUNTERS: tuple[Counter, ...] = ("flop_counter", "fvcore", "measured")
TOLERANCE_EXCEEDED = 3


async def verify(
    spec: LoadSpec, begin: Begin, *, seconds: float, progress: Callable[[str], None]
) -> Verification:
    """Give our figures and, where there are any, those of every other counter.

    Args:
        spec: which model; where it says not to run it, no other counter is asked.
        begin: one is started for each counter, after the one before has ended.
        seconds: how long each counter may take, loading the model included.
        progress: is given one line for each stage and each counter that is done.
    """
    source = begin(Start(replace(spec, run=False)))
    session = await report(source, measuring=False, progress=progress)
    if session.tree is None or outcome.exit_code(session) != outcome.DONE:
        return Verification(session)
    if not spec.run:
        reason = "not run, as asked"
        return Verification(session, tuple(no_opinion(name, reason) for name in COUNTERS))
    opinions = []
    for counter in COUNTERS:
        opinion = await _ask(counter, begin(CountWith(spec, counter)), seconds)
        progress(f"{counter}: {'failed' if opinion.error else duration(opinion.seconds)}")
        opinions.append(opinion)
    return Verification(session, tuple(opinions))


def exit_code(made: Verification) -> int:
    """Give the exit code: as for ``report``, 3 where a tolerance does not hold.

    Where nothing at all could be compared the model was not verified, which is 1.
    """
    code = outcome.exit_code(made.session)
    if code != outcome.DONE:
        return code
    match verify_verdict(made):
        case "holds":
            return outcome.DONE
        case "fails":
            return TOLERANCE_EXCEEDED
        case "not compared":
            return outcome.MODEL_FAILED


async def _ask(counter: Counter, source: Source, seconds: float) -> SecondOpinion:
    """Fold what a probe says until it has counted, has failed, or has had its time."""
    session = EMPTY
    try:
        async with asyncio.timeout(seconds):
            async for message in source.messages():
                session = apply(session, message)
                if session.opinion is not None or _is_over(session):
                    break
    except TimeoutError:
        return no_opinion(counter, f"stopped after {duration(seconds)}", seconds)
    finally:
        await source.close()
    if session.opinion is not None:
        return session.opinion
    said = outcome.complaint(session, debug=False)
    return no_opinion(counter, said[0] if said else "it said nothing")


def _is_over(session: Session) -> bool:
    return session.failure is not None or session.ended is not None

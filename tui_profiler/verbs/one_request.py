"""Verbs whose workers answer one request: ``models``, ``ceilings``, ``onnx``, ``verify``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.figures.units import duration, size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost.verification import Verification, no_opinion, verify_verdict
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.verbs import outcome
from tui_profiler.verbs.report import progress_line, report

_MOST_NAMES = 3


async def models(source: Source) -> Session:
    """Fold what a source says until the names have come; they are in ``listed``.

    Args:
        source: a probe that was asked to list; it is closed before this returns or raises.
    """
    return await _answered(source, lambda session: session.listed is not None)


async def ceilings(source: Source, progress: Callable[[str], None]) -> Session:
    """Fold what a source says until the roofs have come, or the reason why there are none.

    Args:
        source: a probe that was asked for them; it is closed before this returns or raises.
        progress: is given one line for each stage that is done.
    """
    return await _answered(source, lambda session: session.ceilings is not None, progress)


async def onnx(source: Source, progress: Callable[[str], None]) -> Session:
    """Fold what a source says until the file is there, or could not be made.

    Args:
        source: a probe that was asked to export; it is closed before this returns or raises.
        progress: is given one line for each stage that is done.
    """
    return await _answered(
        source,
        lambda session: session.exported is not None or session.ended is not None,
        progress,
    )


async def _answered(
    source: Source,
    is_answered: Callable[[Session], bool],
    progress: Callable[[str], None] | None = None,
) -> Session:
    session = EMPTY
    try:
        async for message in source.messages():
            session = apply(session, message)
            if progress is not None and (line := progress_line(message)):
                progress(line)
            if is_answered(session) or session.failure is not None:
                break
    finally:
        await source.close()
    return session


def exported_lines(found: messages.Exported) -> tuple[str, ...]:
    """Return what is to be said of the file, a line each."""
    lines = [
        f"{safe(found.path)}  {size(found.bytes)}, opset {found.opset}, "
        f"{thousands(found.operators)} operators, by {safe(found.exporter)}",
        *(f"values lie beside it, in {safe(name)}" for name in found.files[1:]),
        *(f"input {safe(one)}" for one in found.inputs),
        "onnx.checker found nothing wrong",
    ]
    if not found.missing and found.parameters_in_file == found.parameters:
        lines.append(f"{thousands(found.parameters)} parameters, all of them in the graph")
    else:
        named = ", ".join(safe(name) for name in found.missing[:_MOST_NAMES])
        more = f" and {len(found.missing) - _MOST_NAMES} more"
        lines.append(
            f"{thousands(found.parameters_in_file)} of {thousands(found.parameters)} parameters are"
            f" in the graph: without {named}{more * (len(found.missing) > _MOST_NAMES)}, on which"
            " no output depends, or which the exporter replaced"
        )
    lines.append(
        f"{thousands(found.values_in_file)} values in the file, after constants are folded"
    )
    return tuple(lines)


Begin: TypeAlias = Callable[[messages.Request], Source]
"""Starts a probe whose first request this is."""

_COUNTERS: tuple[messages.Counter, ...] = ("flop_counter", "fvcore", "measured")
_TOLERANCE_EXCEEDED = 3


async def verify(
    spec: messages.LoadSpec, begin: Begin, *, seconds: float, progress: Callable[[str], None]
) -> Verification:
    """Return our figures and, where there are any, those of every other counter.

    Args:
        spec: which model; where it says not to run it, no other counter is asked.
        begin: one is started for each counter, after the one before has ended.
        seconds: how long each counter may take, loading the model included.
        progress: is given one line for each stage and each counter that is done.
    """
    source = begin(messages.Start(replace(spec, run=False)))
    session = await report(source, measuring=False, progress=progress)
    if session.tree is None or outcome.exit_code(session) != outcome.DONE:
        return Verification(session)
    if not spec.run:
        reason = "not run, as asked"
        return Verification(session, tuple(no_opinion(name, reason) for name in _COUNTERS))
    opinions = []
    for counter in _COUNTERS:
        opinion = await _ask(counter, begin(messages.CountWith(spec, counter)), seconds)
        progress(f"{counter}: {'failed' if opinion.error else duration(opinion.seconds)}")
        opinions.append(opinion)
    return Verification(session, tuple(opinions))


def exit_code(made: Verification) -> int:
    """Return the exit code: as for ``report``, 3 where a tolerance does not hold.

    Where nothing at all could be compared the model was not verified, which is 1.
    """
    code = outcome.exit_code(made.session)
    if code != outcome.DONE:
        return code
    match verify_verdict(made):
        case "holds":
            return outcome.DONE
        case "fails":
            return _TOLERANCE_EXCEEDED
        case "not compared":
            return outcome.MODEL_FAILED


async def _ask(counter: messages.Counter, source: Source, seconds: float) -> messages.SecondOpinion:
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

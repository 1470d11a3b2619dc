"""Verbs whose workers answer one request: ``models``, ``ceilings``, ``onnx``, ``verify``."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.figures.units import duration, size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost.verification import Verification, no_opinion, verify_verdict
from tui_profiler.session import Session
from tui_profiler.source import Source
from tui_profiler.verbs import outcome
from tui_profiler.verbs.report import followed, report

_MOST_NAMES = 3


async def models(source: Source) -> Session:
    """Fold the messages of a source until the names are in ``listed``.

    Args:
        source: a probe that was asked for the list; it is closed before this returns or raises.
    """
    return await _answered(source, lambda session: session.listed is not None)


async def ceilings(source: Source, progress: Callable[[str], None]) -> Session:
    """Fold the messages of a source until it has sent the roofs, or why there are none.

    Args:
        source: a probe that was asked for them; it is closed before this returns or raises.
        progress: is given one line for each stage that is done.
    """
    return await _answered(source, lambda session: session.ceilings is not None, progress)


async def onnx(source: Source, progress: Callable[[str], None]) -> Session:
    """Fold the messages of a source until the file is exported, or the export has failed.

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
    found, _ = await followed(
        source,
        lambda session: is_answered(session) or session.failure is not None,
        progress=progress,
    )
    return found


def exported_lines(found: messages.Exported) -> tuple[str, ...]:
    """Return the lines that describe the exported file."""
    lines = [
        f"{safe(found.path)}  {size(found.bytes)}, opset {found.opset}, "
        f"{thousands(found.operators)} operators, by {safe(found.exporter)}",
        *(f"external data: {safe(name)}" for name in found.files[1:]),
        *(f"input {safe(one)}" for one in found.inputs),
        "onnx.checker: valid",
    ]
    if not found.missing and found.parameters_in_file == found.parameters:
        lines.append(f"{thousands(found.parameters)} parameters, all in the graph")
    else:
        named = ", ".join(safe(name) for name in found.missing[:_MOST_NAMES])
        more = f" and {len(found.missing) - _MOST_NAMES} more"
        lines.append(
            f"{thousands(found.parameters_in_file)} of {thousands(found.parameters)} parameters are"
            f" in the graph, not {named}{more * (len(found.missing) > _MOST_NAMES)}: no output"
            " depends on them, or the exporter replaced them"
        )
    lines.append(f"{thousands(found.values_in_file)} values in the file, after constant folding")
    return tuple(lines)


Begin: TypeAlias = Callable[[messages.Request], Source]
"""Starts a probe with this first request."""

_COUNTERS: tuple[messages.Counter, ...] = ("flop_counter", "fvcore", "measured")
_TOLERANCE_EXCEEDED = 3


async def verify(
    spec: messages.LoadSpec, begin: Begin, *, seconds: float, progress: Callable[[str], None]
) -> Verification:
    """Return the figures of tui-profiler and of every other counter.

    Args:
        spec: which model; if it is not to be run, no other counter runs.
        begin: starts one probe per counter, each after the previous one has ended.
        seconds: time limit of each counter, loading the model included.
        progress: called with one line for each completed stage and counter.
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
    """Return the exit code: as for ``report``; 3 if a tolerance is exceeded.

    If nothing could be compared, the model was not verified: 1.
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
    """Fold the messages of a probe until it has counted or failed, or the time is over."""
    session, is_late = await followed(
        source,
        lambda found: bool(found.opinion or found.failure or found.ended),
        seconds=seconds,
    )
    if is_late:
        return no_opinion(counter, f"stopped after {duration(seconds)}", seconds)
    if session.opinion is not None:
        return session.opinion
    said = outcome.complaint(session, debug=False)
    return no_opinion(counter, said[0] if said else "no answer")

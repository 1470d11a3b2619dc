"""``onnx``: let a worker write a model as an ONNX file."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Exported
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.verbs.report import progress_line

_MOST_NAMES = 3


async def onnx(source: Source, progress: Callable[[str], None]) -> Session:
    """Fold what a source says until the file is there, or could not be made.

    Args:
        source: a probe that was asked to export; it is closed before this returns or raises.
        progress: is given one line for each stage that is done.
    """
    session = EMPTY
    try:
        async for message in source.messages():
            session = apply(session, message)
            if line := progress_line(message):
                progress(line)
            if session.exported is not None or session.failure is not None:
                break
            if session.ended is not None:
                break
    finally:
        await source.close()
    return session


def exported_lines(found: Exported) -> tuple[str, ...]:
    """Give what is to be said of the file, a line each."""
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

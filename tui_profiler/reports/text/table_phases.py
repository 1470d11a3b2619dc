"""The part of the text report about a model that generates: its two forwards, side by side."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE, quantity, shape, size
from tui_profiler.figures.units import intensity as intensity_text
from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost.bound import bytes_moved, intensity
from tui_profiler.queries.cost.totals import known_peak_bytes
from tui_profiler.reports.text_parts import field
from tui_profiler.session import Session, Tree


def phase_lines(session: Session) -> list[str]:
    """Give one line for each forward; none where the model has one only."""
    lines = [_line(tree) for tree in session.phases if len(tree)]
    if session.no_decode is not None:
        lines.append(f"decode unavailable: {safe(session.no_decode.why)}")
    return [field("phases" if place == 0 else "", line) for place, line in enumerate(lines)]


def _line(tree: Tree) -> str:
    cost = tree.costs[0]
    ratio = intensity(cost)
    peak = known_peak_bytes(tree.done.peak_memory) if tree.done is not None else 0.0
    given = shape(tree.inputs[0].shape) if tree.inputs else ""
    parts = (
        f"{safe(tree.phase)} {given}".strip(),
        quantity(cost.macs, "MAC"),
        f"{size(bytes_moved(cost))} moved",
        UNAVAILABLE if ratio is None else f"{intensity_text(ratio)} FLOP/B",
        f"peak {size(peak)}",
    )
    return "  ".join(parts)

"""The part of the text report about a model that generates: its two forwards, side by side."""

from __future__ import annotations

from tui_profiler.queries.bound import bytes_moved, intensity
from tui_profiler.queries.totals import known_peak_bytes
from tui_profiler.reports.text_parts import field
from tui_profiler.session import Session, Tree
from tui_profiler.text import safe
from tui_profiler.units import UNAVAILABLE, quantity, shape, size
from tui_profiler.units import intensity as intensity_text


def phase_lines(session: Session) -> list[str]:
    """Give one line for each forward; none where the model has one only."""
    trees = [tree for tree in session.phases if len(tree)]
    return [field("phases" if place == 0 else "", _line(tree)) for place, tree in enumerate(trees)]


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

"""The head of the compare screen: both sides, and their totals."""

from __future__ import annotations

from tui_profiler.formatting.text import middle, safe, width
from tui_profiler.queries.compare.comparison import TotalRow, total_rows, why_no_times
from tui_profiler.queries.compare.figure_text import total_texts

from ...widgets.lines import EMPTY, Line, line_width
from ...widgets.rows import Look, row
from .cells import CompareLook, delta, figure_cells, figure_roles, with_figures

_SHORT_TOTALS = ("latency.p50_s", "total_flops", "total_parameters", "peak_memory.total")


def side_lines(at: CompareLook, look: Look) -> tuple[Line, ...]:
    """Return what each side is, and what it does now."""
    lines: list[Line] = []
    for which, side in zip("AB", at.sides, strict=True):
        kind = side.state.kind
        sign, role = _sign(kind, look), "error" if side.complaint else "accent"
        name = middle(safe(side.label), max(look.inner * 2 // 5, 8), look.glyphs.ellipsis)
        left: Line = ((f"{which}  ", "strong accent"), (name, "strong ink"))
        state = safe(f"{side.state.words} {side.state.detail}".strip())
        if line_width(left) + width(f"{sign} {state}") + 2 > look.inner:
            state = safe(side.state.words)
        right: Line = ((sign, role), (f" {state}", "error" if side.complaint else "muted"))
        says = safe(side.complaint) or side.words
        if line_width(left) + width(says) + line_width(right) + 4 <= look.inner or side.complaint:
            left = (*left, (f"  {says}", "error" if side.complaint else "muted"))
        lines.append(row(left, right, look))
    return tuple(lines)


def _sign(kind: str, look: Look) -> str:
    glyphs = look.glyphs
    return {
        "live": glyphs.live,
        "held": glyphs.paused,
        "paused": glyphs.paused,
        "failed": glyphs.failed,
        "gone": glyphs.failed,
        "finished": glyphs.done,
    }.get(kind, glyphs.empty)


def total_lines(at: CompareLook, look: Look, *, is_roomy: bool) -> tuple[Line, ...]:
    """Return the figures of the whole; of a small screen two."""
    rows = total_rows(at.compared)
    if not rows:
        return ()
    if not is_roomy:
        rows = tuple(one for one in rows if one.name in _SHORT_TOTALS)[:2]
    head = figure_cells(("A", "B", delta(look), "B/A"), ("muted",) * 4, look)
    turns = f"  {at.turns}" if look.cells >= 80 else ""
    title: Line = (("one forward", "strong ink"), (turns, "faint"))
    lines = [with_figures(title, head, look)]
    lines += [_total(one, look) for one in rows]
    if is_roomy and (why := why_no_times(at.compared)):
        lines.append(row(((f"{look.glyphs.dash}  no times of {safe(why)}", "faint"),), EMPTY, look))
    return tuple(lines)


def _total(one: TotalRow, look: Look) -> Line:
    pair = one.pair
    difference = pair.difference
    if one.unit == "rate" and difference is not None:
        difference = -difference  # More of it is better.
    figures = figure_cells(total_texts(one), figure_roles(pair, difference), look)
    return with_figures(((f"  {one.words}", "muted"),), figures, look)

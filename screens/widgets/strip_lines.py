"""The strip's three lines as text: names above, one forward as coloured cells, the place below."""

from __future__ import annotations

from tui_profiler.figures.units import share_cell
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, width
from tui_profiler.queries.cost.bound import KINDS
from tui_profiler.queries.forward.strip import ELSEWHERE, Segment, Strip
from tui_profiler.session import Tree

from .lines import Line, Span, exact

ROLES = (*KINDS, "faint")
"""Of the parts of a mix; grey is what the roofs do not decide."""


def bars(
    shown: Strip, colours: tuple[tuple[int, ...], ...], cells: int, glyphs: Glyphs = UNICODE
) -> Line:
    """Return the middle line: every segment in the colours of what holds it back.

    Args:
        shown: the segments.
        colours: cells of each of ``ROLES``, one tuple for each segment; an empty one is grey.
        cells: width of the line.
        glyphs: the set to draw with.
    """
    spans: list[Span] = []
    at = 0
    for segment, widths in zip(shown.segments, colours, strict=True):
        if segment.start > at:
            spans.append((" " * (segment.start - at), "ink"))
        spans += bar(segment, widths, glyphs)
        at = segment.start + segment.cells
    return exact(tuple(spans), cells, glyphs.ellipsis)


def bar(segment: Segment, widths: tuple[int, ...], glyphs: Glyphs) -> Line:
    """Return one segment in the colours of what holds it back; ``widths`` as in ``bars``."""
    if segment.first == ELSEWHERE:
        return ((glyphs.track * segment.cells, "faint"),)
    if not widths:
        return ((glyphs.full * segment.cells, "faint"),)
    return tuple(
        (glyphs.full * cells, kind) for kind, cells in zip(ROLES, widths, strict=True) if cells
    )


def labels(shown: Strip, tree: Tree, selected: int, cells: int) -> Line:
    """Return the upper line: name and share above each segment that has room for them."""
    spans: list[Span] = []
    at = 0
    for segment in shown.segments:
        text = _label(segment, tree)
        if not text:
            continue
        here = segment.first <= selected < segment.stop
        spans += [(" " * (segment.start - at), "ink"), (text, "strong" if here else "muted")]
        at = segment.start + width(text)
    return exact(tuple(spans), cells)


def marker(at: tuple[int, int] | None, cells: int, glyphs: Glyphs = UNICODE) -> Line:
    """Return the lower line: where the selected node lies."""
    if at is None:
        return exact((), cells)
    start, length = at
    return exact(((" " * start, "ink"), (glyphs.place * length, "accent")), cells)


def _label(segment: Segment, tree: Tree) -> str:
    if not segment.alone or segment.first == ELSEWHERE:
        return ""
    name = safe(tree.nodes[segment.first].name)
    whole = f"{name} {share_cell(segment.share)} %"
    return next((text for text in (whole, name) if width(text) <= segment.cells), "")

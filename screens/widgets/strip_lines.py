"""The strip's three lines as text: names above, coloured cells, the place below."""

from tui_profiler.figures.units import share_cell
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, width
from tui_profiler.queries.cost.bound_classes import KINDS
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


def named(line: Line, names: dict[int, str]) -> Line:
    """Write names into the blank cells before some, a blank between.

    Args:
        line: of one cell per character.
        names: by the cell that each stands before.
    """
    spans: list[Span] = []
    at = 0
    for part, role in line:
        name = names.get(at + len(part))
        if name is not None and not part.strip() and len(part) > len(name):
            before = part[: len(part) - len(name) - 1]
            spans += [(before, role), (name, "muted"), (" ", role)]
        else:
            spans.append((part, role))
        at += len(part)
    return tuple(spans)


def marker(places: tuple[tuple[int, int], ...], cells: int, glyphs: Glyphs = UNICODE) -> Line:
    """Return the lower line: where the selected node lies, as first cells and lengths."""
    spans: list[Span] = []
    at = 0
    for start, length in places:
        spans += [(" " * (start - at), "ink"), (glyphs.place * length, "accent")]
        at = start + length
    return exact(tuple(spans), cells)


def _label(segment: Segment, tree: Tree) -> str:
    if not segment.alone or segment.first == ELSEWHERE:
        return ""
    name = safe(tree.nodes[segment.first].name)
    whole = f"{name} {share_cell(segment.share)} %"
    return next((text for text in (whole, name) if width(text) <= segment.cells), "")

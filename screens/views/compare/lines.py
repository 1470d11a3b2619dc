"""The compare screen's view: the head, and the aligned tree with differences."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE, TimeColumn, in_column, thousands, time_column
from tui_profiler.formatting.text import middle, safe, width
from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.compare import comparison
from tui_profiler.queries.compare.alignment import Change
from tui_profiler.queries.compare.figure_text import (
    difference_text,
    mark_of,
    path_text,
    ratio_text,
    statistic_text,
    total_texts,
    value_text,
    what_changed,
    written_time,
)
from tui_profiler.queries.compare.rows import has_children
from tui_profiler.queries.time.standard_error import DOUBT

from ...widgets.lines import EMPTY, Line, Span, exact, line_width
from ...widgets.rows import Look, row
from .cells import BAR, WIDE, CompareLook, delta, figure_cells, figure_roles, with_figures

ROOMY_ROWS = 30
WORDS: dict[comparison.FigureName, str] = {
    "seconds": "time",
    "macs": "MAC",
    "flops": "FLOP",
    "memory": "bytes moved",
    "parameters": "parameters",
}


def compare_lines(
    at: CompareLook, look: Look, rows: int
) -> tuple[tuple[Line, ...], tuple[int, ...]]:
    """Return the view, ``rows`` lines, and the nodes of the tree's rows that are in it."""
    is_roomy = rows >= ROOMY_ROWS - 4 and look.cells >= 80
    head: list[Line] = [
        *side_lines(at, look),
        *((EMPTY,) if is_roomy else ()),
        *total_lines(at, look, is_roomy=is_roomy),
        *((EMPTY,) if is_roomy else ()),
    ]
    if at.compared.alignment is None:
        why = ("no tree yet", at.compared.why_no_alignment)
        return (*head, row(((why[0] + "  ", "muted"), (safe(why[1]), "faint")), EMPTY, look)), ()
    column = _time_column(at.compared)
    head.append(_titles(at, look, column))
    room = max(rows - len(head), 1)
    place = at.visible.index(at.view.selected) if at.view.selected in at.visible else 0
    first = max(0, min(place - room // 2, len(at.visible) - room))
    shown = at.visible[first : first + room]
    most = _most(at)
    table = [_row(at, index, look, column, most) for index in shown]
    return (*head, *table), shown


def status_line(at: CompareLook, look: Look) -> Line:
    """Return the selected node in full: its path, where it was, and what is not the same."""
    alignment = at.compared.alignment
    if alignment is None or at.view.selected >= len(alignment.nodes):
        return row(EMPTY, EMPTY, look)
    one = alignment.nodes[at.view.selected]
    node = comparison.node_of(at.compared, one)
    pair = comparison.figure_pair(at.compared, one, at.view.figure)
    left: list[Span] = [
        (path_text(at.compared, one), "ink"),
        (f"  {safe(node.type)}", "muted"),
        (f"  {_WHAT[one.change]}", "strong ink" if one.change != "same" else "faint"),
    ]
    if said := what_changed(at.compared, one):
        left.append((f"  {said}", "muted"))
    right: Line = (("≈ within the noise", "muted"),) if pair.noise else EMPTY
    if pair.doubt:
        right = ((f"{DOUBT} {pair.doubt}", "muted"),)
    if line_width(right) * 3 > look.inner:
        right = EMPTY
    return row(tuple(left), right, look)


_WHAT: dict[Change, str] = {
    "same": "equal without measurement",
    "changed": "changed",
    "moved": "moved",
    "appeared": "only in B",
    "vanished": "only in A",
}


def _titles(at: CompareLook, look: Look, column: TimeColumn) -> Line:
    is_time = at.view.figure == "seconds"
    measure = column.unit if is_time else ""
    names = (f"A {measure}".strip(), f"B {measure}".strip(), delta(look), "B/A")
    counted = comparison.change_counts(at.compared)
    said = [f"{thousands(number)} {name}" for name, number in counted.items() if number]
    order = "  by difference" if at.view.order == "difference" else ""
    title: Line = ((f"by {WORDS[at.view.figure]}", "strong ink"), (order, "accent"))
    figures = figure_cells(names, ("muted",) * 4, look)
    room = look.cells - line_width(figures) - line_width(title) - (BAR if look.cells >= WIDE else 0)
    whole = f"  {statistic_text(at.compared)}" if is_time else ""
    brief = whole.replace(" forwards", "").replace(" stretches", "")
    if at.view.filter:
        end, role = f"  /{safe(at.view.filter)}", "accent"
        tried = [(whole, end), (brief, end), ("", end)]
    else:
        end, role = f"  {', '.join(said)}", "faint"
        tried = [(whole, end), (brief, end), (whole, ""), (brief, ""), ("", "")]
    fitting = (one for one in tried if width("".join(one)) + 4 <= room)
    statistic, end = next(fitting, tried[-1])
    title = (*title, (statistic, "muted"), (end, role))
    return with_figures(title, figures, look)


def _row(at: CompareLook, index: int, look: Look, column: TimeColumn, most: float) -> Line:
    alignment = at.compared.alignment
    assert alignment is not None
    one, view, glyphs = alignment.nodes[index], at.view, look.glyphs
    node, is_selected = comparison.node_of(at.compared, one), index == view.selected
    sign = " "
    if has_children(at.compared, view, index):
        is_open = index in view.unfolded or bool(view.filter.strip())
        sign = glyphs.unfolded if is_open else glyphs.folded
    mark, role = _mark(one.change, look)
    indent = min(one.depth, max(look.inner // 8, 2))
    name = safe(node.name) or safe(node.type)
    left: Line = (
        (glyphs.cursor if is_selected else " ", "accent"),
        (f"{mark} ", role),
        (f"{'  ' * indent}{sign} ", "muted"),
        (name, "faint" if one.change == "vanished" else "ink"),
        (f"  {safe(node.type)}" if node.kind == "module" and look.cells >= WIDE else "", "faint"),
    )
    pair = comparison.figure_pair(at.compared, one, view.figure)
    difference = comparison.row_difference(one, pair)
    texts = (
        _cell(pair.a, view.figure, column),
        _cell(pair.b, view.figure, column),
        _difference_cell(difference, pair, view.figure, column),
        ratio_text(pair),
    )
    figures = figure_cells(texts, figure_roles(pair, difference), look)
    line = with_figures(left, figures, look, _bar(difference, pair, most, look), pad=False)
    if is_selected:
        return tuple((part, f"{own} cursor") for part, own in exact(line, look.cells))
    return line


def _mark(change: Change, look: Look) -> tuple[str, str]:
    return {
        "same": (" ", "faint"),
        "changed": (look.glyphs.about, "muted"),
        "moved": (look.glyphs.crumb, "accent"),
        "appeared": ("+", "accent"),
        "vanished": ("−", "error"),
    }[change]


def _cell(value: Figure, figure: comparison.FigureName, column: TimeColumn) -> str:
    if isinstance(value, Unknown):
        return UNAVAILABLE
    return (
        in_column(value, column)
        if figure == "seconds"
        else value_text(value, comparison.UNITS[figure])
    )


def _difference_cell(
    difference: float | None,
    pair: comparison.Pair,
    figure: comparison.FigureName,
    column: TimeColumn,
) -> str:
    if difference is None or figure != "seconds":
        return difference_text(difference, comparison.UNITS[figure])
    return written_time(difference, column, mark_of(pair))


def _bar(difference: float | None, pair: comparison.Pair, most: float, look: Look) -> Line:
    """Draw a difference: less to the left of the middle, more to the right."""
    half = BAR // 2
    cells = 0
    if difference and most > 0 and pair.is_ranked:
        cells = min(max(round(abs(difference) / most * half), 1), half)
    full = look.glyphs.full * cells
    if cells and difference is not None and difference < 0:
        return ((" " * (half - cells), "ink"), (full, "accent"), (look.glyphs.divider, "hairline"))
    return ((" " * half, "ink"), (look.glyphs.divider, "hairline"), (full[: half - 1], "warning"))


def _most(at: CompareLook) -> float:
    """Return the largest difference of the root's own parts: bars stay as they are in scrolling."""
    alignment = at.compared.alignment
    assert alignment is not None
    rows = [alignment.nodes[index] for index in (*alignment.children(0), 0)]
    pairs = ((one, comparison.figure_pair(at.compared, one, at.view.figure)) for one in rows)
    found = (comparison.row_difference(one, pair) for one, pair in pairs if pair.is_ranked)
    return max((abs(one) for one in found if one is not None), default=0.0)


def _time_column(compared: comparison.Comparison) -> TimeColumn:
    return time_column(max(side.seconds(0) or 0.0 for side in (compared.a, compared.b)))


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
    rows = comparison.total_rows(at.compared)
    if not rows:
        return ()
    if not is_roomy:
        rows = tuple(one for one in rows if one.name in _SHORT_TOTALS)[:2]
    head = figure_cells(("A", "B", delta(look), "B/A"), ("muted",) * 4, look)
    turns = f"  {at.turns}" if look.cells >= 80 else ""
    title: Line = (("one forward", "strong ink"), (turns, "faint"))
    lines = [with_figures(title, head, look)]
    lines += [_total(one, look) for one in rows]
    if is_roomy and (why := comparison.why_no_times(at.compared)):
        lines.append(row(((f"{look.glyphs.dash}  no times of {safe(why)}", "faint"),), EMPTY, look))
    return tuple(lines)


def _total(one: comparison.TotalRow, look: Look) -> Line:
    pair = one.pair
    difference = pair.difference
    if one.unit == "rate" and difference is not None:
        difference = -difference  # More of it is better.
    figures = figure_cells(total_texts(one), figure_roles(pair, difference), look)
    return with_figures(((f"  {one.words}", "muted"),), figures, look)

"""The view of the compare screen: both sides, their totals, and the aligned tree.

*better* and *worse*, and their colours, appear only where a figure can be better and the difference
exceeds its uncertainty; signs and bars show the same without colour.
"""

from msgspec import Struct

from tui_profiler.figures import units
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.compare import comparison, figure_text
from tui_profiler.queries.compare.alignment import CHANGE_WORDS, Change
from tui_profiler.queries.compare.rows import View, has_children
from tui_profiler.queries.cost.exactness import SIGNS
from tui_profiler.queries.time.standard_error import DOUBT

from ...widgets.lines import EMPTY, Line, Span, exact, line_width, with_role
from ...widgets.rows import Look, first_row, row, words
from .sides import SideLook, loading_lines, side_lines

ROOMY_ROWS = 26
WIDE = 100
"""Columns from which on types, bars and verdicts are shown."""
_CELLS, _NARROW_CELLS = (10, 10, 12, 8), (9, 9, 10, 7)
"""Of A, B, the difference and the ratio."""
_BAR = 12
WORDS: dict[comparison.FigureName, str] = {
    "seconds": "time",
    "macs": "MAC",
    "flops": "FLOP",
    "memory": "bytes moved",
    "parameters": "parameters",
}
_BEST: dict[comparison.FigureName, comparison.Best] = {"seconds": "least"}
"""Only times of nodes can be better: less work is another model."""
_SHORT_TOTALS = ("latency.p50_s", "total_flops", "total_parameters", "peak_memory.total")


class CompareLook(Struct, frozen=True, eq=False):
    """What the view draws."""

    compared: comparison.Comparison
    view: View
    visible: tuple[int, ...]
    sides: tuple[SideLook, SideLook]
    turns: str
    """State of the measurement."""


def compare_lines(at: CompareLook, look: Look, rows: int) -> tuple[Line, ...]:
    """Return the view, at most ``rows`` lines; the stages until both trees are traced."""
    head = side_lines(at.sides, look)
    if any(side.is_loading for side in at.sides):
        return (*head, *loading_lines(at.sides, look, rows - len(head)))
    is_roomy = rows >= ROOMY_ROWS and look.cells >= 80
    blank = (EMPTY,) if is_roomy else ()
    head = (*head, *blank, *_totals(at, look, is_roomy=is_roomy), *blank)
    if at.compared.alignment is None:
        said: Line = (("no tree  ", "muted"), (safe(at.compared.why_no_alignment), "faint"))
        others = (words(one, look) for side in at.sides for one in side.complaint[1:])
        return (*head, row(said, EMPTY, look), *(line for lines in others for line in lines))
    column = _time_column(at.compared)
    head = (*head, _titles(at, look, column))
    room = max(rows - len(head), 1)
    place = at.visible.index(at.view.selected) if at.view.selected in at.visible else 0
    first = first_row(place, len(at.visible), room)
    most = _largest_difference(at)
    shown = at.visible[first : first + room]
    return (*head, *(_row(at, index, look, column, most) for index in shown))


def status_line(at: CompareLook, look: Look) -> Line:
    """Return the selected node: path, change, verdict."""
    alignment = at.compared.alignment
    if alignment is None or at.view.selected >= len(alignment.nodes):
        return row(EMPTY, EMPTY, look)
    one = alignment.nodes[at.view.selected]
    node = comparison.node_of(at.compared, one)
    left: list[Span] = [
        (figure_text.path_text(at.compared, one), "ink"),
        (f"  {safe(node.type)}", "muted"),
        (f"  {_WHAT[one.change]}", "strong ink" if one.change != "same" else "faint"),
    ]
    if said := figure_text.what_changed(at.compared, one):
        left.append((f"  {said}", "muted"))
    right = _certainty(comparison.figure_pair(at.compared, one, at.view.figure), at.view.figure)
    return row(tuple(left), right if line_width(right) * 3 <= look.inner else EMPTY, look)


_WHAT: dict[Change, str] = {
    "same": "same type, shape and cost",
    "changed": "changed",
    "moved": "moved",
    "appeared": "added, only in B",
    "vanished": "removed, only in A",
}


def _certainty(pair: comparison.Pair, figure: comparison.FigureName) -> Line:
    """Return whether B is better, or why that is uncertain."""
    if pair.doubt:
        return ((f"{DOUBT} {pair.doubt}", "muted"),)
    if pair.noise:
        return ((f"{figure_text.NOISE} within noise", "muted"),)
    if signs := figure_text.reading_words((pair,)):
        return ((signs.partition(":")[0], "muted"),)
    verdict = comparison.judged(pair.difference, pair, _BEST.get(figure, ""))
    return ((f"B is {verdict}", verdict),) if verdict else EMPTY


def _titles(at: CompareLook, look: Look, column: units.TimeColumn) -> Line:
    is_time = at.view.figure == "seconds"
    unit = f" {column.unit}" if is_time else ""
    counted = comparison.change_counts(at.compared)
    said = ", ".join(
        f"{units.thousands(number)} {CHANGE_WORDS[change]}"
        for change, number in counted.items()
        if number
    )
    order = "  by difference" if at.view.order == "difference" else ""
    title: Line = ((f" by {WORDS[at.view.figure]}", "strong ink"), (order, "accent"))
    figures = _figures((f"A{unit}", f"B{unit}", delta(look), "B/A"), ("muted",) * 4, look)
    bar = _BAR if look.cells >= WIDE else 0
    room = look.cells - line_width(figures) - line_width(title) - bar - 4
    whole = f"  {figure_text.statistic_text(at.compared)}" if is_time else ""
    brief = whole.replace(" forwards", "").replace(" segments", "")
    end, role, kept = f"  {said}", "faint", ""
    if at.view.filter:
        kept = end = f"  /{safe(at.view.filter)}"
        role = "accent"
    tried = ((whole, end), (brief, end), (whole, kept), (brief, kept), ("", kept))
    statistic, end = next((one for one in tried if width("".join(one)) <= room), tried[-1])
    return _with_figures((*title, (statistic, "muted"), (end, role)), figures, look)


def _row(at: CompareLook, index: int, look: Look, column: units.TimeColumn, most: float) -> Line:
    alignment, view, glyphs = at.compared.alignment, at.view, look.glyphs
    assert alignment is not None
    one, is_selected = alignment.nodes[index], index == view.selected
    node = comparison.node_of(at.compared, one)
    sign = " "
    if has_children(at.compared, view, index):
        is_open = index in view.unfolded or bool(view.filter.strip())
        sign = glyphs.unfolded if is_open else glyphs.folded
    indent = min(one.depth, max(look.inner // 8, 2))
    left: Line = (
        (glyphs.cursor if is_selected else " ", "accent"),
        (f"{glyphs.crumb if one.change == 'moved' else figure_text.MARKS[one.change]} ", "ink"),
        (f"{'  ' * indent}{sign} ", "muted"),
        (safe(node.name) or safe(node.type), "faint" if one.change == "vanished" else "ink"),
        (f"  {safe(node.type)}" if node.kind == "module" and look.cells >= WIDE else "", "faint"),
    )
    pair = comparison.figure_pair(at.compared, one, view.figure)
    difference = comparison.row_difference(one, pair)
    verdict = comparison.judged(pair.difference, pair, _BEST.get(view.figure, ""))
    texts = (
        SIGNS[pair.a_reading] + _cell(pair.a, view.figure, column),
        SIGNS[pair.b_reading] + _cell(pair.b, view.figure, column),
        _difference_cell(difference, pair, view.figure, column),
        figure_text.ratio_text(pair),
    )
    figures = _figures(texts, _roles(pair, difference, verdict), look)
    bar = _bar(difference if pair.is_ranked else None, most, verdict, look)
    line = _with_figures(left, figures, look, bar)
    return with_role(exact(line, look.cells), "cursor") if is_selected else line


def _cell(value: Figure, figure: comparison.FigureName, column: units.TimeColumn) -> str:
    if figure == "seconds" and not isinstance(value, Unknown):
        return units.in_column(value, column)
    return figure_text.value_text(value, comparison.UNITS[figure])


def _difference_cell(
    difference: float | None,
    pair: comparison.Pair,
    figure: comparison.FigureName,
    column: units.TimeColumn,
) -> str:
    if difference is None or figure != "seconds":
        mark = figure_text.mark_of(pair)
        return figure_text.difference_text(difference, comparison.UNITS[figure], mark)
    return figure_text.written_time(difference, column, figure_text.mark_of(pair))


def _bar(difference: float | None, most: float, verdict: comparison.Verdict, look: Look) -> Line:
    """Return the bar of a difference: less to the left of the middle, more to the right."""
    half, cells = _BAR // 2, 0
    if difference and most > 0:
        cells = min(max(round(abs(difference) / most * half), 1), half)
    full, role = look.glyphs.full * cells, verdict or "muted"
    divider = (look.glyphs.divider, "hairline")
    if difference is not None and difference < 0:
        return ((" " * (half - cells), "ink"), (full, role), divider)
    return ((" " * half, "ink"), divider, (full[: half - 1], role))


def _largest_difference(at: CompareLook) -> float:
    """Return the largest of the root and its children: bars do not change in scrolling."""
    alignment = at.compared.alignment
    assert alignment is not None
    rows = [alignment.nodes[index] for index in (*alignment.children(0), 0)]
    pairs = ((one, comparison.figure_pair(at.compared, one, at.view.figure)) for one in rows)
    found = (comparison.row_difference(one, pair) for one, pair in pairs if pair.is_ranked)
    return max((abs(one) for one in found if one is not None), default=0.0)


def _time_column(compared: comparison.Comparison) -> units.TimeColumn:
    return units.aligned_times(max(side.seconds(0) or 0.0 for side in (compared.a, compared.b)))


def _totals(at: CompareLook, look: Look, *, is_roomy: bool) -> tuple[Line, ...]:
    """Return the totals; two on a small screen."""
    rows = comparison.total_rows(at.compared)
    if not rows:
        return ()
    if not is_roomy:
        rows = tuple(one for one in rows if one.name in _SHORT_TOTALS)[:2]
    head = _figures(("A", "B", delta(look), "B/A"), ("muted",) * 4, look)
    turns = f"  {at.turns}" if look.cells >= 80 else ""
    title: Line = ((" one forward", "strong ink"), (turns, "faint"))
    lines = [_with_figures(title, head, look), *(_total(one, look) for one in rows)]
    if is_roomy and (why := comparison.why_no_times(at.compared)):
        lines.append(row(((f"{look.glyphs.dash}  no times of {safe(why)}", "faint"),), EMPTY, look))
    if is_roomy and (signs := figure_text.reading_words(one.pair for one in rows)):
        lines.append(row(((f"   {signs}", "faint"),), EMPTY, look))
    return tuple(lines)


def _total(one: comparison.TotalRow, look: Look) -> Line:
    roles = _roles(one.pair, one.pair.difference, one.verdict)
    figures = _figures(figure_text.total_texts(one), roles, look)
    name: Line = ((f"   {one.words}", "muted"),)
    verdict: Line = ((one.verdict, one.verdict),) if one.verdict else EMPTY
    if look.cells >= WIDE:
        return _with_figures(name, figures, look, verdict)
    room = look.cells - 1 - line_width(figures) - line_width(verdict)
    return _with_figures((*exact(name, max(room, 0)), *verdict), figures, look)


def delta(look: Look) -> str:
    """Return the title of the column of differences."""
    return "B-A" if look.glyphs.dash == "-" else "B−A"


def _roles(
    pair: comparison.Pair, difference: float | None, verdict: comparison.Verdict
) -> tuple[str, ...]:
    """Return the roles of A, B, the difference and the ratio."""
    if not difference or not pair.is_ranked:
        return ("muted", "muted", "faint", "faint")
    role = verdict or "ink"
    return ("ink", "ink", f"strong {role}", role)


def _figures(texts: tuple[str, ...], roles: tuple[str, ...], look: Look) -> Line:
    """Return A, B, the difference and the ratio in columns."""
    cells = _CELLS if look.cells >= WIDE else _NARROW_CELLS
    return tuple(
        (" " * max(room - width(text), 1) + text, role)
        for text, room, role in zip(texts, cells, roles, strict=True)
    )


def _with_figures(left: Line, figures: Line, look: Look, end: Line = EMPTY) -> Line:
    """Return a row: name, figures, and an end where wide."""
    right = figures
    if look.cells >= WIDE:
        right = (*figures, *exact((("  ", "ink"), *end), _BAR + 2))
    room = look.cells - 1 - line_width(right)
    return (*exact(left, max(room, 1), look.glyphs.ellipsis), *right, (" ", "ink"))

"""The tree's lines as text: header, rows, footer; each exactly as wide as its columns say."""

from collections.abc import Callable
from math import prod

from tui_profiler.figures import units
from tui_profiler.figures.units import count
from tui_profiler.formatting.canvas import UNICODE, Glyphs, bar
from tui_profiler.formatting.text import fit, safe, width
from tui_profiler.queries.cost.bound_classes import LETTERS, BoundKind
from tui_profiler.queries.cost.exactness import Reading, of_count, of_flops, of_intensity
from tui_profiler.queries.panel.cached_tree import is_remembered
from tui_profiler.queries.time.base import BASE_WORDS
from tui_profiler.queries.tree.cells import FAINT_SHARE, STRONG_SHARE, Bar, Cells, Figures, Value
from tui_profiler.queries.tree.columns import COLUMN_WORDS, ColumnName, shape_text
from tui_profiler.queries.tree.focus import SORT_LABELS, Focus
from tui_profiler.queries.tree.names import fitted, shown
from tui_profiler.queries.tree.rows import Outline
from tui_profiler.session import Tree

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import Line, Span, exact, line_width, with_role
from ...widgets.strip_lines import ROLES
from .columns import Column, Columns

LEAST_NAME = 12
"""Cells that a name keeps however deep it lies; the indent yields."""
LEAST_INDENT = 2
"""Cells that the first level keeps: else nothing would lie below anything."""
_WRITTEN: dict[ColumnName, Callable[[float], str]] = {
    "flops": count,
    "activations": units.size,
    "calls": count,
    "energy": units.energy,
    "step": units.share_cell,
    "gradients": units.size,
}
_SORTED_BY: dict[str, str] = {"bar": "share", "trend": "seconds"}
"""What stands in a row to what siblings are sorted by for it, where that has another name."""


def row(
    laid: Outline, figures: Figures, node: int, columns: Columns, *, glyphs: Glyphs = UNICODE
) -> Line:
    """Return the row of a node, without its cursor and its divider cell."""
    cells = figures.cells(node, columns.bar_cells, laid.steps(node))
    spans: list[Span] = list(_name(laid, figures, node, columns, glyphs))
    for column in columns.columns:
        if column.gap:
            spans.append((" " * column.gap, "ink"))
        spans += _cell(column, node, cells, figures, glyphs)
    spans.append((" " * columns.pad, "ink"))
    return tuple(spans)


def with_cursor(line: Line, mark: Span, background: str) -> Line:
    """Put the cursor cell before a row; ``background`` is empty where the row has none."""
    if not background:
        return ((" ", "ink"), *line)
    return with_role((mark, *line), background)


def header(
    laid: Outline | None, figures: Figures, first: int, columns: Columns, glyphs: Glyphs = UNICODE
) -> Line:
    """Return the title and the names of the columns.

    Args:
        laid: what is shown, None before there is a tree.
        figures: of the session that is shown.
        first: node of the first visible row; the title is its breadcrumb when the root is gone.
        columns: of the rows below.
        glyphs: the set to draw with.
    """
    room = columns.name_cells
    titles = heading(laid, figures, columns, glyphs)
    title = _title(laid, figures, first, room, titles, glyphs)
    named: Line = ((" ", "ink"), *exact(title, room, glyphs.ellipsis))
    return (*named, *titles.line(glyphs)[1:], (" " * columns.pad, "ink"))


def heading(
    laid: Outline | None, figures: Figures, columns: Columns, glyphs: Glyphs = UNICODE
) -> Heading:
    """Return the columns and what siblings are sorted by; names and their title come first."""
    titles = [Title("", 1 + columns.name_cells, "name", is_text=True, usual="order")]
    for column in columns.columns:
        by = _SORTED_BY.get(column.name, column.name)
        text = _heading(column, columns, figures, glyphs)
        role = "faint" if column.name == "bar" else "muted"
        titles.append(Title(text, column.gap + column.cells, by, column.gap, role=role))
    focus = laid.focus if laid is not None else Focus()
    sort = _SORTED_BY.get(focus.sort, focus.sort)
    return Heading(tuple(titles), Order(sort, focus.descending))


def footer(laid: Outline | None, columns: Columns, glyphs: Glyphs = UNICODE) -> Line:
    """Return the place of the cursor among the rows, and how many nodes there are."""
    cells = columns.cells - columns.divider
    if laid is None:
        return exact((), cells)
    focus = laid.focus
    if focus.filter_text and not laid.shape.found:
        said = f' no node matches "{safe(focus.filter_text)}"  esc clears'
    else:
        place = f"{units.thousands(laid.cursor + 1)} of {units.thousands(len(laid))}"
        said = f" {place} shown {glyphs.zero} "
        if focus.filter_text:
            said += f'{matching(laid)} "{safe(focus.filter_text)}"'
        else:
            said += f"{units.thousands(laid.shape.total)} nodes"
    return exact(((said, "faint"),), cells, glyphs.ellipsis)


def matching(laid: Outline) -> str:
    """Return how many nodes the filter found: ``12 of 151 match``."""
    return f"{units.thousands(laid.shape.found)} of {units.thousands(laid.shape.total)} match"


def indent_cells(laid: Outline, node: int, columns: Columns) -> int:
    """Return the blank cells before a node's fold glyph: deep nodes yield theirs to the name."""
    most = max(columns.name_cells - 2 - LEAST_NAME, LEAST_INDENT)
    return min(2 * laid.depth(node), most)


def _title(
    laid: Outline | None,
    figures: Figures,
    first: int,
    room: int,
    titles: Heading,
    glyphs: Glyphs,
) -> Line:
    way = titles.way(glyphs) if titles.order.column == "name" else ""
    modules: Span = (f"{way}modules", "strong")
    if laid is None:
        return (modules,)
    tree, focus = laid.tree, laid.focus
    if focus.filter_text:
        found = safe(focus.filter_text)
        if not laid.shape.found:
            return (modules, (f'  no node matches "{found}"', "muted"))
        typed: Span = (f"/{found}", "accent")
        counted: Span = (f"  {matching(laid)}", "muted")
        short: Span = (counted[0].removesuffix(" match"), "muted")
        forms = ((modules, ("  ", "ink"), typed, counted), (typed, counted), (typed, short))
        return next((form for form in forms if line_width(form) <= room), (typed,))
    if focus.root == 0 and first == 0:
        on_paper = not figures.measured and focus.sort == "order"
        words = "on paper" if on_paper else SORT_LABELS[focus.sort]
        # Said wherever it fits, before anything else.
        cached = ", cached" if is_remembered(figures.session) else ""
        said = (f", {words}{cached}", cached)
        fitting = (form for form in said if width(modules[0] + form) <= room)
        return (modules, (next(fitting, ""), "faint"))
    # The root of the view names itself; once it has scrolled off, the first row names its parents.
    node = focus.root if first == focus.root else tree.nodes[first].parent
    return ((way, "strong"), *_breadcrumb(tree, node, room - width(way), glyphs))


def _breadcrumb(tree: Tree, node: int, room: int, glyphs: Glyphs) -> Line:
    """Return the way to a node; what lies far above it yields."""
    between: Span = (f" {glyphs.crumb} ", "faint")
    spans: list[Span] = []
    left_out = width(between[0]) + width(glyphs.ellipsis)
    while node >= 0:
        name = safe(shown(tree.nodes[node].name))
        parent = tree.nodes[node].parent
        room -= width(name) + (width(between[0]) if spans else 0)
        if spans and room < (left_out if parent >= 0 else 0):
            return ((glyphs.ellipsis, "muted"), between, *spans)
        spans[:0] = [(name, "muted"), between] if spans else [(name, "muted")]
        node = parent
    return tuple(spans)


def _name(laid: Outline, figures: Figures, node: int, columns: Columns, glyphs: Glyphs) -> Line:
    cells = columns.name_cells
    indent = indent_cells(laid, node, columns)
    blank = " " * indent
    if indent < 2 * laid.depth(node) and indent >= width(glyphs.ellipsis):
        blank = glyphs.ellipsis + " " * (indent - width(glyphs.ellipsis))
    fold = " "
    if laid.shape.branches[node]:
        fold = glyphs.unfolded if laid.is_unfolded(node) else glyphs.folded
    mark = glyphs.mark if node in laid.focus.marked else " "
    room = max(cells - indent - 2, 0)
    name = fitted(_row_name(laid, node), room, glyphs.ellipsis)
    rest = room - width(name) - 1
    times = prod(count for count, _ in laid.steps(node))
    kind = f"{times}× " * (times > 1) + figures.type_of(node)
    kind = safe(kind.replace("×", glyphs.times))
    shown_kind = " " + fit(kind, rest, glyphs.ellipsis) if rest >= 4 or width(kind) <= rest else ""
    is_found = not laid.shape.hits or laid.shape.hits[node]
    strong = "strong" if node in (laid.focus.selected, laid.focus.root) else "ink"
    strong = strong if is_found else "muted"  # It is there for what is found below it.
    line: Line = ((blank + fold, "muted"), (mark, "accent"), (name, strong), (shown_kind, "faint"))
    missing = cells - line_width(line)
    return (*line, (" " * missing, "ink")) if missing > 0 else exact(line, cells, glyphs.ellipsis)


def _row_name(laid: Outline, node: int) -> str:
    """Return a node's name, of a run those of its ends: ``0-5``."""
    nodes, run = laid.tree.nodes, laid.run_of(node)
    name = safe(shown(nodes[node].name))
    if not run:
        return name
    count, stride = run[0]
    return f"{name}-{safe(shown(nodes[node + (count - 1) * stride].name))}"


def _cell(column: Column, node: int, cells: Cells, figures: Figures, glyphs: Glyphs) -> Line:
    match column.name:
        case "params":
            return _figure(column, cells.parameters, _text(cells.parameters, count), glyphs)
        case "macs":
            text = _signed(of_count(cells.bounded), glyphs, _text(cells.macs, count))
            return _figure(column, cells.macs, text, glyphs)
        case "bytes":
            text = _signed(of_count(cells.bounded), glyphs, _text(cells.bytes_moved, units.size))
            return _figure(column, cells.bytes_moved, text, glyphs)
        case "intensity":
            reading = of_intensity(cells.bounded, is_at_least=cells.is_at_least)
            text = _signed(reading, glyphs, _text(cells.intensity, units.intensity))
            return _figure(column, cells.intensity, text, glyphs)
        case "seconds":
            return _time(column, cells.seconds, cells, figures, glyphs)
        case "p95":
            return _time(column, cells.p95, cells, figures, glyphs)
        case "share":
            role = "faint" if _is_faint(cells) else "muted"
            text = _text(cells.share, units.share_cell)
            return ((_aligned(cells.share, text, column.cells, glyphs), role),)
        case "trend":
            return (({"up": glyphs.up, "down": glyphs.down, "": " "}[cells.trend], "ink"),)
        case "bar":
            return _bar(column, cells.bar, glyphs)
        case "bound":
            return (_bound(cells, glyphs),)
        case "backward_bound":
            return (_backward_bound(figures.backward_kind(node, cells.steps), cells),)
        case "self" | "cpu" | "mean" | "forward" | "backward" | "recompute":
            return _time(
                column, figures.value(node, column.name, cells.steps), cells, figures, glyphs
            )
        case "in" | "out" as name:
            tree = figures.session.tree
            text = "" if tree is None else shape_text(tree.nodes[node], name)
            return _shape(column, text, glyphs)
        case name:
            value = figures.value(node, name, cells.steps)
            text = _text(value, _WRITTEN[name])
            if figures.is_estimate(node, name) and text:
                text = glyphs.about + _text(value, units.rough_energy)
            if figures.is_at_most(name) and text:
                text = glyphs.at_most + text
            if name == "flops":
                reading = of_flops(cells.bounded, is_at_least=cells.is_at_least)
                text = _signed(reading, glyphs, text)
            return _figure(column, value, text, glyphs)


def _signed(reading: Reading, glyphs: Glyphs, text: str) -> str:
    """Return a figure of the work with the sign of how it is to be read."""
    return glyphs.sign(reading) + text if text else text


def _figure(column: Column, value: Value, text: str, glyphs: Glyphs) -> Line:
    role = "faint" if isinstance(value, str) else "muted"
    return ((_aligned(value, text, column.cells, glyphs), role),)


def _shape(column: Column, text: str, glyphs: Glyphs) -> Line:
    """Return a shape; of one that is too long the last axes, the node screen has all of it."""
    if not text:
        return ((_aligned("unavailable", "", column.cells, glyphs), "faint"),)
    text = text.replace("×", glyphs.times)
    if len(text) > column.cells:
        text = glyphs.ellipsis + text[len(text) - column.cells + len(glyphs.ellipsis) :]
    return ((text.rjust(column.cells), "muted"),)


def _time(column: Column, value: Value, cells: Cells, figures: Figures, glyphs: Glyphs) -> Line:
    text = "" if isinstance(value, str) else units.in_column(value, figures.times)
    share = cells.measured_share
    if isinstance(value, str) or _is_faint(cells) or not text.strip("0.") or text.startswith("<"):
        role = "faint"
    else:
        is_main = column.name in ("seconds", "forward", "backward")
        strong = is_main and share is not None and share >= STRONG_SHARE
        role = "strong" if strong else "ink"
        role = "muted" if figures.stale else role
    return ((_aligned(value, text, column.cells, glyphs), role),)


def _is_faint(cells: Cells) -> bool:
    return cells.measured_share is not None and cells.measured_share < FAINT_SHARE


def _text(value: Value, write: Callable[[float], str]) -> str:
    return "" if isinstance(value, str) else write(value)


def _aligned(value: Value, text: str, cells: int, glyphs: Glyphs) -> str:
    if isinstance(value, str):
        signs = {"zero": glyphs.zero, "unavailable": glyphs.dash, "pending": glyphs.ellipsis}
        text = signs[value]
    return text.rjust(cells)


def _bar(column: Column, shown: Bar, glyphs: Glyphs) -> Line:
    drawn = bar(shown.halves, glyphs)
    spans: list[Span] = []
    start, role = 0, "faint"
    for kind, cells in zip(ROLES, shown.mix, strict=False):
        if cells:
            role = kind
            spans.append((drawn[start : start + cells], role))
            start += cells
    if start < len(drawn):
        spans.append((drawn[start:], role))
    if shown.beyond:
        spans.append((glyphs.beyond, role))
    blank = column.cells - len(drawn) - shown.beyond
    return (*spans, (" " * blank, "ink"))


def _bound(cells: Cells, glyphs: Glyphs) -> Span:
    if cells.failed:
        return glyphs.failed, "strong error"
    if cells.bound is None:
        return " ", "ink"
    if not cells.is_bound_measured:
        return LETTERS[cells.bound], "muted"
    role = "faint" if _is_faint(cells) else f"strong {cells.bound}"
    return LETTERS[cells.bound], role


def _backward_bound(kind: BoundKind | None, cells: Cells) -> Span:
    if kind is None:
        return " ", "ink"
    return LETTERS[kind], "faint" if _is_faint(cells) else kind


def _heading(column: Column, columns: Columns, figures: Figures, glyphs: Glyphs) -> str:
    unit = figures.times.unit
    unit_text = "us" if unit == "µs" and glyphs.zero != "·" else unit
    match column.name:
        case "seconds":
            timings = figures.session.timings
            if timings is None:
                return unit_text
            return f"{'avg' if timings.is_mean else 'p50'} {unit_text}"
        case "self" | "mean" | "p95" if "seconds" not in columns.names:
            return f"{column.name} {unit_text}"
        case "cpu":
            return f"cpu {unit_text}"
        case "forward" | "backward" | "recompute" as name if "seconds" not in columns.names:
            return f"{COLUMN_WORDS[name][0]} {unit_text}"
        case "share":
            return BASE_WORDS[figures.base.name][0]
        case "bar":
            end = f"{figures.scale * 100:.0f} %"
            return "0" + glyphs.rule * (column.cells - 1 - len(end)) + end
        case "trend" | "bound" | "backward_bound":
            return ""
        case name:
            return COLUMN_WORDS[name][0]

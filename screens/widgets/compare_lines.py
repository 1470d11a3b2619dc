"""The compare screen's view: both sides, their totals, and the aligned tree with differences."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.alignment import Change
from tui_profiler.queries.compare import (
    UNITS,
    Comparison,
    FigureName,
    Pair,
    TotalRow,
    change_counts,
    figure_pair,
    node_of,
    row_difference,
    total_rows,
    why_no_times,
)
from tui_profiler.queries.compare_rows import View, has_children
from tui_profiler.queries.compare_words import (
    NOISE,
    difference_text,
    path_text,
    ratio_text,
    value_text,
    what_changed,
)
from tui_profiler.queries.panel_state import State
from tui_profiler.text import middle, safe, width
from tui_profiler.units import UNAVAILABLE, TimeUnit, column_time, thousands, time_unit

from .lines import EMPTY, Line, Span, exact, line_width
from .parts import Look, row

WIDE = 100
ROOMY_ROWS = 30
FIGURE, DIFFERENCE, RATIO = 10, 12, 8
_MOST_TIME = "999999"
NARROW_FIGURE, NARROW_DIFFERENCE, NARROW_RATIO = 9, 10, 7
BAR = 12
WORDS: dict[FigureName, str] = {
    "seconds": "time",
    "macs": "MAC",
    "flops": "FLOP",
    "memory": "bytes moved",
    "parameters": "parameters",
}
_SHORT_TOTALS = ("latency.p50_s", "total_flops", "total_parameters", "peak_memory.total")


class SideLook(Struct, frozen=True):
    """What the head says of one side."""

    label: str
    words: str
    """What it is, in a few words; safe."""
    state: State
    complaint: str
    """Why it is of no more use; empty while it is."""


class CompareLook(Struct, frozen=True, eq=False):
    """What the view is drawn from."""

    compared: Comparison
    view: View
    visible: tuple[int, ...]
    sides: tuple[SideLook, SideLook]
    turns: str
    """What is done now, in a few words."""


def compare_lines(
    at: CompareLook, look: Look, rows: int
) -> tuple[tuple[Line, ...], tuple[int, ...]]:
    """Give the view, ``rows`` lines, and the nodes of the tree's rows that are in it."""
    is_roomy = rows >= ROOMY_ROWS - 4 and look.cells >= 80
    head: list[Line] = [
        *_sides(at, look),
        *((EMPTY,) if is_roomy else ()),
        *_totals(at, look, is_roomy=is_roomy),
        *((EMPTY,) if is_roomy else ()),
    ]
    if at.compared.alignment is None:
        why = ("no tree yet", at.compared.why_no_alignment)
        return (*head, row(((why[0] + "  ", "muted"), (safe(why[1]), "faint")), EMPTY, look)), ()
    unit = _time_unit(at.compared)
    head.append(_titles(at, look, unit))
    room = max(rows - len(head), 1)
    place = at.visible.index(at.view.selected) if at.view.selected in at.visible else 0
    first = max(0, min(place - room // 2, len(at.visible) - room))
    shown = at.visible[first : first + room]
    most = _most(at)
    table = [_row(at, index, look, unit, most) for index in shown]
    return (*head, *table), shown


def status_line(at: CompareLook, look: Look) -> Line:
    """Give the selected node in full: its path, where it was, and what is not the same."""
    alignment = at.compared.alignment
    if alignment is None or at.view.selected >= len(alignment.nodes):
        return row(EMPTY, EMPTY, look)
    one = alignment.nodes[at.view.selected]
    node = node_of(at.compared, one)
    pair = figure_pair(at.compared, one, at.view.figure)
    left: list[Span] = [
        (path_text(at.compared, one), "ink"),
        (f"  {safe(node.type)}", "muted"),
        (f"  {_WHAT[one.change]}", "strong ink" if one.change != "same" else "faint"),
    ]
    if said := what_changed(at.compared, one):
        left.append((f"  {said}", "muted"))
    right: Line = (("≈ within the noise", "muted"),) if pair.noise else EMPTY
    if line_width(right) * 3 > look.inner:
        right = EMPTY
    return row(tuple(left), right, look)


_WHAT: dict[Change, str] = {
    "same": "the same on paper",
    "changed": "changed",
    "moved": "moved",
    "appeared": "only in B",
    "vanished": "only in A",
}


def _sides(at: CompareLook, look: Look) -> tuple[Line, ...]:
    lines: list[Line] = []
    for which, side in zip("AB", at.sides, strict=True):
        kind = side.state.kind
        sign, role = _sign(kind, look), "error" if side.complaint else "accent"
        state = f"{side.state.words} {side.state.detail}".strip()
        right: Line = ((sign, role), (f" {safe(state)}", "error" if side.complaint else "muted"))
        name = middle(safe(side.label), max(look.inner * 2 // 5, 8), look.glyphs.ellipsis)
        left: Line = ((f"{which}  ", "strong accent"), (name, "strong ink"))
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


def _totals(at: CompareLook, look: Look, *, is_roomy: bool) -> tuple[Line, ...]:
    rows = total_rows(at.compared)
    if not rows:
        return ()
    if not is_roomy:
        rows = tuple(one for one in rows if one.name in _SHORT_TOTALS)[:2]
    head = _figures(("A", "B", _delta(look), "B/A"), ("muted",) * 4, look)
    turns = f"  {at.turns}" if look.cells >= 80 else ""
    title: Line = (("one forward", "strong ink"), (turns, "faint"))
    lines = [_with_figures(title, head, look)]
    lines += [_total(one, look) for one in rows]
    if is_roomy and (why := why_no_times(at.compared)):
        lines.append(row(((f"{look.glyphs.dash}  no times of {safe(why)}", "faint"),), EMPTY, look))
    return tuple(lines)


def _total(one: TotalRow, look: Look) -> Line:
    pair = one.pair
    texts = (
        value_text(pair.a, one.unit),
        value_text(pair.b, one.unit),
        difference_text(pair.difference, one.unit, pair.noise),
        ratio_text(pair),
    )
    difference = pair.difference
    if one.unit == "rate" and difference is not None:
        difference = -difference  # More of it is better.
    figures = _figures(texts, _roles(pair, difference), look)
    return _with_figures(((f"  {one.words}", "muted"),), figures, look)


def _titles(at: CompareLook, look: Look, unit: TimeUnit) -> Line:
    measure: str = unit if at.view.figure == "seconds" else ""
    names = (f"A {measure}".strip(), f"B {measure}".strip(), _delta(look), "B/A")
    counted = change_counts(at.compared)
    said = [f"{thousands(number)} {name}" for name, number in counted.items() if number]
    order = "  by difference" if at.view.order == "difference" else ""
    title: Line = ((f"by {WORDS[at.view.figure]}", "strong ink"), (order, "accent"))
    figures = _figures(names, ("muted",) * 4, look)
    room = look.cells - line_width(figures) - line_width(title) - (BAR if look.cells >= WIDE else 0)
    if at.view.filter:
        title = (*title, (f"  /{safe(at.view.filter)}", "accent"))
    elif width(", ".join(said)) + 6 <= room:
        title = (*title, (f"  {', '.join(said)}", "faint"))
    return _with_figures(title, figures, look)


def _delta(look: Look) -> str:
    return "B-A" if look.glyphs.dash == "-" else "B−A"


def _row(at: CompareLook, index: int, look: Look, unit: TimeUnit, most: float) -> Line:
    alignment = at.compared.alignment
    assert alignment is not None
    one, view, glyphs = alignment.nodes[index], at.view, look.glyphs
    node, is_selected = node_of(at.compared, one), index == view.selected
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
    pair = figure_pair(at.compared, one, view.figure)
    difference = row_difference(one, pair)
    texts = (
        _cell(pair.a, view.figure, unit),
        _cell(pair.b, view.figure, unit),
        _difference_cell(difference, pair, view.figure, unit),
        ratio_text(pair),
    )
    figures = _figures(texts, _roles(pair, difference), look)
    line = _with_figures(left, figures, look, _bar(difference, pair, most, look), pad=False)
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


def _cell(value: Figure, figure: FigureName, unit: TimeUnit) -> str:
    if isinstance(value, Unknown):
        return UNAVAILABLE
    return _time(value, unit) if figure == "seconds" else value_text(value, UNITS[figure])


def _difference_cell(
    difference: float | None, pair: Pair, figure: FigureName, unit: TimeUnit
) -> str:
    if not difference or figure != "seconds":
        return difference_text(difference, UNITS[figure])
    text = _time(abs(difference), unit)
    sign = "+" if difference >= 0 else "−"
    return f"{NOISE if pair.noise else ''}{sign}{text}"


def _time(seconds: float, unit: TimeUnit) -> str:
    """Give a time; one that no column of the whole's unit was made for, by the most it takes."""
    text = column_time(seconds, unit)
    return text if width(text) <= width(_MOST_TIME) else f">{_MOST_TIME}"


def _roles(pair: Pair, difference: float | None) -> tuple[str, str, str, str]:
    """Give the colours: more is a warning, less is not, noise is neither."""
    if not difference or pair.noise:
        return ("muted", "muted", "faint", "faint")
    role = "warning" if difference > 0 else "accent"
    return ("ink", "ink", f"strong {role}", role)


def _figures(texts: tuple[str, str, str, str], roles: tuple[str, ...], look: Look) -> Line:
    cells = (FIGURE, FIGURE, DIFFERENCE, RATIO)
    if look.cells < WIDE:
        cells = (NARROW_FIGURE, NARROW_FIGURE, NARROW_DIFFERENCE, NARROW_RATIO)
    return tuple(
        (" " * max(room - width(text), 1) + text, role)
        for text, room, role in zip(texts, cells, roles, strict=True)
    )


def _with_figures(
    left: Line, figures: Line, look: Look, bar: Line = EMPTY, *, pad: bool = True
) -> Line:
    """Give a row: names, figures, and at the right end a bar where there is room for one."""
    is_wide = look.cells >= WIDE
    right = (*figures, *exact((("  ", "ink"), *bar), BAR + 2)) if is_wide else figures
    room = look.cells - 1 - line_width(right)
    padded = ((" ", "ink"), *left) if pad else left
    return (*exact(padded, max(room, 1), look.glyphs.ellipsis), *right, (" ", "ink"))


def _bar(difference: float | None, pair: Pair, most: float, look: Look) -> Line:
    """Draw a difference: less to the left of the middle, more to the right."""
    half = BAR // 2
    cells = 0
    if difference and most > 0 and not pair.noise:
        cells = min(max(round(abs(difference) / most * half), 1), half)
    full = look.glyphs.full * cells
    if cells and difference is not None and difference < 0:
        return ((" " * (half - cells), "ink"), (full, "accent"), (look.glyphs.divider, "hairline"))
    return ((" " * half, "ink"), (look.glyphs.divider, "hairline"), (full[: half - 1], "warning"))


def _most(at: CompareLook) -> float:
    """Give the largest difference of the root's own parts: bars stay as they are in scrolling."""
    alignment = at.compared.alignment
    assert alignment is not None
    rows = [alignment.nodes[index] for index in (*alignment.children(0), 0)]
    found = (row_difference(one, figure_pair(at.compared, one, at.view.figure)) for one in rows)
    return max((abs(one) for one in found if one is not None), default=0.0)


def _time_unit(compared: Comparison) -> TimeUnit:
    whole = [side.seconds(0) or 0.0 for side in (compared.a, compared.b)]
    return time_unit(max(whole))

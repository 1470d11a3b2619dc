"""The ranks of a run: who holds the others up, a row for each, and two of them module by module."""

from __future__ import annotations

from typing import get_args

from tui_profiler.figures.units import UNAVAILABLE, TimeUnit, column_time, share_cell, time_unit
from tui_profiler.formatting.canvas import Glyphs, split_cells
from tui_profiler.formatting.text import fit, middle, safe
from tui_profiler.messages import known
from tui_profiler.queries.ranks import (
    Column,
    Level,
    ModuleDifference,
    RankRow,
    Verdict,
    in_order,
    parts,
    rank_rows,
    verdict,
)
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session.workspace import Rank, Workspace

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import EMPTY, Line, Span, exact, line_width
from ...widgets.rows import Look, finished, row, words

WIDE = 100
"""From so many columns on, processes are named and types of modules are."""
FIGURE = 9
"""Cells of a column of times."""
RANK = 6
PID = 9
PERCENT = 5
_MARKS: dict[Level, tuple[str, str]] = {
    "critical": ("failed", "error"),
    "warning": ("", "warning"),
    "even": ("done", "accent"),
    "unknown": ("", "muted"),
}


BY_BADNESS = Order("badness")


def ordered_rows(workspace: Workspace, now: float, order: Order) -> tuple[RankRow, ...]:
    """Return the rows in an order."""
    rows = rank_rows(workspace, now)
    for column in get_args(Column):
        if column == order.column:
            rows = in_order(rows, column, descending=order.descending)
    return rows


def rank_lines(
    workspace: Workspace,
    now: float,
    selected: int,
    look: Look,
    rows: int,
    order: Order = BY_BADNESS,
) -> tuple[Line, ...]:
    """Return the screen's rows: header, sentences, table; the selected row is in sight.

    Args:
        workspace: the ranks.
        now: seconds since the command was started.
        selected: which row the cursor is on.
        look: width and glyphs; its session is not read.
        rows: how many lines there are.
        order: of the rows.
    """
    found = ordered_rows(workspace, now, order)
    titles = rank_heading(workspace, now, look, order)
    head = [
        _header(workspace, found, look),
        EMPTY,
        *_sentences(verdict(workspace, now), look),
        EMPTY,
    ]
    unit = _unit(found)
    head.append((*titles.line(look.glyphs), ("   ", "muted"), *_legend(look)))
    room = max(rows - len(head), 1)
    first = first_row(selected, len(found), room)
    shown = found[first : first + room]
    longest = max((_step(one) for one in found), default=0.0)
    table = [
        _row(one, unit, longest, look, is_selected=first + place == selected)
        for place, one in enumerate(shown)
    ]
    return finished([*head, *table], look, rows)


def _header(workspace: Workspace, found: tuple[RankRow, ...], look: Look) -> Line:
    first = workspace.ranks[0].program if workspace.ranks else None
    live = sum(one.is_live for one in found)
    name = safe(first.name) if first is not None else "no rank was found yet"
    left: Line = ((middle(name, max(look.inner // 2, 1), look.glyphs.ellipsis), "strong ink"),)
    if first is not None:
        left = (*left, (f"  {len(found)} ranks", "muted"))
        if look.cells >= WIDE:
            left = (*left, (f"  {safe(first.command)}, run {safe(first.run)}", "muted"))
    sign = look.glyphs.live if live else look.glyphs.empty
    right: Line = ((sign, "accent" if live else "muted"), (f" {live} live", "ink"))
    return row(left, right, look)


def _sentences(found: Verdict, look: Look) -> tuple[Line, ...]:
    glyph, role = _MARKS[found.level]
    mark = getattr(look.glyphs, glyph) if glyph else "!" if found.level == "warning" else "…"
    lines: list[Line] = []
    for place, sentence in enumerate(found.lines):
        lines += words(sentence, look, "ink" if place == 0 else "muted", indent=2)
    (pad, indented, *rest), *others = lines
    first: Line = (pad, (mark, role), (indented[0][1:], indented[1]), *rest)
    return (exact(first, look.cells), *others)


def _unit(found: tuple[RankRow, ...]) -> TimeUnit:
    return time_unit(max((_step(one) for one in found), default=0.0))


def _step(one: RankRow) -> float:
    return (known(one.times.step) or 0.0) if one.times is not None else 0.0


def first_row(selected: int, count: int, room: int) -> int:
    """Return the first row that is shown: the cursor's is in the middle where it can be."""
    return max(0, min(selected - room // 2, count - room))


def rank_heading(workspace: Workspace, now: float, look: Look, order: Order) -> Heading:
    """Return the columns, and which line they are named in."""
    sentences = _sentences(verdict(workspace, now), look)
    unit = _unit(rank_rows(workspace, now))
    rank = Title("rank", RANK + 1, "rank", is_left=True, is_text=True, usual=BY_BADNESS.column)
    pid = (Title("pid", PID, "pid"),) if look.cells >= WIDE else ()
    parts = (Title(name, FIGURE, name) for name in ("compute", "wait", "host", "late"))
    step, share = Title(f"step {unit}", FIGURE, "step"), Title("%", PERCENT, "late")
    return Heading((rank, *pid, step, *parts, share), order, y=len(sentences) + 3)


def _legend(look: Look) -> Line:
    glyphs = look.glyphs
    if look.cells < WIDE:
        return EMPTY
    return (
        (glyphs.full, "compute"),
        (" compute ", "muted"),
        (glyphs.full, "overhead"),
        (" host ", "muted"),
        (glyphs.track, "idle"),
        (" wait", "muted"),
    )


def _row(one: RankRow, unit: TimeUnit, longest: float, look: Look, *, is_selected: bool) -> Line:
    glyphs = look.glyphs
    number = str(one.number).rjust(RANK - 2)
    pid = str(one.pid or UNAVAILABLE).rjust(PID) if look.cells >= WIDE else ""
    left: list[Span] = [
        (glyphs.cursor if is_selected else " ", "accent"),
        (f"{number}  ", "strong ink" if one.is_live else "muted"),
        (pid, "muted"),
    ]
    if one.times is None or not one.key or one.words.startswith("gone"):
        mark = glyphs.failed if one.words.startswith("gone") else glyphs.empty
        role = "error" if one.words.startswith("gone") else "muted"
        left += [(f"   {mark} ", role), (one.words, "muted")]
    else:
        left += _figures(one, unit)
        left += _bar(one, longest, look, line_width(tuple(left)))
    line = exact(tuple(left), look.cells, glyphs.ellipsis)
    return tuple((part, f"{role} cursor") for part, role in line) if is_selected else line


def _figures(one: RankRow, unit: TimeUnit) -> list[Span]:
    assert one.times is not None
    figures = (one.times.step, one.times.compute, one.times.wait, one.times.host, one.skew)
    spans: list[Span] = []
    for figure in figures:
        seconds = known(figure)
        text = UNAVAILABLE if seconds is None else column_time(seconds, unit)
        spans.append((text.rjust(FIGURE), "faint" if seconds is None else "ink"))
    late = one.skew_share
    role = "faint" if late is None else "strong ink" if late >= 0.10 else "muted"
    text = UNAVAILABLE if late is None else share_cell(late)
    return [*spans, (text.rjust(PERCENT) + "   ", role)]


def _bar(one: RankRow, longest: float, look: Look, taken: int) -> list[Span]:
    """Draw the step as compute, host time and waiting; in words where they are not known."""
    assert one.times is not None
    found = parts(one.times)
    if found is None or longest <= 0 or not one.is_live:
        return [(one.words, "muted")]
    compute, wait, host = found
    room = max(look.cells - taken - 1, 1)
    cells = split_cells((compute, host, wait), round(room * _step(one) / longest))
    glyphs = look.glyphs
    drawn = zip((glyphs.full, glyphs.full, glyphs.track), cells, strict=True)
    roles = ("compute", "overhead", "idle")
    return [(glyph * count, role) for (glyph, count), role in zip(drawn, roles, strict=True)]


def difference_lines(
    first: Rank, second: Rank, found: tuple[ModuleDifference, ...], look: Look
) -> tuple[Line, ...]:
    """Return two ranks module by module; the title and the names of the columns come first."""
    names = (f"rank {first.number}", f"rank {second.number}")
    title = row(((f"{names[0]} and {names[1]}, module by module", "strong ink"),), EMPTY, look)
    note = words(
        "self time per forward; backward passes are not known per module."
        f" {_summary(first, second)}",
        look,
    )
    if not found:
        none = words("waits for the times of both", look)
        return finished([title, EMPTY, *note, EMPTY, *none], look)
    seconds = [one for each in found for one in (each.first, each.second) if one is not None]
    unit = time_unit(max(seconds, default=0.0))
    room = max(look.inner - 3 * (FIGURE + 2), 8)
    columns = "".join(name.rjust(FIGURE + 2) for name in (*names, f"more {unit}"))
    head = row((("module", "muted"), (columns.rjust(look.inner - 6), "muted")), EMPTY, look)
    rows = [_module_row(one, unit, room, look) for one in found]
    return finished([title, EMPTY, *note, EMPTY, head, *rows], look)


def _summary(first: Rank, second: Rank) -> str:
    """Say how far the parts of the steps are apart."""
    said = []
    mine, theirs = first.session.steps, second.session.steps
    if mine is None or theirs is None:
        return ""
    for part in ("forward", "backward", "host"):
        left, right = known(getattr(mine, part)), known(getattr(theirs, part))
        if left is not None and right is not None:
            said.append(f"{part} {signed(left - right, 'ms')} ms")
    return f"Per step: {', '.join(said)}." if said else ""


def signed(seconds: float, unit: TimeUnit) -> str:
    """Return a difference with its sign."""
    return ("+" if seconds >= 0 else "−") + column_time(abs(seconds), unit)


def _module_row(one: ModuleDifference, unit: TimeUnit, room: int, look: Look) -> Line:
    path = middle(one.path or "the model itself", room, look.glyphs.ellipsis)
    kind = f"  {one.type}" if look.cells >= WIDE else ""
    name: Line = ((path, "ink"), (kind, "faint"))
    figures: list[Span] = []
    for seconds in (one.first, one.second):
        text = UNAVAILABLE if seconds is None else column_time(seconds, unit)
        figures.append((text.rjust(FIGURE + 2), "muted"))
    more = one.difference
    text = UNAVAILABLE if more is None else signed(more, unit)
    figures.append((fit("", FIGURE + 2 - len(text)) + text, "faint" if more is None else "ink"))
    return row((*exact(name, room, look.glyphs.ellipsis), *figures), EMPTY, look)


def look_of(cells: int, glyphs: Glyphs) -> Look:
    """Return a look at no session: what is drawn here speaks of several."""
    return Look(NOTHING, 0, 0.0, cells, glyphs)

"""The view of the ranks screen: verdict and table; two ranks module by module."""

from functools import partial
from typing import get_args

from tui_profiler.figures import units
from tui_profiler.formatting.canvas import Glyphs, split_cells
from tui_profiler.formatting.text import middle, safe
from tui_profiler.messages import known
from tui_profiler.queries import ranks
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session.session_group import Rank, SessionGroup

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import EMPTY, Line, Span, exact, line_width, with_role
from ...widgets.rows import Look, finished, first_row, row, words

WIDE = 100
"""Columns from which on process IDs and module types are shown."""
FIGURE = 9
"""Cells of a time."""
RANK = 6
PID = 9
PERCENT = 5
_MARKS: dict[ranks.Level, tuple[str, str]] = {
    "critical": ("failed", "error"),
    "warning": ("", "warning"),
    "even": ("done", "accent"),
    "unknown": ("", "muted"),
}


BY_BADNESS = Order("badness")


def ordered_rows(group: SessionGroup, now: float, order: Order) -> tuple[ranks.RankRow, ...]:
    """Return sorted rows."""
    rows = ranks.rank_rows(group, now)
    for column in get_args(ranks.Column):
        if column == order.column:
            rows = ranks.in_order(rows, column, descending=order.descending)
    return rows


def rank_lines(
    group: SessionGroup,
    now: float,
    selected: int,
    look: Look,
    rows: int,
    order: Order = BY_BADNESS,
) -> tuple[Line, ...]:
    """Return the view: header, verdict, table; the selected row is visible.

    Args:
        group: the ranks.
        now: seconds since the start of the command.
        selected: index of the row under the cursor.
        look: width and glyphs; its session is not used.
        rows: lines available.
        order: of the rows.
    """
    found = ordered_rows(group, now, order)
    titles = rank_heading(group, now, look, order)
    head = [
        _header(group, found, look),
        EMPTY,
        *_sentences(ranks.verdict(group, now), look),
        EMPTY,
    ]
    times = _times(found)
    head.append((*titles.line(look.glyphs), ("   ", "muted"), *_legend(look)))
    room = max(rows - len(head), 1)
    first = first_row(selected, len(found), room)
    shown = found[first : first + room]
    longest = max((_step(one) for one in found), default=0.0)
    table = [
        _row(one, times, longest, look, is_selected=first + place == selected)
        for place, one in enumerate(shown)
    ]
    return finished([*head, *table], look, rows)


def _header(group: SessionGroup, found: tuple[ranks.RankRow, ...], look: Look) -> Line:
    first = group.ranks[0].program if group.ranks else None
    live = sum(one.is_live for one in found)
    name = safe(first.name) if first is not None else "no rank found yet"
    left: Line = ((middle(name, max(look.inner // 2, 1), look.glyphs.ellipsis), "strong ink"),)
    if first is not None:
        left = (*left, (f"  {len(found)} ranks", "muted"))
        if look.cells >= WIDE:
            left = (*left, (f"  {safe(first.command)}, run {safe(first.run)}", "muted"))
    sign = look.glyphs.live if live else look.glyphs.empty
    right: Line = ((sign, "accent" if live else "muted"), (f" {live} live", "ink"))
    return row(left, right, look)


def _sentences(found: ranks.Verdict, look: Look) -> tuple[Line, ...]:
    glyph, role = _MARKS[found.level]
    mark = getattr(look.glyphs, glyph) if glyph else "!" if found.level == "warning" else "…"
    lines: list[Line] = []
    for place, sentence in enumerate(found.lines):
        lines += words(sentence, look, "ink" if place == 0 else "muted", indent=2)
    (pad, indented, *rest), *others = lines
    first: Line = (pad, (mark, role), (indented[0][1:], indented[1]), *rest)
    return (exact(first, look.cells), *others)


def _times(found: tuple[ranks.RankRow, ...]) -> units.TimeColumn:
    return units.fitted_times(max((_step(one) for one in found), default=0.0))


def _step(one: ranks.RankRow) -> float:
    return (known(one.times.step) or 0.0) if one.times is not None else 0.0


def rank_heading(group: SessionGroup, now: float, look: Look, order: Order) -> Heading:
    """Return the column titles, and their line."""
    sentences = _sentences(ranks.verdict(group, now), look)
    unit = _times(ranks.rank_rows(group, now)).unit
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


def _row(
    one: ranks.RankRow, times: units.TimeColumn, longest: float, look: Look, *, is_selected: bool
) -> Line:
    glyphs = look.glyphs
    number = str(one.number).rjust(RANK - 2)
    pid = str(one.pid or units.UNAVAILABLE).rjust(PID) if look.cells >= WIDE else ""
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
        left += _figures(one, times)
        left += _bar(one, longest, look, line_width(tuple(left)))
    line = exact(tuple(left), look.cells, glyphs.ellipsis)
    return with_role(line, "cursor") if is_selected else line


def _figures(one: ranks.RankRow, times: units.TimeColumn) -> list[Span]:
    assert one.times is not None
    figures = (one.times.step, one.times.compute, one.times.wait, one.times.host, one.skew)
    spans: list[Span] = []
    for figure in figures:
        seconds = known(figure)
        text = units.written(seconds, partial(units.in_column, column=times))
        spans.append((text.rjust(FIGURE), "faint" if seconds is None else "ink"))
    late = one.skew_share
    role = "faint" if late is None else "strong ink" if late >= 0.10 else "muted"
    text = units.written(late, units.share_cell)
    return [*spans, (text.rjust(PERCENT) + "   ", role)]


def _bar(one: ranks.RankRow, longest: float, look: Look, taken: int) -> list[Span]:
    """Return the bar of a step: compute, host, wait; the state in words where not known."""
    assert one.times is not None
    found = ranks.parts(one.times)
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
    first: Rank, second: Rank, found: tuple[ranks.ModuleDifference, ...], look: Look
) -> tuple[Line, ...]:
    """Return two ranks module by module."""
    names = (f"rank {first.number}", f"rank {second.number}")
    title = row(((f"{names[0]} and {names[1]}, module by module", "strong ink"),), EMPTY, look)
    has_backward = any(one.backward_difference is not None for one in found)
    of = "of a forward, and of the backward of a step" if has_backward else "of a forward"
    why = "" if has_backward else "; no backward: not timed by module in both"
    note = words(f"self time {of}{why}. {_summary(first, second)}", look)
    if not found:
        none = words("waiting for the times of both", look)
        return finished([title, EMPTY, *note, EMPTY, *none], look)
    seconds = [one for each in found for one in (each.first, each.second) if one is not None]
    times = units.fitted_times(max(seconds, default=0.0))
    titles = (*names, f"more {times.unit}")
    if has_backward:
        of_each = (f"bwd {first.number}", f"bwd {second.number}") if look.cells >= WIDE else ()
        titles = (*titles, *of_each, "more bwd")
    columns = "".join(name.rjust(FIGURE + 2) for name in titles)
    head = row((("module", "muted"), (columns.rjust(look.inner - 6), "muted")), EMPTY, look)
    rows = [_module_row(one, times, len(titles), look) for one in found]
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
            sign = "+" if left >= right else "−"
            said.append(f"{part} {sign}{units.duration(abs(left - right))}")
    return f"Per step: {', '.join(said)}." if said else ""


def signed(seconds: float, times: units.TimeColumn) -> str:
    """Return a difference with its sign."""
    return ("+" if seconds >= 0 else "−") + units.in_column(abs(seconds), times)


def _module_row(
    one: ranks.ModuleDifference, times: units.TimeColumn, count: int, look: Look
) -> Line:
    room = max(look.inner - count * (FIGURE + 2), 8)
    path = middle(one.path or "the model itself", room, look.glyphs.ellipsis)
    kind = f"  {one.type}" if look.cells >= WIDE else ""
    name: Line = ((path, "ink"), (kind, "faint"))
    figures = [*_both(one.first, one.second, times), _more(one.difference, times)]
    if count > len(figures):
        of_each = _both(one.first_backward, one.second_backward, times)
        left_out = 2 * len(figures) - count
        figures += [*of_each[left_out:], _more(one.backward_difference, times)]
    return row((*exact(name, room, look.glyphs.ellipsis), *figures), EMPTY, look)


def _both(first: float | None, second: float | None, times: units.TimeColumn) -> list[Span]:
    texts = (units.written(one, partial(units.in_column, column=times)) for one in (first, second))
    return [(text.rjust(FIGURE + 2), "muted") for text in texts]


def _more(more: float | None, times: units.TimeColumn) -> Span:
    text = units.written(more, partial(signed, times=times))
    return (text.rjust(FIGURE + 2), "faint" if more is None else "ink")


def look_of(cells: int, glyphs: Glyphs) -> Look:
    """Return a drawing context without a session."""
    return Look(NOTHING, 0, 0.0, cells, glyphs)

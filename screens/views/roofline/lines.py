"""The roofline view: the plot, the nodes by time, and what the selected one could gain.

From 100 columns on, list and details stand at the right. Below, the details lie under the plot, and
the list under them where there are rows for it. Where there is no room for a plot, the list is all.
"""

import time
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import duration, in_column, intensity, rate, share, thousands
from tui_profiler.formatting.text import fit, safe, width
from tui_profiler.messages import NO_FORWARD, Ceilings
from tui_profiler.queries.cost import roofline
from tui_profiler.queries.cost.bound import kinds_seen
from tui_profiler.queries.cost.bound_classes import KINDS, LETTERS, BoundKind
from tui_profiler.queries.cost.ceilings import roofs_of
from tui_profiler.queries.cost.exactness import of_flops
from tui_profiler.queries.cost.roofline import NodeRoofline, name_of
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.time.base import base
from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.queries.time.gpu_times import why_not_timed_on_gpu
from tui_profiler.queries.training.backward_roofline import BACKWARD
from tui_profiler.queries.tree.cells import FAINT_SHARE, STRONG_SHARE
from tui_profiler.queries.tree.names import fitted
from tui_profiler.session import Session

from ...widgets.bound_lines import why_on_paper
from ...widgets.lines import EMPTY, Line, Span, exact, line_width, spread, text
from ...widgets.rows import (
    PAD,
    Look,
    aged,
    columns,
    edge,
    mark_of,
    row,
    section,
    thumb_rows,
    under_cursor,
    words,
)
from .plot import BELOW, LEAST_COLUMNS, LEAST_ROWS, SCALE, plot_lines, scale_of

BESIDE_COLUMNS = 100
"""From here on the list stands at the right."""
LIST_CELLS, MOST_LIST_CELLS = 40, 60
TALL_ROWS = 32
"""From here on the narrow form has a list too."""
HEAD = 1
TALL_PLOT = 20
GPU_NOTE = "times of the host"
LEAST_LIST = 4
"""Rows of a list that is worth having."""
_TIME_CELLS, _SHARE_CELLS = 6, 6
_LIST_TAIL = 1 + _TIME_CELLS + 2 + _SHARE_CELLS + 3
"""Cells right of the name: gaps, time, share, the sign of the bound, a blank."""
_LEAST_NAME = 8


_Views: TypeAlias = tuple[RooflineView, RooflineView | None]
"""What is shown, and points of the other direction."""


class Form(Struct, frozen=True):
    """How many cells and rows each part takes; 0 where there is no room for it."""

    plot_cells: int
    plot_rows: int
    """The title included."""
    list_cells: int
    list_rows: int
    """The heading included."""
    detail_rows: int
    is_beside: bool


def form_for(cells: int, rows: int) -> Form:
    """Choose the form for a view of so many cells and rows."""
    if cells >= BESIDE_COLUMNS and rows >= HEAD + LEAST_ROWS + BELOW:
        side = min(max(LIST_CELLS, cells * 3 // 10), MOST_LIST_CELLS)
        details = DETAIL_ROWS if rows >= DETAIL_ROWS + 1 + LEAST_LIST else 0
        return Form(cells - side - 1, rows, side, rows - details, details, True)
    least = HEAD + LEAST_ROWS + BELOW
    if cells < SCALE + 2 + LEAST_COLUMNS or rows < least + 1:
        return Form(0, 0, cells, rows, 0, False)
    details = 4 if rows >= least + 6 else 1
    listed = rows // 3 if rows >= TALL_ROWS else 0
    return Form(cells, rows - details - listed, cells, listed, details, False)


def roofline_lines(
    look: Look, view: RooflineView, rows: int, beside: RooflineView | None = None
) -> list[Line]:
    """Return the whole view, ``rows`` lines of ``look.cells``.

    Args:
        look: of a session.
        view: what the list, the figures and the roofs are of.
        rows: how many.
        beside: points of the other direction, where they are known.
    """
    if look.tree is None:
        return _sentence("the roofline needs the tree: no trace yet", look, rows)
    if view.parts is None:
        return _sentence(f"no roofline: {NO_FORWARD}", look, rows)
    if not view.parts.nodes:
        return _sentence("no roofline: no operator of this model has a known cost", look, rows)
    at = view.node(look.node)
    assert at is not None
    form = form_for(look.cells, rows)
    views = (view, beside)
    lines = _beside(look, views, at, form) if form.is_beside else _stacked(look, views, at, form)
    return list(aged(lines, look))


def _sentence(text: str, look: Look, rows: int) -> list[Line]:
    lines = [row((("roofline", "strong ink"),), EMPTY, look), EMPTY, *words(text, look)]
    return lines[:rows] if rows > 2 else list(words(text, look))[:rows]


def _beside(look: Look, views: _Views, at: NodeRoofline, form: Form) -> list[Line]:
    view, _ = views
    right = replace(look, cells=form.list_cells)
    listed = _list_or_reason(right, view, form.list_rows)
    details = list(detail_lines(right, at))[: form.detail_rows]
    pane = [*listed, *details]
    left = _plot(replace(look, cells=form.plot_cells), views, at, form.plot_rows)
    pane += [EMPTY] * (form.plot_rows - len(pane))
    shown = thumb(right, view, form.list_rows) if view.order else range(0)
    return [
        (
            *exact(one, form.plot_cells),
            edge(y in shown, look.glyphs),
            *exact(other, form.list_cells),
        )
        for y, (one, other) in enumerate(zip(left, pane, strict=True))
    ]


def _stacked(look: Look, views: _Views, at: NodeRoofline, form: Form) -> list[Line]:
    view, _ = views
    if not form.plot_rows:
        return _list_or_reason(look, view, form.list_rows)
    room = form.detail_rows
    last = list(reason_lines(look, view)) or [columns(status_parts(view), EMPTY, look)]
    if room == 1:
        below = brief_lines(look, at, view, 1) if view.order else last
    else:
        below = [*brief_lines(look, at, view, max(room - len(last), 1)), *last]
    below = [*below[:room], *[EMPTY] * (room - len(below))]
    listed = list_lines(look, view, form.list_rows) if form.list_rows and view.order else []
    listed += [EMPTY] * (form.list_rows - len(listed))
    return [*_plot(look, views, at, form.plot_rows), *below, *listed]


def _list_or_reason(look: Look, view: RooflineView, rows: int) -> list[Line]:
    lines = list_lines(look, view, rows) if view.order else []
    reasons = list(reason_lines(look, view))
    if reasons and (not lines or rows > len(reasons) + LEAST_LIST):
        kept = lines[: rows - len(reasons) - 2] if lines else []
        lines = [*kept, *([EMPTY] if kept else []), *reasons]
    return [*lines[:rows], *[EMPTY] * (rows - len(lines))]


def reason_lines(look: Look, view: RooflineView) -> tuple[Line, ...]:
    """Say what is missing: roofs, times, or nothing."""
    session = look.session
    reasons = []
    if not view.order and session.timings is not None and times_fit_costs(session):
        reasons.append("no points: no timed node has FLOPs")
    elif not view.order:
        waits, why = why_on_paper(session, look.node)
        later = "points appear with the first times"
        reasons.append(later if waits else f"no points: {why}")
    if not view.roofs.compute and not view.roofs.bytes_per_second:
        reasons.append(no_roofs(session))
    return tuple(line for reason in reasons for line in words(reason, look))


def no_roofs(session: Session) -> str:
    """Say why there is no roof."""
    if session.ceilings is not None:
        return f"no roofs: {why_on_paper(session, 0)[1]}"
    if session.hello is not None and session.hello.program is not None:
        return "no roofs: not calibrated on this machine; open a model here to calibrate it"
    if session.ended is not None or session.playback is not None:
        return "no roofs: the roofline was not calibrated"
    return "no roofs yet: the roofline is calibrated after the first run"


def head_rows(rows: int) -> int:
    """Return the rows above a plot of so many rows: the title, and in a tall one the unit."""
    return HEAD + (rows >= TALL_PLOT)


def _plot(look: Look, views: _Views, at: NodeRoofline, rows: int) -> list[Line]:
    view, beside = views
    tall = head_rows(rows) > HEAD
    head = [_title(look, views, with_unit=not tall)]
    if not view.is_placed:
        return [*head, *[EMPTY] * (rows - 1)]
    if tall:
        unit = scale_of(view.y).unit
        head.append(exact(((unit.rjust(SCALE + 1), "muted"),), look.cells))
    return [*head, *plot_lines(look, view, at, rows - len(head), beside)]


def _title(look: Look, views: _Views, *, with_unit: bool) -> Line:
    """Return the first row: how the plot is read, and what its points stand for."""
    view, beside = views
    back: Line = EMPTY
    if beside is not None:
        other = "forward" if view.work is BACKWARD else "backward"
        back = (("  v ", "accent"), (other, "muted"))
        if view.work is not BACKWARD:
            back = (back[0], (f"{look.glyphs.back} ", "ink"), back[1])
    legend, initials = (*back, *_legend(look)), (*back, *_legend(look, initials=True))
    of = " of the backward" if view.work is BACKWARD else ""
    rates = f"  {scale_of(view.y).unit}" if with_unit and view.is_placed else ""
    unit = f"{rates} by FLOP/B" if rates else ""
    host = f", {GPU_NOTE}" if why_not_timed_on_gpu(look.session) else ""
    size = f"{unit}  dot size is time{host}"
    inner = look.cells - 3
    for title, right in (
        (size + _left_out(view), legend),
        (size, legend),
        (unit, legend),
        (rates, legend),
        (rates, initials),
        ("", initials),
    ):
        left: Line = (("roofline", "strong ink"), (of, "strong ink"), (title, "faint"))
        if line_width(left) + line_width(right) <= inner:
            break
    return (*PAD, *spread(left, right, inner, look.glyphs.ellipsis), ("  ", "ink"))


def _legend(look: Look, *, initials: bool = False) -> Line:
    """Return the small and the large point of each bound with its name, or the initial of it."""
    spans: list[tuple[str, str]] = []
    seen = kinds_seen(look.session)
    for small, kind in zip(look.glyphs.small, KINDS, strict=True):
        if kind not in seen:
            continue
        name = LETTERS[kind] if initials else kind
        spans += [(f"  {small}{mark_of(kind, look.glyphs)}", kind), (f" {name}", "muted")]
    return tuple(spans)


def _left_out(view: RooflineView) -> str:
    """Say how many timed nodes have no point."""
    found, now = view.parts, view.now
    if found is None or now is None:
        return ""
    without = sum(
        spent > 0 and not flops for spent, flops in zip(now.seconds, found.flops, strict=True)
    )
    return f", {thousands(without)} without FLOPs" if without else ""


def status_parts(view: RooflineView) -> tuple[Line, ...]:
    """Say how much lies far below its roof."""
    now = view.now
    if now is None or now.whole is None or not now.judged:
        return ((("no points", "muted"),),)
    spent, whole = map(duration, (now.below_seconds, now.whole))
    counted = f"{thousands(now.below)} of {thousands(now.judged)} nodes below 50 % of their roof"
    together = f"  together {spent} of {whole}"
    return ((counted, "ink"),), ((together, "muted"),)


def status_row(look: Look, view: RooflineView) -> Line:
    """Return the row above the keys: how much lies far below its roof, and whose roofs they are."""
    parts = status_parts(view)
    taken = sum(map(line_width, parts)) + 2
    ceilings = look.session.ceilings
    for right in ceilings_words(ceilings) if ceilings is not None else ():
        if taken + width(right) <= look.inner:
            return columns(parts, ((right, "muted"),), look)
    return columns(parts, EMPTY, look)


def ceilings_words(ceilings: Ceilings) -> tuple[str, ...]:
    """Say which machine's roofs they are, and the date in UTC when they were measured."""
    threads = "1 thread" if ceilings.threads == 1 else f"{ceilings.threads} threads"
    device = safe(ceilings.device)
    of = f"{device}, {threads}" if device == "cpu" else device
    day = time.strftime("%Y-%m-%d", time.gmtime(max(ceilings.measured_at, 0.0)))
    doubted = [roof.name for roof in roofs_of(ceilings) if roof.why_not_good]
    bad = f", not good enough: {safe(', '.join(doubted))}" if doubted else ""
    return (
        f"roofs of {of}, measured {day}{bad}",
        f"roofs of {day}{bad}",
        f"of {day}{bad}",
        *((f"{len(doubted)} roofs not good enough",) if doubted else ()),
    )


def list_lines(look: Look, view: RooflineView, rows: int) -> list[Line]:
    """Return the heading, where there is room for it, and as many nodes as fit."""
    body = list_rows(rows)
    rank = view.rank(look.node)
    top = view.first_row(look.node, body)
    lines = [_list_heading(look, view)] if body < rows else []
    for at, place in enumerate(view.order[top : top + body], top):
        line = _list_row(look, view, place)
        if at == rank:
            line = under_cursor(line, look)
        lines.append(line)
    return lines


def thumb(look: Look, view: RooflineView, rows: int) -> range:
    """Return the rows beside the list that say which part of it is shown; none where all is."""
    body = list_rows(rows)
    found = thumb_rows(len(view.order), view.first_row(look.node, body), body)
    return range(found.start + rows - body, found.stop + rows - body)


def list_rows(rows: int) -> int:
    """Return how many of so many rows are nodes: all, or all but the heading."""
    return rows - 1 if rows >= LEAST_LIST else max(rows, 1)


def _list_heading(look: Look, view: RooflineView) -> Line:
    name = look.cells - 1 - _LIST_TAIL
    if name < _LEAST_NAME:
        return ((fit(" by time", look.cells, look.glyphs.ellipsis), "strong ink"),)
    return (
        (" ", "ink"),
        (fit("by time", name, look.glyphs.ellipsis), "strong ink"),
        (" " + view.times.unit.rjust(_TIME_CELLS), "muted"),
        ("% roof".rjust(2 + _SHARE_CELLS), "muted"),
        ("   ", "ink"),
    )


def _list_row(look: Look, view: RooflineView, place: int) -> Line:
    found, now, tree = view.parts, view.now, view.tree
    assert found is not None
    assert now is not None
    assert tree is not None
    spent, least = now.seconds[place], found.least[place]
    share = spent / now.whole if now.whole else 0.0
    is_faint = share < FAINT_SHARE
    reached = least / spent if least and spent else None
    percent = ((_percent(reached, look).rjust(_SHARE_CELLS), _role(reached, is_faint=is_faint)),)
    name = look.cells - 1 - _LIST_TAIL
    if name < _LEAST_NAME:
        # Too small for the time: the name and the share remain.
        name = max(look.cells - _SHARE_CELLS - 3, 1)
        tail: Line = ((" ", "ink"), *percent, (" ", "ink"))
    else:
        spent_text = in_column(spent, view.times).rjust(_TIME_CELLS + 1)
        sign = _sign(now.kind(found, place), look, is_faint=is_faint)
        tail = ((spent_text, _weight(share)), ("  ", "ink"), *percent, *sign, (" ", "ink"))
    text = fitted(name_of(tree, found.nodes[place]), name, look.glyphs.ellipsis)
    blank = " " * (name - width(text))
    return ((" ", "ink"), (text, "faint" if is_faint else "ink"), (blank, "ink"), *tail)


def _sign(kind: BoundKind | None, look: Look, *, is_faint: bool) -> Line:
    if kind is None:
        return ((f" {look.glyphs.dash}", "faint"),)
    return ((f" {mark_of(kind, look.glyphs)}", "faint" if is_faint else kind),)


def _weight(share: float) -> str:
    if share >= STRONG_SHARE:
        return "strong ink"
    return "ink" if share >= FAINT_SHARE else "faint"


def _role(reached: float | None, *, is_faint: bool) -> str:
    if is_faint or reached is None:
        return "faint"
    return "ink" if reached < roofline.BELOW else "muted"


def _percent(reached: float | None, look: Look) -> str:
    if reached is None:
        return look.glyphs.dash
    percent = reached * 100
    if percent < 0.5:
        return "<1 %"
    return f"{percent:.0f} %" if percent < 999.5 else f"{look.glyphs.beyond}999 %"


DETAIL_ROWS = 10
"""A blank, the name, six figures, and two rows of words: fixed, so that nothing jumps."""
_UNIT = 7
"""Cells of a unit, so that figures end at one cell: ``GFLOP/s``."""


def detail_lines(look: Look, at: NodeRoofline) -> tuple[Line, ...]:
    """Return one figure a row, under the node's name."""
    provenance = "" if at.is_part else "achieved, children"
    title = section(fitted(at.name, look.inner - 4, look.glyphs.ellipsis), provenance, look)
    why = list(words(at.why, look))[:2] if at.why else []
    return (
        EMPTY,
        title,
        _figure("achieved", _rate(at.achieved, at, look), look),
        _figure(_roof_label(at), _rate(at.roof, at, look), look),
        _figure("of roof", _share(at, look), look),
        _figure("arithmetic intensity", _intensity(at, look), look),
        _figure("time at the roof", _least(at, look), look),
        _figure(_gain_label(look, "speed-up at the roof"), _gain(at, look), look),
        *why,
    )


def brief_lines(look: Look, at: NodeRoofline, view: RooflineView, rows: int) -> list[Line]:
    """Return the same in at most three rows; in one row the name and the share of the roof."""
    rank = view.rank(look.node)
    place = (
        f"{thousands(rank + 1)} of {thousands(len(view.order))} by time" if rank is not None else ""
    )
    verdict = _verdict(at, look)
    if rows < 2:
        spent = f"  {duration(at.seconds)}" if at.seconds else ""
        tail: Line = ((spent, "ink"), (f"  {text(_share(at, look))}", "ink"), *_spaced(verdict))
        room = max(look.inner - line_width(tail), 1)
        return [
            row(((fitted(at.name, room, look.glyphs.ellipsis), "strong ink"), *tail), EMPTY, look)
        ]
    title = section(
        fitted(at.name, max(look.inner - width(place) - 6, 8), look.glyphs.ellipsis), place, look
    )
    first = (
        _pair("time", ((duration(at.seconds), "ink"),) if at.seconds else _dash(look)),
        _pair("at the roof", _least(at, look)),
        _pair("of roof", _share(at, look)),
    )
    second = (
        _pair("achieved", _rate(at.achieved, at, look)),
        _pair("attainable", _rate(at.roof, at, look)),
        _pair(_gain_label(look, "speed-up"), _gain(at, look)),
        _pair("work", _intensity(at, look)),
    )
    lines = [title, columns(first, verdict, look), columns(second, EMPTY, look)]
    return lines[:rows]


def _roof_label(at: NodeRoofline) -> str:
    if at.roof_name == "mixed":
        return "attainable, children"
    return f"attainable, {at.roof_name}" if at.roof_name else "attainable"


def _figure(label: str, figure: Line, look: Look) -> Line:
    """Set the figure's unit, its last span, left-aligned at the right end."""
    if len(figure) > 1:
        *first, (unit, role) = figure
        figure = (*first, (unit.ljust(_UNIT + 1), role))
    else:
        figure = (*figure, (" " * (_UNIT + 1), "ink"))
    return row(((label, "muted"),), figure, look)


def _pair(label: str, figure: Line) -> Line:
    return ((f"{label} ", "muted"), *figure, ("   ", "ink"))


def _spaced(line: Line) -> Line:
    return (("  ", "ink"), *line) if line else EMPTY


def _dash(look: Look) -> tuple[Span, ...]:
    return ((look.glyphs.dash, "faint"),)


def _split(amount: str, mark: str = "") -> Line:
    figure, _, unit = amount.partition(" ")
    return ((mark + figure, "ink"), (f" {unit}", "muted"))


def _rate(per_second: float | None, at: NodeRoofline, look: Look) -> Line:
    if per_second is None:
        return _dash(look)
    return _split(rate(per_second, at.unit), _mark(at, look))


def _mark(at: NodeRoofline, look: Look) -> str:
    """Return the sign of a figure that is not an exact count."""
    is_least = at.is_least and at.unit != "B/s"
    return look.glyphs.sign(of_flops(at.bounded, is_at_least=is_least))


def _share(at: NodeRoofline, look: Look) -> Line:
    return _split(share(at.share)) if at.share is not None else _dash(look)


def _intensity(at: NodeRoofline, look: Look) -> Line:
    if at.intensity is None:
        return (("no FLOPs" if at.achieved else look.glyphs.dash, "faint"),)
    return ((_mark(at, look) + intensity(at.intensity), "ink"), (" FLOP/B", "muted"))


def _least(at: NodeRoofline, look: Look) -> Line:
    return _split(duration(at.least_seconds)) if at.least_seconds else _dash(look)


def _gain_label(look: Look, label: str) -> str:
    """Return the label of a gain; where it is not of the forward, of what."""
    name = base(look.session).name
    return f"{label} ({name})" if name in ("step", "request") else label


def _gain(at: NodeRoofline, look: Look) -> Line:
    """Return a prediction: at most two digits, and marked."""
    if at.gain is not None:
        return _split(share(at.gain), look.glyphs.about)
    if at.share is not None and at.share >= 1:
        return ((look.glyphs.zero, "faint"),)
    return _dash(look)


def _verdict(at: NodeRoofline, look: Look) -> Line:
    if at.kind is None:
        return EMPTY
    return ((f"{mark_of(at.kind, look.glyphs)} {at.kind}", at.kind),)

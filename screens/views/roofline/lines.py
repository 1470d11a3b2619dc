"""The roofline view: the plot, the nodes by time, and what the selected one could gain.

From 100 columns on, list and details stand at the right. Below, the details lie under the plot, and
the list under them where there are rows for it. Where there is no room for a plot, the list is all.
"""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import column_time, duration, intensity, rate, share, thousands
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import NO_FORWARD, Ceilings
from tui_profiler.queries.cost.bound import OF_WORK
from tui_profiler.queries.cost.ceilings import roofs_of
from tui_profiler.queries.cost.roofline_node import NodeRoofline, node_roofline
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.panel.state import is_stale
from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.queries.tree.names import fitted
from tui_profiler.session import Session

from ...widgets.bound_lines import why_on_paper
from ...widgets.lines import EMPTY, Line, Span, exact, line_width, spread, text
from ...widgets.rows import PAD, Look, columns, mark_of, row, section, without_colour, words
from .list import LEAST_LIST, list_lines, thumb
from .plot import BELOW, LEAST_COLUMNS, LEAST_ROWS, SCALE, plot_lines, scale_of

BESIDE_COLUMNS = 100
"""From here on the list stands at the right."""
LIST_CELLS, MOST_LIST_CELLS = 40, 60
TALL_ROWS = 32
"""From here on the narrow form has a list too."""
HEAD = 1
TALL_PLOT = 20
GPU_NOTE = "times of the host"


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


def roofline_lines(look: Look, view: RooflineView, rows: int) -> list[Line]:
    """Return the whole view, ``rows`` lines of ``look.cells``."""
    if look.tree is None:
        return _sentence("the roofline needs the tree, which is not known yet", look, rows)
    if view.parts is None:
        return _sentence(f"no roofline: {NO_FORWARD}", look, rows)
    if not view.parts.nodes:
        return _sentence("no roofline: no operator of this model has a known cost", look, rows)
    assert view.now is not None
    at = node_roofline(look.session, view.parts, view.now, look.node)
    form = form_for(look.cells, rows)
    lines = _beside(look, view, at, form) if form.is_beside else _stacked(look, view, at, form)
    return list(without_colour(lines)) if is_stale(look.session, look.now) else lines


def _sentence(text: str, look: Look, rows: int) -> list[Line]:
    lines = [row((("roofline", "strong ink"),), EMPTY, look), EMPTY, *words(text, look)]
    return lines[:rows] if rows > 2 else list(words(text, look))[:rows]


def _beside(look: Look, view: RooflineView, at: NodeRoofline, form: Form) -> list[Line]:
    right = replace(look, cells=form.list_cells)
    listed = _list_or_reason(right, view, form.list_rows)
    details = list(detail_lines(right, at))[: form.detail_rows]
    pane = [*listed, *details]
    left = _plot(replace(look, cells=form.plot_cells), view, at, form.plot_rows)
    pane += [EMPTY] * (form.plot_rows - len(pane))
    shown = thumb(right, view, form.list_rows) if view.order else range(0)
    edges = [
        (look.glyphs.thumb, "muted") if y in shown else (look.glyphs.divider, "hairline")
        for y in range(form.plot_rows)
    ]
    return [
        (*exact(one, form.plot_cells), edge, *exact(other, form.list_cells))
        for one, edge, other in zip(left, edges, pane, strict=True)
    ]


def _stacked(look: Look, view: RooflineView, at: NodeRoofline, form: Form) -> list[Line]:
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
    return [*_plot(look, view, at, form.plot_rows), *below, *listed]


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
        reasons.append("nodes cannot be placed: none of those that compute was timed")
    elif not view.order:
        waits, why = why_on_paper(session, look.node)
        later = "nodes are placed once they have times"
        reasons.append(later if waits else f"nodes cannot be placed: {why}")
    if not view.roofs.compute and not view.roofs.bytes_per_second:
        reasons.append(no_roofs(session))
    return tuple(line for reason in reasons for line in words(reason, look))


def no_roofs(session: Session) -> str:
    """Say why there is no roof."""
    if session.ceilings is not None:
        return f"no roofs: {why_on_paper(session, 0)[1]}"
    if session.hello is not None and session.hello.program is not None:
        return "no roofs: none are kept for this machine; opening a model here measures them"
    if session.ended is not None or session.playback is not None:
        return "no roofs: this machine's were not measured"
    return "no roofs yet: this machine's are measured after the first run"


def head_rows(rows: int) -> int:
    """Return the rows above a plot of so many rows: the title, and in a tall one the unit."""
    return HEAD + (rows >= TALL_PLOT)


def _plot(look: Look, view: RooflineView, at: NodeRoofline, rows: int) -> list[Line]:
    tall = head_rows(rows) > HEAD
    head = [_title(look, view, with_unit=not tall)]
    if not view.is_placed:
        return [*head, *[EMPTY] * (rows - 1)]
    if tall:
        unit = scale_of(view.y).unit
        head.append(exact(((unit.rjust(SCALE + 1), "muted"),), look.cells))
    return [*head, *plot_lines(look, view, at, rows - len(head))]


def _title(look: Look, view: RooflineView, *, with_unit: bool) -> Line:
    """Return the first row: how the plot is read, and what its points stand for."""
    legend, initials = _legend(look), _legend(look, initials=True)
    rates = f"  {scale_of(view.y).unit}" if with_unit and view.is_placed else ""
    unit = f"{rates} by FLOP/B" if rates else ""
    host = f", {GPU_NOTE}" if is_on_gpu(look.session) else ""
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
        left: Line = (("roofline", "strong ink"), (title, "faint"))
        if line_width(left) + line_width(right) <= inner:
            break
    return (*PAD, *spread(left, right, inner, look.glyphs.ellipsis), ("  ", "ink"))


def _legend(look: Look, *, initials: bool = False) -> Line:
    """Return the small and the large point of each bound with its name, or the initial of it."""
    spans: list[tuple[str, str]] = []
    for small, kind in zip(look.glyphs.small, OF_WORK, strict=True):
        name = kind[0].upper() if initials else kind
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


def is_on_gpu(session: Session) -> bool:
    """Say if the model computes on a GPU, where the times of nodes are those of the host."""
    return session.model is not None and session.model.device.startswith("cuda")


def status_parts(view: RooflineView) -> tuple[Line, ...]:
    """Say how much lies far below its roof."""
    now = view.now
    if now is None or now.whole is None or not now.judged:
        return ((("no node is placed", "muted"),),)
    spent, whole = (column_time(each, view.unit) for each in (now.below_seconds, now.whole))
    counted = f"{thousands(now.below)} of {thousands(now.judged)} nodes below 50 % of their roof"
    together = f"  together {spent} of {whole} {view.unit}"
    if now.below_seconds > now.whole:  # Operators have the times of their windows.
        together = f"  together {spent} {view.unit} in slow windows"
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
        f"ceilings of {of}, measured {day}{bad}",
        f"ceilings of {day}{bad}",
        f"of {day}{bad}",
        *((f"{len(doubted)} ceilings not good enough",) if doubted else ()),
    )


DETAIL_ROWS = 10
"""A blank, the name, six figures, and two rows of words: fixed, so that nothing jumps."""
_UNIT = 7
"""Cells of a unit, so that figures end at one cell: ``GFLOP/s``."""


def detail_lines(look: Look, at: NodeRoofline) -> tuple[Line, ...]:
    """Return one figure a row, under the node's name."""
    title = section(fitted(at.name, look.inner - 4, look.glyphs.ellipsis), _provenance(at), look)
    why = list(words(at.why, look))[:2] if at.why else []
    return (
        EMPTY,
        title,
        _figure("achieved", _rate(at.achieved, at, look), look),
        _figure(_roof_label(at), _rate(at.roof, at, look), look),
        _figure("of roof", _share(at, look), look),
        _figure("arithmetic intensity", _intensity(at, look), look),
        _figure("time at the roof", _least(at, look), look),
        _figure("speed-up at the roof", _gain(at, look), look),
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
        _pair("speed-up", _gain(at, look)),
        _pair("work", _intensity(at, look)),
    )
    lines = [title, columns(first, verdict, look), columns(second, EMPTY, look)]
    return lines[:rows]


def _provenance(at: NodeRoofline) -> str:
    return "" if at.is_part else "achieved, children"


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
    """Return the sign of a figure that is no exact count of the FLOPs."""
    if at.unit == "B/s":
        return ""
    if at.bounded is not None:
        return {"at most": look.glyphs.at_most, "about": look.glyphs.about}[at.bounded]
    return "≥" if at.is_least else ""


def _share(at: NodeRoofline, look: Look) -> Line:
    return _split(share(at.share)) if at.share is not None else _dash(look)


def _intensity(at: NodeRoofline, look: Look) -> Line:
    if at.intensity is None:
        return (("no FLOPs" if at.achieved else look.glyphs.dash, "faint"),)
    return ((_mark(at, look) + intensity(at.intensity), "ink"), (" FLOP/B", "muted"))


def _least(at: NodeRoofline, look: Look) -> Line:
    return _split(duration(at.least_seconds)) if at.least_seconds else _dash(look)


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

"""The roofline view: the plot, the nodes by time, and what the selected one could gain.

From 100 columns on, list and details stand at the right. Below, the details lie under the plot, and
the list under them where there are rows for it. Where there is no room for a plot, the list is all.
"""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import column_time, thousands
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import NO_FORWARD, Ceilings
from tui_profiler.queries.cost.bound import KINDS
from tui_profiler.queries.cost.ceilings import roofs_of
from tui_profiler.queries.cost.roofline_node import Standing, standing
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.panel.state import is_stale
from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.session import Session

from ...widgets.bound_lines import why_on_paper
from ...widgets.lines import EMPTY, Line, exact, line_width, spread
from ...widgets.rows import PAD, Look, columns, mark_of, row, without_colour, words
from .list import LEAST_LIST, list_lines, thumb
from .node_lines import DETAIL_ROWS, brief_lines, detail_lines
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
    at = standing(look.session, view.parts, view.now, look.node)
    form = form_for(look.cells, rows)
    lines = _beside(look, view, at, form) if form.is_beside else _stacked(look, view, at, form)
    return list(without_colour(lines)) if is_stale(look.session, look.now) else lines


def _sentence(text: str, look: Look, rows: int) -> list[Line]:
    lines = [row((("roofline", "strong ink"),), EMPTY, look), EMPTY, *words(text, look)]
    return lines[:rows] if rows > 2 else list(words(text, look))[:rows]


def _beside(look: Look, view: RooflineView, at: Standing, form: Form) -> list[Line]:
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


def _stacked(look: Look, view: RooflineView, at: Standing, form: Form) -> list[Line]:
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


def _plot(look: Look, view: RooflineView, at: Standing, rows: int) -> list[Line]:
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
    for text, right in (
        (size + _left_out(view), legend),
        (size, legend),
        (unit, legend),
        (rates, legend),
        (rates, initials),
        ("", initials),
    ):
        left: Line = (("roofline", "strong ink"), (text, "faint"))
        if line_width(left) + line_width(right) <= inner:
            break
    return (*PAD, *spread(left, right, inner, look.glyphs.ellipsis), ("  ", "ink"))


def _legend(look: Look, *, initials: bool = False) -> Line:
    """Return the small and the large point of each bound with its name, or the initial of it."""
    spans: list[tuple[str, str]] = []
    for small, kind in zip(look.glyphs.small, KINDS, strict=True):
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
    counted = f"{thousands(now.below)} of {thousands(now.judged)} nodes below half of their roof"
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

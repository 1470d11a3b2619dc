"""The layers of a text report: the tree, indented, with the figures of each module."""

from __future__ import annotations

from tui_profiler.queries.bound import LETTERS, bound, bytes_moved, intensity
from tui_profiler.queries.seconds import node_seconds, root_seconds
from tui_profiler.queries.totals import top_modules
from tui_profiler.reports.text_parts import heading
from tui_profiler.session import Session, Tree
from tui_profiler.text import fit, middle, safe, width
from tui_profiler.units import (
    UNAVAILABLE,
    ZERO,
    TimeUnit,
    column_time,
    count,
    share_cell,
    size,
    time_unit,
)
from tui_profiler.units import intensity as intensity_cell

MOST_INDENT = 24
LEAST_NAME = 14


def layer_lines(session: Session, tree: Tree, cells: int, top: int | None) -> list[str]:
    """Give the heading, the column names and one line for each module.

    Args:
        session: as it was left.
        tree: its tree.
        cells: of each line.
        top: show only so many modules, those that cost most by themselves, with their paths.
    """
    is_timed = root_seconds(session) is not None
    unit = time_unit(root_seconds(session) or 0.0) if is_timed else None
    columns = _header(unit)
    room = max(cells - width(columns), LEAST_NAME)
    if top is None:
        chosen: tuple[int, ...] = tuple(
            index for index, node in enumerate(tree.nodes) if node.kind == "module"
        )
        says = "each with everything inside it"
    else:
        chosen = top_modules(session, "seconds" if is_timed else "flops", top)
        says = f"the {len(chosen)} that cost most by themselves, by {_by(is_timed)}"
    return [
        "",
        heading("layers", says),
        fit("", room) + columns,
        *(
            _name(tree, index, room, in_full=top is not None) + _figures(session, tree, index, unit)
            for index in chosen
        ),
    ]


def _by(is_timed: bool) -> str:
    return "time" if is_timed else "FLOP"


def _header(unit: TimeUnit | None) -> str:
    paper = f"{'params':>8}{'MAC':>7}{'FLOP':>7}{'bytes':>10}{'FLOP/B':>8}"
    times = f"{unit:>8}{'%':>5}" if unit is not None else ""
    return f"{paper}{times}{'bound':>7}"


def _name(tree: Tree, index: int, room: int, *, in_full: bool) -> str:
    node = tree.nodes[index]
    indent = 0 if in_full else min(2 * tree.depths[index], MOST_INDENT, max(room - LEAST_NAME, 0))
    name = safe((node.path or node.name) if in_full else node.name)
    called = f"{node.calls}× " if node.calls > 1 else ""
    # A container such as a ModuleList is never called, what it holds is.
    is_idle = node.calls == 0 and not tree.costs[index].ops
    kind = "  not called" if is_idle else f"  {called}{safe(node.type)}"
    space = room - indent
    if width(name) + width(kind) > space:
        kind = ""
    return " " * indent + fit(middle(name, space) + kind, space)


def _figures(session: Session, tree: Tree, index: int, unit: TimeUnit | None) -> str:
    cost = tree.costs[index]
    ratio = intensity(cost)
    mark = {"at most": "≤", "about": "~", None: ""}[tree.bounded.get(index)] if cost.macs else ""
    flops = count(cost.flops) if cost.flops or not cost.uncosted else UNAVAILABLE
    paper = (
        f"{count(cost.parameters):>8}{mark + count(cost.macs):>7}{flops:>7}"
        f"{_moved(bytes_moved(cost)):>10}{ZERO if ratio is None else intensity_cell(ratio):>8}"
    )
    times = _times(session, index, unit) if unit is not None else ""
    found = bound(session, index)
    return f"{paper}{times}{LETTERS[found.kind] if found is not None else ZERO:>7}"


def _moved(moved: int) -> str:
    return size(moved) if moved else ZERO


def _times(session: Session, index: int, unit: TimeUnit) -> str:
    seconds, whole = node_seconds(session, index), root_seconds(session)
    if seconds is None or not whole:
        return f"{UNAVAILABLE:>8}{UNAVAILABLE:>5}"
    return f"{column_time(seconds, unit):>8}{share_cell(seconds / whole):>5}"

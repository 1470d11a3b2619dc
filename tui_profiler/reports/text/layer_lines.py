"""The layers of a text report: the tree, indented, with the figures of each module."""

from __future__ import annotations

from tui_profiler.figures.units import (
    UNAVAILABLE,
    ZERO,
    TimeUnit,
    column_time,
    count,
    share_cell,
    size,
    time_unit,
)
from tui_profiler.figures.units import intensity as intensity_cell
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.queries.cost.bound import (
    LETTERS,
    bound,
    intensity,
    known_bytes,
    known_flops,
    known_macs,
)
from tui_profiler.queries.cost.totals import slowest_modules, top_modules
from tui_profiler.queries.time.node_seconds import node_seconds, part_of, root_seconds
from tui_profiler.queries.time.standard_error import DOUBT, NOT_RANKED, why_doubtful
from tui_profiler.reports.text_parts import heading
from tui_profiler.session import Session, Tree

ON_PAPER = "~"
PAPER_NOTE = f"{ON_PAPER} class on paper, by FLOP/B"
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
        chosen = slowest_modules(session, top) if is_timed else top_modules(session, "flops", top)
        says = f"the {len(chosen)} that cost most by themselves, by {_by(is_timed)}"
    doubtful = is_timed and any(why_doubtful(session, index) for index in chosen)
    return [
        "",
        heading("layers", says),
        fit("", room) + columns,
        *(
            _name(tree, index, room, in_full=top is not None) + _figures(session, tree, index, unit)
            for index in chosen
        ),
        *([NOT_RANKED] if doubtful else []),
        *([PAPER_NOTE] if is_timed and _any_on_paper(session, chosen) else []),
    ]


def _any_on_paper(session: Session, chosen: tuple[int, ...]) -> bool:
    found = (bound(session, index) for index in chosen)
    return any(one is not None and not one.measured for one in found)


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
    macs, flops, moved = known_macs(cost), known_flops(cost), known_bytes(cost)
    paper = (
        f"{count(cost.parameters):>8}{UNAVAILABLE if macs is None else mark + count(macs):>7}"
        f"{UNAVAILABLE if not flops and cost.uncosted else count(cost.flops):>7}"
        f"{_moved(moved):>10}{ZERO if ratio is None else intensity_cell(ratio):>8}"
    )
    times = _times(session, index, unit) if unit is not None else ""
    return f"{paper}{times}{_letter(session, index, is_timed=unit is not None):>7}"


def _letter(session: Session, index: int, *, is_timed: bool) -> str:
    found = bound(session, index)
    if found is None:
        return ZERO
    return ON_PAPER * (is_timed and not found.measured) + LETTERS[found.kind]


def _moved(moved: int | None) -> str:
    if moved is None:
        return UNAVAILABLE
    return size(moved) if moved else ZERO


def _times(session: Session, index: int, unit: TimeUnit) -> str:
    seconds, whole = node_seconds(session, index), root_seconds(session)
    if seconds is None or not whole:
        return f"{UNAVAILABLE:>8}{UNAVAILABLE:>5}"
    mark = DOUBT if why_doubtful(session, index) else ""
    return f"{mark + column_time(seconds, unit):>8}{share_cell(part_of(seconds, whole) or 0.0):>5}"

"""The layers of the table: the tree, indented, with the figures of each module."""

from tui_profiler.figures import units
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound_classes import LETTERS
from tui_profiler.queries.cost.totals import slowest_modules, top_modules
from tui_profiler.queries.time.base import BASE_WORDS, Base, base, share
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.queries.time.standard_error import DOUBT, NOT_RANKED, why_doubtful
from tui_profiler.queries.tree.depth import modules_to_depth
from tui_profiler.reports.document import Column, Grid, Note, Section, names, short
from tui_profiler.reports.text.sections.figure_text import work_cells
from tui_profiler.session import Session, Tree

ON_PAPER = "~"
PAPER_NOTE = f"{ON_PAPER} class on paper, by FLOP/B"
_PAPER = (("params", 8), ("MAC", 7), ("FLOP", 7), ("bytes", 10), ("FLOP/B", 8))


def layers_section(
    session: Session, tree: Tree, top: int | None, depth: int | None = None
) -> Section:
    """Return one row for each module, and what the marks in it mean.

    Args:
        session: As it was left.
        tree: Its tree.
        top: Only so many modules, those that cost most by themselves, with their paths.
        depth: Or only modules at most so deep.
    """
    whole = root_seconds(session)
    is_timed = whole is not None
    times = units.fitted_times(whole or 0.0) if is_timed else None
    if top is None:
        chosen = modules_to_depth(tree, depth)
        says = "including submodules"
    else:
        chosen = slowest_modules(session, top) if is_timed else top_modules(session, "flops", top)
        by = "time" if is_timed else "FLOP"
        says = f"the top {len(chosen)} by self {by}"
    grid = Grid(
        _columns(times, base(session)),
        tuple(
            (_name(tree, at, in_full=top is not None), *_figures(session, tree, at, times))
            for at in chosen
        ),
        depths=tuple(tree.depths[at] if top is None else 0 for at in chosen),
        asides=tuple(_called(tree, at) for at in chosen),
    )
    is_doubtful = is_timed and any(why_doubtful(session, at) for at in chosen)
    on_paper = is_timed and _any_on_paper(session, chosen)
    notes = [NOT_RANKED] * is_doubtful + [PAPER_NOTE] * on_paper
    return Section("layers", says, (grid, *map(Note, notes)))


def _any_on_paper(session: Session, chosen: tuple[int, ...]) -> bool:
    found = (bound.bound(session, at) for at in chosen)
    return any(one is not None and not one.measured for one in found)


def _columns(times: units.TimeColumn | None, whole: Base) -> tuple[Column, ...]:
    timed = ((times.unit, 8), (BASE_WORDS[whole.name][0], 5)) if times is not None else ()
    figures = (short(Column(title), title, cells) for title, cells in (*_PAPER, *timed))
    return (names("layer"), *figures, short(Column("bound"), "bound", 7))


def _name(tree: Tree, at: int, *, in_full: bool) -> str:
    node = tree.nodes[at]
    return (node.path or node.name) if in_full else node.name


def _called(tree: Tree, at: int) -> str:
    """Return a module's class, and how often a forward calls it."""
    node = tree.nodes[at]
    # A container such as a ModuleList is never called, what it holds is.
    if node.calls == 0 and not tree.costs[at].ops:
        return "not called"
    return f"{node.calls}× {node.type}" if node.calls > 1 else node.type


def _figures(
    session: Session, tree: Tree, at: int, times: units.TimeColumn | None
) -> tuple[str, ...]:
    return (
        units.count(tree.costs[at].parameters),
        *work_cells(tree, at),
        *(_times(session, at, times) if times is not None else ()),
        _letter(session, at, is_timed=times is not None),
    )


def _letter(session: Session, at: int, *, is_timed: bool) -> str:
    found = bound.bound(session, at)
    if found is None:
        return units.ZERO
    return ON_PAPER * (is_timed and not found.measured) + LETTERS[found.kind]


def _times(session: Session, at: int, times: units.TimeColumn) -> tuple[str, str]:
    seconds, part = node_seconds(session, at), share(session, at)
    if seconds is None:
        return units.UNAVAILABLE, units.UNAVAILABLE
    mark = DOUBT if why_doubtful(session, at) else ""
    of_base = units.UNAVAILABLE if part is None else units.share_cell(part)
    return mark + units.in_column(seconds, times), of_base

"""Computation: the work of one forward, by type of operator, by intensity, by layer."""

from tui_profiler.figures.units import UNAVAILABLE, ZERO, count, quantity, shape, size, thousands
from tui_profiler.messages import NO_FORWARD, known
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.breakdown import breakdown
from tui_profiler.queries.cost.distribution import intensity_bands
from tui_profiler.queries.cost.totals import costliest_modules, known_peak_bytes
from tui_profiler.queries.tree.depth import modules_to_depth, to_depth
from tui_profiler.reports.document import Column, Grid, Note, Part, Section, figures, names, short
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree

_LAYERS = (names("layer"), names("class"), *figures("calls", "params", "MAC", "FLOP"))
_CALLS = (
    short(Column("calls"), "count", 8),
    short(Column("FLOP"), "FLOP", 9),
    short(Column("% FLOP"), "%", 6),
)


def computation(session: Session, tree: Tree, top: int | None, depth: int | None = None) -> Section:
    """Return the work as a whole and where it is.

    Args:
        session: as it was left.
        tree: its tree.
        top: only so many layers, those that cost most by themselves.
        depth: or only layers at most so deep; the root is at depth 0.
    """
    if not tree.has_forward:
        parts: tuple[Part, ...] = (*figure_text.nothing(NO_FORWARD), _parts(tree, top, depth))
        return Section("computation", "", parts)
    parts = (
        figure_text.facts(*_totals(session, tree)),
        *_phases(session),
        types_grid(tree),
        bands_grid(tree),
        _layers(session, tree, top, depth),
        *_without_formula(tree),
    )
    return Section("computation", "on paper; a multiply-add is 1 MAC, 2 FLOP", parts)


def _totals(session: Session, tree: Tree) -> list[tuple[str, str]]:
    cost, real = tree.costs[0], session.real
    once = ""
    if real is not None and real.cost is not None:
        macs, flops = quantity(real.cost.macs, "MAC"), quantity(real.cost.flops, "FLOP")
        once = f"{macs}, {flops} with these inputs"
    elif real is not None:
        once = f"{UNAVAILABLE} ({real.why})"
    return [
        ("work", figure_text.work(tree)),
        ("one real run", once),
        ("bytes moved", figure_text.moved(tree) if bound.is_counted(cost) else UNAVAILABLE),
        ("intensity", figure_text.per_byte(tree)),
        ("operators", f"{thousands(cost.ops)} calls, {thousands(cost.uncosted)} without a formula"),
    ]


def _phases(session: Session) -> list[Part]:
    """Return the two forwards of a model that generates, side by side."""
    rows = tuple(
        (
            tree.phase,
            shape(tree.inputs[0].shape) if tree.inputs else UNAVAILABLE,
            figure_text.figure(bound.known_macs(tree.costs[0]), count),
            figure_text.figure(bound.known_flops(tree.costs[0]), count),
            figure_text.figure(bound.known_bytes(tree.costs[0]), size),
            size(known_peak_bytes(tree.done.peak_memory)) if tree.done else UNAVAILABLE,
        )
        for tree in session.phases
        if len(tree)
    )
    columns = (names("phase"), names("input"), *figures("MAC", "FLOP", "bytes", "peak"))
    parts: list[Part] = [Grid(columns, rows)] if rows else []
    if session.no_decode is not None:
        parts.append(Note(f"decode unavailable: {session.no_decode.why}"))
    return parts


def types_grid(tree: Tree) -> Grid:
    """Return calls and FLOP by type of operator."""
    rows = tuple(
        (
            part.type,
            thousands(part.count),
            figure_text.figure(known(part.flops), count),
            figure_text.percent(part.share),
        )
        for part in breakdown(tree)
    )
    return Grid((short(names("type of operator"), "type", 20), *_CALLS), rows)


def bands_grid(tree: Tree) -> Grid:
    """Return calls and FLOP by intensity."""
    rows = tuple(
        (part.band, thousands(part.ops), count(part.flops), figure_text.percent(part.flops_share))
        for part in intensity_bands(tree)
    )
    return Grid((short(names("FLOP per byte"), "band", 20), *_CALLS), rows)


def _layers(session: Session, tree: Tree, top: int | None, depth: int | None) -> Grid:
    chosen = costliest_modules(session, top) if top is not None else modules_to_depth(tree, depth)
    return Grid(
        (*_LAYERS, *figures("bytes", "FLOP/B"), names("bound")),
        tuple(_layer(session, tree, at, in_full=top is not None) for at in chosen),
        depths=() if top is not None else tuple(tree.depths[at] for at in chosen),
    )


def _layer(session: Session, tree: Tree, at: int, *, in_full: bool) -> tuple[str, ...]:
    node, found = tree.nodes[at], bound.bound(session, at)
    return (
        (node.path or node.name) if in_full else node.name,
        node.type,
        str(node.calls),
        count(tree.costs[at].parameters),
        *figure_text.work_cells(tree, at),
        ZERO if found is None else _class(session, found),
    )


def _class(session: Session, found: bound.Bound) -> str:
    is_timed = session.timings is not None
    return f"{found.kind}, on paper" if is_timed and not found.measured else found.kind


def _parts(tree: Tree, top: int | None, depth: int | None) -> Grid:
    """Return the parameters of each part of a file without a forward."""
    chosen = list(to_depth(tree, depth))
    if top is not None:
        chosen = sorted(chosen, key=lambda at: -tree.costs[at].parameter_bytes)[:top]
    rows = tuple(
        (
            (tree.nodes[at].path or tree.nodes[at].name) if top else tree.nodes[at].name,
            count(tree.costs[at].parameters),
            size(tree.costs[at].parameter_bytes),
        )
        for at in chosen
    )
    depths = () if top else tuple(tree.depths[at] for at in chosen)
    return Grid((names("part"), *figures("parameters", "bytes")), rows, depths)


def _without_formula(tree: Tree) -> list[Part]:
    found: list[Part] = []
    if tree.done is not None and tree.done.uncosted:
        listed = ", ".join(tree.done.uncosted)
        found.append(Note(f"Without a formula (FLOP are a lower bound): {listed}"))
    if tree.done is not None and tree.done.bounded:
        listed = ", ".join(tree.done.bounded)
        found.append(Note(f"Depends on the data (figures are at most, ≤, or about, ~): {listed}"))
    return found

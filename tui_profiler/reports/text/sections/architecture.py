"""Architecture: which model this is, what it takes, what it is made of."""

from tui_profiler.figures.units import ZERO, count, size, thousands
from tui_profiler.messages import FileFacts, ModelFacts, known
from tui_profiler.queries.cost.distribution import layer_types
from tui_profiler.queries.cost.totals import costliest_modules
from tui_profiler.queries.time.forward_kinds import inputs
from tui_profiler.queries.tree.columns import shape_text
from tui_profiler.queries.tree.depth import modules_to_depth
from tui_profiler.reports.document import Column, Facts, Grid, Part, Section, names, short
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree


def architecture_section(
    session: Session, tree: Tree, top: int | None = None, depth: int | None = None
) -> Section:
    """Return the model's identity, its file, its layers by class, and what goes in and out of each.

    Args:
        session: as it was left.
        tree: its tree.
        top: shapes of so many modules only, those that cost most by themselves.
        depth: or of those at most so deep.
    """
    parts: list[Part] = [Facts(tuple(_identity(session, tree)))]
    if session.file is not None:
        parts.append(_file(session.file))
    if tree.has_forward:
        parts.append(classes_grid(tree, figure_text.MOST_ROWS))
        parts.append(_shapes(session, tree, top, depth))
    return Section("architecture", "as traced" if tree.has_forward else "as stored", tuple(parts))


def _identity(session: Session, tree: Tree) -> list[tuple[str, str]]:
    modules = sum(node.kind == "module" for node in tree.nodes)
    levels = max(tree.depths)
    made = f"{thousands(modules)} modules, {levels} level{'s' * (levels != 1)} deep"
    ops = f", {thousands(tree.costs[0].ops)} operator calls per forward" * tree.has_forward
    model = session.model
    about = [] if model is None else _model(model, has_forward=tree.has_forward)
    environment = session.environment
    on = "" if environment is None else f"torch {environment.torch}, {environment.cpu}"
    return [
        *about,
        *figure_text.labelled("inputs", figure_text.inputs(inputs(session))),
        ("structure", made + ops),
        ("traced by", tree.method),
        *(figure_text.failed_attempts(tree.done) if tree.done is not None else ()),
        *((("machine", on),) if on else ()),
    ]


def _model(model: ModelFacts, *, has_forward: bool) -> list[tuple[str, str]]:
    mode = f", {'train' if model.training else 'eval'} mode"
    return [
        ("class", model.type),
        ("source", model.source),
        ("weights", model.weights),
        ("device", model.device + mode * has_forward),
        *figure_text.no_batch(model),
        *figure_text.published(model),
    ]


def _file(file: FileFacts) -> Facts:
    return figure_text.facts(
        ("file", f"{file.kind}, {thousands(file.tensors)} tensors, {size(file.bytes)}"),
        ("checksum", file.checksum),
        ("imports", ", ".join(file.globals) or "nothing"),
        *figure_text.labelled("problems", figure_text.problems(file)),
        ("to run it", file.hint),
    )


def _shapes(session: Session, tree: Tree, top: int | None, depth: int | None) -> Grid:
    """Return the first tensor that went into each module and that came out, as in the explorer.

    They have a table of their own: beside the figures of a layer there is no room in 90 columns.
    """
    chosen = costliest_modules(session, top) if top is not None else modules_to_depth(tree, depth)
    rows = tuple(
        (
            (node.path or node.name) if top is not None else node.name,
            node.type,
            shape_text(node, "in") or ZERO,
            shape_text(node, "out") or ZERO,
        )
        for node in map(tree.nodes.__getitem__, chosen)
    )
    return Grid(
        (names("module"), names("class"), names("in"), names("out")),
        rows,
        depths=() if top is not None else tuple(tree.depths[at] for at in chosen),
    )


def classes_grid(tree: Tree, most: int) -> Grid:
    """Return layers by class, most FLOPs first."""
    found = layer_types(tree)
    rows = tuple(
        (
            one.type,
            thousands(one.count),
            count(one.parameters),
            figure_text.figure(known(one.flops), count),
            figure_text.percent(one.share),
        )
        for one in found[:most]
    )
    columns = (
        short(names("class of layer"), "class", 20),
        short(Column("layers"), "count", 8),
        short(Column("parameters"), "param", 9),
        short(Column("FLOP"), "FLOP", 9),
        short(Column("% FLOP"), "%", 6),
    )
    return Grid(columns, rows, left_out=max(len(found) - most, 0))

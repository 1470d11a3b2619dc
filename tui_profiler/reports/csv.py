"""Nodes, flat tables, weights and points of a sweep as CSV.

A line for each, plain numbers, an empty cell for what is not known.

Times are seconds (of nodes and flat tables means of one forward, of the backward of one training
step), sizes bytes, shares 0 to 1, SQNR dB. Shapes are of the first tensor that went into the first
call, and that came out of it.

Text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV
Injection").
"""

import csv
import io
from collections.abc import Callable, Iterable
from math import prod

from tui_profiler.figures.units import shape_cell
from tui_profiler.formatting.text import printable
from tui_profiler.messages import Cost, Figure, Tensor, Unknown, known
from tui_profiler.queries.cost.bound import bound, known_bytes, known_flops, known_macs
from tui_profiler.queries.cost.flat import By, FlatRow
from tui_profiler.queries.cost.totals import costliest_modules, frozen, trainable
from tui_profiler.queries.parameters import weights
from tui_profiler.queries.sweep import Result, Sweep, results
from tui_profiler.queries.time.base import base
from tui_profiler.queries.time.node_seconds import node_seconds, part_of, root_seconds
from tui_profiler.queries.time.repeated_siblings import Steps, Sums, members
from tui_profiler.queries.training.backward_bound import backward_bound
from tui_profiler.queries.training.step_costs import node_backward
from tui_profiler.queries.tree.columns import summed_figure
from tui_profiler.queries.tree.depth import to_depth
from tui_profiler.session import Session

NODE_COLUMNS = (
    "model",
    *("path", "name", "type", "kind", "depth", "nodes", "parameters", "macs", "flops", "bytes"),
    *("seconds", "share", "bound", "input_shape", "output_shape"),
    *("trainable_parameters", "frozen_parameters", "cpu_seconds"),
    *("backward_macs", "backward_flops", "backward_bytes", "gradient_bytes", "saved_bytes"),
    *("backward_seconds", "recompute_seconds", "backward_bound"),
    *("base", "base_share"),
)
"""``share`` is of the forward, ``base_share`` of what ``base`` names: step, request or forward.
Where a line stands for several equal nodes, ``nodes`` says how many; figures are their sums."""
FLAT_COLUMNS = (
    *("model", "by", "name", "type", "nodes", "calls", "total_s", "self_s", "share"),
    *("parameters", "macs", "flops", "bytes", "output_shape", "self_cpu_s"),
    *("gpu_s", "allocated_bytes", "input_shape"),
)
WEIGHT_COLUMNS = (
    *("name", "shape", "dtype", "bytes", "is_buffer", "shared_with", "values", "nans"),
    *("infinities", "mean", "std", "minimum", "maximum", "zeros", "int8_db", "width", "width_bits"),
    *("prunable", "change", "predicted_error", "output_error", "largest_error"),
)
"""``predicted_error`` and ``output_error`` are relative errors of the model's output under
``change``."""
SWEEP_COLUMNS = (
    *("state", "p50_s", "p95_s", "low_s", "high_s", "forwards", "items_per_s"),
    *("paper_bytes", "allocator_bytes", "process_bytes", "joules", "joules_per_item", "reason"),
)
"""After those of the axes."""
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def csv_nodes(
    session: Session, nodes: Iterable[int], steps: Callable[[int], Steps] = lambda node: ()
) -> str:
    """Return nodes as a file, its first line the names of the columns.

    Args:
        session: With a tree, else there is only the first line.
        nodes: Which, in the order of the lines.
        steps: Returns the runs that a line of a node sums over.
    """
    return _text([NODE_COLUMNS, *_node_lines(session, nodes, steps)])


def csv_model(
    session: Session, *, with_titles: bool, top: int | None = None, depth: int | None = None
) -> str:
    """Return every node of a model; several models are one table.

    Args:
        session: With a tree.
        with_titles: Begin with the names of the columns, as the first model does.
        top: Only so many modules, those with the highest self cost.
        depth: Only nodes at most so deep; the root is at depth 0. Not with ``top``.
    """
    tree = session.tree
    nodes = to_depth(tree, depth) if tree is not None else ()
    if top is not None:
        nodes = costliest_modules(session, top)
    lines = _node_lines(session, nodes, lambda node: ())
    return _text([NODE_COLUMNS, *lines] if with_titles else lines)


def flat_rows_csv(
    session: Session,
    by: By,
    rows: tuple[FlatRow, ...],
    *,
    with_titles: bool = True,
    delimiter: str = ",",
) -> str:
    """Return rows of a flat table as CSV or TSV.

    Args:
        session: Of the model.
        by: What a row stands for.
        rows: In their order.
        with_titles: Begin with the names of the columns.
        delimiter: A comma, or a tab.
    """
    model = _model(session)
    lines = [(model, by, *_flat_cells(row)) for row in rows]
    return _text([FLAT_COLUMNS, *lines] if with_titles else lines, delimiter)


def csv_weights(rows: Iterable[weights.WeightRow]) -> str:
    """Return parameters and buffers as a file, its first line the names of the columns."""
    return _text([WEIGHT_COLUMNS, *map(_weight_line, rows)])


def sweep_csv(sweep: Sweep) -> str:
    """Return the points of a sweep: their settings, then figures."""
    titles = (*(axis.name for axis in sweep.axes), *SWEEP_COLUMNS)
    return _text([titles, *map(_point_line, results(sweep))])


def as_text(text: str) -> str:
    """Return text for a cell: printable, whole, and never a formula."""
    text = printable(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _text(lines: Iterable[tuple[object, ...]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _model(session: Session) -> str:
    return as_text(session.model.name) if session.model is not None else ""


def _node_lines(
    session: Session, nodes: Iterable[int], steps: Callable[[int], Steps]
) -> list[tuple[object, ...]]:
    if session.tree is None:
        return []
    sums, whole_seconds, model = Sums(session), root_seconds(session), _model(session)
    return [(model, *_node(session, node, steps(node), sums, whole_seconds)) for node in nodes]


def _node(
    session: Session, node: int, steps: Steps, sums: Sums, whole_seconds: float | None
) -> tuple[object, ...]:
    tree = session.tree
    assert tree is not None
    found = tree.nodes[node]
    cost = sums.cost(node, steps) if steps else tree.costs[node]
    seconds = sums.seconds(node, steps) if steps else node_seconds(session, node)
    limit = bound(session, node, steps)
    if not seconds and (limit is None or not limit.measured):
        limit = None
    return (
        *(as_text(found.path), as_text(found.name), as_text(found.type), found.kind),
        *(tree.depths[node], prod(count for count, _ in steps)),
        *(cost.parameters, *_work(cost, has_forward=tree.has_forward)),
        *(_digits(seconds, 6), _digits(part_of(seconds, whole_seconds), 6)),
        limit.kind if limit is not None else "",
        *(_shape(found.inputs), _shape(found.outputs)),
        *(_whole(trainable(cost)), _whole(frozen(cost))),
        _digits(summed_figure(session, node, "cpu", steps), 6),
        *_backward(session, node, steps),
        _digits(summed_figure(session, node, "backward", steps), 6),
        _digits(summed_figure(session, node, "recompute", steps), 6),
        of_backward.kind if (of_backward := backward_bound(session, node, steps)) else "",
        base(session).name,
        _digits(summed_figure(session, node, "share", steps), 6),
    )


def _backward(session: Session, node: int, steps: Steps) -> tuple[object, ...]:
    """Return what a pass of a training step costs beside the forward; empty without one."""
    found = [node_backward(session, member) for member in members(node, steps)]
    every = [one for one in found if one is not None]
    if not every:
        return ("",) * 5
    return tuple(
        sum(getattr(one, name) for one in every)
        for name in ("macs", "flops", "bytes_moved", "gradient_bytes", "saved_bytes")
    )


def _shape(tensors: tuple[Tensor, ...]) -> str:
    """Return every axis of the first tensor: ``1x64x56x56``; empty for none and for a scalar."""
    return shape_cell(tensors[0].shape) if tensors else ""


def _work(cost: Cost, *, has_forward: bool) -> tuple[object, ...]:
    """Return multiply-accumulates, FLOPs and bytes; empty where no operator has a formula."""
    if not has_forward:
        return ("", "", "")
    return (_whole(known_macs(cost)), _whole(known_flops(cost)), _whole(known_bytes(cost)))


def _flat_cells(row: FlatRow) -> tuple[object, ...]:
    return (
        *(as_text(row.name), as_text(row.type), len(row.nodes), row.calls),
        *(_digits(known(figure), 6) for figure in (row.total, row.own, row.share)),
        *(row.parameters, _whole(row.macs), _whole(row.flops), _whole(row.bytes_moved)),
        shape_cell(row.output) if row.output is not None else "",
        *(_digits(known(figure), 6) for figure in (row.cpu, row.gpu)),
        _whole(row.allocated),
        shape_cell(row.input) if row.input is not None else "",
    )


def _weight_line(row: weights.WeightRow) -> tuple[object, ...]:
    found, one = row.statistics, row.sensitivity
    moments = found.moments if found is not None else None
    width = found.width if found is not None else None
    of_values: tuple[object, ...] = ("",) * 6
    if moments is not None:
        figures = (moments.mean, moments.std, moments.minimum, moments.maximum)
        of_values = (moments.nans, moments.infinities, *map(_digits, figures))

    def digits(column: weights.Column) -> str:
        return _digits(known(weights.figure(row, column)))

    return (
        *(as_text(row.name), shape_cell(row.shape), as_text(row.dtype), row.bytes),
        *(int(row.is_buffer), as_text(row.shared_with), row.values, *of_values),
        *(digits("zeros"), digits("int8")),
        *(as_text(width.format) if width is not None else "", digits("width"), digits("prune")),
        weights.scheme_words(one.scheme) if one is not None else "",
        *(digits("predicted"), digits("error")),
        _digits(known(one.largest)) if one is not None else "",
    )


def _point_line(one: Result) -> tuple[object, ...]:
    times = (one.latency_p50, one.latency_p95, one.low, one.high)
    more = (one.items_per_second, one.paper_bytes, one.allocator_bytes, one.process_bytes)
    return (
        *(as_text(value) if isinstance(value, str) else value for value in one.point.values),
        *(one.state, *(_digits(known(figure)) for figure in times), one.forwards),
        *(_digits(known(figure)) for figure in (*more, one.joules, one.joules_per_item)),
        as_text(one.failure),
    )


def _digits(value: float | None, digits: int = 9) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def _whole(figure: Figure | None) -> object:
    return "" if figure is None or isinstance(figure, Unknown) else figure

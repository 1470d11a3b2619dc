"""Nodes as CSV: one line a node, plain numbers, an empty cell for what is not known.

Seconds are means of one forward, bytes are read and written, shares are of 0 to 1. Where a line
stands for several equal nodes, ``nodes`` says how many and the figures are their sums. Shapes are
of the first tensor that went into the first call, and that came out of it.

Text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV
Injection").
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from math import prod

from tui_profiler.figures.units import shape_cell
from tui_profiler.formatting.text import printable
from tui_profiler.messages import Cost, Tensor, Unknown
from tui_profiler.queries.cost.bound import bound, bytes_moved
from tui_profiler.queries.cost.totals import dearest_modules
from tui_profiler.queries.cost.trainable import frozen, trainable
from tui_profiler.queries.time.node_seconds import node_seconds, part_of, root_seconds
from tui_profiler.queries.time.repeated_siblings import Steps, Sums
from tui_profiler.queries.tree.depth import to_depth
from tui_profiler.session import Session

COLUMNS = (
    "model",
    *("path", "name", "type", "kind", "depth", "nodes", "parameters", "macs", "flops", "bytes"),
    *("seconds", "share", "bound", "input_shape", "output_shape"),
    *("trainable_parameters", "frozen_parameters"),
)
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def csv_nodes(
    session: Session, nodes: Iterable[int], steps: Callable[[int], Steps] = lambda node: ()
) -> str:
    """Return the text of the file, its first line the names of the columns.

    Args:
        session: with a tree, else there is only the first line.
        nodes: which, in the order of the lines.
        steps: gives the runs that a line of a node sums over.
    """
    return _text([COLUMNS, *_lines(session, nodes, steps)])


def csv_model(
    session: Session, *, with_titles: bool, top: int | None = None, depth: int | None = None
) -> str:
    """Return every node of a model; several models are one table.

    Args:
        session: with a tree.
        with_titles: begin with the names of the columns, as the first model does.
        top: only so many modules, those that cost most by themselves.
        depth: only nodes at most so deep; the root is at depth 0. Not with ``top``.
    """
    tree = session.tree
    nodes = to_depth(tree, depth) if tree is not None else ()
    if top is not None:
        nodes = dearest_modules(session, top)
    lines = _lines(session, nodes, lambda node: ())
    return _text([COLUMNS, *lines] if with_titles else lines)


def as_text(text: str) -> str:
    """Return text for a cell: printable, whole, and never a formula."""
    text = printable(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _text(lines: Iterable[tuple[object, ...]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _lines(
    session: Session, nodes: Iterable[int], steps: Callable[[int], Steps]
) -> list[tuple[object, ...]]:
    if session.tree is None:
        return []
    sums, whole_seconds = Sums(session), root_seconds(session)
    model = as_text(session.model.name) if session.model is not None else ""
    return [(model, *_line(session, node, steps(node), sums, whole_seconds)) for node in nodes]


def _line(
    session: Session, node: int, steps: Steps, sums: Sums, whole_seconds: float | None
) -> tuple[object, ...]:
    tree = session.tree
    assert tree is not None
    found = tree.nodes[node]
    cost = sums.cost(node, steps) if steps else tree.costs[node]
    seconds = sums.seconds(node, steps) if steps else node_seconds(session, node)
    share = part_of(seconds, whole_seconds)
    limit = bound(session, node, steps)
    if not seconds and (limit is None or not limit.measured):
        limit = None
    return (
        *(as_text(found.path), as_text(found.name), as_text(found.type), found.kind),
        *(tree.depths[node], prod(count for count, _ in steps)),
        *(cost.parameters, *_work(cost, has_forward=tree.has_forward)),
        *(_digits(seconds), _digits(share), limit.kind if limit is not None else ""),
        *(_shape(found.inputs), _shape(found.outputs)),
        *(_known(trainable(cost)), _known(frozen(cost))),
    )


def _shape(tensors: tuple[Tensor, ...]) -> str:
    """Return every axis of the first tensor: ``1x64x56x56``; empty for none and for a scalar."""
    return shape_cell(tensors[0].shape) if tensors else ""


def _known(figure: int | Unknown) -> object:
    return "" if isinstance(figure, Unknown) else figure


def _work(cost: Cost, *, has_forward: bool) -> tuple[object, ...]:
    """Return multiply-accumulates, FLOPs and bytes; empty where no operator has a formula."""
    if not has_forward:
        return ("", "", "")
    if cost.ops and cost.uncosted == cost.ops:
        return ("", "", bytes_moved(cost))
    return (cost.macs, cost.flops, bytes_moved(cost))


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"

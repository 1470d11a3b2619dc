"""Which node of the roofline lies under the mouse: a row of the list, or a point of the plot."""

from __future__ import annotations

from tui_profiler.queries.cost.roofline_view import RooflineView

from .lines import form_for, head_rows
from .list import list_rows
from .plot import BELOW, SCALE

REACH = 2
"""Cells around a point that count as the point."""


def node_under(view: RooflineView, node: int, size: tuple[int, int], at: tuple[int, int]) -> int:
    """Return the node at a cell of the view; where there is none, the selected one.

    Args:
        view: the points and their order.
        node: the selected node.
        size: columns and rows of the whole view.
        at: column and row of the cell.
    """
    form = form_for(*size)
    x, y = at
    listed = form.plot_cells + 1 if form.is_beside else 0
    top = 0 if form.is_beside else form.plot_rows + form.detail_rows
    if form.list_rows and x >= listed and top <= y < top + form.list_rows:
        return _of_list(view, node, y - top, form.list_rows)
    inside = x < form.plot_cells and y < form.plot_rows
    return _of_plot(view, node, at, (form.plot_cells, form.plot_rows)) if inside else node


def _of_list(view: RooflineView, node: int, line: int, rows: int) -> int:
    body = list_rows(rows)
    first = view.first_row(node, body)
    rank = first + line - (rows - body)
    is_there = view.parts is not None and rank >= first and rank < len(view.order)
    return view.parts.nodes[view.order[rank]] if view.parts is not None and is_there else node


def _of_plot(view: RooflineView, node: int, at: tuple[int, int], size: tuple[int, int]) -> int:
    """Return the nearest point; of several in one cell the one that takes the most time."""
    head = head_rows(size[1])
    column, row = at[0] - SCALE, at[1] - head
    found, now = view.parts, view.now
    if found is None or now is None:
        return node
    columns, rows = size[0] - SCALE - 2, size[1] - head - BELOW
    nearest, distance = node, REACH + 1
    for place in view.order:
        if not found.flops[place] or not found.intensities[place]:
            continue
        x = view.x.cell(found.intensities[place], columns)
        y = view.y.cell(found.flops[place] / now.seconds[place], rows)
        if x is not None and y is not None:
            apart = max(abs(x - column), abs(rows - 1 - y - row))
            if apart < distance:
                nearest, distance = found.nodes[place], apart
    return nearest

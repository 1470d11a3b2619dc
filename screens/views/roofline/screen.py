"""The roofline: what every node reaches of what this machine can do; the cursor walks the nodes."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.training.backward_bound import why_no_backward_bound
from tui_profiler.queries.training.backward_roofline import BACKWARD

from ...actions.view_keys import ROOFLINE, own_bindings
from ...widgets.key_bar import Keys
from ...widgets.lines import Line
from ...widgets.rows import Look
from ..view_screen import RowsScreen
from .lines import form_for, head_rows, list_rows, roofline_lines, status_row
from .plot import BELOW, SCALE


class RooflineScreen(RowsScreen):
    """Shows the nodes under the roofs of this machine."""

    name_of_view = "roofline"
    keys: ClassVar[Keys] = (
        ("esc", "back"),
        ("↑↓", "by time"),
        ("←→", "by FLOP/B"),
        ("↵", "node"),
    )
    every_key = ROOFLINE
    WHEEL_ROWS = 1
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(ROOFLINE)]

    def begin(self) -> None:
        """Keep the axes, the order and the cursor."""
        self._views = (RooflineView(), RooflineView(BACKWARD))
        self.view = self._views[0]

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the plot, the nodes by time, and the selected node."""
        forward, backward = self._views
        has_backward = not why_no_backward_bound(look.session)
        if has_backward:
            backward.update(look.session, look.now, (forward,))
        elif self.view is backward:
            self.view = forward
        forward.update(look.session, look.now, (backward,) if has_backward else ())
        other = backward if self.view is forward else forward
        return roofline_lines(look, self.view, rows, other if has_backward else None)

    def status(self, look: Look) -> Line:
        """Return how much of the forward lies far below its roof."""
        return status_row(look, self.view)

    def touched(self, x: int, y: int) -> None:
        """Select the point or the row."""
        self.view.touch(self.now())
        size = self.query_one("#view").size
        self.select(node_under(self.view, self.node, (size.width, size.height), (x, y)))

    def action_direction(self) -> None:
        """Show list and figures of the backward, or of the forward again."""
        if why := why_no_backward_bound(self.session_shown):
            self.say(f"no backward: {why}")
            return
        forward, backward = self._views
        self.view = backward if self.view is forward else forward
        self.refresh_view()

    def action_move(self, by: int) -> None:
        """Go to a node that takes less time, or more."""
        self.view.touch(self.now())
        self.select(self.view.walked(self.node, by))

    def action_page(self, pages: int) -> None:
        """Go half a page of the list down or up."""
        rows = form_for(self.size.width, self.lines_of_view).list_rows
        self.action_move(pages * max(rows // 2, 5))

    def action_cross(self, steps: int) -> None:
        """Go to a node with more FLOPs per byte, or fewer."""
        self.view.touch(self.now())
        self.select(self.view.crossed(self.node, steps))


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

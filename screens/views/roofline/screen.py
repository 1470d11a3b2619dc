"""The roofline: what every node reaches of what this machine can do; the cursor walks the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler.queries.cost.roofline_view import RooflineView

from ...actions.view_keys import ROOFLINE, own_bindings
from ...widgets.key_bar import Keys
from ...widgets.lines import Line
from ...widgets.rows import Look
from ..view_screen import PointedScreen
from .click import node_under
from .lines import form_for, roofline_lines, status_row


class RooflineScreen(PointedScreen):
    """Shows the nodes under the roofs of this machine."""

    name_of_view = "roofline"
    keys: ClassVar[Keys] = (
        ("esc", "back"),
        ("↑↓", "by time"),
        ("←→", "by FLOP/B"),
        ("↵", "node"),
    )
    every_key = ROOFLINE
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(ROOFLINE)]

    def begin(self) -> None:
        """Keep the axes, the order and the cursor."""
        self.view = RooflineView()

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the plot, the nodes by time, and the selected node."""
        self.view.update(look.session, look.now)
        self._rows = rows
        return roofline_lines(look, self.view, rows)

    def status(self, look: Look) -> Line:
        """Return how much of the forward lies far below its roof."""
        return status_row(look, self.view)

    def touched(self, x: int, y: int) -> None:
        """Select the point or the row."""
        self.view.touch(self.now())
        size = self.query_one("#view").size
        self.select(node_under(self.view, self.node, (size.width, size.height), (x, y)))

    def on_mouse_scroll_down(self) -> None:
        """Go on by time."""
        self.action_walk(1)

    def on_mouse_scroll_up(self) -> None:
        """Go back by time."""
        self.action_walk(-1)

    def action_walk(self, steps: int) -> None:
        """Go to a node that takes less time, or more."""
        self.view.touch(self.now())
        self.select(self.view.walked(self.node, steps))

    def action_page(self, pages: int) -> None:
        """Go half a page of the list down or up."""
        rows = form_for(self.size.width, self._rows).list_rows
        self.action_walk(pages * max(rows // 2, 5))

    def action_cross(self, steps: int) -> None:
        """Go to a node with more FLOPs a byte, or fewer."""
        self.view.touch(self.now())
        self.select(self.view.crossed(self.node, steps))

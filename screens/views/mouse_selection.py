"""Views beside the explorer whose rows or points are nodes: the mouse selects them too."""

from __future__ import annotations

from textual import events

from .view_screen import Left, SideScreen


class PointedScreen(SideScreen):
    """Selects what is clicked; opens it at the second click, and at a key."""

    def on_click(self, event: events.Click) -> None:
        """Select what is under the mouse; at the second click open it."""
        region = self.query_one("#view").region
        if not region.contains_point(event.screen_offset):
            return
        if event.chain == 2:
            self.action_open()
        else:
            at = event.screen_offset - region.offset
            self.touched(at.x, at.y)

    def touched(self, x: int, y: int) -> None:
        """Select what lies in a cell of the view."""
        raise NotImplementedError

    def action_open(self) -> None:
        """Open the selected node."""
        self.dismiss(Left(self.node, "node"))

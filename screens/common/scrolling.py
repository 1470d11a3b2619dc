"""Screens that are one list of lines: the keys that move through it, and back.

A binding bears the name of the explorer's action that does the same, so that a user's own keys hold
here as well.
"""

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.reactive import var
from textual.screen import Screen

from tui_profiler.session import EMPTY, Session

from ..widgets.scrolled import ScrolledLines

_Result = TypeVar("_Result")


class ScrollingScreen(Screen[_Result]):
    """Moves through the one ``ScrolledLines`` that it holds, and draws it when it must change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_by(-1)", show=False, id="up"),
        Binding("down,j", "scroll_by(1)", show=False, id="down"),
        Binding("pageup,ctrl+u", "page(-1)", show=False, id="page-up"),
        Binding("pagedown,ctrl+d,space", "page(1)", show=False, id="page-down"),
        Binding("home,g", "start", show=False, id="first"),
        Binding("end,G", "end", show=False, id="last"),
        Binding("escape,backspace", "back", show=False, id="back"),
        Binding("q", "back", show=False, id="leave"),
    ]

    session: var[Session] = var(EMPTY)

    def draw(self) -> None:
        """Draw everything."""

    def on_mount(self) -> None:
        """Draw after the layout."""
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        """Lay the lines out anew."""
        self.call_after_refresh(self.draw)

    def watch_session(self) -> None:
        """Draw what has changed."""
        if self.is_mounted:
            self.draw()

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()

    def action_scroll_by(self, rows: int) -> None:
        """Move by lines."""
        self.query_one(ScrolledLines).move(rows)

    def action_page(self, direction: int) -> None:
        """Move by half a page."""
        height = self.query_one(ScrolledLines).size.height
        self.action_scroll_by(direction * max(height // 2, 1))

    def action_start(self) -> None:
        """Go to the first line."""
        self.query_one(ScrolledLines).to_start()

    def action_end(self) -> None:
        """Go to the last line."""
        self.query_one(ScrolledLines).to_end()

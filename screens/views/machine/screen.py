"""The machine screen: every counter of the hardware, and the energy of a forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui_profiler.formatting.canvas import UNICODE, Glyphs

from ...common.scrolling import ScrollingScreen
from ...widgets.header import Header
from ...widgets.key_bar import KeyBar, key_bar
from ...widgets.rows import Look, finished
from ...widgets.scrolled import ScrolledLines
from .lines import hardware_lines

_KEYS = (("esc", "back"), ("↑↓", "scroll"), ("g", "top"), ("G", "end"))


class MachineScreen(ScrollingScreen[None]):
    """Shows the machine until it is left."""

    CSS = """
    MachineScreen #header, MachineScreen #keys { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("M", "back", show=False, id="machine"),
    ]

    def __init__(self, glyphs: Glyphs = UNICODE, now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._now = now
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """The header, the sections, the keys."""
        yield Header(self._glyphs, id="header")
        yield ScrolledLines(self._glyphs, id="lines")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Draw, and go on drawing what moves by the clock."""
        self.set_interval(1.0, self._draw)
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        """Lay the lines out anew."""
        self.call_after_refresh(self._draw)

    def watch_session(self) -> None:
        """Draw what a new sample says."""
        if self.is_mounted:
            self._draw()

    def _draw(self) -> None:
        if not self.is_current:
            return
        session, body = self.session, self.query_one(ScrolledLines)
        self.query_one(Header).show(session, self._now())
        # A tick changes nothing here but the energy, which comes with the samples.
        wanted = (session.sample, session.environment, session.ended, body.size)
        if wanted != self._drawn:
            self._drawn = wanted
            look = Look(session, 0, self._now(), max(body.size.width - 1, 3), self._glyphs)
            body.show(finished(hardware_lines(look), look))
        keys = key_bar(_KEYS, (), self.size.width, self._glyphs)
        self.query_one("#keys", KeyBar).lines = (keys,)

"""The log screen: what the model and the worker printed, and the traceback of a failure."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, without_escapes
from tui_profiler.queries.panel.state import ended_text
from tui_profiler.session import Session

from ..common.scrolling import ScrollingScreen
from ..widgets.key_bar import key_bar
from ..widgets.line_widgets import KeyBar, LinesWidget
from ..widgets.lines import EMPTY as BLANK
from ..widgets.lines import Line, spread
from ..widgets.rows import Look, finished, row, section
from ..widgets.scrolled import ScrolledLines

_KEYS = (("esc", "back"), ("↑↓", "scroll"), ("G", "follow the end"), ("g", "top"))


def log_lines(look: Look) -> tuple[Line, ...]:
    """Return the whole log: printed lines, then how the worker went, then a failure's traceback."""
    session = look.session
    log = session.log
    lines: list[Line] = []
    if log.total_lines > len(log.lines):
        left_out = thousands(log.total_lines - len(log.lines))
        lines.append(_said(f"{left_out} earlier lines dropped", "faint", look))
    printed = (*log.lines, safe(without_escapes(log.partial))) if log.partial else log.lines
    lines += [_said(line, "ink", look) for line in printed]
    if session.ended is not None and not session.ended.expected:
        lines += [BLANK, _said(f"{look.glyphs.failed} {ended_text(session.ended)}", "error", look)]
    failure = session.failure
    if failure is not None and failure.traceback:
        lines += [BLANK, section("traceback", f"{safe(failure.stage)} failed", look)]
        lines += [_said(safe(line), "ink", look) for line in failure.traceback.splitlines()]
    if not lines:
        lines = [_said("no output so far", "muted", look)]
    return finished(lines, look)


def title_line(session: Session, cells: int, *, follows: bool) -> Line:
    """Return the first row: how much was printed, what was dropped, if the end is followed."""
    log = session.log
    number = "1 line" if log.total_lines == 1 else f"{thousands(log.total_lines)} lines"
    left: Line = ((" log", "strong ink"), (f"  {number}", "muted"))
    if log.dropped_bytes:
        dropped = f"  {size(log.dropped_bytes)} dropped (rate limit)"
        left = (*left, (dropped, "error"))
    right: Line = (("follows the end ", "muted"),) if follows else (("paused ", "accent"),)
    return spread(left, right, cells)


def _said(text: str, role: str, look: Look) -> Line:
    return row(((text, role),), BLANK, look)


class LogScreen(ScrollingScreen[None]):
    """Shows the log; follows its end until the reader scrolls up."""

    CSS = """
    LogScreen #title, LogScreen #keys, LogScreen .blank { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("L", "back", show=False, id="log"),
    ]

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._follows = True
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """A title, the lines, the keys."""
        yield LinesWidget(id="title")
        yield LinesWidget(classes="blank")
        yield ScrolledLines(self._glyphs, id="lines")
        yield KeyBar(id="keys")

    def draw(self) -> None:
        """Draw the lines that came, at the end unless the reader scrolled up."""
        session, body = self.session, self.query_one(ScrolledLines)
        # Up to 5,000 lines are laid out only when one of them, or the width, is another one.
        wanted = (session.log, session.failure, session.ended, body.size)
        if wanted != self._drawn:
            self._drawn = wanted
            cells = max(body.size.width - 1, 3)
            body.show(log_lines(Look(session, 0, 0.0, cells, self._glyphs)))
            if self._follows:
                body.to_end()
        title = title_line(session, self.size.width, follows=self._follows)
        self.query_one("#title", LinesWidget).lines = (title,)
        keys = key_bar(_KEYS, (), self.size.width, self._glyphs)
        self.query_one("#keys", KeyBar).lines = (keys,)

    def action_scroll_by(self, rows: int) -> None:
        """Move by lines; at the end the log is followed again."""
        body = self.query_one(ScrolledLines)
        body.move(rows)
        self._follows = body.is_at_end
        self.draw()

    def action_start(self) -> None:
        """Go to the first line."""
        body = self.query_one(ScrolledLines)
        body.to_start()
        self._follows = body.is_at_end
        self.draw()

    def action_end(self) -> None:
        """Go to the end and follow it."""
        self.query_one(ScrolledLines).to_end()
        self._follows = True
        self.draw()

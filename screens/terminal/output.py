"""Only what changed is sent: between Textual's compositor and its driver.

1. Every update of Textual's is drawn into cells (``cells.py``); what differs from what the terminal
   shows is sent when the link is ready for it (``pace.py``). What is drawn meanwhile replaces what
   was not sent yet: keys are answered, and nothing queues up.
2. A frame is one write, inside synchronized output where the terminal has it. Where nothing
   differs, nothing is written.
3. On any surprise (a name of the list below missing, an exception, an unknown renderable, a control
   character in a text) Textual draws by itself for the rest of the run, everything anew, and a
   notification says why. ``--stock-output``, or ``TUI_PROFILER_STOCK_OUTPUT=1``, asks for that.

Private names of Textual's that this stands on, looked for at the start:

- ``App._display(screen, renderable)``, which is overridden, and ``App._batch_count``, ``_running``,
  ``_closed`` and ``_driver``, which it asks;
- of ``textual._compositor``: ``LayoutUpdate(strips, region)`` and
  ``ChopsUpdate(chops, spans, chop_ends)``;
- ``Strip.render_ansi``, and ``Console._color_system`` of Rich, so that colours are Textual's own;
- ``rich.cells.split_graphemes``, so that widths are those that widgets were laid out with;
- ``LinuxDriver._writer_thread`` and its ``_queue``; without them frames are not held back.
"""

import asyncio
import inspect
import os
import re
import zlib
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from rich.color import ColorSystem
from rich.console import RenderableType
from rich.style import Style
from textual.app import App
from textual.cache import LRUCache
from textual.driver import Driver
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

from tui_profiler.formatting.text import safe

from ..options.model import STOCK_OUTPUT
from .cells import PLAIN, Cell, Cells, CellStyle, cells_of, holds_odd, pen_from
from .early_frame import EarlyFrame
from .pace import Pace

try:
    from rich.cells import split_graphemes  # noqa: F401 # ``cells.py`` calls it
    from textual._compositor import ChopsUpdate, LayoutUpdate
except ImportError as error:
    _NOT_FOUND = str(error)
else:
    _NOT_FOUND = ""

QUESTION = "\x1b[6n"
"""Asks where the cursor is: nearly every terminal answers, when it has come so far."""
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_AGAIN_SECONDS = 0.02
_SETTLED_SECONDS = 0.1
_MOST_WAITING_SECONDS = 2.0
"""A first frame that is not whole by then is sent as it is."""
_MOST_PENS = 4096
_MOST_STRIPS = 160
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

_Result = TypeVar("_Result")
_Kept: TypeAlias = tuple[Strip | None, list[Cell], bool]
"""A strip, so that it is not another one at the same place, its cells, whether one is odd."""
_NO_STRIP: _Kept = (None, [], False)


class UnknownOutput(Exception):
    """Textual passed something that is not known here."""


def missing_names(app: object) -> str:
    """Name what this stands on and is not as it was; empty where all is."""
    if _NOT_FOUND:
        return _NOT_FOUND
    calls = (
        (App, "_display", ["self", "screen", "renderable"]),
        (LayoutUpdate, "__init__", ["self", "strips", "region"]),
        (ChopsUpdate, "__init__", ["self", "chops", "spans", "chop_ends"]),
        (Strip, "render_ansi", ["style", "color_system"]),
    )
    missing = [
        f"{owner.__name__}.{name}"
        for owner, name, wanted in calls
        if _parameters(getattr(owner, name, None)) != wanted
    ]
    asked = ("_batch_count", "_running", "_closed", "_driver")
    missing += [name for name in asked if not hasattr(app, name)]
    if not hasattr(getattr(app, "console", None), "_color_system"):
        missing.append("_color_system")
    return ", ".join(missing)


def _parameters(call: object) -> list[str]:
    return list(inspect.signature(call).parameters) if callable(call) else []


class SparingApp(App[_Result]):
    """An app whose frames are what changed."""

    early: EarlyFrame | None = None
    """What stands in the terminal until the driver takes it."""

    def __init__(self, driver_class: type[Driver] | None) -> None:
        super().__init__(driver_class=driver_class)
        self.pace = Pace()
        self.stock_because = ""
        """Why Textual draws by itself; empty while it does not."""
        self._cells = Cells(0, 0)
        self._pens: dict[Style | None, CellStyle] = {None: PLAIN}
        self._cells_of: LRUCache[int, _Kept] = LRUCache(_MOST_STRIPS)
        """Of strips that were drawn lately: a row that is scrolled is the same strip elsewhere."""
        self._cursor_shown: tuple[int, int] | None = None
        self._is_synchronized = False
        self._is_sending_later = False
        self.is_waiting = False
        """Whether nothing is sent, and no key acts, until ``begin``."""
        if os.environ.get(STOCK_OUTPUT) or driver_class is None:  # Or a browser draws.
            self.stock_because = "requested"
        elif missing := missing_names(self):
            self.stock_because = f"not as expected: {missing}"

    def take_over(self, early: EarlyFrame) -> None:
        """Begin with a frame that stands in the terminal, and send nothing until ``begin``."""
        self.early = early
        if not self.stock_because:
            self._cells, self._cursor_shown, self.is_waiting = early.cells, (0, 0), True

    def forget(self) -> None:
        """Take it that nothing is known of what the terminal shows."""
        self._cells.forget()

    def begin(self) -> None:
        """Send what is drawn, from now on: the first frame is whole."""
        if self.is_waiting:
            self.is_waiting = False
            self._send_or_give_up()

    def on_ready(self) -> None:
        """Tell of what was not as expected, and catch up with the size."""
        if self.is_waiting:
            self.set_timer(_MOST_WAITING_SECONDS, self.begin)
        # A browser's first resize can overtake the size that Textual's driver starts with.
        if (newest := getattr(self._driver, "_size", None)) is not None:
            self.post_message(Resize(Size(*newest), Size(*newest)))
        if self.stock_because not in ("", "requested"):
            self._tell_of_stock()

    def on_resize(self) -> None:
        """Take it that nothing is known: the terminal changed its size, or was given away."""
        if self.is_waiting:
            return  # This may only be the size that Textual starts with: the driver knows.
        self.forget()
        self.pace.forget()
        # Where the size is the old one again, Textual itself draws nothing.
        if self.stock_because:
            self.call_later(self.refresh)
        else:
            self._send_later(_SETTLED_SECONDS)

    def on_terminal_supports_synchronized_output(self) -> None:
        """Let frames be shown at once from now on."""
        self._is_synchronized = True

    def on_cursor_position(self) -> None:
        """Send what waited for this answer."""
        self.pace.answered()
        self._send_or_give_up()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        self.show(screen, [renderable])

    def show(self, screen: Screen[Any], updates: Sequence[RenderableType | None]) -> None:
        """Show updates of Textual's in one frame."""
        driver = self._driver
        is_ours = not self.stock_because and not self._batch_count and self._is_drawn_on
        if not is_ours or driver is None or driver.is_inline or None in updates:
            self._show_as_textual(screen, updates)
            return
        try:
            for update in updates:
                self._take(update)
            self._send_frame()
        except Exception as error:
            self._give_up(error)
            self._show_as_textual(screen, updates)
        else:
            self.post_display_hook()

    def _show_as_textual(
        self, screen: Screen[Any], updates: Sequence[RenderableType | None]
    ) -> None:
        for update in updates:
            super()._display(screen, update)

    @property
    def _is_drawn_on(self) -> bool:
        return self._running and not self._closed and not self.is_headless

    def _take(self, update: object) -> None:
        """Want what an update of Textual's shows, wherever it would write."""
        if self.size != (self._cells.columns, self._cells.rows):
            self._cells = Cells(*self.size)
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                x = update.region.x
                for strip in strips:
                    x += self._take_strip(x, y, strip)
        elif isinstance(update, ChopsUpdate):
            for y, start, stop in update.spans:
                for end, (x, chop) in zip(
                    update.chop_ends[y], update.chops[y].items(), strict=True
                ):
                    if chop is not None and x < stop and end > start:
                        whole = x >= start and end <= stop
                        self._take_strip(x, y, chop if whole else chop.crop(0, min(end, stop) - x))
        else:
            raise UnknownOutput(f"cannot draw a {type(update).__name__}")

    def _take_strip(self, x: int, y: int, strip: Strip) -> int:
        """Want a strip; return the cells that it takes."""
        of, cells, odd = self._cells_of.get(id(strip), _NO_STRIP)
        if of is not strip:
            cells = self._cells_in(strip)
            odd = any(map(holds_odd, cells))
            self._cells_of[id(strip)] = strip, cells, odd
        self._cells.put(x, y, cells, strip.cell_length, odd=odd)
        return strip.cell_length

    def _cells_in(self, strip: Strip) -> list[Cell]:
        cells: list[Cell] = []
        for text, style, control in strip:
            if control or _CONTROL.search(text):
                raise UnknownOutput("a control character in a text")
            pen = self._pens.get(style) or self._pen(style)
            cells += cells_of(text, pen)
        return cells

    def _pen(self, style: Style | None) -> CellStyle:
        assert style is not None  # It is there from the beginning.
        system = self.console._color_system or ColorSystem.TRUECOLOR
        address = style.link or ""
        if _CONTROL.search(address):
            raise UnknownOutput("a control character in a link")
        link = f"id={zlib.crc32(address.encode()):x};{address}" if address else ""
        if len(self._pens) >= _MOST_PENS:
            self._pens = {None: PLAIN}
        pen = self._pens[style] = pen_from(Strip.render_ansi(style, system), link)
        return pen

    def _send_frame(self) -> None:
        """Send what differs, or as much of it as goes now."""
        driver, cells = self._driver, self._cells
        if driver is None or not self._is_drawn_on:
            return
        if self.is_waiting or self._batch_count or self.size != (cells.columns, cells.rows):
            return  # An update of everything follows.
        if not self.pace.may_send(is_written=_is_written(driver)):
            self._send_later(_AGAIN_SECONDS)
            return
        writer = cells.frame(self.pace.most_bytes)
        cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
        if writer.parts or cursor != self._cursor_shown:
            self._cursor_shown = cursor
            frame = writer.finished(cursor)
            if self._is_synchronized:
                frame = _BEGIN + frame + _END
            asks = self.pace.asks
            driver.write(frame + QUESTION if asks else frame)
            driver.flush()
            self.pace.sent(len(frame.encode()), asks=asks)
        if cells.dirty:
            self._send_later(_AGAIN_SECONDS)

    def _send_later(self, seconds: float) -> None:
        if not self._is_sending_later:
            self._is_sending_later = True
            asyncio.get_running_loop().call_later(seconds, self._send_now)

    def _send_now(self) -> None:
        self._is_sending_later = False
        self._send_or_give_up()

    def _send_or_give_up(self) -> None:
        if not self.stock_because:
            try:
                self._send_frame()
            except Exception as error:  # rule 3
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Let Textual draw, from now on and everything anew."""
        self.stock_because = safe(str(error) or type(error).__name__)
        self.log.error(f"{type(error).__name__}: {self.stock_because}")
        self._tell_of_stock()
        self.call_later(self.refresh)

    def _tell_of_stock(self) -> None:
        text = f"Textual writes to the terminal: {self.stock_because}"
        self.notify(text, severity="warning", markup=False)


def _is_written(driver: object) -> bool:
    """Whether the writer has taken all that it was given."""
    queue = getattr(getattr(driver, "_writer_thread", None), "_queue", None)
    return queue is None or queue.empty()

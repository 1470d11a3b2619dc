"""Screens beside the explorer: other views of the same session and the same selected node.

1. A view is a pure function of the session, the selected node, the time and the size; it is drawn
   into one widget that repaints the rows that changed.
2. The selection goes with the user: into the view, from one view to the next, and back.
"""

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import var

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import Request
from tui_profiler.session import EMPTY, Session

from ..actions.table import SIDE_SCREENS, Key, side_keys
from ..common.base_app import own_keys, redraw_seconds
from ..common.copy_export import CopyExport, ExportContent
from ..common.narrow import is_narrow
from ..common.ordered_table import OrderedTable
from ..common.view_pause import ViewPause
from ..terminal.painting import PaintedScreen
from ..widgets.header import header_lines
from ..widgets.heading import Heading
from ..widgets.key_bar import Keys, key_bar
from ..widgets.line_widgets import KeyBar, LinesWidget, Panel
from ..widgets.lines import EMPTY as BLANK
from ..widgets.lines import Line
from ..widgets.prompt import PromptRow
from ..widgets.rows import Look, finished, row

SAID_SECONDS = 8.0


VIEW_BINDINGS: tuple[Binding, ...] = (
    Binding("question_mark", "keys", show=False, id="keys"),
    Binding("p", "pause", show=False, id="pause"),
    Binding("y", "copy", show=False, id="copy"),
    Binding("ctrl+p,colon", "leave_for('palette')", show=False, id="palette"),
    *(
        Binding(key.keys, f"leave_for('{key.label}')", show=False, id=key.label)
        for key in SIDE_SCREENS
    ),
)
"""Keys of every view of the explorer, the node screen included."""


class ViewState(Struct, frozen=True):
    """How a view was left."""

    node: int
    """The node that is selected now."""
    then: str = ""
    """The screen to go to; empty for the explorer."""


class SideScreen(OrderedTable, PaintedScreen[ViewState]):
    """Shows one view until it is left. A view says its ``name``, ``keys``, and what it draws."""

    name_of_view: ClassVar[str]
    """As in ``SIDE_SCREENS``."""
    keys: ClassVar[Keys] = ()
    """Its own keys, for the last row."""
    every_key: ClassVar[tuple[Key, ...]] = ()
    """Every key that only this view has, for the list of keys."""

    session: var[Session] = var(EMPTY)

    DEFAULT_CSS = """
    SideScreen #view { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", show=False, id="back"),
        Binding("q", "back", show=False, id="leave"),
        Binding("o", "leave_for('node')", show=False, id="node"),
        Binding("e", "export", show=False, id="export"),
        *VIEW_BINDINGS,
    ]

    def __init__(
        self,
        node: int,
        glyphs: Glyphs = UNICODE,
        now: Callable[[], float] = lambda: 0.0,
        view_pause: ViewPause | None = None,
    ) -> None:
        super().__init__()
        self.node = node
        """Index of the selected node."""
        self.glyphs = glyphs
        self.now = now
        self.tree_root = 0
        """Index of the root of the tree as it is shown, set by whoever opens the view."""
        self.send: Callable[[Request], None] = lambda request: None
        """What asks the probe, set by whoever opens the view."""
        self.view_pause = view_pause or ViewPause(self._send)
        self.prompt = PromptRow(self.refresh_view, self.say)
        given = ExportContent(
            self.name_of_view,
            session=lambda: self.session,
            path=self.selected_path,
            row=self.row_text,
            panel=self.panel_text,
            csv=self.rows_as_csv,
            tsv=self.rows_as_tsv,
            markdown=self.rows_as_markdown,
        )
        self._copying = CopyExport(self, given, self.say)
        self._path: str | None = None
        self._said: tuple[str, float] = ("", 0.0)
        self.begin()

    def _send(self, request: Request) -> None:
        self.send(request)

    def begin(self) -> None:
        """Set up what a view keeps for itself."""

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the view, at most ``rows`` lines of ``look.cells``."""
        return ()

    def status(self, look: Look) -> Line:
        """Return the row above the keys: one fact."""
        return BLANK

    def compose(self) -> ComposeResult:
        """The explorer's first and last rows, and the view between them."""
        yield Panel(id="header")
        yield LinesWidget(id="view")
        yield LinesWidget(id="status")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Draw, and go on drawing what moves by the clock."""
        self.set_interval(redraw_seconds(self.app), self._draw_when_current)
        self.call_after_refresh(self.refresh_view)

    def on_resize(self) -> None:
        """Choose the form for this size."""
        self.set_class(self.is_narrow, "narrow")
        self.call_after_refresh(self.refresh_view)

    def watch_session(self) -> None:
        """Draw what has changed."""
        self._draw_when_current()

    @property
    def is_narrow(self) -> bool:
        """Whether the terminal is too small for the roomy form."""
        return is_narrow(self.size)

    def _draw_when_current(self) -> None:
        if self.is_mounted and self.is_current:
            self.refresh_view()

    def refresh_view(self) -> None:
        """Draw everything."""
        held = self.view_pause.held
        session, now = held if held is not None else (self.session, self.now())
        self._follow(session)
        view, paused_at = self.query_one("#view", LinesWidget), held[1] if held else None
        look = Look(session, self.node, now, max(view.size.width, 3), self.glyphs)
        self.query_one("#header", Panel).show(
            replace(look, now=self.now()),
            lambda look, rows: header_lines(look, paused_at=paused_at),
        )
        view.lines = finished(self.draw(look, view.size.height), look, view.size.height)
        said, said_at = self._said
        is_said = bool(said) and time.monotonic() - said_at < SAID_SECONDS
        status = row(((safe(said), "ink"),), (), look) if is_said else self.status(look)
        self.query_one("#status", LinesWidget).lines = finished((status,), look)
        if (open_one := self.prompt.open_one) is not None:
            last = open_one.line(self.size.width)
        elif self.is_narrow and (is_said or self.has_news(look)):
            [last] = finished((status,), look)  # There is no other row for it.
        else:
            [last] = finished((self._bar(),), look)
        self.query_one("#keys", KeyBar).lines = (last,)

    def has_news(self, look: Look) -> bool:
        """Tell whether the status is worth the last row where it has none of its own."""
        return False

    def _bar(self) -> Line:
        others = side_keys(own_keys(self.app, SIDE_SCREENS), self.name_of_view)
        every = (*others, ("?", "keys"))
        return key_bar(self.keys, every, self.size.width, self.glyphs, self.name_of_view)

    def _follow(self, session: Session) -> None:
        """Keep to the same node when the model was traced anew."""
        tree = session.tree
        if tree is None:
            return
        is_there = self.node < len(tree)
        if self._path is None or (is_there and tree.nodes[self.node].path == self._path):
            self.node = self.node if is_there else 0
        else:
            self.node = tree.find(self._path) or 0
        self._path = tree.nodes[self.node].path

    def select(self, node: int) -> None:
        """Go to a node."""
        self.node, self._path = node, None
        self.refresh_view()

    def selected_path(self) -> str:
        """Return the path of the selected node."""
        return self._path or ""

    def say(self, text: str) -> None:
        """Tell it in place of the status, or over the view where that is too short for it."""
        if self.is_narrow and width(text) > self.size.width - 2:
            self.app.clear_notifications()
            self.notify(safe(text), timeout=SAID_SECONDS, markup=False)
            return
        self._said = (text, time.monotonic())
        self._draw_when_current()

    def heading(self, look: Look) -> Heading | None:
        """Return the columns of its table as they are drawn; None on a view without one."""
        return None

    def table_heading(self) -> Heading | None:
        """Return the columns at the size that the view has now."""
        return self.heading(self.look_now())

    def look_now(self) -> Look:
        """Return what the view is drawn from now."""
        cells = max(self.query_one("#view", LinesWidget).size.width, 3)
        return Look(self.session_shown, self.node, self.now(), cells, self.glyphs)

    def on_click(self, event: events.Click) -> None:
        """Order by the column whose title is clicked; else hand on where the view was clicked."""
        region = self.query_one("#view").region
        if region.contains_point(event.screen_offset):
            at = event.screen_offset - region.offset
            if not self.order_clicked(at.x, at.y):
                self.clicked(at.x, at.y, event.chain)

    def clicked(self, x: int, y: int, times: int) -> None:
        """Do what a click in a cell of the view stands for; ``times`` is 2 for a double one."""

    def row_text(self) -> str | None:
        """Return the row of the selected node; None on a view without rows."""
        return None

    def panel_text(self) -> str | None:
        """Return the panel that speaks of the selected node; None on a view without one."""
        return None

    def rows_as_csv(self) -> Callable[[], str] | None:
        """Return what writes the rows as CSV, in any thread; None on a view without rows."""
        return None

    def rows_as_tsv(self) -> str | None:
        """Return the rows with tabs between the cells; None on a view that copies no rows."""
        return None

    def rows_as_markdown(self) -> str | None:
        """Return the rows as a table of Markdown; None on a view that copies no rows."""
        return None

    def on_key(self, event: events.Key) -> None:
        """Hand what is typed to the prompt."""
        self.prompt.key(event)

    def on_paste(self, event: events.Paste) -> None:
        """Hand pasted text to an open prompt."""
        self.prompt.paste(event)

    def action_copy(self) -> None:
        """Ask what to copy."""
        self.prompt.take(self._copying.copy())

    def action_export(self) -> None:
        """Ask for the file."""
        self.prompt.take(self._copying.export())

    @property
    def session_shown(self) -> Session:
        """The session that is on screen: the newest, or the one at which the view was paused."""
        held = self.view_pause.held
        return held[0] if held is not None else self.session

    def action_pause(self) -> None:
        """Pause the view, or let it go on; of a recording, halt or play."""
        if said := self.view_pause.press(self.session, self.now()):
            self.say(said)
        self.refresh_view()

    def action_keys(self) -> None:
        """List the keys of this view; leaving the list leads back here."""
        from ..actions.help import KeysScreen  # noqa: PLC0415 # as in the explorer
        from ..actions.view_keys import EVERY  # noqa: PLC0415

        keys = (*self.every_key, *own_keys(self.app, EVERY))
        self.app.push_screen(KeysScreen(self.session, keys, self.glyphs, self.name_of_view))

    def action_back(self) -> None:
        """Go back to the explorer."""
        self.dismiss(ViewState(self.node))

    def action_leave_for(self, name: str) -> None:
        """Go to another screen; to its own: back."""
        self.dismiss(ViewState(self.node, name if name != self.name_of_view else ""))


class PointedScreen(SideScreen):
    """A view whose rows or points are nodes: a click selects one, the second opens it."""

    def clicked(self, x: int, y: int, times: int) -> None:
        """Select what is under the mouse; at the second click open it."""
        if times == 2:
            self.action_open()
        else:
            self.touched(x, y)

    def touched(self, x: int, y: int) -> None:
        """Select what lies in a cell of the view."""

    def action_open(self) -> None:
        """Open the selected node."""
        self.dismiss(ViewState(self.node, "node"))


class RowsScreen(PointedScreen):
    """A view with a cursor among rows: keys move it by one or half a page, the wheel by a few."""

    WHEEL_ROWS: ClassVar[int] = 3

    @property
    def lines_of_view(self) -> int:
        """Lines that there are for the view."""
        return self.query_one("#view").size.height

    def action_move(self, by: int) -> None:
        """Move the cursor by so many rows, no further than the ends."""

    def action_page(self, pages: int) -> None:
        """Move by half pages."""
        self.action_move(pages * max(self.lines_of_view // 2, 1))

    def on_mouse_scroll_down(self) -> None:
        """Go down."""
        self.action_move(self.WHEEL_ROWS)

    def on_mouse_scroll_up(self) -> None:
        """Go up."""
        self.action_move(-self.WHEEL_ROWS)


_CLASSES = {
    "timeline": "TimelineScreen",
    "roofline": "RooflineScreen",
    "memory": "MemoryScreen",
    "findings": "FindingsScreen",
    "weights": "WeightsScreen",
    "flat": "FlatScreen",
    "health": "HealthScreen",
    "compilation": "CompilationScreen",
}


def side_screen(name: str) -> type[SideScreen]:
    """Return the class of a screen that ``SIDE_SCREENS`` names, imported now."""
    module = import_module(f".{name}.screen", __package__)
    found: type[SideScreen] = getattr(module, _CLASSES[name])
    return found

"""The explorer: the tree, and panels that always speak of the selected node.

1. ``refresh_all`` draws everything from the session, the selection and the clock; it runs when one
   of them changes. Nothing here computes what is shown.
2. Until all parts are there (``layout.py``) it shows the stages of the loading.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler.formatting.text import safe, width
from tui_profiler.queries.panel.failure import trouble
from tui_profiler.queries.panel.remembered_tree import change, is_remembered
from tui_profiler.queries.panel.state import is_stale
from tui_profiler.session import Session

from ..actions.footer import explorer_bar
from ..actions.table import DEPTHS, EXPLORER, bindings
from ..widgets.header import Header
from ..widgets.lines import LinesWidget
from ..widgets.prompt import Choice
from ..widgets.rows import Look, finished, plain, row
from ..widgets.status import Status
from .layout import HINT, ExplorerParts
from .loading import Loading

SECTIONS = (None, "work", "timing", "bound", "machine")
SAID_SECONDS = 8.0
CLOCK_SECONDS = 0.9
"""Where nothing else has drawn the panels, the clock in them goes on about once a second."""


class ExplorerScreen(ExplorerParts):
    """Holds what is looked at, and hands it to the widgets."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(EXPLORER), *bindings(DEPTHS)]

    _said, _said_at = "", -1e9
    _told: Session | None = None
    _section = 0
    _draws_soon = False
    _panels_drawn_at = 0.0

    def on_screen_resume(self) -> None:
        """Draw what a view in front has changed: it may have paused, or let go on."""
        if self._is_complete:
            self.refresh_all()

    def watch_session(self, before: Session, after: Session) -> None:
        """Draw what has changed."""
        if self.is_mounted:
            self.refresh_all()
            if is_remembered(before) and after.tree is not None and not is_remembered(after):
                self.say(change(after))

    def tick(self) -> None:
        """Redraw what moves by the clock alone: how long it is loading, paused, without data."""
        if self.is_current:
            now = time.monotonic()
            if self._is_complete:
                self.tree_widget.settle(now)
            is_loading = self._shown().tree is None
            if is_loading or now - self._panels_drawn_at > CLOCK_SECONDS:
                self._draw_panels()

    def refresh_all(self) -> None:
        """Draw everything from the session, the selection and the clock."""
        session = self._shown()
        is_loading = session.tree is None or not self._is_complete  # Rule 2.
        self.set_class(is_loading, "loading")
        self.set_class(trouble(session) is not None, "failed")
        if self._is_complete:
            self.show_in_tree(session)
        self._draw_panels()

    def _shown(self) -> Session:
        """The session that is on screen: the newest, or the one at which the view was paused."""
        held = self.view_pause.held
        return held[0] if held is not None else self.session

    def _draw_panels(self) -> None:
        self._draws_soon = False
        self._panels_drawn_at = time.monotonic()
        session, now = self._shown(), self.now()
        held = self.view_pause.held
        paused_at = held[1] if held is not None else None
        header, loading = self.query_one(Header), self.query_one(Loading)
        header.spec = loading.spec = self.spec  # A remedy may have changed it.
        header.show(session, now, paused_at)
        if session.tree is None or not self._is_complete:
            loading.show(session, now, self.marked, HINT)
        else:
            self.tree_widget.stale = paused_at is None and is_stale(session, now)
            self._draw_panel(session, now if paused_at is None else paused_at)
        changed = self.difference(session)
        if self.is_narrow and changed and self._told is not self.before:
            self._told, self._said, self._said_at = self.before, changed[-2], time.monotonic()
        said = self._said if time.monotonic() - self._said_at < SAID_SECONDS else ""
        self.query_one(Status).show(session, now, said, changed)
        self._draw_keys(session, said)

    def _draw_panel(self, session: Session, now: float) -> None:
        """Draw what speaks of the selected node: of the three panels, the one that is shown."""
        node = self.tree_widget.view.selected
        self._strip.session, self._strip.selected = session, node
        if trouble(session) is not None:
            self._failure.show(session, now, self.marked)
        elif self.is_narrow:
            self._compact.show(session, node, now, SECTIONS[self._section])
        else:
            self._inspector.show(session, node, now)

    def _draw_keys(self, session: Session, said: str) -> None:
        """Draw the keys that matter here, or what was said where there is no row for it."""
        look = Look(session, 0, 0.0, self.size.width, self.glyphs)
        if (open_one := self.asks) is not None:
            line = plain(open_one.line(look.cells), self.glyphs)
        elif self.is_narrow and said:  # There is no other row for it.
            line = finished((row(((safe(said), "ink"),), (), look),), look)[0]
        else:
            line = explorer_bar(
                self.own_keys(), session, look.cells, narrow=self.is_narrow, glyphs=self.glyphs
            )
        self.query_one("#keys", LinesWidget).lines = (line,)

    def say(self, text: str) -> None:
        """Put an event into the status line."""
        if self.is_narrow and width(text) > self.size.width - 2:
            self.tell(text)  # The last row is all there is, and too short for it.
            return
        # By a clock of its own: a recording that stands still has another now.
        self._said, self._said_at = text, time.monotonic()
        self._draw_panels()

    def tell(self, text: str) -> None:
        """Say something that may be longer than the status line, or where there is none."""
        if not self.is_narrow and width(text) <= self.size.width - 2:
            self.say(text)
        else:
            self.app.clear_notifications()
            self.notify(safe(text), timeout=SAID_SECONDS, markup=False)

    def on_node_tree_changed(self) -> None:
        """Draw what depends on the view: first the tree with its cursor, then the panels, once."""
        if not self._draws_soon:
            self._draws_soon = self.call_after_refresh(self._draw_panels)

    def on_node_tree_opened(self) -> None:
        """Open what was clicked twice."""
        self.action_open()

    def action_open(self) -> None:
        """Make a block the root; open a leaf, or the root itself."""
        if self.session.tree is None or not self.tree_widget.drill_down():
            self.action_node()

    def action_pause(self) -> None:
        """Pause the view, or let it go on; of a recording, halt or play."""
        if said := self.view_pause.press(self.session, self.now()):
            self.say(said)
        self.refresh_all()

    # Looking.

    def action_panels(self) -> None:
        """Show the next section of the narrow panel in full; mark the next remedy of a failure."""
        found = trouble(self._shown())
        if found is not None and found.remedies:
            self.marked = (self.marked + 1) % len(found.remedies)
        self._section = (self._section + 1) % len(SECTIONS)
        self._draw_panels()

    def action_why(self) -> None:
        """Say where the figures of the selected node come from."""
        from tui_profiler.queries.panel.provenance import why  # noqa: PLC0415 # first paint does without it

        tree = self.tree_widget
        several = tree.stands_for()
        sums = f"sums of {several} equal nodes; of the first: " if several > 1 else ""
        self.tell(sums + why(self._shown(), tree.view.selected, tree.columns_shown))

    def forget_pause(self) -> None:
        """Let the view go on."""
        self.view_pause.held = None

    def draw_prompt(self) -> None:
        """Draw the last row, and what filters the tree."""
        self._draw_panels()

    def ask_what_becomes_of_it(self, let_go: Callable[[], None]) -> None:
        """Ask whether a script stops with us."""
        stop = ("s", "stop it", lambda: self.app.exit(0))
        run_on = ("l", "leave, and let it run here", let_go)
        self.open_prompt(Choice("the script runs", (stop, run_on)))

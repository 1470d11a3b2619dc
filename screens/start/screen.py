"""The start screen: what can be opened where no model was named."""

import asyncio
import os
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.queries.start_offers import Offer, matching
from tui_profiler.source.torch_processes import UsersPrograms

from ..actions.help import KeysScreen
from ..actions.view_keys import START, own_bindings
from ..common.base_app import ThemedApp
from ..settings.preferences import Preferences
from ..terminal.crashing import run_to_end
from ..widgets.key_bar import key_bar
from ..widgets.line_widgets import KeyBar, LinesWidget
from ..widgets.offer_lines import hint_of, start_lines
from ..widgets.prompt import MAX_LENGTH
from .offer_sources import demo_models, files_here, library_models, opened_before, running

LOOK_AGAIN_SECONDS = 1.0
_RIGHT = (("?", "keys"), ("ctrl+c", "quit"))


class StartScreen(Screen[None]):
    """Lists what can be opened; what is typed filters it: no character is a key while it is."""

    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(START)]

    def __init__(self, glyphs: Glyphs, folder: str, leave: Callable[[Offer | None], None]) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._folder = folder
        self._leave = leave
        self._standing: tuple[Offer, ...] = demo_models()
        self._watched: tuple[Offer, ...] = ()
        self._typed = ""
        self._found: tuple[Offer, ...] = ()
        self._selected = 0
        self._torch = UsersPrograms()
        self._asked: Offer | None = None
        """Of which it is asked whether to open it."""

    def compose(self) -> ComposeResult:
        """What can be opened, and the keys."""
        yield LinesWidget(id="offers")
        yield KeyBar(id="keys")

    async def on_mount(self) -> None:
        """Show what is known at once, then what must be looked for."""
        self._search("")
        self.set_interval(LOOK_AGAIN_SECONDS, self.look_for_programs)
        before = await asyncio.to_thread(opened_before, self._folder)
        files = await asyncio.to_thread(files_here, self._folder)
        self.offer((*before, *self._standing, *files))
        self.offer((*self._standing, *await asyncio.to_thread(library_models)))
        await self.look_for_programs()

    def on_resize(self) -> None:
        """Lay the rows out anew."""
        self._draw()

    def on_key(self, event: events.Key) -> None:
        """Search for what is typed; with nothing typed, ? is a key."""
        character = event.character or ""
        if not self._typed and character == "?":
            self.action_keys()
        elif character and character.isprintable():
            self._search(self._typed + character)
        else:
            return
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """Search for what is pasted, its first line."""
        line = event.text.split("\n", maxsplit=1)[0]
        self._search(self._typed + "".join(filter(str.isprintable, line)))

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._asked = None
        self._selected = max(0, min(self._selected + by, len(self._found) - 1))
        self._draw()

    def action_choose(self) -> None:
        """Open what is under the cursor, if it answers; ask first where it asks."""
        chosen = self._found[self._selected] if self._found else None
        if chosen is None or not chosen.is_live:
            return
        if not chosen.asks or chosen == self._asked:
            self._leave(chosen)
        else:
            self._asked = chosen
            self._draw()

    def action_erase(self) -> None:
        """Delete the last character."""
        self._search(self._typed[:-1])

    def action_clear(self) -> None:
        """Clear the search."""
        self._search("")

    def action_keys(self) -> None:
        """List the keys of this screen."""
        self.app.push_screen(KeysScreen(keys=START, glyphs=self._glyphs, view="the start screen"))

    def action_clear_or_leave(self) -> None:
        """Clear what was typed; with nothing typed, leave."""
        if self._asked is not None:
            self._asked = None
            self._draw()
        elif self._typed:
            self._search("")
        else:
            self._leave(None)

    def offer(self, offers: tuple[Offer, ...]) -> None:
        """List these, beside the running programs."""
        self._standing = offers
        self._refind()

    async def look_for_programs(self) -> None:
        """List the programs that watch a model now."""
        self._watched = await asyncio.to_thread(running, self._torch)
        self._refind()

    def _search(self, typed: str) -> None:
        self._asked = None
        self._typed = typed[:MAX_LENGTH]
        self._found, self._selected = self._matching()
        self._draw()

    def _refind(self) -> None:
        """Find anew with what is there now; the cursor stays on its offer."""
        chosen = self._found[self._selected] if self._found else None
        was_first = self._selected == 0
        self._found, best = self._matching()
        same = [at for at, offer in enumerate(self._found) if offer == chosen]
        self._selected = best if was_first or not same else same[0]
        self._draw()

    def _matching(self) -> tuple[tuple[Offer, ...], int]:
        path = os.path.join(self._folder, os.path.expanduser(self._typed.strip()))
        is_path = bool(self._typed.strip()) and os.path.lexists(path)
        return matching((*self._standing, *self._watched), self._typed, is_path=is_path)

    def _draw(self) -> None:
        if self.size.width < 4:
            return
        cells, rows = self.size
        size = (cells, max(rows - 1, 1))
        hint = hint_of(self._standing)
        lines = start_lines(self._found, self._selected, self._typed, size, self._glyphs, hint=hint)
        self.query_one("#offers", LinesWidget).lines = lines
        left = (("↵", "open"), ("↑↓", "move"), ("esc", "clear" if self._typed else "quit"))
        if self._asked is not None:
            left = (("↵", self._asked.asks), *left[1:2], ("esc", "no"))
        self.query_one("#keys", KeyBar).lines = (key_bar(left, _RIGHT, cells, self._glyphs),)


class StartApp(ThemedApp[Offer | None]):
    """Return what was chosen, or None when it is left."""

    CSS = "#offers { height: 1fr; } #keys { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "leave", show=False, priority=True),
    ]

    def __init__(self, preferences: Preferences, folder: str = "") -> None:
        super().__init__(preferences.theme)
        self._glyphs = preferences.glyphs
        self._folder = folder or os.getcwd()

    def get_default_screen(self) -> StartScreen:
        """Show the one screen that there is."""
        return StartScreen(self._glyphs, self._folder, self.exit)

    def action_leave(self) -> None:
        """Leave."""
        self.exit(None)


def choose(preferences: Preferences) -> tuple[Offer | None, int]:
    """Return what was chosen, None when the screen was left, and the exit code."""
    app = StartApp(preferences)
    code = run_to_end(app, mouse=preferences.mouse)
    return app.return_value, code

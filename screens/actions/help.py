"""The keys screen: every key, made from the one table; typing searches it."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.queries.panel.accepted_requests import refusal
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session import Session

from ..widgets.key_bar import KeyBar, key_bar
from ..widgets.lines import EMPTY, Line, LinesWidget
from ..widgets.rows import plain
from .table import EXPLORER, Key, shown

_GROUPS = {
    "here": "this view",
    "move": "move",
    "fold": "fold",
    "find": "find and sort",
    "live": "the running model",
    "play": "a recording",
    "look": "look",
    "screens": "screens",
}
_DEPTH = Key("1…9", "", "depth", "unfold to that depth", "fold")
"""All of ``DEPTHS`` in one row."""


def key_table() -> str:
    """Return the keys of the explorer by group, as the table of ``docs/keys.md``."""
    lines = ["| key | what it does |", "|---|---|"]
    for group, title in _GROUPS.items():
        found = [key for key in (*EXPLORER, _DEPTH) if key.group == group]
        if found:
            lines.append(f"| **{title}** | |")
            lines += [f"| `{shown(key)}` | {key.help} |" for key in found]
    return "\n".join(lines) + "\n"


def key_lines(
    search: str,
    session: Session = NOTHING,
    keys: tuple[Key, ...] = EXPLORER,
    glyphs: Glyphs = UNICODE,
) -> tuple[Line, ...]:
    """Return the keys whose key, name or help holds ``search``, by group.

    Those that the probe of ``session`` does not accept are dimmed, with the reason.
    """
    if any(key.action == "toggle_fold" for key in keys):  # Of the explorer.
        keys = (*keys, _DEPTH)
    wanted = search.casefold()
    lines: list[Line] = []
    for group, title in _GROUPS.items():
        found = [
            key
            for key in keys
            if key.group == group and wanted in f"{shown(key)} {key.label} {key.help}".casefold()
        ]
        if found:
            lines += [EMPTY, ((f" {title}", "strong"),)]
            lines += [_key_line(key, session, glyphs) for key in found]
    if not lines:
        lines = [EMPTY, ((f' no key matches "{search}"', "muted"), ("  esc clears", "faint"))]
    return tuple(lines)


def _key_line(key: Key, session: Session, glyphs: Glyphs) -> Line:
    name = shown(key).replace(UNICODE.enter, glyphs.enter)
    why_not = refusal(session, key.request)
    if why_not:
        return ((f"   {name:<14}", "faint"), (f"{key.label}: {why_not}", "faint"))
    return ((f"   {name:<14}", "strong accent"), (key.help, "ink"))


class KeysScreen(Screen[None]):
    """Lists the keys; what is typed filters them."""

    CSS = "KeysScreen #keys { height: 1fr; } KeysScreen #bar, KeysScreen #title { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", show=False),
        Binding("down,pagedown", "scroll_by(1)", show=False),
        Binding("up,pageup", "scroll_by(-1)", show=False),
    ]

    def __init__(
        self,
        session: Session = NOTHING,
        keys: tuple[Key, ...] = EXPLORER,
        glyphs: Glyphs = UNICODE,
        view: str = "",
    ) -> None:
        super().__init__()
        self._view = view
        """Whose keys they are; empty: those of the explorer, or all."""
        self._glyphs = glyphs
        self._keys = keys
        self._session = session
        self._search = ""
        self._top = 0

    def compose(self) -> ComposeResult:
        """A title with what was typed, the keys, the footer."""
        yield LinesWidget(id="title")
        yield LinesWidget(id="keys")
        yield KeyBar(id="bar")

    def on_mount(self) -> None:
        """Show all keys."""
        self._show()

    def on_resize(self) -> None:
        """Show as many as fit."""
        self._show()

    def on_key(self, event: events.Key) -> None:
        """Search for what is typed; an empty search and q or ? leave."""
        character = event.character or ""
        if event.key == "backspace":
            self._search = self._search[:-1]
        elif not self._search and character in ("q", "?"):
            if self.is_current:  # Keys typed at once all arrive here: only the first one dismisses.
                self.dismiss()
            return
        elif character.isprintable() and character:
            self._search += character
        else:
            return
        event.stop()
        self._top = 0
        self._show()

    def action_back(self) -> None:
        """Clear the search, then leave."""
        if self._search:
            self._search = ""
            self._show()
        elif self.is_current:
            self.dismiss()

    def action_scroll_by(self, direction: int) -> None:
        """Move by half a page."""
        self._top += direction * max(self.size.height // 2, 1)
        self._show()

    def _show(self) -> None:
        lines = key_lines(self._search, self._session, self._keys, self._glyphs)
        height = max(self.size.height - 2, 1)
        self._top = max(0, min(self._top, len(lines) - height))
        what = f" keys of {self._view}" if self._view else " keys"
        title: Line = ((what, "strong"), (f"  {self._search}▏", "accent"))
        if not self._search:
            title = ((what, "strong"), ("  type to search", "faint"))
        shown = (plain(line, self._glyphs) for line in lines[self._top : self._top + height])
        self.query_one("#title", LinesWidget).lines = (plain(title, self._glyphs),)
        self.query_one("#keys", LinesWidget).lines = shown
        bar = key_bar((("esc", "back"), ("↑↓", "scroll")), (), self.size.width)
        self.query_one("#bar", KeyBar).lines = (plain(bar, self._glyphs),)

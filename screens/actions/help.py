"""The keys screen: every key, made from the one table; typing searches it."""

from itertools import zip_longest
from typing import ClassVar

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import width, wrap
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session import Session

from ..widgets.key_bar import key_bar
from ..widgets.line_widgets import KeyBar, LinesWidget
from ..widgets.lines import EMPTY, Line, exact
from ..widgets.rows import plain
from .table import EXPLORER, Key, refusal, shown

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


LEAST_COLUMN = 56
"""Cells of a column that are worth having: a key, and most of what it does."""
_INDENT = 2


def key_lines(
    search: str,
    session: Session = NOTHING,
    keys: tuple[Key, ...] = EXPLORER,
    glyphs: Glyphs = UNICODE,
    size: tuple[int, int] = (80, 0),
) -> tuple[Line, ...]:
    """Return the keys whose key, name or help holds ``search``, by group, in columns.

    Where there is no room for all of them at once, first blank rows between groups go, then what
    is said of a key is cut to one row; where that is not enough either, there are more rows.
    Those that the probe of ``session`` does not accept are dimmed, with the reason.

    Args:
        search: what was typed; empty finds all.
        session: what the probe is known to accept.
        keys: as the user has them.
        glyphs: the set to draw with.
        size: cells and rows that there are; no rows: as many as it takes.
    """
    if any(key.action == "toggle_fold" for key in keys):  # Of the explorer.
        keys = (*keys, _DEPTH)
    wanted = search.casefold()
    groups: list[tuple[str, list[Key]]] = []
    for group, title in _GROUPS.items():
        found = [
            key
            for key in keys
            if key.group == group and wanted in f"{shown(key)} {key.label} {key.help}".casefold()
        ]
        if found:
            groups.append((title, found))
    if not groups:
        return EMPTY, ((f' no key matches "{search}"', "muted"), ("  esc clears", "faint"))
    cells, rows = size
    count = max(cells // LEAST_COLUMN, 1)
    named = max(width(shown(key)) for _, found in groups for key in found)
    form = _Form(cells // count, named, session, glyphs)
    for is_whole, is_loose in ((True, True), (True, False), (False, True), (False, False)):
        blocks = _blocks(groups, form, is_whole=is_whole, is_loose=is_loose)
        columns = _flowed(blocks, rows)
        if len(columns) <= count:
            return _side_by_side(columns, form.cells)
    blocks = _blocks(groups, form, is_whole=True, is_loose=True)
    rows = max(sum(map(len, blocks)) // count, 1)
    while len(columns := _flowed(blocks, rows)) > count:
        rows += 1
    return _side_by_side(columns, form.cells)


class _Form(Struct, frozen=True, eq=False):
    """How an entry is drawn."""

    cells: int
    """Of a column."""
    name_cells: int
    session: Session
    glyphs: Glyphs


def _blocks(
    groups: list[tuple[str, list[Key]]], form: _Form, *, is_whole: bool, is_loose: bool
) -> list[tuple[Line, ...]]:
    """Return what is not torn apart: each entry, the first one of a group with its title."""
    blocks: list[tuple[Line, ...]] = []
    for title, found in groups:
        head: tuple[Line, ...] = (((f" {title}", "strong"),),)
        head = (EMPTY, *head) if is_loose else head
        entries = [_entry(key, form, is_whole=is_whole) for key in found]
        blocks += [(*head, *entries[0]), *entries[1:]]
    return blocks


def _entry(key: Key, form: _Form, *, is_whole: bool) -> tuple[Line, ...]:
    glyphs, why_not = form.glyphs, refusal(form.session, key.request)
    name = shown(key).replace(UNICODE.enter, glyphs.enter)
    said = f"{key.label}: {why_not}" if why_not else key.help
    indent = _INDENT + max(form.name_cells, width(name)) + 1
    parts = wrap(said, max(form.cells - indent - 1, 1)) or ("",)
    if not is_whole and len(parts) > 1:
        cut = wrap(said, max(form.cells - indent - 1 - width(glyphs.ellipsis), 1))
        parts = (cut[0] + glyphs.ellipsis,)
    roles = ("faint", "faint") if why_not else ("strong accent", "ink")
    first: Line = ((f"{' ' * _INDENT}{name}".ljust(indent), roles[0]), (parts[0], roles[1]))
    return (first, *(((" " * indent + part, roles[1]),) for part in parts[1:]))


def _flowed(blocks: list[tuple[Line, ...]], rows: int) -> list[list[Line]]:
    """Return blocks one below the other, in columns of so many rows; of none: in one column."""
    columns: list[list[Line]] = [[]]
    for block in blocks:
        if rows and columns[-1] and len(columns[-1]) + len(block) > rows:
            columns.append([])
        # Blank rows are between groups, and above all columns or none: titles stand in one row.
        is_top, is_loose = not columns[-1], blocks[0][0] == EMPTY
        if is_top and is_loose:
            columns[-1].append(EMPTY)
        columns[-1] += block[1:] if is_top and block[0] == EMPTY else block
    return columns


def _side_by_side(columns: list[list[Line]], cells: int) -> tuple[Line, ...]:
    if len(columns) == 1:
        return tuple(columns[0])
    return tuple(
        tuple(span for line in lines for span in exact(line, cells))
        for lines in zip_longest(*columns, fillvalue=EMPTY)
    )


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
        height = max(self.size.height - 2, 1)
        size = (max(self.size.width, 1), height)
        lines = key_lines(self._search, self._session, self._keys, self._glyphs, size)
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

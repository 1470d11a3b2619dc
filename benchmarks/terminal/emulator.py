"""A terminal emulator whose every cell can be compared: pyte, taught what it lacks.

Graphemes are as wide as Rich takes them for; overwriting half of a wide one blanks the other half;
faint, hidden and overlined text and links are told apart.
"""

from __future__ import annotations

from typing import Any

import pyte
from pyte.screens import Char
from rich.cells import split_graphemes

from screens.terminal.output import QUESTION

_RARE = {"2": "dim", "8": "hidden", "53": "overline", "21": "double"}
_RARE_OFF = {"22": {"dim"}, "28": {"hidden"}, "55": {"overline"}, "24": {"double"}}


class CellScreen(pyte.Screen):
    """A terminal that is right about what pyte leaves out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.rare: frozenset[str] = frozenset()
        self.link = ""
        super().__init__(columns, rows)

    def reset(self) -> None:
        super().reset()
        self.rare, self.link = frozenset(), ""
        self.mode.discard(pyte.modes.DECAWM)  # Textual's driver turns it off.

    def select_graphic_rendition(self, *codes: int, **private: Any) -> None:
        super().select_graphic_rendition(*codes, **private)
        rest = iter(codes or (0,))
        for number in rest:
            code = str(number)
            if number in (38, 48):
                for _ in range(3 if next(rest) == 2 else 1):
                    next(rest)
            elif number == 0:
                self.rare = frozenset()
            elif code in _RARE:
                self.rare |= {_RARE[code]}
            elif code in _RARE_OFF:
                self.rare -= _RARE_OFF[code]

    def draw(self, data: str) -> None:
        line, (spans, _) = self.buffer[self.cursor.y], split_graphemes(data)
        for start, end, cells in spans:
            if cells == 0:
                continue  # It begins a text: ours leaves it out, see ``graphemes``.
            x = min(self.cursor.x, self.columns - cells)
            if x > 0 and line[x].data == "":
                line[x - 1] = line[x - 1]._replace(data=" ")
            if x + cells < self.columns and line[x + cells].data == "":
                line[x + cells] = line[x + cells]._replace(data=" ")
            marks = " ".join((self.cursor.attrs.fg, *sorted(self.rare), self.link))
            here = self.cursor.attrs._replace(data=data[start:end], fg=marks)
            line[x] = here
            if cells == 2:
                line[x + 1] = here._replace(data="")
            self.cursor.x = x + cells

    def cells(self) -> list[list[Char]]:
        """Every cell, row by row."""
        return [[self.buffer[y][x] for x in range(self.columns)] for y in range(self.lines)]


class Emulator:
    """A terminal and what was written to it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.screen = CellScreen(columns, rows)
        self._stream = pyte.Stream(self.screen)
        self.size = 0
        self.questions = 0

    def write(self, data: str) -> None:
        """Show what is written."""
        self.size += len(data.encode())
        self.questions += data.count(QUESTION)
        before, *linked = data.split("\x1b]8;")
        self._stream.feed(before)
        for part in linked:
            address, _, text = part.partition("\x1b\\")
            self.screen.link = address.partition(";")[2]
            self._stream.feed(text)

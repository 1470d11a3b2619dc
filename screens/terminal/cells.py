"""What the terminal shows, cell by cell, and the fewest bytes that make it show something else.

1. Nothing here knows of Textual: text and pens go in, bytes for a terminal come out.
2. ``wanted`` is what shall be shown, ``shown`` what is known to be. A character of two cells is one
   cell with it and an empty one after it; neither is ever there without the other.
3. A frame leaves the terminal with its plain pen, as it found it.
4. Terminals disagree on how many cells *odd* graphemes take (emoji, joined or accented sequences,
   rarer symbols). They are written over blanks, the cursor is placed anew after them, and a change
   next to one writes it again: a wrong guess can then spoil its own place alone, never a row.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress
from operator import ne
from typing import NamedTuple, TypeAlias


class CellStyle(NamedTuple):
    """How a cell is drawn; every part as the codes of its escape sequence."""

    attributes: tuple[str, ...] = ()
    colour: str = ""
    background: str = ""
    link: str = ""
    """Address and id of a hyperlink, as OSC 8 wants them."""


Cell: TypeAlias = tuple[str, CellStyle]
PLAIN = CellStyle()
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "8": "28", "9": "29"}
"""What ends an attribute. The others end with a reset alone."""
_GAP = 3
"""So many unchanged cells may be written again; moving over more is never longer."""
_ODD_REACH = 3
"""Cells that an odd grapheme may take or spoil."""
# One cell each, in every terminal that we know: Latin, Greek, Cyrillic, punctuation, arrows,
# mathematics, boxes and blocks, circles and triangles, braille. A test compares them with Rich.
_SURE = re.compile(
    "[\x20-\x7e\xa1-\xac\xae-\u02ff\u0370-\u0377\u037b-\u037e\u0384-\u0386\u0388-\u038a\u0391-\u03a1"
    "\u03a3-\u0482\u2010-\u2027\u2030-\u205e\u2190-\u21ff\u2200-\u22ff\u2500-\u25fc\u2800-\u28ff]*"
)
_SURE_AND_WIDE = re.compile("[\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]")
"""Two cells each, everywhere."""


def is_sure(text: str) -> bool:
    """Tell whether every character of a text surely takes one cell."""
    return _SURE.fullmatch(text) is not None


@lru_cache(2048)
def is_odd(grapheme: str) -> bool:
    """Tell whether terminals may disagree on the cells that one grapheme takes."""
    return not (len(grapheme) <= 1 and (is_sure(grapheme) or _SURE_AND_WIDE.match(grapheme)))


@lru_cache(2048)
def graphemes(text: str) -> tuple[str, ...]:
    """Split a text where Rich does; each wide grapheme is followed by an empty text.

    What takes no cell and has nothing before it is left out: a terminal would add it to whatever
    stands there already.
    """
    from rich.cells import split_graphemes  # noqa: PLC0415 # most texts are sure

    parts: list[str] = []
    for start, end, cells in split_graphemes(text)[0]:
        if cells:
            parts += [text[start:end], *[""] * (cells - 1)]
    return tuple(parts)


def pen_from(codes: str, link: str = "") -> CellStyle:
    """Return the pen that the codes of one SGR sequence make, from a plain one."""
    attributes: list[str] = []
    colours = {"3": "", "4": ""}
    rest = iter(codes.split(";") if codes else ())
    for code in rest:
        ground = {"3": "3", "9": "3", "4": "4", "10": "4"}.get(code[:-1], "")
        if code in ("38", "48"):
            kind = next(rest)
            parts = [next(rest) for _ in range(3 if kind == "2" else 1)]
            colours[ground] = ";".join((code, kind, *parts))
        elif ground in colours:
            colours[ground] = "" if code in ("39", "49") else code
        else:
            attributes.append(code)
    return CellStyle(tuple(attributes), colours["3"], colours["4"], link)


@lru_cache(4096)
def turn(old: CellStyle, new: CellStyle) -> str:
    """Return the shortest sequence from one pen to another."""
    link = "" if old.link == new.link else f"\x1b]8;{new.link or ';'}\x1b\\"
    if old[:3] == new[:3]:
        return link
    ways = [("0", *new.attributes, *filter(None, (new.colour, new.background)))]
    if old.attributes == new.attributes or {*old.attributes, *new.attributes} <= _OFF.keys():
        off = {_OFF[one] for one in old.attributes if one not in new.attributes}
        add = [one for one in new.attributes if one not in old.attributes or _OFF.get(one) in off]
        colour = [] if old.colour == new.colour else [new.colour or "39"]
        background = [] if old.background == new.background else [new.background or "49"]
        ways.append((*sorted(off), *add, *colour, *background))
    return f"{link}\x1b[{min(map(';'.join, ways), key=len)}m"


class FrameWriter:
    """Writes the sequences of one frame."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        """About how many bytes were written."""
        self._pen = PLAIN
        self._at: tuple[int, int] | None = None
        """Column and row of the cursor; None where terminals may disagree on it."""

    def put(self, places: Iterable[int], y: int, row: Sequence[Cell | None]) -> None:
        """Write the graphemes of some cells of a row, from left to right."""
        before, parts = len(self.parts), self.parts
        at, pen = self._at[0] if self._at is not None and self._at[1] == y else None, self._pen
        # One loop without calls: a tree that scrolls by a row changes five hundred cells.
        for x in places:
            cell = row[x]
            if cell is None or not cell[0]:
                continue  # Not known yet; or the second half of the one before.
            if x != at:
                parts.append(_way(at, (x, y), row, pen))
            text, wanted = cell
            if wanted != pen:
                parts.append(turn(pen, wanted))
                pen = wanted
            at = x + 1
            if not text.isascii():
                cells = 2 if at < len(row) and (after := row[at]) and not after[0] else 1
                at = x + cells
                if is_odd(text):
                    parts.append(" " * cells + _placed(x, y))
                    at = len(row)
            parts.append(text)
        self._at = (at, y) if at is not None and at < len(row) else None
        self._pen = pen
        self.size += sum(map(len, parts[before:]))

    def finished(self, cursor: tuple[int, int]) -> str:
        """Return the frame: the pen plain again, the cursor where it belongs (column, row)."""
        end = turn(self._pen, PLAIN) if self._pen != PLAIN else ""
        return "".join((*self.parts, end, _placed(*cursor)))


def _way(at: int | None, to: tuple[int, int], row: Sequence[Cell | None], pen: CellStyle) -> str:
    """Return the shortest way to a cell, from one to the left of it in its row or from anywhere."""
    x, y = to
    if at is None or at > x:
        return _placed(x, y)
    steps = x - at
    right = f"\x1b[{steps if steps > 1 else ''}C"
    if steps > _GAP:
        return right
    again = ""
    for cell in row[at:x]:
        if cell is None or not cell[0] or cell[1] != pen or is_odd(cell[0]):
            return right
        again += cell[0]
    return again if again.isascii() or len(again.encode()) < len(right) else right


def _placed(x: int, y: int) -> str:
    column = f";{x + 1}" if x else ""
    return f"\x1b[{y + 1 if y or x else ''}{column}H"


class Cells:
    """A screen of so many columns and rows."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.dirty: dict[int, None] = {}
        """Rows that may differ, the one that waits longest first."""
        self._wanted: list[list[Cell | None]] = [[None] * columns for _ in range(rows)]
        self._shown = [list(row) for row in self._wanted]
        self._odd_rows: set[int] = set()

    def forget(self) -> None:
        """Take it that nothing is known of what the terminal shows."""
        self._shown = [[None] * self.columns for _ in range(self.rows)]
        self.dirty = dict.fromkeys(range(self.rows))

    @property
    def wanted(self) -> tuple[tuple[Cell | None, ...], ...]:
        """What shall be shown, row by row; None where nothing was put."""
        return tuple(map(tuple, self._wanted))

    def put(self, x: int, y: int, cells: list[Cell], width: int, *, odd: bool = True) -> None:
        """Want ``width`` cells from a column of a row on.

        What lies outside of the screen is left out; what is missing is blank. ``odd`` says whether
        an odd grapheme may be among them.
        """
        if not (0 <= y < self.rows and 0 <= x < self.columns and width > 0):
            return
        row, end = self._wanted[y], min(x + width, self.columns)
        cells = cells + [(" ", PLAIN)] * (end - x - len(cells))
        if len(cells) > end - x:
            is_half = not cells[end - x][0]
            cells = cells[: end - x]
            if is_half:
                cells[-1] = (" ", cells[-1][1])
        _blank_half(row, x - 1, x)
        _blank_half(row, end, end)
        row[x:end] = cells
        if odd:
            self._odd_rows.add(y)
        self.dirty.setdefault(y)

    def frame(self, most_bytes: int | None = None) -> FrameWriter:
        """Write what differs, and take it that the terminal shows it then.

        Args:
            most_bytes: stop at the end of the row with which there are so many.
        """
        writer = FrameWriter()
        for y in list(self.dirty):
            del self.dirty[y]
            if self._wanted[y] != self._shown[y]:
                self._draw(y, writer)
            if most_bytes is not None and writer.size >= most_bytes:
                break
        return writer

    def _draw(self, y: int, writer: FrameWriter) -> None:
        old, new = self._shown[y], self._wanted[y]
        if y in self._odd_rows:
            changed = [was != now for was, now in zip(old, new, strict=True)]
            odd = [x for x in range(self.columns) if holds_odd(old[x]) or holds_odd(new[x])]
            for x in (*odd, *reversed(odd)):
                if any(changed[x : x + _ODD_REACH]):
                    reach = min(_ODD_REACH, self.columns - x)
                    changed[x : x + reach] = [True] * reach
            writer.put(compress(range(self.columns), changed), y, new)
        else:
            writer.put(compress(range(self.columns), map(ne, old, new)), y, new)
        self._shown[y] = list(new)


def holds_odd(cell: Cell | None) -> bool:
    """Tell whether terminals may disagree on what a cell takes."""
    return cell is not None and is_odd(cell[0])


def _blank_half(row: list[Cell | None], place: int, half: int) -> None:
    """Blank ``place`` where ``half`` is the second half of a character that loses the other one."""
    if half < len(row) and place >= 0 and (second := row[half]) is not None and not second[0]:
        row[place] = (" ", second[1])


def cells_of(text: str, pen: CellStyle) -> list[Cell]:
    """Return the cells of a text that has no control characters."""
    return [(part, pen) for part in (text if is_sure(text) else graphemes(text))]

"""Hostile text made safe, and text cut to a width: the one choke point before any widget or file.

1. Names, messages and output come from models and are not trusted: they may hold escape
   sequences, control and bidirectional characters, markup, or ten thousand letters.
2. ``safe`` gives printable text on one line; nothing that has not passed it reaches a terminal.
3. Markup is harmless because no widget of ours parses strings: they draw segments.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

MAX_CHARACTERS = 400

_PLAIN = re.compile(r"[\x20-\x7e]*\Z")
# Printable, and yet terminals differ in how wide they are: fillers that no one sees, variation
# selectors, halves of flags, tones of skin (some join the last three to what is before).
_UNCLEAR = re.compile(
    "[\u115f\u1160\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef"
    "\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]"
)
_ASCII = str.maketrans(
    {"×": "x", "→": ">", "←": "<", "·": ".", "–": "-", "−": "-", "…": "~", "µ": "u", "≥": ">"}
    | {"±": "+", "°": "'", "›": ">", "▸": ">", "↑": "^", "↓": "v", "┐": "+", "▏": "|"}
    | {"≤": "<", "≈": "~", "₂": "2", "√": "V", "³": "3"}
)
_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, moves, erasing.
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and other strings: links, titles.
    r"|[ -/]+[0-~]|[0-OQ-WYZ\\`-~]"  # Others of two or more characters.
    r")"
)
"""Escape sequences that are whole.

Source: ECMA-48 (1991), 5.3 to 5.6: control functions, sequences and strings."""
_OF_LOOKS_ALONE = "\ufe0e\ufe0f"
"""Ask for a character as text, or as a picture."""


def without_escapes(text: str) -> str:
    """Return printed text without its escape sequences: colours, links, moves of the cursor."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


@lru_cache(maxsize=16384)
def safe(text: str) -> str:
    r"""Return ``text`` as one printable line: unsafe characters are written out as ``\x1b``."""
    return printable(text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…")


def printable(text: str) -> str:
    """Return text of any length on one line, with unsafe characters written out."""
    if _PLAIN.match(text) or (text.isprintable() and not _UNCLEAR.search(text)):
        return text
    # Controls, formatting (bidirectional, zero-width), surrogates, private and unassigned
    # characters, separators: terminals differ in what they do with them, and in how wide they are.
    return "".join(c if _is_clear(c) else _written_out(c) for c in text)


def _is_clear(character: str) -> bool:
    return character.isprintable() and not _UNCLEAR.match(character)


def _written_out(character: str) -> str:
    if character == "\t" or unicodedata.category(character) == "Zs":
        return " "
    if character in _OF_LOOKS_ALONE:
        return ""
    code = ord(character)
    if code < 0x100:
        return {10: "\\n", 13: "\\r"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """Return the number of terminal cells that safe text takes."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


@lru_cache(maxsize=4096)
def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    if "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7ff":
        return 0  # Vowels and ends of Korean syllables that are written in parts.
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fit(text: str, cells: int, ellipsis: str = "…") -> str:
    """Cut safe text to at most ``cells`` at its end, and fill with blanks to exactly that many."""
    if text.isascii() and len(text) <= cells:
        return text.ljust(cells)
    total = width(text)
    if total > cells:
        text = _head(text, cells - len(ellipsis)) + ellipsis[: max(cells, 0)]
        total = width(text)
    return text + " " * (cells - total)


def middle(text: str, cells: int, ellipsis: str = "…") -> str:
    """Cut safe text to at most ``cells`` in its middle: the ends of a name say the most."""
    if width(text) <= cells:
        return text
    room = cells - len(ellipsis)
    if room < 2:
        return _head(text, max(cells, 0))
    tail = room // 2
    return _head(text, room - tail) + ellipsis + _head(text[::-1], tail)[::-1]


def aligned(rows: Sequence[tuple[str, ...]], left: tuple[int, ...]) -> list[str]:
    """Return rows as lines; their columns are as wide as the widest cell, without a width limit.

    Args:
        rows: of safe text, as long as each other.
        left: columns that begin at their left edge; the others are figures.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(cells) if at in left else cell.rjust(cells)
            for at, (cell, cells) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def wrap(text: str, cells: int) -> tuple[str, ...]:
    """Break safe text into lines of at most ``cells`` between words, and within a longer word."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and width(line) + 1 + width(word) <= cells:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        line = word
        while width(line) > cells:
            head = _head(line, cells) or line[0]
            lines.append(head)
            line = line[len(head) :]
    return (*lines, line) if line else tuple(lines)


def _head(text: str, cells: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += _character_width(character)
        if taken > cells:
            return text[:index]
    return text


def in_ascii(text: str) -> str:
    """Write safe text in ASCII, every character as wide as before."""
    if text.isascii():
        return text
    # As wide as before, and not "~", which marks an estimate.
    known = text.replace("± ", "+-").translate(_ASCII)
    return "".join(c if c.isascii() else "?" * width(c) for c in known)

"""Lines of coloured text; ``line_widgets.py`` shows them.

1. A line is spans of (text, role). A role is a meaning, not a colour: the theme gives the colour.
2. Text in a line is safe already (``tui_profiler.formatting.text``); nothing here parses markup.
   What was forgotten is written out where a row is painted, the one way to the terminal.
3. Functions of this file are pure and count terminal cells, not characters.
4. Nothing here imports Textual: the first frame is drawn while that is imported.
"""

from typing import NamedTuple, TypeAlias

from tui_profiler.formatting import text as texts
from tui_profiler.formatting.text import fit, printable, width
from tui_profiler.queries.cost.bound_classes import KINDS

Span: TypeAlias = tuple[str, str]
"""Text and its role: a colour, with ``strong``, ``underline``, ``reverse``, ``cursor`` or
``blurred`` (the row's background) before or after it: ``strong compute``, ``muted cursor``."""
Line: TypeAlias = tuple[Span, ...]

EMPTY: Line = ()
COLOURS: dict[str, str] = {
    "ink": "foreground",
    "muted": "ink-muted",
    "faint": "ink-faint",
    "hairline": "hairline",
    "accent": "accent",
    "error": "error",
    "warning": "warning",
    **{kind: f"bound-{kind}" for kind in KINDS},
    "idle": "bound-idle",
    "better": "better",
    "worse": "worse",
}
"""Role of a text to variable of the theme."""
BACKGROUNDS = {"cursor": "row-cursor", "blurred": "row-cursor-blurred", "panel": "panel"}
ATTRIBUTES = ("strong", "underline", "reverse")


class Ink(NamedTuple):
    """How the text of a role is drawn."""

    attributes: frozenset[str] = frozenset()
    """Of ``ATTRIBUTES``."""
    colour: str = ""
    """Variable of the theme; empty: the widget's own."""
    background: str = ""
    """As the colour."""


def ink(role: str, *, shows_backgrounds: bool = True) -> Ink:
    """Return how a role is drawn.

    Args:
        role: as in a span; of several colours the last one counts.
        shows_backgrounds: whether backgrounds of the theme can be seen. Where not, without colours
            or with the terminal's own, a row under the cursor is reversed, in one ink.
    """
    words = role.split()
    attributes = {word for word in words if word in ATTRIBUTES}
    if "cursor" in words and not shows_backgrounds:
        return Ink(frozenset({*attributes, "reverse"}))
    colours = [COLOURS[word] for word in words if word in COLOURS]
    backgrounds = [BACKGROUNDS[word] for word in words if word in BACKGROUNDS]
    return Ink(frozenset(attributes), *((found or [""])[-1] for found in (colours, backgrounds)))


def text(line: Line) -> str:
    """Return a line without its roles."""
    return "".join(part for part, _ in line)


def line_width(line: Line) -> int:
    """Return the number of cells that a line takes."""
    return sum(width(part) for part, _ in line)


def cut(line: Line, cells: int, ellipsis: str = "…") -> Line:
    """Cut a line to at most ``cells`` at its end; what is cut ends in an ellipsis."""
    if line_width(line) <= cells:
        return line
    kept: list[Span] = []
    room = max(cells, 0)
    for part, role in line:
        taken = width(part)
        # One more cell must stay for the ellipsis, unless this span is the one that is cut.
        if taken + width(ellipsis) > room:
            kept.append((fit(part + ellipsis + " " * room, room, ellipsis), role))
            break
        kept.append((part, role))
        room -= taken
    return tuple(kept)


def exact(line: Line, cells: int, ellipsis: str = "…") -> Line:
    """Cut or fill a line to exactly ``cells``."""
    line = cut(line, cells, ellipsis)
    missing = cells - line_width(line)
    return (*line, (" " * missing, "ink")) if missing > 0 else line


def spread(left: Line, right: Line, cells: int, ellipsis: str = "…") -> Line:
    """Set ``right`` against the right end; ``left`` yields where both do not fit."""
    right = cut(right, cells, ellipsis)
    room = cells - line_width(right)
    if right and line_width(left) >= room:
        left = cut(left, max(room - 1, 0), ellipsis)
    return (*exact(left, room, ellipsis), *right)


def in_ascii(line: Line) -> Line:
    """Return a line in ASCII, as wide as before."""
    return tuple((texts.in_ascii(part), role) for part, role in line)


def with_role(line: Line, role: str) -> Line:
    """Add a role to every span, such as the background of the row under the cursor."""
    return tuple((part, f"{own} {role}") for part, own in line)


def as_painted(line: Line, cells: int, *, is_ascii: bool) -> Line:
    """Return a line of exactly ``cells`` as it may go to a terminal: the one way there.

    Args:
        line: as it was made; what must not be written out is written as what it is.
        cells: of the row.
        is_ascii: whether only ASCII is drawn.
    """
    line = exact(tuple((printable(part), role) for part, role in line), cells)
    return in_ascii(line) if is_ascii else line

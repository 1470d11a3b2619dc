"""What every panel is made of: section titles, padded rows, meters, and figures that are absent."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tui_profiler.formatting.canvas import (
    ASCII,
    BLOCK,
    UNICODE,
    Glyphs,
    bar,
    half_cells,
    split_cells,
)
from tui_profiler.formatting.text import safe, width, wrap
from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.cost.bound_classes import BoundKind
from tui_profiler.queries.panel.state import is_stale, whole_seconds
from tui_profiler.session import Session, Tree

from .lines import EMPTY, Line, Span, exact, in_ascii, line_width, spread, with_role

PAD: Line = ((" ", "ink"),)
LABEL = 9
"""Cells of the labels at the left end of a panel's rows."""
_BLOCK = str.maketrans(
    {"×": "x", "–": "-", "−": "-", "…": "~", "›": "►", "▸": "►", "┐": "+", "₂": "2", "‖": "║"}
    | {"▏": "│", "✗": "x", "✓": "√", "●": "•", "◐": "|"}
)


class Look(Struct, frozen=True, eq=False):
    """What a panel is drawn from: one node of a session, at one time, at one width."""

    session: Session
    node: int
    """Index of the selected node; the tree may be missing, then it means nothing."""
    now: float
    """Seconds since the command was started, on the probe's clock."""
    cells: int
    """Width of every row, one blank at both ends included."""
    glyphs: Glyphs = UNICODE

    @property
    def tree(self) -> Tree | None:
        """The tree, None where it is missing or does not hold the node."""
        tree = self.session.tree
        return tree if tree is not None and 0 <= self.node < len(tree) else None

    @property
    def inner(self) -> int:
        """Cells between the blank ends."""
        return self.cells - 2


def row(left: Line, right: Line, look: Look) -> Line:
    """Return one row with a blank at both ends, ``right`` against the right one."""
    return (*PAD, *spread(left, right, look.inner, look.glyphs.ellipsis), *PAD)


def columns(parts: Sequence[Line], right: Line, look: Look) -> Line:
    """Return one row of several figures; the last ones are left out where not all fit."""
    kept = list(parts)
    room = look.inner - line_width(right) - (1 if right else 0)
    while len(kept) > 1 and sum(map(line_width, kept)) > room:
        kept.pop()
    return row(tuple(span for part in kept for span in part), right, look)


def words(text: str, look: Look, role: str = "muted", indent: int = 0) -> tuple[Line, ...]:
    """Return a sentence on as many rows as it needs."""
    blank = " " * indent
    found = wrap(text, max(look.inner - indent, 1))
    return tuple(row(((blank + part, role),), EMPTY, look) for part in found)


def section(title: str, provenance: str, look: Look, role: str = "strong ink") -> Line:
    """Return a section's title, a rule, and where its figures come from."""
    inner = look.inner
    provenance = provenance if width(provenance) < inner - width(title) - 4 else ""
    end = f" {provenance}" if provenance else ""
    rule = look.glyphs.rule * max(inner - width(title) - 1 - width(end), 0)
    line: Line = ((title, role), (" ", "ink"), (rule, "hairline"), (end, "faint"))
    return (*PAD, *exact(line, inner, look.glyphs.ellipsis), *PAD)


def absent(label: str, reason: str, look: Look, cells: int = LABEL) -> tuple[Line, ...]:
    """Return a figure that could not be had, with the reason, a noun phrase."""
    return _without(label, look.glyphs.dash, reason, look, cells)


def pending(label: str, reason: str, look: Look, cells: int = LABEL) -> tuple[Line, ...]:
    """Return a figure that is not known yet, with what it waits for."""
    return _without(label, "…", reason, look, cells)


def fact(label: str, text: str, look: Look, cells: int = LABEL) -> Line:
    """Return a text beside its label, on one row."""
    return row(((label.ljust(cells), "muted"), (text, "ink")), EMPTY, look)


def figure(
    label: str, value: Figure, write: Callable[[float], str], look: Look, cells: int = LABEL
) -> tuple[Line, ...]:
    """Return a figure beside its label, or the reason why it could not be had."""
    if isinstance(value, Unknown):
        return absent(label, safe(value.reason), look, cells)
    return (fact(label, write(value), look, cells),)


def labelled(label: str, sentence: str, look: Look, cells: int = LABEL) -> tuple[Line, ...]:
    """Return a sentence beside its label, on as many rows as it needs."""
    return _hanging(((label.ljust(cells), "muted"),), sentence, look, "ink")


def _without(label: str, mark: str, reason: str, look: Look, cells: int) -> tuple[Line, ...]:
    head: Line = ((label.ljust(cells), "muted"), (f"{mark}  ", "faint"))
    return _hanging(head, reason, look, "muted")


def _hanging(head: Line, text: str, look: Look, role: str) -> tuple[Line, ...]:
    indent = line_width(head)
    first, *rest = wrap(text, max(look.inner - indent, 1)) or ("",)
    below = (row(((" " * indent + part, role),), EMPTY, look) for part in rest)
    return (row((*head, (first, role)), EMPTY, look), *below)


def beside(
    left: Sequence[Line], right: Sequence[Line], cells: int, rows: int, look: Look
) -> tuple[Line, ...]:
    """Return exactly ``rows`` lines: a divider after the ``cells`` of the left ones."""
    rows, divider = max(rows, 0), (look.glyphs.divider, "hairline")
    filled = ([*lines[:rows], *[EMPTY] * (rows - len(lines))] for lines in (left, right))
    return tuple(
        (*exact(one, cells, look.glyphs.ellipsis), divider, *other)
        for one, other in zip(*filled, strict=True)
    )


def first_row(cursor: int, count: int, room: int) -> int:
    """Return the first visible row of ``count``: the cursor's is in the middle where possible."""
    return max(0, min(cursor - room // 2, count - room))


def thumb_rows(count: int, top: int, height: int) -> range:
    """Return the rows of a scrollbar's thumb; none where everything fits."""
    if count <= height or height <= 0:
        return range(0)
    size = max(height * height // count, 1)
    last = height - size
    first = min(round(top / (count - height) * last), last)
    return range(first, first + size)


def edge(is_thumb: bool, glyphs: Glyphs) -> Span:
    """Return the right end of a row: the divider, or the thumb of the scrollbar."""
    return (glyphs.thumb, "muted") if is_thumb else (glyphs.divider, "hairline")


def turning(now: float, glyphs: Glyphs) -> str:
    """Return the sign of what is under way."""
    return glyphs.spinner[int(max(now, 0.0) * 4) % len(glyphs.spinner)]


def side_by_side(parts: Sequence[tuple[float, str, str]], cells: int) -> Line:
    """Return shares of a whole from left to right, a blank between; none where it has no room.

    Args:
        parts: share, character and role of each.
        cells: of the row.
    """
    widths = split_cells([share for share, _, _ in parts], cells - len(parts))
    drawn = [(glyph * many, role) for (_, glyph, role), many in zip(parts, widths, strict=True)]
    spans = [span for part in drawn if part[0] for span in ((" ", "ink"), part)]
    return tuple(spans[1:])


def under_cursor(line: Line, look: Look) -> Line:
    """Return a row, which begins with a blank cell, as that of the cursor."""
    return with_role(((look.glyphs.cursor, "accent"), *line[1:]), "cursor")


def meter(share: float, cells: int, role: str, look: Look) -> Line:
    """Draw a share of 0 to 1 as a bar on a track of ``cells``."""
    drawn = bar(half_cells(share, 1.0, cells), look.glyphs)
    return ((drawn, role), (look.glyphs.track * (cells - width(drawn)), "hairline"))


def mark_of(kind: BoundKind, glyphs: Glyphs) -> str:
    """Return the sign that goes with a bound's name."""
    sign: str = getattr(glyphs, kind)
    return sign


def aged(lines: Iterable[Line], look: Look) -> tuple[Line, ...]:
    """Return lines as they are; in muted ink where nothing was heard for a while.

    Every live figure is drawn through this or ``rhythm``: a stopped program shows none in colour.
    """
    return without_colour(lines) if is_stale(look.session, look.now) else tuple(lines)


def rhythm(words: str, look: Look) -> str:
    """Return how often figures come, or how old they are where none came for a while."""
    if not is_stale(look.session, look.now):
        return words
    return f"{whole_seconds(look.now - look.session.heard_at)} ago"


def without_colour(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return lines in muted ink: figures that are old say so."""
    return tuple(tuple((part, _muted(role)) for part, role in line) for line in lines)


def _muted(role: str) -> str:
    return role if role in ("hairline", "faint") or not role else "muted"


def finished(lines: Iterable[Line], look: Look, rows: int | None = None) -> tuple[Line, ...]:
    """Return exactly ``rows`` lines of exactly the look's width, in its set of characters."""
    drawn = [exact(line, look.cells, look.glyphs.ellipsis) for line in lines]
    if rows is not None:
        drawn = [*drawn[:rows], *[exact(EMPTY, look.cells)] * (rows - len(drawn))]
    return tuple(plain(line, look.glyphs) for line in drawn)


def plain(line: Line, glyphs: Glyphs) -> Line:
    """Write a line in a set of characters, every character as wide as before.

    On the block set what a model is called stays as it is.
    """
    if glyphs == BLOCK:
        return tuple((part.translate(_BLOCK), role) for part, role in line)
    return in_ascii(line) if glyphs == ASCII else line

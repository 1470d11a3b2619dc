"""The first frame, drawn before Textual is imported: header and stages, or the cached tree.

1. The stages are drawn by the functions that the explorer's widgets draw with, where they will lie.
   ``tests/screens/app/test_first_frame.py`` compares every cell with Textual's.
2. A cached tree is not drawn but read: its cells were painted by the app itself when it was left
   (``cached_frame.py``), for a terminal of this size, this theme, these settings. Its header is
   drawn anew: nothing in a frame is a time of last time.
3. Where it is not known what Textual will show, there is no frame.
"""

import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from tui_profiler.formatting.canvas import ASCII, Glyphs
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.panel.cached_tree import ago, when_replaced
from tui_profiler.session import EMPTY, Session
from tui_profiler.source.cached_tree_key import key_of
from tui_profiler.system.files import open_private

from ..actions.footer import explorer_bar
from ..actions.table import EXPLORER, remapped
from ..common.narrow import is_narrow
from ..explorer.loading import loading_body
from ..options.model import STOCK_OUTPUT
from ..settings.palette import PALETTES, Pens
from ..settings.preferences import Preferences
from ..terminal.cells import Cell, Cells, CellStyle, cells_of, holds_odd
from ..terminal.early_frame import terminal_size
from ..web.driver import is_served
from ..widgets.header import cached_header_lines, header_lines, names
from ..widgets.lines import Line, as_painted
from ..widgets.rows import Look
from ..widgets.status import cached_status_lines, costs, status_lines

LEAST_COLUMNS, LEAST_ROWS = 20, 5
MOST_BYTES = 1 << 20
_STRIP_ROWS = 3
_BLANK: Line = ((" ", "ink"),)
"""Of a widget; a line without a span is a row that no widget lies on."""
_ENVIRONMENT = ("TERM", "COLORTERM", "COLORFGBG", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE")
"""What of it a frame depends on."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_CODES = re.compile(r"[0-9;]*")

_Run: TypeAlias = tuple[int, str | tuple[str, ...]]
"""Cells drawn alike: which pen, and their characters; apart where one has several, or none."""


class PaintedFrame(Struct, frozen=True):
    """A frame with a cached tree, as it is kept in a file."""

    header: tuple[Line, ...]
    """What its first row begins with, the longest form first."""
    until: str
    """When the worker's own tree is to be expected, going by last time."""
    costs: tuple[Line, ...]
    """The right end of its status, the longest form first."""
    pens: tuple[tuple[tuple[str, ...], str, str], ...]
    """Attributes, colour and background, as codes."""
    rows: tuple[tuple[_Run, ...], ...]
    """Those below the first one."""


class FirstFrame(Struct, frozen=True, eq=False):
    """What can be shown before the explorer is there."""

    cells: Cells
    has_tree: bool

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self.cells.columns, self.cells.rows


def first_frame(
    spec: LoadSpec, preferences: Preferences, *, now: float, remembers: bool
) -> FirstFrame | None:
    """Return the frame to begin with; None where what Textual will show is not known.

    Args:
        spec: what was asked for.
        preferences: of the user, for its model.
        now: seconds since the command was started.
        remembers: whether a cached tree may be shown.
    """
    columns, rows = terminal_size()
    if not can_be_drawn(os.environ) or columns < LEAST_COLUMNS or rows < LEAST_ROWS:
        return None
    look = Look(EMPTY, 0, now, columns, preferences.glyphs)
    pens = pens_of(preferences)
    cells = _cached(spec, preferences, look, rows, pens) if remembers else None
    if cells is not None:
        return FirstFrame(cells, has_tree=True)
    return FirstFrame(stage_cells(spec, preferences, look, rows, pens), has_tree=False)


def can_be_drawn(environment: Mapping[str, str]) -> bool:
    """Tell whether our output draws, in our colours: settings of Textual's may change both."""
    is_textuals = any(name.startswith("TEXTUAL_") for name in environment)
    return not (is_textuals or environment.get(STOCK_OUTPUT) or is_served())


def pens_of(preferences: Preferences) -> Pens:
    """Return how roles are drawn in the user's theme, on this terminal."""
    palette = next(one for one in PALETTES if one.name == preferences.theme)
    return Pens(palette, os.environ)


def stage_cells(
    spec: LoadSpec, preferences: Preferences, look: Look, rows: int, pens: Pens
) -> Cells:
    """Return header and stages, as the explorer shows them until there is a tree."""
    size = (look.cells, rows)
    narrow = is_narrow(size)
    keys = remapped(EXPLORER, preferences.config.settings.keys)
    bar = explorer_bar(keys, EMPTY, look.cells, narrow=narrow, glyphs=look.glyphs)
    above: tuple[Line, ...] = header_lines(look, spec=spec)
    below: tuple[Line, ...] = (bar,)
    if not narrow:
        above = (*above, (), *(_BLANK,) * _STRIP_ROWS)
        below = ((), *status_lines(look), bar)
    body = loading_body(look, rows - len(above) - len(below), spec)
    cells = Cells(*size)
    for y, line in enumerate((*above, *body, *below)):
        _put(line, y, cells, look, pens)
    return cells


def frame_path(spec: LoadSpec, preferences: Preferences, size: tuple[int, int]) -> Path:
    """Return the file of the frame with the cached tree of a request; it need not be there.

    Args:
        spec: the request.
        preferences: of the user, for its model.
        size: columns and rows of the terminal.
    """
    surroundings = [os.environ.get(name) for name in _ENVIRONMENT]
    look = msgspec.msgpack.encode((size, surroundings, preferences.fingerprint()))
    return key_of(spec).path.with_suffix(f".{hashlib.sha256(look).hexdigest()[:16]}.frame")


def painted(
    rows: Sequence[Sequence[Cell | None]], session: Session, spec: LoadSpec, glyphs: Glyphs
) -> PaintedFrame | None:
    """Return a frame as it is kept; None where a cell of it is not known.

    Args:
        rows: the cells of all rows.
        session: what they show.
        spec: what was asked for.
        glyphs: the set that they are drawn with.
    """
    pens: dict[CellStyle, int] = {}
    kept = []
    for row in rows[1:]:
        known = [cell for cell in row if cell is not None and not cell[1].link]
        if len(known) < len(row):
            return None
        runs: list[_Run] = []
        for pen, run in groupby(known, itemgetter(1)):
            texts = tuple(text for text, _ in run)
            is_plain = all(len(text) == 1 for text in texts)
            runs.append((pens.setdefault(pen, len(pens)), "".join(texts) if is_plain else texts))
        kept.append(tuple(runs))
    return PaintedFrame(
        header=names(Look(session, 0, 0.0, len(rows[0]), glyphs), spec),
        until=when_replaced(session),
        costs=costs(session),
        pens=tuple(pen[:3] for pen in pens),
        rows=tuple(kept),
    )


def _cached(
    spec: LoadSpec, preferences: Preferences, look: Look, rows: int, pens: Pens
) -> Cells | None:
    """Return the frame with the cached tree; None where there is none for this terminal."""
    path = frame_path(spec, preferences, (look.cells, rows))
    try:
        traced_at = path.with_name(path.name.partition(".")[0] + ".trace").stat().st_mtime
        with open(open_private(path, MOST_BYTES), "rb") as file:
            frame = msgspec.msgpack.decode(file.read(), type=PaintedFrame)
    except (OSError, msgspec.MsgspecError):
        return None
    if len(frame.rows) != rows - 1:
        return None
    cells, since = Cells(look.cells, rows), ago(max(time.time() - traced_at, 0.0))
    (header,) = cached_header_lines(look, frame.header, since)
    _put(header, 0, cells, look, pens)
    try:
        for y, runs in enumerate(frame.rows, start=1):
            cells.put(0, y, _cells_in(runs, frame), look.cells)
    except (ValueError, IndexError):
        return None
    if not is_narrow((look.cells, rows)):
        (status,) = cached_status_lines(look, since, frame.until, frame.costs)
        _put(status, rows - 2, cells, look, pens)
    return cells


def _cells_in(runs: tuple[_Run, ...], frame: PaintedFrame) -> list[Cell]:
    """Return the cells of a row.

    Raises:
        ValueError: what is there is not drawn but interpreted by a terminal.
        IndexError: a pen is missing.
    """
    cells: list[Cell] = []
    for number, texts in runs:
        attributes, colour, background = frame.pens[number]
        if not all(map(_CODES.fullmatch, (*attributes, colour, background))):
            raise ValueError("codes of a pen")
        if any(map(_CONTROL.search, texts)):
            raise ValueError("a control character")
        pen = CellStyle(attributes, colour, background)
        cells += [(text, pen) for text in texts]
    return cells


def _put(line: Line, y: int, cells: Cells, look: Look, pens: Pens) -> None:
    """Want a line in a row."""
    if not line:
        cells.put(0, y, [(" ", pens.blank)] * look.cells, look.cells, odd=False)
        return
    parts = as_painted(line, look.cells, is_ascii=look.glyphs == ASCII)
    drawn = [cell for part, role in parts for cell in cells_of(part, pens.pen(role))]
    cells.put(0, y, drawn, look.cells, odd=any(map(holds_odd, drawn)))

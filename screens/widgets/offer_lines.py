"""The start screen's rows: what was typed, then what can be opened, by section."""

from collections.abc import Sequence

from tui_profiler import __version__
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, width, wrap
from tui_profiler.queries.start_offers import LIBRARIES, SECTIONS, Offer, Section
from tui_profiler.session import EMPTY as NOTHING

from .lines import EMPTY, Line, exact, line_width, with_role
from .rows import Look, finished, first_row, row, section

NAME_CELLS = 28
ROOMY_ROWS = 30
"""Below so many rows of the whole screen no blank ones stand between the sections."""
_EMPTY: dict[Section, str] = {
    "recent": "nothing was opened yet",
    "running": "no program watches a model  tui_profiler.watch(model) in it, or tui-profiler run",
    "demo models": "none is installed",
    "files here": "no model file here",
}
_HINT = "type a model's name, or a part of what is listed"
_Row = Line | int
"""A line, or the position of the offer on it: only those in sight are drawn."""


def hint_of(offers: Sequence[Offer]) -> str:
    """Return what can be typed where there are these: how many names of libraries are known."""
    counts = [(sum(one.section == library for one in offers), library) for library in LIBRARIES]
    known = [f"{count} {library}" for count, library in counts if count]
    if not known:
        return _HINT
    return f"type a part of a name: also of {' and '.join(known)} models"


def start_lines(
    offers: Sequence[Offer],
    selected: int,
    typed: str,
    size: tuple[int, int],
    glyphs: Glyphs,
    *,
    hint: str = _HINT,
) -> tuple[Line, ...]:
    """Return exactly as many lines of exactly as many cells as ``size`` says.

    Args:
        offers: what fits, by section.
        selected: position of the one under the cursor; it is in sight.
        typed: what was typed.
        size: cells and rows.
        glyphs: the set to draw with.
        hint: what stands where nothing is typed.
    """
    cells, rows = size
    look = Look(NOTHING, 0, 0.0, cells, glyphs)
    title: Line = (("tui-profiler", "strong ink"),)
    about: Line = (("  see the inside of a running PyTorch model", "muted"),)
    blank = (EMPTY,) if rows >= ROOMY_ROWS - 1 else ()
    wide = line_width(title) + line_width(about) + len(__version__) + 2 <= look.inner
    head = (
        row((*title, *about) if wide else title, ((__version__, "muted"),), look),
        *blank,
        row(_asking(typed, hint, look), EMPTY, look),
        *blank,
    )
    table = _table(offers, look, blank=bool(blank), shows_empty=not typed)
    room = max(rows - len(head), 1)
    cursor = next((at for at, one in enumerate(table) if one == selected), 0)
    first = first_row(cursor, len(table), room)
    body = [
        _offer(offers[one], one == selected, look) if isinstance(one, int) else one
        for one in table[first : first + room]
    ]
    return finished((*head, *body), look, rows)


def _asking(typed: str, hint: str, look: Look) -> Line:
    caret = "▏" if look.glyphs == UNICODE else "_"
    asked: Line = (("open ", "strong accent"), (safe(typed), "ink"), (caret, "accent"))
    return asked if typed else (*asked, (f" {hint}", "faint"))


def _table(offers: Sequence[Offer], look: Look, *, blank: bool, shows_empty: bool) -> list[_Row]:
    table: list[_Row] = []
    for title in SECTIONS:
        found = [at for at, offer in enumerate(offers) if offer.section == title]
        if not found and (not shows_empty or title not in _EMPTY):
            continue
        if table and blank:
            table.append(EMPTY)
        count = f"{len(found)} found" if title in LIBRARIES else ""
        table.append(section(title, count, look))
        if not found:
            nothing = shortened(_EMPTY[title], look.inner - 2, look.glyphs.ellipsis)
            table.append(row(((f"  {nothing}", "muted"),), EMPTY, look))
        table += found
    return table


def _offer(offer: Offer, is_selected: bool, look: Look) -> Line:
    ellipsis = look.glyphs.ellipsis
    right: Line = ((offer.right, "faint"),) if offer.right else EMPTY
    name_cells = min(NAME_CELLS, look.inner // 2)
    if not offer.detail:  # Some of timm's names have twice as many characters.
        name_cells = max(look.inner - 2 - 1 - line_width(right) - (2 if right else 0), 0)
    room = look.inner - 2 - name_cells - 1 - line_width(right) - (2 if right else 0)
    detail = shortened(offer.detail, room, ellipsis)
    line: Line = (
        *exact(((offer.name, "ink" if offer.is_live else "faint"),), name_cells, ellipsis),
        (" ", "ink"),
        *exact(((detail, "muted" if offer.is_live else "faint"),), max(room, 0), ellipsis),
        *((("  ", "ink"),) if right else EMPTY),
        *right,
    )
    mark = (look.glyphs.cursor if is_selected else " ", "accent")
    drawn = (mark, ("  ", "ink"), *exact(line, look.inner - 2, ellipsis), (" ", "ink"))
    return with_role(drawn, "cursor") if is_selected else drawn


def shortened(sentence: str, cells: int, ellipsis: str) -> str:
    """Return a sentence that is cut between two words, where it is too long."""
    if width(sentence) <= cells:
        return sentence
    room = max(cells - width(ellipsis) - 1, 1)
    first = next(iter(wrap(sentence, room)), "")
    return f"{first} {ellipsis}"

"""The findings as rows: what each is predicted to save, what its trial measured, and what of it."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.figures.units import share
from tui_profiler.findings import Advice
from tui_profiler.findings.evidence.figure_text import gain_text
from tui_profiler.findings.verdict import REFUTED, Column, Word
from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import safe, width, wrap

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import EMPTY, Line, with_role
from ...widgets.rows import Look, row

ROOMY, SMALL = 112, 76
"""Cells from which on there is room for all columns, and for a word beside the verdict's sign."""
_SAVES, _PREDICTED, _MEASURED, _INTERVAL, _VERDICT, _ERROR = 8, 10, 10, 19, 16, 13
_SIGN = 3
"""Cells of a verdict without its word."""
_LEAST_TITLE = 8
RANK: Column = "rank"
BY_RANK = Order(RANK)
_FAINT: tuple[Word, ...] = ("no trial", "can be tried", "waits", "untested", "not here")


def list_lines(
    look: Look,
    found: Sequence[Advice],
    selected: int,
    top: int,
    rows: int,
    order: Order = BY_RANK,
) -> list[Line]:
    """Return the heading and as many findings as fit below it.

    Args:
        look: what is looked at.
        found: in the order in which they are shown.
        selected: which of them the cursor is on.
        top: the first one that is shown.
        rows: lines that there are, heading included.
        order: that they are in.
    """
    lines: list[Line] = [(*list_heading(look, order).line(look.glyphs), (" ", "ink"))]
    for at, one in enumerate(found[top : top + max(rows - 1, 0)], top):
        line = _row(look, one)
        if at == selected:
            line = with_role(((look.glyphs.cursor, "accent"), *line[1:]), "cursor")
        lines.append(line)
    return lines


def sign(word: Word, glyphs: Glyphs, now: float = 0.0) -> str:
    """Return the sign that goes with a verdict's word."""
    match word:
        case "held" | "gained":
            return glyphs.done
        case "refuted" | "no gain":
            return glyphs.failed
        case "less":
            return glyphs.down
        case "more":
            return glyphs.up
        case "running":
            return glyphs.spinner[int(now * 4) % len(glyphs.spinner)]
        case "can be tried":
            return " "
        case "waits":
            return glyphs.zero
        case "undecided":
            return glyphs.about
        case "no trial" | "untested" | "not here":
            return glyphs.dash


def role(word: Word) -> str:
    """Return the ink of a verdict; its word says the same."""
    if word in REFUTED:
        return "error"
    return "faint" if word in _FAINT else "ink"


def error_text(one: Advice) -> str:
    """Return how far the output went off: relative, ``none`` where it is the same to the bit."""
    error = one.result.error if one.result is not None else None
    if error is None:
        return ""
    if not error.relative and not error.largest and not error.others_differ:
        return "none"
    return f"{error.relative:.1e}"


def list_heading(look: Look, order: Order) -> Heading:
    """Return the titles of the columns that there is room for."""
    figures = [
        Title("predicted", _PREDICTED, "predicted"),
        Title("measured", _MEASURED, "measured"),
    ]
    verdict = Title("verdict", _VERDICT, "verdict", gap=2, is_left=True, is_text=True)
    if look.inner >= ROOMY:
        figures.insert(0, Title("saves", _SAVES, "saves", is_text=True))
        figures.append(Title("95 % interval", _INTERVAL))
        figures += [verdict, Title("output error", _ERROR, "error")]
    else:
        figures.append(verdict if look.inner >= SMALL else Title("", _SIGN))
    room = look.cells - 1 - sum(one.cells for one in figures)
    is_ranked = order.column == RANK and look.inner >= SMALL
    title = "advice, by predicted gain" if is_ranked else "advice"
    role = "strong ink"
    first = Title(title, room, "title", is_left=True, is_text=True, usual=RANK, role=role)
    return Heading((first, *figures), order)


def _row(look: Look, one: Advice) -> Line:
    finding, saved = one.finding, one.measured
    gain = finding.gain
    predicted = gain_text(gain)
    figures: Line = (
        (predicted.rjust(_PREDICTED), "muted" if one.word in REFUTED else _ink(one)),
        ((share(saved.share) if saved is not None else "").rjust(_MEASURED), "strong ink"),
    )
    mark = sign(one.word, look.glyphs, look.now)
    verdict = f"  {mark} {one.word}".ljust(_VERDICT) if look.inner >= SMALL else f"  {mark}"
    figures = (*figures, (verdict, role(one.word)))
    if look.inner >= ROOMY:
        between = f"{share(saved.low)} to {share(saved.high)}" if saved is not None else ""
        figures = (
            (gain.of.rjust(_SAVES), "muted"),
            *figures[:2],
            (between.rjust(_INTERVAL), "muted"),
            figures[2],
            (error_text(one).rjust(_ERROR), "ink"),
        )
    room = look.inner - sum(width(part) for part, _ in figures) - 1
    title = at_word(safe(finding.title), max(room, _LEAST_TITLE), look.glyphs.ellipsis)
    return row(((title, _ink(one)),), figures, look)


def _ink(one: Advice) -> str:
    return "muted" if one.word in REFUTED else "ink"


def at_word(text: str, cells: int, ellipsis: str) -> str:
    """Cut a text after its last whole word that fits."""
    if width(text) <= cells:
        return text
    parts = wrap(text, max(cells - width(ellipsis), 1), ellipsis)
    return (parts[0] if parts else "") + ellipsis


def none_line(
    look: Look, checks: str, withheld: str = "", *, is_asking: bool = False
) -> tuple[Line, ...]:
    """Say that there is nothing to advise, or that it is not known yet."""
    if look.session.tree is None:
        return (row((("findings need the tree, which is not known yet", "muted"),), EMPTY, look),)
    text = f"no findings: {checks} ran, none applies"
    if is_asking:
        text = f"{checks} of {len(look.session.tree):,} nodes run{look.glyphs.ellipsis}"
        withheld = ""
    parts = wrap(withheld, look.inner, look.glyphs.ellipsis) if withheld else ()
    return tuple(row(((part, "muted"),), EMPTY, look) for part in (text, *parts))

"""The findings as rows: what each is predicted to save, what its trial measured, and what of it."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.figures.units import share
from tui_profiler.findings import Advice
from tui_profiler.findings.evidence.figure_text import gain_text
from tui_profiler.findings.verdict import REFUTED, Word
from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import safe, width, wrap

from ...widgets.lines import EMPTY, Line, with_role
from ...widgets.rows import Look, row

ROOMY, SMALL = 112, 76
"""Cells from which on there is room for all columns, and for a word beside the verdict's sign."""
_SAVES, _PREDICTED, _MEASURED, _INTERVAL, _VERDICT, _ERROR = 8, 10, 10, 19, 16, 13
_SIGN = 3
"""Cells of a verdict without its word."""
_LEAST_TITLE = 8
_FAINT: tuple[Word, ...] = ("no trial", "can be tried", "waits", "untested", "not here")


def list_lines(
    look: Look, found: Sequence[Advice], selected: int, top: int, rows: int
) -> list[Line]:
    """Return the heading and as many findings as fit below it.

    Args:
        look: what is looked at.
        found: in the order in which they are shown.
        selected: which of them the cursor is on.
        top: the first one that is shown.
        rows: lines that there are, heading included.
    """
    lines = [_heading(look)]
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


def _heading(look: Look) -> Line:
    figures = "predicted".rjust(_PREDICTED) + "measured".rjust(_MEASURED)
    if look.inner >= ROOMY:
        figures = "saves".rjust(_SAVES) + figures + "95 % interval".rjust(_INTERVAL)
        figures += "  " + "verdict".ljust(_VERDICT - 2) + "output error".rjust(_ERROR)
    elif look.inner >= SMALL:
        figures += "  " + "verdict".ljust(_VERDICT - 2)
    else:
        figures += " " * _SIGN
    title = "advice, by predicted gain" if look.inner >= SMALL else "advice"
    return row(((title, "strong ink"),), ((figures, "muted"),), look)


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

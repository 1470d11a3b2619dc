"""The list of findings: predicted gain, measured gain, verdict."""

from collections.abc import Mapping, Sequence

from tui_profiler.figures.units import share
from tui_profiler.findings import CHECKS, Conclusions
from tui_profiler.findings.evidence.finding import Group, Kind, Per, gain_text
from tui_profiler.findings.trial_verdict import GROUP_WORDS, REFUTED, Advice, Column, Word
from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import middle, safe, width, wrap

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row, section, turning, under_cursor

WIDE, ROOMY, SMALL = 132, 112, 76
"""Cells from which on all columns fit; all but the interval; the verdict's word beside its sign."""
_SAVES, _PREDICTED, _MEASURED, _INTERVAL, _VERDICT, _ERROR = 14, 13, 10, 19, 16, 13
_OF = 5
"""More cells of a prediction that no column says what it is a share of."""
_SIGN = 3
"""Cells of a verdict's sign."""
_LEAST_TITLE = 8
RANK: Column = "rank"
BY_RANK = Order(RANK)
_OF_WORDS: dict[Per, str] = {
    "forward": "",
    "step": "/step",
    "request": "/req.",
    "item": "/item",
}
_FAINT: tuple[Word, ...] = ("no trial", "can be tried", "waits", "untested", "not here")


def list_items(found: Sequence[Advice], groups: Mapping[Kind, Group]) -> list[Group | int]:
    """Return the rows: indices of findings, and the group where one begins.

    Args:
        found: in the order shown.
        groups: by kind; empty where a column sorts the list.
    """
    items: list[Group | int] = []
    last: Group | None = None
    for at, one in enumerate(found):
        group = groups.get(one.finding.kind)
        if group is not None and group != last:
            items.append(group)
        last = group
        items.append(at)
    return items


def list_lines(
    look: Look,
    found: Sequence[Advice],
    selected: int,
    items: Sequence[Group | int],
    order: Order = BY_RANK,
) -> list[Line]:
    """Return the column titles, and a line per item.

    Args:
        look: the drawing context.
        found: in the order shown.
        selected: index of the finding under the cursor.
        items: the visible ones of ``list_items``.
        order: the sort order.
    """
    lines: list[Line] = [(*list_heading(look, order).line(look.glyphs), (" ", "ink"))]
    for item in items:
        if not isinstance(item, int):
            lines.append(section(*GROUP_WORDS[item], look, "muted"))
            continue
        line = _row(look, found[item])
        if item == selected:
            line = under_cursor(line, look)
        lines.append(line)
    return lines


def sign(word: Word, glyphs: Glyphs, now: float = 0.0) -> str:
    """Return the sign of a verdict."""
    signs: dict[Word, str] = {
        "held": glyphs.done,
        "gained": glyphs.done,
        "refuted": glyphs.failed,
        "no gain": glyphs.failed,
        "less": glyphs.down,
        "more": glyphs.up,
        "running": turning(now, glyphs),
        "can be tried": " ",
        "waits": glyphs.zero,
        "undecided": glyphs.about,
    }
    return signs.get(word, glyphs.dash)


def role(word: Word) -> str:
    """Return the colour role of a verdict."""
    if word in REFUTED:
        return "error"
    return "faint" if word in _FAINT else "ink"


def error_text(one: Advice) -> str:
    """Return the relative output error; ``none`` where the output is bit-identical."""
    error = one.result.error if one.result is not None else None
    if error is None:
        return ""
    if not error.relative and not error.largest and not error.others_differ:
        return "none"
    return f"{error.relative:.1e}"


def list_heading(look: Look, order: Order) -> Heading:
    """Return the titles of the columns that fit."""
    is_roomy = look.inner >= ROOMY
    figures = [
        Title("predicted", _PREDICTED + _OF * (not is_roomy), "predicted"),
        Title("measured", _MEASURED, "measured"),
    ]
    verdict = Title("verdict", _VERDICT, "verdict", gap=2, is_left=True, is_text=True)
    if is_roomy:
        figures.insert(0, Title("saves", _SAVES, "saves", is_text=True))
        figures += [Title("95 % CI", _INTERVAL)] * (look.inner >= WIDE)
        figures += [verdict, Title("output error", _ERROR, "error")]
    else:
        figures.append(verdict if look.inner >= SMALL else Title("", _SIGN))
    room = look.cells - 1 - sum(one.cells for one in figures)
    is_ranked = order.column == RANK and look.inner >= SMALL
    title = "findings, by gain" if is_ranked else "findings"
    role = "strong ink"
    first = Title(title, room, "title", is_left=True, is_text=True, usual=RANK, role=role)
    return Heading((first, *figures), order)


def _row(look: Look, one: Advice) -> Line:
    finding, saved = one.finding, one.measured
    gain = finding.gain
    predicted, cells = gain_text(gain), _PREDICTED
    if look.inner < ROOMY:  # No column names what it is a share of.
        predicted += _OF_WORDS[gain.per] if gain.of == "time" else " mem"
        cells += _OF
    figures: Line = (
        (predicted.rjust(cells), "muted" if one.word in REFUTED else _ink(one)),
        ((share(saved.share) if saved is not None else "").rjust(_MEASURED), "strong ink"),
    )
    mark = sign(one.word, look.glyphs, look.now)
    verdict = f"  {mark} {one.word}".ljust(_VERDICT) if look.inner >= SMALL else f"  {mark}"
    figures = (*figures, (verdict, role(one.word)))
    if look.inner >= ROOMY:
        has_interval = saved is not None and saved.of == "time"
        between = f"{share(saved.low)} to {share(saved.high)}" if saved and has_interval else ""
        saves = f"{gain.per} time" if gain.of == "time" else gain.of
        figures = (
            (saves.rjust(_SAVES), "muted"),
            *figures[:2],
            *((between.rjust(_INTERVAL), "muted"),) * (look.inner >= WIDE),
            figures[2],
            (error_text(one).rjust(_ERROR), "ink"),
        )
    room = look.inner - sum(width(part) for part, _ in figures) - 1
    title = at_word(safe(finding.title), max(room, _LEAST_TITLE), look.glyphs.ellipsis)
    return row(((title, _ink(one)),), figures, look)


def _ink(one: Advice) -> str:
    return "muted" if one.word in REFUTED else "ink"


def at_word(text: str, cells: int, ellipsis: str) -> str:
    """Cut a text after the last whole word that fits; where a long word follows, in the middle."""
    if width(text) <= cells:
        return text
    parts = wrap(text, max(cells - width(ellipsis), 1))
    if not parts or width(parts[0]) < cells // 2:
        return middle(text, cells, ellipsis)
    return parts[0] + ellipsis


def none_line(look: Look, concluded: Conclusions, *, is_asking: bool = False) -> tuple[Line, ...]:
    """Return why the list is empty."""
    if look.session.tree is None:
        return (
            row((("findings need the module tree, which is not known yet", "muted"),), EMPTY, look),
        )
    if is_asking:
        text = f"{len(CHECKS)} checks of {len(look.session.tree):,} nodes run{look.glyphs.ellipsis}"
        return (row(((text, "muted"),), EMPTY, look),)
    text = f"no findings: {concluded.checks} ran, none applies"
    return (row(((text, "muted"),), EMPTY, look), *withheld_lines(look, concluded))


def withheld_lines(look: Look, concluded: Conclusions) -> tuple[Line, ...]:
    """Return which kinds are withheld, and why."""
    parts = (part for words in concluded.words for part in wrap(words, look.inner))
    return tuple(row(((part, "muted"),), EMPTY, look) for part in parts)

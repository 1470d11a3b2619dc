"""The last row: the keys that matter here, actions left, screens right."""

from __future__ import annotations

from tui_profiler.formatting.canvas import UNICODE, Glyphs

from .lines import Line, Span, line_width, spread
from .rows import plain

MANY = 3
Keys = tuple[tuple[str, str], ...]
LEAST_LEFT = 2
"""Of what can be done here: before more is left out, screens are."""


def key_bar(
    left: Keys, right: Keys, cells: int, glyphs: Glyphs = UNICODE, current: str = ""
) -> Line:
    """Return the row; what does not fit is left out, the least important first, never cut.

    First to go are the names of other screens where they are many, then actions, then screens.

    Args:
        left: what can be done here.
        right: the screens.
        cells: width of the row.
        glyphs: the set to draw with.
        current: label of the screen that is shown: it stands out, and its key leaves it.
    """
    inner = cells - 2
    left = tuple((key.replace(UNICODE.enter, glyphs.enter), label) for key, label in left)
    if _total(left, right) > inner and len(right) > MANY:
        right = (
            *((key, label if label == current else "") for key, label in right[:-1]),
            *right[-1:],
        )
    while len(left) > LEAST_LEFT and _total(left, right) > inner:
        left = left[:-1]
    while right and _total(left, right) > inner:
        right = right[1:]
    while left and _total(left, right) > inner:
        left = left[:-1]
    line = ((" ", "ink"), *spread(_spans(left), _spans(right, current), inner), (" ", "ink"))
    return plain(line, glyphs)


def _total(left: Keys, right: Keys) -> int:
    return line_width(_spans(left)) + line_width(_spans(right)) + 2


def _spans(keys: Keys, current: str = "") -> Line:
    spans: list[Span] = []
    named = True
    for key, label in keys:
        if spans:
            spans.append(("  " if named or label else " ", "ink"))
        named = bool(label)
        spans.append((key, "strong accent"))
        if named:
            role = "strong underline ink" if label == current else "muted"
            spans += [(" ", "ink"), (label, role)]
    return tuple(spans)

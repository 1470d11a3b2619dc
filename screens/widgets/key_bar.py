"""The last row: the keys that matter here, actions left, screens right; a click presses one.

A span that is a key has ``key:`` and the key, as it is written, among the words of its role: where
it lies on screen, and in which characters it is drawn, is known only when the row is whole.
"""

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import width

from .lines import Line, Span, line_width, spread
from .rows import plain

MANY = 3
Keys = tuple[tuple[str, str], ...]
LEAST_LEFT = 2
"""Of what can be done here: before more is left out, screens are."""
_MARK = "key:"
_ARROWS = "←↓↑→"


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
    if _total(left, right, glyphs) > inner and len(right) > MANY:
        right = (
            *((key, label if label == current else "") for key, label in right[:-1]),
            *right[-1:],
        )
    while len(left) > LEAST_LEFT and _total(left, right, glyphs) > inner:
        left = left[:-1]
    while right and _total(left, right, glyphs) > inner:
        right = right[1:]
    while left and _total(left, right, glyphs) > inner:
        left = left[:-1]
    spans = spread(_spans(left, glyphs), _spans(right, glyphs, current), inner)
    return plain(((" ", "ink"), *spans, (" ", "ink")), glyphs)


def key_spans(key: str, glyphs: Glyphs = UNICODE, role: str = "strong accent") -> Line:
    """Return a key as spans that a click finds; of several arrows each is one."""
    if len(key) > 1 and set(key) <= set(_ARROWS):
        return tuple((arrow, f"{role} {_MARK}{arrow}") for arrow in key)
    drawn = key.replace(UNICODE.enter, glyphs.enter)
    return ((drawn, f"{role} {_MARK}{key.split(maxsplit=1)[0]}" if key.strip() else role),)


def key_at(line: Line, x: int) -> str:
    """Return the key in a cell of a row, or whose label is there; empty where none is."""
    at, found = 0, ""
    for part, role in line:
        marked = next((word for word in role.split() if word.startswith(_MARK)), "")
        if marked:
            found = marked.removeprefix(_MARK)
        elif part.isspace() and width(part) > 1:  # Between a label and the next key.
            found = ""
        at += width(part)
        if x < at:
            return found
    return ""


def _total(left: Keys, right: Keys, glyphs: Glyphs) -> int:
    return sum(line_width(_spans(keys, glyphs)) for keys in (left, right)) + 2


def _spans(keys: Keys, glyphs: Glyphs, current: str = "") -> Line:
    spans: list[Span] = []
    named = True
    for key, label in keys:
        if spans:
            spans.append(("  " if named or label else " ", "ink"))
        named = bool(label)
        spans += key_spans(key, glyphs)
        if named:
            role = "strong underline ink" if label == current else "muted"
            spans += [(" ", "ink"), (label, role)]
    return tuple(spans)

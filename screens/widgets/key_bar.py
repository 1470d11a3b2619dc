"""The last row: the keys that matter here, actions left, screens right."""

from __future__ import annotations

from tui_profiler.canvas import UNICODE, Glyphs

from .lines import Line, Span, line_width, spread

Keys = tuple[tuple[str, str], ...]


def key_bar(left: Keys, right: Keys, cells: int, glyphs: Glyphs = UNICODE) -> Line:
    """Give the row; keys that do not fit are left out, the least important first, never cut."""
    inner = cells - 2
    left = tuple((key.replace(UNICODE.enter, glyphs.enter), label) for key, label in left)
    while left and _total(left, right) > inner:
        left = left[:-1]
    while right and _total(left, right) > inner:
        right = right[1:]
    return ((" ", "ink"), *spread(_spans(left), _spans(right), inner), (" ", "ink"))


def _total(left: Keys, right: Keys) -> int:
    return line_width(_spans(left)) + line_width(_spans(right)) + 2


def _spans(keys: Keys) -> Line:
    spans: list[Span] = []
    for key, label in keys:
        if spans:
            spans.append(("  ", "ink"))
        spans += [(key, "strong accent"), (f" {label}", "muted")]
    return tuple(spans)

"""Bars and sparklines as text: pure, in whole cells or half ones, with a set for plain ASCII."""

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct


class Glyphs(Struct, frozen=True):
    """The characters that everything is drawn with."""

    full: str = "━"
    half: str = "╸"
    track: str = "─"
    beyond: str = "›"
    place: str = "▔"
    under: str = "▁"
    levels: str = " ▁▂▃▄▅▆▇█"
    folded: str = "▸"
    unfolded: str = "▾"
    rule: str = "─"
    divider: str = "│"
    thumb: str = "┃"
    cursor: str = "▌"
    live: str = "●"
    paused: str = "‖"
    playing: str = "▸"
    empty: str = "○"
    failed: str = "✗"
    done: str = "✓"
    spinner: str = "◐◓◑◒"
    up: str = "↑"
    down: str = "↓"
    enter: str = "↵"
    ellipsis: str = "…"
    compute: str = "▲"
    memory: str = "■"
    overhead: str = "○"
    python: str = "◐"
    faults: str = "▽"
    blocked: str = "≡"
    unexplained: str = "◇"
    times: str = "×"
    at_most: str = "≤"
    at_least: str = "≥"
    about: str = "~"
    into: str = "→"
    crumb: str = "›"
    zero: str = "·"
    dash: str = "–"
    mark: str = "◆"
    peak: str = "▼"
    tick: str = "┤"
    begin: str = "╵"
    dots: Literal["braille", "blocks", "ascii"] = "braille"
    """What lines of a plot are drawn with; some fonts have bad braille."""
    small: str = "▴▪◦•▿=⋄"
    """Of a plot: small points of each of ``bound_classes.KINDS``; large ones are signs."""
    back: str = "◂◀"
    """Of a plot: small and large points of a backward."""
    points: str = "·●◉"
    """Of a plot: small and large ones that no bound was found for, and the selected one."""
    axes: str = "└┤┬↑"
    """Corner, tick at the left, tick below, mark below."""

    def sign(self, reading: Literal["", "at most", "at least", "about"]) -> str:
        """Return what is drawn before a figure that is to be read so; nothing of an exact one."""
        signs = {"at most": self.at_most, "at least": self.at_least, "about": self.about}
        return signs.get(reading, "")


UNICODE = Glyphs()
ASCII = Glyphs(
    full="=",
    half="-",
    track=" ",
    beyond=">",
    place="^",
    under="_",
    levels=" .:-=+*#@",
    folded="+",
    unfolded="-",
    rule="-",
    divider="|",
    thumb="#",
    cursor=">",
    live="*",
    paused="=",
    playing=">",
    empty="o",
    failed="x",
    done="v",
    spinner="|/-\\",
    up="^",
    down="v",
    enter="enter",
    ellipsis="..",
    compute="C",
    memory="M",
    overhead="O",
    python="P",
    faults="F",
    blocked="B",
    unexplained="U",
    times="x",
    at_most="<",
    at_least=">",
    into="->",
    crumb=">",
    zero=".",
    dash="-",
    mark="*",
    peak="v",
    tick="+",
    begin="|",
    dots="ascii",
    small="cmopfbu",
    back="<<",
    points=".*@",
    axes="+++^",
)

BLOCK = Glyphs(
    full="■",
    half="·",
    track=" ",
    beyond="►",
    place="▀",
    levels=" _▄█",
    folded="►",
    unfolded="▼",
    thumb="▐",
    live="•",
    paused="║",
    playing="►",
    failed="x",
    done="√",
    spinner="|/-\\",
    enter="enter",
    ellipsis="..",
    times="x",
    crumb="►",
    dash="-",
    under="_",
    mark="*",
    begin="|",
    dots="blocks",
    python="P",
    faults="F",
    unexplained="?",
    small="^∙°pf=¿",
    back="◄◄",
    points="·•@",
    axes="└┤┬↑",
)
"""For fonts without braille, and for the Linux console: all of it is in code page 437."""


def bar_scale(largest_share: float) -> float:
    """Choose the scale of all bars: the smallest of 5, 10, 25, 50, 100 % that holds the largest."""
    return next((step for step in (0.05, 0.10, 0.25, 0.50) if largest_share <= step), 1.0)


def half_cells(share: float, scale: float, cells: int) -> int:
    """Return the length of a bar in half cells, at most the whole width."""
    return min(round(share / scale * cells * 2), cells * 2) if scale > 0 else 0


def bar(halves: int, glyphs: Glyphs = UNICODE) -> str:
    """Draw a bar of so many half cells."""
    return glyphs.full * (halves // 2) + glyphs.half * (halves % 2)


def split_cells(parts: Sequence[float], cells: int) -> tuple[int, ...]:
    """Share out whole cells over parts by largest remainder; the sum is ``cells`` exactly.

    All are 0 where the sum of the parts is not a positive finite number.
    """
    total = sum(parts)
    if not 0 < total < math.inf or cells <= 0:
        return tuple(0 for _ in parts)
    exact = [part / total * cells for part in parts]
    given = [int(value) for value in exact]
    by_remainder = sorted(range(len(parts)), key=lambda index: given[index] - exact[index])
    for index in by_remainder[: cells - sum(given)]:
        given[index] += 1
    return tuple(given)


def nice_ceiling(value: float) -> float:
    """Return the next of 1, 2, 5 x 10ⁿ that is at least ``value``: a scale that seldom changes."""
    if not 0 < value < math.inf:
        return 1.0
    step = 1e-9
    while True:
        for factor in (1.0, 2.0, 5.0):
            if value <= step * factor * (1 + 1e-12):
                return step * factor
        step *= 10


def sparkline(
    values: Sequence[float | None], top: float, rows: int = 1, glyphs: Glyphs = UNICODE
) -> tuple[str, ...]:
    """Draw one column a value, ``rows`` lines high, upper line first.

    Args:
        values: oldest first; None leaves its column blank.
        top: the value that fills the whole height; anything above is cut there.
        rows: lines of text.
        glyphs: the set to draw with; its ``levels`` are blank to full.
    """
    levels = glyphs.levels
    steps = len(levels) - 1
    full = rows * steps
    heights = [-1 if value is None else _height(value, top, full) for value in values]
    return tuple(
        "".join(
            levels[0]
            if height < 0
            else levels[max(0, min(steps, height - (rows - 1 - row) * steps))]
            for height in heights
        )
        for row in range(rows)
    )


def _height(value: float, top: float, full: int) -> int:
    """Return a column's height in steps; what was measured is at least one, so that it is seen."""
    if top <= 0 or math.isnan(value):
        return 1
    return max(round(min(value / top, 1.0) * full), 1)

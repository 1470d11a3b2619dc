"""A widget whose rows are random pieces of text in random styles, and change in part."""

from __future__ import annotations

import random
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

PIECES = (
    *("layer1.0.conv2", "  ", " ", "12.4 ms", "|", "x"),
    *("▏▎█░", "⣿⠂⡇", "─┼╮", "● ◐ ×", "µs ≥ ±", "日本語", "한국", "全角", "é"),
    *("e\u0301a\u0302", "q\u0323\u0307", "❤\ufe0f", "👩\u200d🚀", "a\u200b", "ก\u0e33"),
    *("😀", "⌚", "✔"),
)
COLOURS = ("", "red", "bright_blue", "default", "color(130)", "#8c95a3", "#101318", "rgb(1,2,3)")
WAYS = ("bold", "dim", "italic", "underline", "reverse", "strike", "blink", "conceal", "overline")


class Noise(Widget):
    """Rows of random pieces in random styles."""

    can_focus = True

    def __init__(self, chance: random.Random, **options: Any) -> None:
        super().__init__(**options)
        self.chance = chance
        self.rows: dict[int, list[Segment]] = {}

    def render_line(self, y: int) -> Strip:
        segments = self.rows.setdefault(y, random_segments(self.chance, 60))
        strip = Strip(Segment.apply_style(segments, self.rich_style))
        return strip.adjust_cell_length(self.size.width, self.rich_style)

    def change(self) -> None:
        """Change some rows, or a part of some."""
        for y in self.chance.sample(range(max(self.size.height, 1)), k=min(self.size.height, 3)):
            row = self.rows.get(y, [])
            if row and self.chance.random() < 0.7:
                place = self.chance.randrange(len(row))
                row[place : place + 1] = random_segments(self.chance, 6)
            else:
                self.rows[y] = random_segments(self.chance, 60)
            start = self.chance.choice((0, 0, self.size.width // 2))
            self.refresh(Region(start, y, self.size.width - start, 1))


def random_segments(chance: random.Random, cells: int) -> list[Segment]:
    """Return segments of at least that many cells."""
    segments: list[Segment] = []
    while cells > 0:
        text = "".join(chance.choices(PIECES, k=chance.randint(1, 4)))
        segments.append(Segment(text, random_style(chance)))
        cells -= cell_len(text)
    return segments


def random_style(chance: random.Random) -> Style:
    """Return a random style."""
    words = [way for way in WAYS if chance.random() < 0.12]
    words += [colour] if (colour := chance.choice(COLOURS)) else []
    words += [f"on {colour}"] if (colour := chance.choice(COLOURS)) else []
    link = "https://a.example/b" if chance.random() < 0.05 else None
    return Style.parse(" ".join(words)) + Style(link=link)

"""The real program's screen as a picture.

``python benchmarks/terminal/picture.py OUT.png 120x40 SECONDS [KEYS...] -- resnet50`` paints one;
``python benchmarks/terminal/picture.py docs [NAME...]`` paints those of the documents again.

Runs the program on a pty, waits until it is live, waits SECONDS, types KEYS (``wait=30`` waits 30 s
instead), and paints the screen of a terminal emulator. Bars and blocks are drawn as geometry, as
modern terminals do. Run it on a quiet machine: the figures are those of that run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from pyte.screens import Char

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.end_to_end.terminal import COMMAND, Terminal

CELL = (10, 21)
INK, PAPER = "d8dde4", "101318"
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono{}.ttf"
NAMED = {"black": "000000", "red": "cc3333", "green": "33aa33", "brown": "c0a000", "blue": "3366cc"}
NAMED |= {"brightblack": "777777", "brightgreen": "55ee77", "brightcyan": "55ddee"}
NAMED |= {"brightwhite": "ffffff", "brightred": "ff6655", "brightbrown": "ffee66"}
NAMED |= {"magenta": "aa55aa", "cyan": "33aaaa", "white": "d0d0d0"}


def colour(name: str, default: str) -> str:
    return "#" + (default if name == "default" else NAMED.get(name, name))


def paint_cell(
    draw: ImageDraw.ImageDraw, x: int, y: int, char: Char, fonts: dict[bool, ImageFont.FreeTypeFont]
) -> None:
    ink, paper = colour(char.fg, INK), colour(char.bg, PAPER)
    if char.reverse:
        ink, paper = paper, ink
    width, height = CELL
    left, top = x * width, y * height
    draw.rectangle((left, top, left + width - 1, top + height - 1), fill=paper)
    if "▁" <= char.data <= "█":
        eighths = ord(char.data) - ord("▁") + 1
        draw.rectangle(
            (left, top + height - height * eighths // 8, left + width - 1, top + height - 1),
            fill=ink,
        )
    elif char.data in "━╸─":
        end = left + (width // 2 if char.data == "╸" else width) - 1
        thick = 1 if char.data == "─" else 3
        draw.rectangle(
            (left, top + height // 2 - thick // 2, end, top + height // 2 + thick // 2), fill=ink
        )
    elif "\u2801" <= char.data <= "\u28ff":
        for place, bit in enumerate((0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80)):
            if (ord(char.data) - 0x2800) & bit:
                across = left + width * (1 + 2 * (place % 2)) // 4
                down = top + height * (1 + 2 * (place // 2)) // 8
                draw.rectangle((across, down, across + 1, down + 1), fill=ink)
    elif char.data.strip():
        draw.text((left, top + 1), char.data, fill=ink, font=fonts[char.bold])


def paint(terminal: Terminal, path: str) -> None:
    screen = terminal.screen
    fonts = {
        bold: ImageFont.truetype(FONT.format("-Bold" if bold else ""), 16) for bold in (False, True)
    }
    image = Image.new("RGB", (screen.columns * CELL[0], screen.lines * CELL[1]), "#" + PAPER)
    draw = ImageDraw.Draw(image)
    for y in range(screen.lines):
        for x in range(screen.columns):
            paint_cell(draw, x, y, screen.buffer[y][x], fonts)
    image.save(path)


DOWN = "\\x1b[B"
RESNET = ("resnet50", "--threads", "1", "--no-remembered")
PICTURES: dict[str, tuple[float, tuple[str, ...], tuple[str, ...]]] = {
    "explorer-120x40": (15, ("3", "z", "wait=5"), RESNET),
    "roofline-120x40": (15, ("z", "r", "wait=5"), RESNET),
    "timeline-120x40": (90, ("t", "wait=3"), RESNET),
    "memory-120x40": (15, ("m", "z", "wait=2"), RESNET),
    "weights-120x40": (10, ("w", "wait=25"), RESNET),
    "findings-120x40": (
        15,
        ("f", DOWN, "x", DOWN, "x", DOWN, "x", DOWN, "x", "wait=120", "g", DOWN, DOWN, "wait=2"),
        ("demo:cnn", "--threads", "1", "--no-remembered"),
    ),
    "compare-120x40": (
        110,
        ("z", "wait=5"),
        ("compare", "resnet50", "resnet101", "--threads", "1"),
    ),
}
"""Name of a picture in docs to seconds, keys and the program's arguments."""


def take(
    path: str, size: str, seconds: float, keys: Sequence[str], arguments: Sequence[str]
) -> None:
    columns, rows = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as own:
        fresh = {"XDG_STATE_HOME": own, "XDG_CONFIG_HOME": own}
        terminal = Terminal([*COMMAND, *arguments], columns, rows, fresh)
        settled = ("● live", "● runs", "failed", "✗", "finished")
        terminal.wait_for(lambda shown: any(word in shown for word in settled), 120)
        terminal.pause(seconds)
        for key in keys:
            if key.startswith("wait="):
                terminal.pause(float(key.removeprefix("wait=")))
                continue
            terminal.send(key.encode().decode("unicode_escape"))
            terminal.pause(0.4)
        terminal.pause(0.6)
        paint(terminal, path)
        print(terminal.text())
        terminal.close()


def main() -> None:
    if sys.argv[1] == "docs":
        for name in sys.argv[2:] or PICTURES:
            take(f"docs/{name}.png", name.rpartition("-")[2], *PICTURES[name])
        return
    split = sys.argv.index("--")
    path, size, seconds, *keys = sys.argv[1:split]
    take(path, size, float(seconds), keys, sys.argv[split + 1 :])


if __name__ == "__main__":
    main()

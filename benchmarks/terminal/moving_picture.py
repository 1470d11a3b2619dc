"""Two minutes of use as a moving picture for README: an animated SVG of the real program.

``python benchmarks/terminal/moving_picture.py docs/two-minutes.svg [ARGUMENTS of tui-profiler]``

Starts the program on a pty, presses the keys of ``STEPS`` and samples the screen of a terminal
emulator every 0.6 s. Equal screens are one frame, and equal half rows are stored once. The SVG
needs neither a script nor a font file: frames lie below each other, and a CSS animation moves from
one to the next. Run it on a quiet machine: the figures are those of that run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pyte.screens import Char

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.terminal.picture import INK, PAPER, colour
from tests.end_to_end.terminal import COMMAND, Terminal

COLUMNS, ROWS = 100, 30
HALF = COLUMNS // 2
CELL_WIDTH, CELL_HEIGHT = 8.4, 18
TITLE, CAPTION = 30, 36
MARGIN = 10
SAMPLE_SECONDS = 0.6
KEY_SECONDS = 0.15
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


class Step(NamedTuple):
    keys: str
    shown: str
    """How the keys are written in the caption."""
    caption: str
    seconds: float


STEPS = (
    Step("", "", "the tree, with live times, shares and the bound of each module", 12),
    Step("2", "2", "unfold to depth 2", 5),
    Step("z", "z", "the module with the most self time", 7),
    Step("i", "i", "where its figures come from", 7),
    Step("\x1b", "esc", "back", 1.5),
    Step("o", "o", "the node screen: tensors, operators, energy", 8),
    Step("\x1b", "esc", "back", 1.5),
    Step("r", "r", "roofline: achieved and attainable performance of each module", 9),
    Step("m", "m", "memory over one forward, operator by operator", 5),
    Step("z", "z", "the peak, and what is alive then", 5),
    Step("t", "t", "timeline: one forward by depth, and the last minutes", 8),
    Step("f", "f", "findings, by predicted gain, with their evidence", 9),
    Step("\x1b", "esc", "back", 1.5),
    Step("/", "/", "filter the tree", 1.5),
    Step("type:conv time>1ms", "type:conv time>1ms", "convolutions above 1 ms", 2),
    Step("\r", "enter", "keep the filter; n and N go from match to match", 6),
    Step("\x1b", "esc", "drop the filter", 2),
    Step("B", "B", "change the batch size", 1.5),
    Step("4\r", "4 enter", "the status line shows the difference", 16),
    Step("?", "?", "every key of this screen", 6),
    Step("\x1b", "esc", "back", 1),
    Step("q", "q", "quit", 1.5),
)


class Frame(NamedTuple):
    rows: tuple[tuple[str, ...], ...]
    """SVG of the left and the right half of each row: they change at different times."""
    step: Step


def rectangle(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.4g} {y:.4g}h{width:.4g}v{height:.4g}h{-width:.4g}z"


def shape(char: str, x: float, cells: int) -> str | None:
    """Return the path of a run of equal bar, block, line or braille characters; None for text."""
    width, half, middle = cells * CELL_WIDTH, CELL_WIDTH / 2, CELL_HEIGHT / 2
    if "▁" <= char <= "█":
        height = CELL_HEIGHT * (ord(char) - ord("▁") + 1) / 8
        return rectangle(x, CELL_HEIGHT - height, width, height)
    lefts = [x + cell * CELL_WIDTH for cell in range(cells)]
    if "\u2801" <= char <= "\u28ff":
        return "".join(braille(char, left) for left in lefts)
    match char:
        case "━":
            return rectangle(x, middle - 1.5, width, 3)
        case "─":
            return rectangle(x, middle - 0.5, width, 1)
        case "▔":
            return rectangle(x, 0, width, CELL_HEIGHT / 8)
        case "╸":
            return "".join(rectangle(left, middle - 1.5, half, 3) for left in lefts)
        case "│":
            return "".join(rectangle(left + half - 0.5, 0, 1, CELL_HEIGHT) for left in lefts)
        case "┃":
            return "".join(rectangle(left + half - 1, 0, 2, CELL_HEIGHT) for left in lefts)
        case "▌":
            return "".join(rectangle(left, 0, half, CELL_HEIGHT) for left in lefts)
    return None


def braille(char: str, x: float) -> str:
    bits = enumerate((0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80))
    return "".join(
        rectangle(
            x + CELL_WIDTH * (1 + 2 * (place % 2)) / 4 - 0.7,
            CELL_HEIGHT * (1 + 2 * (place // 2)) / 8 - 0.7,
            1.4,
            1.4,
        )
        for place, bit in bits
        if (ord(char) - 0x2800) & bit
    )


def style(cell: Char) -> tuple[str, str, str, bool]:
    """Return ink, paper, character and weight of a cell."""
    ink, paper = colour(cell.fg, INK), colour(cell.bg, PAPER)
    return (*((paper, ink) if cell.reverse else (ink, paper)), cell.data, cell.bold)


def row_svg(cells: list[Char]) -> str:
    """Return one row: backgrounds, then shapes by colour, then text in runs of one style."""
    parts, column = list[str](), 0
    shapes: dict[str, list[str]] = {}
    text: list[tuple[int, str, str, bool]] = []
    for (ink, paper, char, bold), run in groupby(cells, key=style):
        count = len(list(run))
        x = column * CELL_WIDTH
        if paper != f"#{PAPER}":
            path = rectangle(x, 0, count * CELL_WIDTH, CELL_HEIGHT)
            parts.append(f'<path fill="{paper}" d="{path}"/>')
        if (drawn := shape(char, x, count)) is not None:
            shapes.setdefault(ink, []).append(drawn)
        elif char.strip():
            text += [(column + cell, char, ink, bold) for cell in range(count)]
        column += count
    parts += [f'<path fill="{ink}" d="{"".join(paths)}"/>' for ink, paths in shapes.items()]
    for start, run_text, ink, bold in text_runs(text):
        weight = ' font-weight="700"' if bold else ""
        length = f' textLength="{len(run_text) * CELL_WIDTH:.4g}"' if len(run_text) > 1 else ""
        parts.append(
            f'<text x="{start * CELL_WIDTH:.4g}" y="13.5" fill="{ink}"{weight}{length}>'
            f"{escape(run_text, quote=False)}</text>"
        )
    return "".join(parts)


def text_runs(cells: list[tuple[int, str, str, bool]]) -> list[tuple[int, str, str, bool]]:
    """Join neighbours of one style. What is not ASCII stays alone: its font may differ in width."""
    runs: list[tuple[int, str, str, bool]] = []
    for column, char, ink, bold in cells:
        if runs:
            start, before, *style = runs[-1]
            gap = column - start - len(before)
            if style == [ink, bold] and 0 <= gap <= 1 and (before + char).isascii():
                runs[-1] = (start, before + " " * gap + char, ink, bold)
                continue
        runs.append((column, char, ink, bold))
    return runs


def frame(terminal: Terminal, step: Step) -> Frame:
    screen = terminal.screen
    return Frame(
        tuple(
            tuple(
                row_svg([screen.buffer[y][x] for x in range(left, left + HALF)])
                for left in (0, HALF)
            )
            for y in range(ROWS)
        ),
        step,
    )


def record(arguments: list[str]) -> list[tuple[Frame, float]]:
    """Return each frame with the seconds for which it was seen."""
    frames: list[tuple[Frame, float]] = []

    def watch(step: Step, seconds: float) -> None:
        end = terminal.seconds() + seconds
        while terminal.is_alive() and (now := terminal.seconds()) < end:
            terminal.pause(min(SAMPLE_SECONDS, end - now))
            seen, took = frame(terminal, step), terminal.seconds() - now
            if frames and frames[-1][0] == seen:
                frames[-1] = (seen, frames[-1][1] + took)
            else:
                frames.append((seen, took))

    with tempfile.TemporaryDirectory() as own:
        fresh = {"XDG_STATE_HOME": own, "XDG_CONFIG_HOME": own}
        terminal = Terminal([*COMMAND, *arguments, "--no-remembered"], COLUMNS, ROWS, fresh)
        start = Step("", "", "the worker imports torch, traces the model and runs it", 0)
        while "● live" not in terminal.text():
            assert terminal.is_alive(), terminal.text()
            assert terminal.seconds() < 120, terminal.text()
            watch(start, SAMPLE_SECONDS)
        for step in STEPS:
            for key in step.keys:
                terminal.send(key)
                watch(step, KEY_SECONDS if len(step.keys) > 1 else 0)
            watch(step, step.seconds)
        terminal.wait_for_exit()
        terminal.close()
    return frames


def svg(frames: list[tuple[Frame, float]], title: str) -> str:
    """Return the animation."""
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, TITLE + ROWS * CELL_HEIGHT + CAPTION
    total = sum(seconds for _, seconds in frames)
    rows: dict[str, int] = {}
    strip, moves, at = [], [], 0.0
    for number, (seen, seconds) in enumerate(frames):
        moves.append(f"{100 * at / total:.3f}%{{transform:translateY({-number * height}px)}}")
        at += seconds
        uses = "".join(
            f'<use href="#r{rows.setdefault(row, len(rows))}"'
            f' x="{half * HALF * CELL_WIDTH:.4g}" y="{line * CELL_HEIGHT}"/>'
            for line, halves in enumerate(seen.rows)
            for half, row in enumerate(halves)
            if row
        )
        key = f'<tspan class="k">{escape(seen.step.shown)}</tspan>  ' if seen.step.shown else ""
        strip.append(
            f'<g transform="translate({MARGIN} {number * height + TITLE})">{uses}'
            f'<text class="c" y="{ROWS * CELL_HEIGHT + 24}">'
            f"{key}{escape(seen.step.caption)}</text></g>"
        )
    still = next(number for number, one in enumerate(frames) if one[0].step.shown == "z")
    defined = "".join(f'<g id="r{number}">{row}</g>' for row, number in rows.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.4g} {height}" '
        f'width="{width:.4g}" height="{height}" role="img" aria-label="{escape(title)}, in use">'
        f"<style>text{{font:14px {FONT};white-space:pre}}.t{{fill:#8c95a3}}"
        f".c{{fill:#d8dde4;font-size:15px}}.k{{fill:#5fd7a7;font-weight:700}}"
        f"#s{{animation:s {total:.1f}s step-end infinite}}@keyframes s{{{''.join(moves)}}}"
        f"@media(prefers-reduced-motion:reduce){{#s{{animation:none;"
        f"transform:translateY({-still * height}px)}}}}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#{PAPER}"/>'
        f'<text class="t" x="{MARGIN}" y="19">$ {escape(title)}</text>'
        f"<defs>{defined}</defs>"
        f'<g id="s">{"".join(strip)}</g></svg>\n'
    )


def main() -> None:
    path, *arguments = sys.argv[1:]
    arguments = arguments or ["resnet18", "--threads", "1"]
    frames = record(arguments)
    drawn = svg(frames, f"tui-profiler {' '.join(arguments)}")
    Path(path).write_text(drawn, encoding="utf-8")
    seconds = sum(one for _, one in frames)
    print(f"{path}: {len(frames)} frames, {seconds:.0f} s, {os.path.getsize(path) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()

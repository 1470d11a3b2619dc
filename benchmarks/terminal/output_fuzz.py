"""Random screens through both output layers, ours and Textual's own, until a terminal differs.

    python -m benchmarks.terminal.output_fuzz [STEPS] [--seed N] [--colours truecolor|256|standard]

Every update is composed and written by both, each to an emulator of its own. After each step every
cell is compared: text, colours, attributes, links, and the cursor's place; but not in rows where
Textual has cut a joined grapheme, and its parts are not as wide as it says. Ours is answered late
or never, told that its link is slow, and loses its terminal now and then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from rich.cells import split_graphemes
from rich.console import RenderableType
from rich.text import Text
from textual._compositor import LayoutUpdate
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.drivers.headless_driver import HeadlessDriver
from textual.events import CursorPosition, Resize
from textual.messages import TerminalSupportsSynchronizedOutput
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Checkbox, Input, Static

from benchmarks.terminal.emulator import Emulator
from benchmarks.terminal.noise import PIECES, Noise, random_style
from screens.terminal.output import SparingApp
from screens.terminal.painting import PaintedScreen

STEPS_OF_ONE = 40


class FuzzDriver(HeadlessDriver):
    """Writes to the emulator whose turn it is."""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        assert isinstance(self._app, FuzzApp)
        self._app.turn.write(data)


class Over(ModalScreen[None]):
    """A screen over the other."""

    CSS = (
        "Over { align: center middle; } Over Static { width: 60%; height: 40%; border: round red; }"
    )

    def compose(self) -> ComposeResult:
        yield Static("modal 日本 é", markup=False)


class Composed(PaintedScreen[None]):
    """Is composed by both."""

    def _compositor_refresh(self) -> None:
        app, dirty = self.app, self._compositor._dirty_regions.copy()
        if isinstance(app, FuzzApp) and self is app.screen:
            below = app._background_screens
            app.theirs = self._compositor.render_update(screen_stack=below)
            self._compositor._dirty_regions.update(dirty)
        super()._compositor_refresh()


class FuzzApp(SparingApp[None]):
    """Writes every update twice."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Noise { width: 1fr; height: 1fr; } #tall { height: 90; } VerticalScroll { width: 2fr; }
    Toast { width: 30; }
    """

    def __init__(self, chance: random.Random, columns: int, rows: int) -> None:
        super().__init__(driver_class=FuzzDriver)
        self.chance = chance
        self.stock, self.ours = Emulator(columns, rows), Emulator(columns, rows)
        self.turn = self.ours
        self.theirs: RenderableType | None = None
        """What Textual has composed of the update that comes next."""
        self.misfits: set[int] = set()
        """Rows with a strip that takes other cells than it says: Textual's are shifted there."""

    def get_default_screen(self) -> Composed:
        return Composed(id="_default")

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Noise(self.chance, id="left")
            with VerticalScroll():
                yield Input("日本 text")
                yield Checkbox("check é")
                yield Noise(self.chance, id="tall")
        yield Noise(self.chance, id="below")

    def _take_strip(self, x: int, y: int, strip: Strip) -> int:
        spans = (split_graphemes(segment.text)[0] for segment in strip)
        if sum(cells for found in spans for _, _, cells in found) != strip.cell_length:
            self.misfits.add(y)
        return super()._take_strip(x, y, strip)

    def show(self, screen: Any, updates: Any) -> None:
        theirs, self.theirs = self.theirs, None
        stock = updates if theirs is None else [theirs]
        if any(isinstance(update, LayoutUpdate) for update in stock):
            self.misfits.clear()
        self.turn = self.stock
        for update in stock:
            App._display(self, screen, update)
        self.turn = self.ours
        super().show(screen, updates)

    def answer(self) -> None:
        """Answer what the terminal of ours was asked."""
        if self.ours.questions:
            self.ours.questions -= 1
            self.post_message(CursorPosition(0, 0))


async def step(app: FuzzApp, pilot: Any) -> str:
    """Do one random thing and return its name."""
    chance = app.chance
    doing = chance.choices(
        ("change", "scroll", "type", "toast", "over", "theme", "resize", "lost",
         "hide", "text"),
        (12, 4, 3, 2, 2, 1, 2, 1, 1, 2),
    )[0]  # fmt: skip
    screen = app.screen
    match doing:
        case "change":
            for noise in screen.query(Noise):
                noise.change()
            if isinstance(screen, PaintedScreen) and chance.random() < 0.5:
                screen.paint()
        case "scroll":
            for scroll in screen.query(VerticalScroll):
                scroll.scroll_to(y=chance.randint(0, 90), animate=chance.random() < 0.3)
        case "type":
            await pilot.press(*chance.choices(("a", "é", "left", "backspace", "tab"), k=3))
        case "toast":
            app.notify(chance.choice(("done", "日本語 ok", "e\u0301 " * 20)), markup=False)
        case "over":
            if isinstance(screen, Over):
                app.pop_screen()
            else:
                app.push_screen(Over())
        case "theme":
            app.theme = chance.choice(sorted(app.available_themes))
        case "resize":
            size = chance.randint(8, 110), chance.randint(2, 30)
            for emulator in (app.stock, app.ours):
                emulator.screen.resize(size[1], size[0])
            await pilot.resize_terminal(*size)
        case "lost":
            for emulator in (app.stock, app.ours):
                emulator.screen.reset()
            app.post_message(Resize(app.size, app.size))
            app.refresh(layout=True)
        case "hide":
            for widget in screen.query("#below"):
                widget.display = not widget.display
        case "text":
            for static in screen.query(Static):
                static.update(Text("".join(chance.choices(PIECES, k=9)), random_style(chance)))
    return doing


def differences(app: FuzzApp) -> list[str]:
    """Name the cells that differ."""
    found = []
    theirs, ours = app.stock.screen, app.ours.screen
    for y, (stock_row, our_row) in enumerate(zip(theirs.cells(), ours.cells(), strict=True)):
        for x, (stock, our) in enumerate(zip(stock_row, our_row, strict=True)):
            if stock != our and y not in app.misfits:
                found.append(f"row {y} column {x}: Textual {stock}, ours {our}")
    if (theirs.cursor.x, theirs.cursor.y) != (ours.cursor.x, ours.cursor.y):
        found.append(f"cursor: {theirs.cursor.x, theirs.cursor.y}, {ours.cursor.x, ours.cursor.y}")
    return found


async def fuzz_one(seed: int, steps: int = STEPS_OF_ONE) -> tuple[list[str], int, int]:
    """Run one app; return what differed after which step, and the bytes of Textual and of ours."""
    chance = random.Random(seed)
    columns, rows = chance.randint(20, 110), chance.randint(5, 30)
    app = FuzzApp(chance, columns, rows)
    answers, is_slow = chance.random() < 0.5, chance.random() < 0.3
    async with app.run_test(headless=False, size=(columns, rows)) as pilot:
        if answers:
            app.post_message(TerminalSupportsSynchronizedOutput())
        done: list[str] = []
        for _ in range(steps):
            done.append(await step(app, pilot))
            if is_slow:
                app.pace.most_bytes = 600
            for _ in range(chance.randint(0, 2)):
                await pilot.pause()
                if answers:
                    app.answer()
            if chance.random() < 0.6:
                await finished(app, pilot, answers)
                if found := differences(app):
                    return [f"seed {seed}, after {done}", *found], app.stock.size, app.ours.size
        await finished(app, pilot, answers)
        found = differences(app)
        if app.stock_because:
            found.append(f"gave up: {app.stock_because}")
    if found:
        found.insert(0, f"seed {seed}, after {done}")
    return found, app.stock.size, app.ours.size


async def finished(app: FuzzApp, pilot: Any, answers: bool = True) -> None:
    """Wait until everything is sent; answer meanwhile."""
    await pilot.pause()
    deadline = time.monotonic() + 5
    while app._cells.dirty or app._is_sending_later:  # The cursor alone waits its turn too.
        assert time.monotonic() < deadline, "not everything is sent"
        if answers:
            app.answer()
        await asyncio.sleep(0.005)
        await pilot.pause()


def main() -> int:
    """Fuzz, and tell of the first differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", nargs="?", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--colours", choices=["truecolor", "256", "standard"], default="truecolor")
    chosen = parser.parse_args()
    from textual import constants

    constants.COLOR_SYSTEM = chosen.colours  # type: ignore[misc] # read from the environment else
    stock = ours = failed = 0
    seeds = range(chosen.seed, chosen.seed + max(chosen.steps // STEPS_OF_ONE, 1))
    for seed in seeds:
        os.environ.pop("NO_COLOR", None)
        if seed % 5 == 4:
            os.environ["NO_COLOR"] = "1"
        found, theirs, mine = asyncio.run(fuzz_one(seed))
        stock, ours, failed = stock + theirs, ours + mine, failed + bool(found)
        print("\n".join(found[:8]), end="\n" if found else "", flush=True)
    print(
        f"{len(seeds)} apps, {len(seeds) * STEPS_OF_ONE} steps, {chosen.colours}: {failed} differ"
    )
    print(
        f"  bytes: Textual {stock / 1e6:.1f} MB, ours {ours / 1e6:.1f} MB, {stock / ours:.1f} times"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Bytes to the terminal, CPU of the screens, keys on a slow link, compared with other tools.

    python -m benchmarks.terminal.terminal_traffic [SECONDS] [MODEL]

At 120x40, the default rate, on a pty whose other end answers and has synchronized output.
``btop``, ``htop`` and ``memray`` are run beside it where they are found on the path; each that is
not is named. Budgets are those of the project: 10 KB/s and 5 % of a core live, nothing where
nothing changes, a key painted within 16 ms (95 %) with 100,000 nodes, a key answered and the
program left within 1 s at 5 KB/s.

A paused view counts the seconds since it was paused: that is a digit a second, and all.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import random
import shutil
import sys
import tempfile
import time
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
from msgspec.structs import replace

from benchmarks.terminal.live import steady
from benchmarks.terminal.tree import NODES, messages, p95
from screens.options.model import STOCK_OUTPUT
from tests.end_to_end.terminal import COMMAND, Terminal
from tui_profiler.connection import wire
from tui_profiler.messages import LoadSpec, Message, Request, Tick
from tui_profiler.session import Jump

ROOT = Path(__file__).resolve().parents[2]
LIVE = "● live"
STOCK = {STOCK_OUTPUT: "1"}
SLOW_BYTES_PER_SECOND = 5_000
KEYS = 60
ROW_CURSOR = b"48;2;30;39;51"
"""The background of the row under the cursor: what a key that moves it must paint."""
BLANK = """
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
class Rows(Widget, can_focus=True):
    row = 0
    def render_line(self, y):
        style = Style.parse("on #1e2733") if y == self.row else Style()
        return Strip([Segment(f"row {y}".ljust(self.size.width), style)], self.size.width)
class Blank(App):
    BINDINGS = [("j", "down", "")]
    def compose(self):
        yield Rows()
    def action_down(self):
        rows = self.query_one(Rows)
        former, rows.row = rows.row, (rows.row + 1) % self.size.height
        rows.refresh(*(Region(0, y, rows.size.width, 1) for y in (former, rows.row)))
Blank().run()
"""
"""The least that Textual does for a key: two rows of a widget, and nothing else on the screen."""
PROGRAM = """
import sys, torch, torchvision
model, x = torchvision.models.get_model(sys.argv[1]).eval(), torch.randn(1, 3, 224, 224)
with torch.no_grad():
    while True:
        model(x)
"""


def tell(what: str, figure: float, unit: str, budget: float | None = None) -> None:
    """Print a line."""
    over = "" if budget is None else f"budget {budget:g}" + ("  OVER" if figure > budget else "")
    print(f"  {what:58}{figure:9.1f} {unit:10}{over}".rstrip(), flush=True)


def live(model: str, seconds: float, *, stock: bool) -> None:
    """Watch a model live, then with the view paused."""
    terminal = Terminal([*COMMAND, model], environment=STOCK if stock else {}, answers=True)
    name = "Textual's own output" if stock else "ours"
    terminal.wait_for(LIVE, 180)
    terminal.send("z")
    terminal.pause(8)
    found = steady(terminal, seconds)
    budgets = (None, None) if stock else (10.0, 5.0)
    tell(f"{name}, {model} live", found.bytes_per_second / 1e3, "KB/s", budgets[0])
    tell(f"{name}, CPU of the screens", found.cores * 100, "% of core", budgets[1])
    terminal.send("p")
    terminal.wait_for("paused")
    terminal.pause(1)
    paused = steady(terminal, 5)
    tell(f"{name}, the view paused", paused.bytes_per_second, "B/s")
    leave(terminal)


def finished_recording() -> None:
    """Look at a recording that has come to its end."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "short.rec")
        maker = Terminal([*COMMAND, "record", "demo:cnn", "-o", file, "--seconds", "3"])
        maker.wait_for_exit(120)
        maker.close()
        terminal = Terminal([*COMMAND, "open", file, "--speed", "64"], answers=True)
        terminal.wait_for(lambda shown: "of" in shown and "‖" in shown, 30)
        terminal.pause(2)
        tell("a finished recording", steady(terminal, 5).bytes_per_second, "B/s", 0.0)
        leave(terminal)


def slow_link(model: str, *, stock: bool, answers: bool = True) -> None:
    """Type on a slow link, and leave."""
    terminal = Terminal(
        [*COMMAND, model],
        environment=STOCK if stock else {},
        answers=answers,
        bytes_per_second=SLOW_BYTES_PER_SECOND,
    )
    terminal.wait_for(LIVE, 180)
    terminal.pause(8)
    waits = []
    chance = random.Random(1)
    for turn in range(10):
        terminal.pause(1 + chance.random())
        began = terminal.seconds()
        terminal.send("p")
        terminal.wait_for(lambda shown, on=turn % 2 == 0: ("paused" in shown) == on, 60)
        waits.append(terminal.seconds() - began)
    name = "Textual's own" if stock else "ours" if answers else "ours, no answers"
    link = f"{name} at {SLOW_BYTES_PER_SECOND / 1e3:g} KB/s"
    budget = None if stock else 1.0
    tell(f"{link}, a key answered, worst of 10", max(waits), "s", budget)
    began = terminal.seconds()
    terminal.send("q")
    terminal.wait_for_exit(60)
    tell(f"{link}, left", terminal.seconds() - began, "s", budget)
    terminal.close()


def key_to_paint(*, stock: bool) -> None:
    """Move through 100,000 nodes whose times change four times per second."""
    command = [sys.executable, "-m", "benchmarks.terminal.terminal_traffic", "--giant"]
    terminal = Terminal(command, environment=STOCK if stock else {}, answers=True, folder=str(ROOT))
    terminal.wait_for(LIVE, 60)
    terminal.send("9")
    terminal.pause(3)
    name = "Textual's own output" if stock else "ours"
    process = psutil.Process(terminal.pid)
    cpu_before, at_first = sum(process.cpu_times()[:2]), terminal.seconds()
    waits = key_waits(terminal)
    cores = (sum(process.cpu_times()[:2]) - cpu_before) / (terminal.seconds() - at_first)
    budget = None if stock else 16.0
    tell(f"{name}, {NODES:,} nodes live, key to paint p95", p95(waits), "ms", budget)
    tell(f"{name}, the same, p50", sorted(waits)[len(waits) // 2], "ms")
    tell(f"{name}, the same, CPU of the screens", cores * 100, "% of core")
    terminal.send("p")
    terminal.wait_for("paused")
    waits = key_waits(terminal)
    tell(f"{name}, the view paused, key to paint p95", p95(waits), "ms", budget)
    leave(terminal)


def blank_key_to_paint() -> None:
    """Move through rows of a program that has nothing else to do."""
    terminal = Terminal([sys.executable, "-c", BLANK], answers=True)
    terminal.wait_for("row 1", 30)
    terminal.pause(1)
    waits = key_waits(terminal)
    tell("a blank Textual app, key to paint p95", p95(waits), "ms")
    tell("the same, p50", sorted(waits)[len(waits) // 2], "ms")
    terminal.close()


def key_waits(terminal: Terminal) -> list[float]:
    """Move down again and again; return the milliseconds from each key to the row's paint."""
    chance, waits = random.Random(1), []
    for _ in range(KEYS):
        terminal.pause(0.05 + chance.random() * 0.25)
        start, began = len(terminal.raw), terminal.seconds()
        terminal.send("j")
        while ROW_CURSOR not in terminal.raw[start:]:
            terminal.pause(0.001)
            assert terminal.seconds() - began < 10, terminal.text()
        place = terminal.raw.index(ROW_CURSOR, start)
        arrived = next(at for at, count in terminal.reads if count > place)
        waits.append((arrived - began) * 1e3)
    return waits


def others(model: str, seconds: float) -> None:
    """Run programs of other people's in a terminal of the same size."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(PROGRAM, encoding="utf-8")
        settings = Path(folder) / "btop" / "btop.conf"
        settings.parent.mkdir()
        settings.write_text("update_ms = 100\n", encoding="utf-8")
        memray = [sys.executable, "-m", "memray", "run", "--live", str(script), model]
        for name, command, environment in (
            ("btop", ["btop", "--utf-force"], {}),
            ("btop at 10 Hz", ["btop", "--utf-force"], {"XDG_CONFIG_HOME": folder}),
            ("htop", ["htop"], {}),
            ("htop at 10 Hz", ["htop", "-d", "1"], {}),
            (f"memray live, {model}", memray, {}),
        ):
            is_there = importlib.util.find_spec("memray") if "memray" in name else True
            if not is_there or shutil.which(command[0]) is None:
                print(f"  {name}: not installed here", flush=True)
                continue
            terminal = Terminal(command, environment=environment, answers=True)
            terminal.wait_for(lambda shown: bool(shown.strip()), 60)
            terminal.pause(12 if "memray" in name else 4)
            found = steady(terminal, seconds)
            tell(name, found.bytes_per_second / 1e3, "KB/s")
            tell(f"{name}, CPU", found.cores * 100, "% of core")
            terminal.close()


def leave(terminal: Terminal) -> None:
    """Quit."""
    terminal.send("q")
    terminal.wait_for_exit()
    terminal.close()


class Giant:
    """A source of 100,000 nodes, and of their times four times per second."""

    async def messages(self) -> AsyncIterator[Message | Jump]:
        """Yield the tree, then ticks for ever."""
        decoder, frames = wire.message_decoder(), messages(NODES)
        for frame in frames[:-1]:
            for message in decoder.feed(frame):
                yield message
        (tick,) = decoder.feed(frames[-1])
        assert isinstance(tick, Tick)
        for number, frame in enumerate(itertools.cycle([_changed(tick, k) for k in range(8)])):
            for message in decoder.feed(frame):
                assert isinstance(message, Tick)
                yield replace(message, at=1 + number / 4, forwards=10 + number)
            await asyncio.sleep(0.25)

    def send(self, request: Request) -> None:
        """There is no one to ask."""

    async def close(self) -> None:
        """There is nothing to stop."""


def _changed(tick: Tick, number: int) -> bytes:
    """Return a tick with other times in every node."""
    chance = random.Random(number)
    times = array("f", [1e-6 * chance.uniform(1, 900) for _ in range(len(tick.nodes) // 4)])
    own = times.tobytes()
    changed = replace(tick, last=own, p50=own, p95=own, per_forward=own, own_per_forward=own)
    return wire.encode(changed)


def show_giant() -> int:
    """Run the explorer on it."""
    from screens.app.explorer_app import run_explorer

    def again(spec: LoadSpec) -> Giant:
        return Giant()

    return run_explorer(Giant(), again, LoadSpec("giant", started_at=time.time()))


def main() -> int:
    """Measure everything."""
    if "--giant" in sys.argv:
        return show_giant()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    model = sys.argv[2] if len(sys.argv) > 2 else "resnet50"
    print(f"120x40, {seconds:g} s each, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for stock in (False, True):
        live(model, seconds, stock=stock)
    finished_recording()
    others(model, seconds)
    blank_key_to_paint()
    for stock in (False, True):
        key_to_paint(stock=stock)
    slow_link(model, stock=False)
    slow_link(model, stock=False, answers=False)
    slow_link(model, stock=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The explorer with one real fault in it, as a program: ``python -m tests.end_to_end.faulty KIND``.

The fault lies in classes of its own, below those of the product; nothing of the product is changed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

from textual.app import ComposeResult
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from screens.app.explorer_app import ProfilerApp
from screens.settings.preferences import Preferences
from screens.start.picker import Picker
from screens.terminal.cells import Cells
from screens.terminal.crashing import run_to_end
from screens.terminal.early_frame import EarlyFrame, terminal_size
from tests.recorded_source import Recorded
from tests.screens.panel_session import LOADING, RUN, TRACED, tick
from tui_profiler.messages import LoadSpec, Message, Printed, Start
from tui_profiler.source.spawned import Spawned, worker_command

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a value that no report may hold"
SAID = "fault \x1b[31m[/nope]\u202e"
PRINTED = Printed("the model's own words \x1b]0;x\x07\n")
MESSAGES = (*LOADING, *TRACED, *RUN, tick(5.0), PRINTED)
KIND = sys.argv[1] if len(sys.argv) > 1 else ""


def fail() -> NoReturn:
    local_variable = SECRET
    raise LookupError(SAID + local_variable[:0])


async def fail_in_a_task() -> NoReturn:
    fail()


class BadCanvas(Widget):
    def render_line(self, y: int) -> Strip:
        fail()


class BadScreen(Screen[None]):
    def compose(self) -> ComposeResult:
        yield BadCanvas()


class BadlyMounted(Screen[None]):
    def on_mount(self) -> None:
        fail()


class BadSource(Recorded):
    async def messages(self) -> AsyncIterator[Message]:
        async for message in super().messages():
            yield message
            if message is PRINTED:
                fail()


class Faulty(ProfilerApp):
    """Fails soon after it was mounted, in the way that the command line says."""

    CSS_PATH = ROOT / "screens" / "common" / "app.tcss"
    CSS = "Screen { nonsense" if KIND == "css" else ""

    def on_load(self) -> None:
        if KIND == "early":  # Before the app has the terminal.
            fail()

    def on_mount(self) -> None:
        match KIND:
            case "mount":
                fail()
            case "timer":
                self.set_timer(0.3, fail)
            case "worker":
                self.run_worker(fail_in_a_task())
            case "thread":
                self.run_worker(fail, thread=True)
            case "later":
                self.call_later(fail)
            case "render":
                self.push_screen(BadScreen())
            case "screen":
                self.push_screen(BadlyMounted())
            case "recursion":
                self.call_later(self.recurse)
            case "unmount":
                self.set_timer(0.3, self.exit)

    def recurse(self) -> None:
        self.recurse()

    def on_unmount(self) -> None:
        if KIND == "unmount":
            fail()

    def key_f9(self) -> None:
        fail()


class FaultyPicker(Picker):
    async def _look(self) -> None:
        fail()


def main() -> int:
    spec = LoadSpec("demo:cnn", started_at=time.time())
    if KIND == "picker":
        return run_to_end(FaultyPicker("", Preferences()))
    source: Recorded | Spawned = Recorded(MESSAGES)
    if KIND == "reading":
        source = BadSource(MESSAGES)
    if KIND == "timer":
        source = Spawned(worker_command(), first=[Start(spec)])
    app = Faulty(source, spec, lambda _: source)
    if KIND != "early":
        return run_to_end(app)
    with EarlyFrame(Cells(*terminal_size())) as early:
        app.take_over(early)
        return run_to_end(app, early=early)


if __name__ == "__main__":
    sys.exit(main())

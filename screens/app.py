"""The app: reads a source, keeps the session, hands it to the screens.

One tick for everything: messages are folded as they come, and the screens see the newest session
four times a second; what changes the screen as a whole (a tree, a failure) they see at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace
from textual.binding import Binding, BindingType

from tui_profiler.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import (
    Ended,
    Failed,
    LoadSpec,
    LoopState,
    ModelFacts,
    Playback,
    Request,
    StageDone,
    StageStarted,
    TraceDone,
)
from tui_profiler.session import EMPTY, Jump, Remembered, apply
from tui_profiler.source import Source, Told
from tui_profiler.source.script import Script

from .base_app import BaseApp
from .explorer import ExplorerScreen
from .terminal.guard import end_on_hang_up, end_on_signals

TICK_SECONDS = 0.25
_AT_ONCE = (
    *(TraceDone, ModelFacts, Failed, Ended, LoopState, StageStarted, StageDone),
    *(Playback, Jump, Remembered),
)


class ProfilerApp(BaseApp):
    """The only place where a message becomes state."""

    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", show=False),
        Binding("ctrl+c", "leave", show=False, priority=True),
    ]

    def __init__(
        self,
        source: Source,
        spec: LoadSpec,
        restart: Callable[[LoadSpec], Source],
        *,
        glyphs: Glyphs = UNICODE,
        clock: Callable[[], float] = time.time,
        script: Script | None = None,
    ) -> None:
        super().__init__()
        self._script = script
        self._source = source
        self._spec = spec
        self._restart = restart
        self._clock = clock
        self.glyphs = glyphs
        self._newest = EMPTY
        self._reading: asyncio.Task[None] | None = None

    def get_default_screen(self) -> ExplorerScreen:
        """Start at the explorer, bound to the app's session."""
        return ExplorerScreen(self._spec, self.glyphs, self.now, self.send, self.restart).data_bind(
            BaseApp.session
        )

    def on_mount(self) -> None:
        """Begin to read, and to redraw."""
        self._reading = asyncio.create_task(self._read(self._source))
        self.set_interval(TICK_SECONDS, self._show)
        if not self.is_headless:
            end_on_signals(self._end)
            end_on_hang_up(0, self._end)

    async def on_unmount(self) -> None:
        """End the probe before the event loop ends."""
        await self._stop_reading()

    def now(self) -> float:
        """Give seconds since the command was started."""
        return self._clock() - self._spec.started_at

    def send(self, request: Request) -> None:
        """Ask the probe for something."""
        self._source.send(request)

    def restart(self, spec: LoadSpec | None = None) -> None:
        """Replace the worker by a new one, with the same request or another."""
        self._spec = replace(spec or self._spec, started_at=self._clock())
        self.run_worker(self._replace_source(), exclusive=True)

    def runs_script(self) -> bool:
        """Tell whether leaving would end a script of the user's."""
        return self._script is not None and self._script.is_running

    def let_script_go(self) -> None:
        """Quit; the script runs on."""
        if self._script is not None:
            self._script.let_go()
        self.exit(0)

    def action_leave(self) -> None:
        """Quit, whatever screen is on top."""
        self.exit(0)

    def _end(self, code: int) -> None:
        self.exit(code, return_code=code)

    async def _replace_source(self) -> None:
        await self._stop_reading()
        self._newest = self.session = EMPTY
        self._source = self._restart(self._spec)
        self._reading = asyncio.create_task(self._read(self._source))

    async def _stop_reading(self) -> None:
        await self._source.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self, source: Source) -> None:
        async for message in source.messages():
            self._newest = apply(self._newest, message)
            if self._concerns_all(message):
                self._show()

    def _concerns_all(self, message: Told) -> bool:
        first_times = self.session.timings is None and self._newest.timings is not None
        return isinstance(message, _AT_ONCE) or first_times

    def _show(self) -> None:
        self.session = self._newest


def run_explorer(
    source: Source,
    restart: Callable[[LoadSpec], Source],
    spec: LoadSpec,
    *,
    ascii_only: bool = False,
    clock: Callable[[], float] = time.time,
    script: Script | None = None,
) -> int:
    """Run the explorer until it is left; gives the exit code."""
    glyphs = ASCII if ascii_only else UNICODE
    app = ProfilerApp(source, spec, restart, glyphs=glyphs, clock=clock, script=script)
    result = app.run()
    if app.return_code:
        return app.return_code
    return result or 0

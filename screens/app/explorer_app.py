"""The app: reads a source, keeps the session, hands it to the screens.

One tick for everything: messages are folded as they come, and the screens see the newest session
four times per second; what changes the screen as a whole (a tree, a failure) they see at once.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable

from msgspec.structs import replace

from tui_profiler.messages import LoadSpec, Request, SetBatch
from tui_profiler.queries.compare.difference import kept
from tui_profiler.queries.forward.strip import prepared
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told
from tui_profiler.source.script import Script

from ..common.base_app import AT_ONCE, BaseApp
from ..explorer.screen import ExplorerScreen
from ..settings.appearance import UNTYPED, AppearanceOptions
from ..settings.preferences import Preferences, read_preferences
from ..terminal.crashing import run_to_end
from ..terminal.early_frame import EarlyFrame
from ..terminal.guard import ending, restore
from ..terminal.standard_output import say

MOST_SHARE = 0.04
"""Of a core that is taken by drawing new figures."""
MOST_SECONDS = 4.0
"""Without new ones, however long it takes; after 5 s they would be said to be old."""
STEP_SECONDS, PAUSE_SECONDS = 0.001, 0.002
"""What takes long is worked at for about so long, then keys have so long to be painted in."""


class ProfilerApp(BaseApp):
    """The only place where a message becomes state."""

    def __init__(
        self,
        source: Source,
        spec: LoadSpec,
        restart: Callable[[LoadSpec], Source],
        *,
        preferences: Preferences | None = None,
        clock: Callable[[], float] | None = None,
        script: Script | None = None,
        begun: Session = EMPTY,
    ) -> None:
        super().__init__(preferences, clock)
        self._script = script
        self.is_left = False
        """Whether the terminal is restored."""
        self._source = source
        self._spec = spec
        self._restart = restart
        self._next_show = 0.0
        self._newest = begun
        self.set_reactive(BaseApp.session, begun)
        self._reading: asyncio.Task[None] | None = None

    def get_default_screen(self) -> ExplorerScreen:
        """Start at the explorer, bound to the app's session."""
        screen = self.explorer()
        # What is bound comes after the first drawing; what has begun is to be in it.
        screen.set_reactive(ExplorerScreen.session, self.session)
        return screen.data_bind(BaseApp.session, BaseApp.before)

    def explorer(self) -> ExplorerScreen:
        """Return a new explorer, as its user is used to."""
        send, restart = self.send, self.restart
        return ExplorerScreen(self._spec, self.glyphs, self.now, send, restart, self.preferences)

    def on_mount(self) -> None:
        """Begin to read."""
        self._reading = asyncio.create_task(self._read(self._source))
        if self._script is not None and not self.is_headless:
            self._heed_signals(self._script)

    def _heed_signals(self, script: Script) -> None:
        """Apply signals to the terminal; the script has received them already."""
        loop = asyncio.get_running_loop()
        # The driver's, for its terminal.
        suspend, resume = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)

        def soon(number: int, handler: object) -> None:
            if callable(handler):
                with contextlib.suppress(RuntimeError):  # The loop is closed: we are leaving.
                    loop.call_soon_threadsafe(handler, number, None)

        script.on_signals(
            end=ending(self._end, self.last_resort),
            stop=lambda: soon(signal.SIGTSTP, suspend),
            resume=lambda: soon(signal.SIGCONT, resume),
        )
        if script.was_asked_to_end:  # While we were starting.
            self._end(0)

    def _end(self, code: int) -> None:
        self.let_script_go() if self._script is not None else super()._end(code)

    def last_resort(self, code: int) -> None:
        """End the process when the app does not exit; with a script, after the script."""
        if self._script is None:
            super().last_resort(code)
        elif not self.is_left:
            restore(0)
            self._script.let_go()
            self._script.follow()
            super().last_resort(self._script.end())

    async def on_unmount(self) -> None:
        """End the probe before the event loop ends; after a crash here the script runs on."""
        if self.crash is not None and self._script is not None:
            self._script.let_go()
        await self._stop_reading()

    def now(self) -> float:
        """Return seconds since the command was started."""
        return self._clock() - self._spec.started_at

    def send(self, request: Request) -> None:
        """Ask the probe for something."""
        if isinstance(request, SetBatch):
            self.before = kept(self._newest)
        self._source.send(request)

    def restart(self, spec: LoadSpec | None = None) -> None:
        """Replace the worker by a new one, with the same request or another."""
        self.set_clock()
        former, started_at = self._spec, self._clock()
        self._spec = replace(spec or former, started_at=started_at)
        is_other = replace(former, started_at=started_at) != self._spec
        if is_other and former.model == self._spec.model and self._newest.tick is not None:
            self.before = kept(self._newest)
        self.run_worker(self._replace_source(), exclusive=True)

    def runs_script(self) -> bool:
        """Tell whether leaving would end a script of the user's."""
        return self._script is not None and self._script.is_running

    def let_script_go(self) -> None:
        """Quit; the script runs on."""
        if self._script is not None:
            self._script.let_go()
        self.exit(0)

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
        try:
            async for message in source.messages():
                self.take(message)
            if self._script is not None and self._script.was_ended_by_signal:
                self.exit(0)  # As without the explorer: the signal was not for the explorer alone.
        except Exception as error:
            self.crashed(error)  # Else the screens would stand still, and no one would know why.

    def take(self, message: Told) -> None:
        """Fold a message into the session; what changes the screen as a whole is shown at once."""
        self._newest = apply(self._newest, message)
        if self._concerns_all(message):
            self._show()

    def _concerns_all(self, message: Told) -> bool:
        first_times = self.session.timings is None and self._newest.timings is not None
        return isinstance(message, AT_ONCE) or first_times

    async def redraw(self) -> None:
        """Show what is new, as seldom as it must be for keys to be heard at once."""
        if time.monotonic() < self._next_show:
            return
        shown, newest, spent = self.session, self._newest, 0.0
        began = time.thread_time()
        for _ in () if self._is_held else prepared(newest):
            if (step := time.thread_time() - began) > STEP_SECONDS:
                spent += step
                await asyncio.sleep(PAUSE_SECONDS)
                began = time.thread_time()
        if self.session is shown:  # Else something was to be seen at once meanwhile.
            self._show_as(newest, spent + time.thread_time() - began)

    @property
    def _is_held(self) -> bool:
        """Whether what is on screen is not the newest: what is kept for it would give way."""
        explorers = (one for one in self.screen_stack if isinstance(one, ExplorerScreen))
        return any(one.view_pause.held is not None for one in explorers)

    def _show(self) -> None:
        self._show_as(self._newest, 0.0)

    def _show_as(self, session: Session, spent: float) -> None:
        """Show a session, then leave the keys their time; ``spent`` seconds went before."""
        began = time.thread_time()
        self.session = session
        pause = min((spent + time.thread_time() - began) / MOST_SHARE, MOST_SECONDS)
        self._next_show = time.monotonic() + pause


def run_explorer(
    source: Source,
    restart: Callable[[LoadSpec], Source],
    spec: LoadSpec,
    *,
    appearance: AppearanceOptions = UNTYPED,
    clock: Callable[[], float] | None = None,
    script: Script | None = None,
    begun: Session = EMPTY,
    early: EarlyFrame | None = None,
) -> int:
    """Run the explorer until it is left; return the exit code.

    Args:
        source: to read.
        restart: returns another source, for a request.
        spec: what was asked for.
        appearance: theme and glyphs as typed.
        clock: returns Unix time; None: that of the machine.
        script: that the source runs, where it runs one.
        begun: the session to begin with.
        early: what stands in the terminal already.
    """
    preferences = read_preferences(appearance, spec.model)
    app = ProfilerApp(
        source, spec, restart, preferences=preferences, clock=clock, script=script, begun=begun
    )
    if early is not None:
        app.take_over(early)
    return run_and_keep(app, preferences, spec.model)


def run_and_keep(app: ProfilerApp, preferences: Preferences, model: str) -> int:
    """Run an app to its end; return the exit code, and say where the look could not be kept."""
    code = run_to_end(app, mouse=preferences.mouse, early=app.early)
    app.is_left = True
    if preferences.unkept:
        say(model, preferences.unkept)
    return code or app.return_value or 0

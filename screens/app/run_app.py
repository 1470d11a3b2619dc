"""The explorer of a script under ``run``, and of the processes that it starts.

1. The script's messages are read whatever is shown, so that its state and its end are known.
2. One other process, or the ranks of one run, is attached to while it is shown, and only then:
   those that are only listed cost them nothing.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace
from textual.reactive import var

from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec, Program, Request, ServingSeen
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told
from tui_profiler.source.attached import Attached, AttachError, Found, attached, family
from tui_profiler.source.ranks import Ranks, is_whole_run
from tui_profiler.source.script import Script

from ..common.base_app import BaseApp
from ..explorer.screen import ExplorerScreen
from ..settings.appearance import AppearanceOptions
from ..settings.preferences import Preferences, read_preferences
from ..start.processes import ProcessesScreen
from ..views.ranks.screen import RanksScreen
from .explorer_app import ProfilerApp, run_and_keep


class RunApp(ProfilerApp):
    """Shows a script, or one of its other processes; a key lists them."""

    script_session: var[Session] = var(EMPTY)
    """The script's, for its explorer, which lies below those of other processes."""

    def __init__(
        self,
        source: Source,
        spec: LoadSpec,
        script: Script,
        *,
        preferences: Preferences | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(
            source, spec, lambda _: source, preferences=preferences, clock=clock, script=script
        )
        self._pid = script.pid
        self._own = EMPTY
        """The newest of the script's sessions."""
        self._beside: Attached | Ranks | None = None
        """What is shown instead of the script."""
        self._reading_beside: asyncio.Task[None] | None = None

    def get_default_screen(self) -> ExplorerScreen:
        """Start at the explorer of the script."""
        return self.explorer().data_bind(BaseApp.before, session=RunApp.script_session)

    def take(self, message: Told) -> None:
        """Take note of a message of the script; it is shown unless another process is."""
        if self._beside is None:
            super().take(message)
            self._own = self._newest
        else:
            self._own = apply(self._own, message)
            if isinstance(message, ServingSeen):  # The server is beside all processes.
                super().take(message)

    def send(self, request: Request) -> None:
        """Ask the process that is shown."""
        if self._beside is None:
            super().send(request)
        else:
            self._beside.send(request)

    def show_ranks(self) -> bool:
        """Go to the ranks, from one of them; else list the processes of the script."""
        if any(isinstance(one, RanksScreen) for one in self.screen_stack):
            while not isinstance(self.screen, RanksScreen):
                self.pop_screen()
        else:
            self._list_processes()
        return True

    def _list_processes(self) -> None:
        self._show_script()
        look = ProcessesScreen(self.glyphs, lambda: family(self._pid), self._choose)
        self.push_screen(look)

    def action_leave(self) -> None:
        """Quit; from a list of processes as from the explorer, which asks about the script."""
        if isinstance(self.screen, ProcessesScreen | RanksScreen) and self.runs_script():
            self._show_script()
            explorer = self.screen
            assert isinstance(explorer, ExplorerScreen)
            self.call_later(explorer.action_leave)
        else:
            super().action_leave()

    def open_rank(self, key: str) -> None:
        """Look into one rank."""
        beside = self._beside
        rank = beside.group.rank(key) if isinstance(beside, Ranks) else None
        if isinstance(beside, Ranks) and rank is not None:
            beside.chosen = key
            self._newest = self.session = self._beside_server(rank.session)
            self._explore(rank.program)

    def _choose(self, found: Found) -> None:
        self.run_worker(self._show_process(found), exclusive=True, group="process")

    async def _show_process(self, found: Found) -> None:
        """Show a process that listens, or the ranks of a run."""
        assert found.program is not None
        if found.place.pid == self._pid and not is_whole_run(found):
            self._show_script()
            return
        await self._leave_beside()
        if is_whole_run(found):
            self._begin_beside(Ranks(found.program, self._spec.started_at))
            screen = RanksScreen(self.glyphs, self.now, self.open_rank, self._list_processes)
            self.push_screen(screen.data_bind(BaseApp.group))
            return
        try:
            source = await asyncio.to_thread(attached, found.place, self._spec.started_at)
        except AttachError as error:
            if isinstance(self.screen, ProcessesScreen):
                self.screen.say(safe(f"pid {found.place.pid}: {error}"))
            return
        self._begin_beside(source)
        self._explore(found.program)

    def _explore(self, program: Program) -> None:
        """Open an explorer on the process that is shown."""
        spec = LoadSpec(program.name, started_at=self._spec.started_at, observed="program")
        screen = ExplorerScreen(
            spec, self.glyphs, self.now, self.send, self._not_restarted, self.preferences
        )
        self.push_screen(screen.data_bind(BaseApp.session))

    def _not_restarted(self, spec: LoadSpec | None = None) -> None:
        """Do nothing: a process of the script is not started again from here."""

    def _show_script(self) -> None:
        """Go back to the script."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        if self._beside is not None:
            self.run_worker(self._leave_beside(), exclusive=True, group="process")

    def _beside_server(self, session: Session) -> Session:
        """Return the session with the server that the script's source reads."""
        return replace(session, serving=self._own.serving)

    def _begin_beside(self, source: Attached | Ranks) -> None:
        self._beside = source
        self._newest = self.session = self._beside_server(EMPTY)
        self._reading_beside = asyncio.create_task(self._read_beside(source))

    async def _read_beside(self, source: Attached | Ranks) -> None:
        try:
            async for message in source.messages():
                super().take(message)
        except Exception as error:
            self.crashed(error)  # As of the script.

    async def _leave_beside(self) -> None:
        """Hang up on what is shown beside the script; the script is shown."""
        beside, reading = self._beside, self._reading_beside
        self._beside = self._reading_beside = None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if beside is not None:
            await beside.close()
            self._newest = self.session = self.script_session = self._own

    async def _stop_reading(self) -> None:
        await self._leave_beside()
        await super()._stop_reading()

    def _show_as(self, session: Session, spent: float) -> None:
        super()._show_as(session, spent)
        if self._beside is None:
            self.script_session = session
        if isinstance(self._beside, Ranks):
            self.group = self._beside.group


def run_script(
    source: Source, spec: LoadSpec, script: Script, *, appearance: AppearanceOptions
) -> int:
    """Run the explorer of a script until it is left; return the exit code.

    Args:
        source: to read; around the script.
        spec: what was asked for.
        script: that the source runs.
        appearance: theme and glyphs as typed.
    """
    preferences = read_preferences(appearance, spec.model)
    app = RunApp(source, spec, script, preferences=preferences)
    return run_and_keep(app, preferences, spec.model)

"""The app on a comparison: lets both sides run in turns, and shows them as they are known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from textual.screen import Screen

from tui_profiler.queries.panel_state import State, state
from tui_profiler.queries.sides import Side
from tui_profiler.session import Session
from tui_profiler.session.workspace import Workspace, learned
from tui_profiler.source import Source, Told
from tui_profiler.text import safe
from tui_profiler.verbs.compare import compare
from tui_profiler.verbs.outcome import complaint

from .app import AT_ONCE
from .base_app import BaseApp
from .compare import CompareScreen
from .habits import Habits
from .headless_compare import Opened
from .widgets.compare_lines import SideLook

_OF_FILE = {True: "a report", False: "a recording"}


class CompareApp(BaseApp):
    """Holds two sessions, and measures them in turns until it is left."""

    def __init__(
        self,
        sides: tuple[Opened, Opened],
        *,
        measuring: bool,
        seconds: float | None,
        habits: Habits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(habits, clock)
        self._sides = sides
        self._measuring = measuring
        self._seconds = seconds
        self._began = [clock(), clock()]
        self._newest = Workspace(compared=(sides[0].session, sides[1].session))
        self.workspace = self._newest
        self._comparing: asyncio.Task[None] | None = None

    def get_default_screen(self) -> Screen[None]:
        """Start at the comparison."""
        screen = CompareScreen(self.glyphs, self.sides, self.looks, self.turns)
        return screen.data_bind(BaseApp.workspace)

    def on_mount(self) -> None:
        """Begin to run."""
        self._comparing = asyncio.create_task(self._run_sides())

    async def on_unmount(self) -> None:
        """End the workers before the event loop ends."""
        if self._comparing is not None:
            self._comparing.cancel()
            await asyncio.gather(self._comparing, return_exceptions=True)

    def sides(self, workspace: Workspace) -> tuple[Side, Side]:
        """Give what is compared."""
        a, b = workspace.compared
        return self._sides[0].at(a), self._sides[1].at(b)

    def looks(self, workspace: Workspace) -> tuple[SideLook, SideLook]:
        """Give what is said of each side."""
        a, b = workspace.compared
        return self._look(0, a), self._look(1, b)

    def turns(self) -> str:
        """Say what is done now."""
        begun = [session.hello is not None for session in self._newest.compared]
        wanted = [side.spec is not None for side in self._sides]
        if any(want and not has for want, has in zip(wanted, begun, strict=True)):
            return "one is loaded after the other"
        if self._measuring and all(wanted):
            done = self._comparing is not None and self._comparing.done()
            return "measured in turns" if done else "they run in turns"
        return ""

    def _look(self, place: int, session: Session) -> SideLook:
        opened = self._sides[place]
        words = dict(opened.at(session).settings)
        said = "  ".join(
            safe(words[name]) for name in ("class", "inputs", "device") if name in words
        )
        found = complaint(session, debug=False)
        if opened.spec is None:
            now = State("finished", _OF_FILE[opened.side is not None])
        elif session.hello is None and not found:
            now = State("waiting", "waits for A" if place else "starts")
        else:
            now = _of_turn(state(session, self._clock() - self._began[place]))
        return SideLook(opened.label, said, now, found[0] if found else "")

    async def _run_sides(self) -> None:
        begins = tuple(
            None if side.spec is None else self._beginning(place)
            for place, side in enumerate(self._sides)
        )
        try:
            await compare(
                (begins[0], begins[1]),
                measuring=self._measuring,
                seconds=self._seconds,
                heard=self._heard,
            )
        except Exception as error:
            self.crashed(error)  # Else the screen would stand still, and no one would know why.

    def _beginning(self, place: int) -> Callable[[], Source]:
        def begin() -> Source:
            self._began[place] = self._clock()
            return self._sides[place].started(self._began[place])

        return begin

    def _heard(self, place: int, message: Told, session: Session) -> None:
        self._newest = learned(self._newest, place, session)
        if isinstance(message, AT_ONCE):
            self.redraw()

    def redraw(self) -> None:
        """Show what is new."""
        self.workspace = self._newest


def _of_turn(found: State) -> State:
    """Say it in the words of a comparison: held is waiting for a turn."""
    if found.kind == "held":
        return State("held", "waits for its turn")
    return State("live", "runs") if found.kind == "live" else found

"""Two sides that are compared on screen: lets them run in turns, and says what is known of each."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler.formatting.text import safe
from tui_profiler.queries.compare.side import Side
from tui_profiler.queries.panel.state import State, state
from tui_profiler.session import Session
from tui_profiler.session.workspace import Workspace, learned
from tui_profiler.source import Source, Told
from tui_profiler.verbs.compare import Begin, compare
from tui_profiler.verbs.outcome import complaint

from ...common.base_app import AT_ONCE
from .cells import SideLook
from .opened import Opened


class TwoSides:
    """Holds two sessions, and measures them in turns while it runs.

    Args:
        opened: A and B.
        clock: gives Unix time.
        measuring: let the models run.
        seconds: for how long each; None: until ``run`` is cancelled.
    """

    def __init__(
        self,
        opened: tuple[Opened, Opened],
        clock: Callable[[], float],
        *,
        measuring: bool,
        seconds: float | None = None,
    ) -> None:
        self._opened = opened
        self._measuring = measuring
        self._seconds = seconds
        self._clock = clock
        self._began = [clock() if one.began is None else one.began for one in opened]
        self._is_done = False
        self.newest = Workspace(compared=(opened[0].session, opened[1].session))

    async def run(self, show: Callable[[], None]) -> None:
        """Load what is to be loaded, and let it run in turns; ``show`` is called for what matters.

        Raises:
            WireError: what a worker said could not be read.
        """

        def heard(place: int, message: Told, session: Session) -> None:
            self.learn(place, session)
            if isinstance(message, AT_ONCE):
                show()

        begins = (self._beginning(0), self._beginning(1))
        await compare(begins, measuring=self._measuring, seconds=self._seconds, heard=heard)
        self._is_done = True

    def learn(self, place: int, session: Session) -> None:
        """Take what is known of A (0) or B (1) by now."""
        self.newest = learned(self.newest, place, session)

    def sides(self, workspace: Workspace) -> tuple[Side, Side]:
        """Return what is compared."""
        a, b = workspace.compared
        return self._opened[0].at(a), self._opened[1].at(b)

    def looks(self, workspace: Workspace) -> tuple[SideLook, SideLook]:
        """Return what is said of each side."""
        a, b = workspace.compared
        return self._look(0, a), self._look(1, b)

    def turns(self) -> str:
        """Say what is done now."""
        begun = [session.hello is not None for session in self.newest.compared]
        wanted = [side.start is not None for side in self._opened]
        if any(want and not has for want, has in zip(wanted, begun, strict=True)):
            return "models are loaded one after the other"
        if self._measuring and all(wanted):
            return "measured in turns" if self._is_done else "running in turns"
        return ""

    def _look(self, place: int, session: Session) -> SideLook:
        opened = self._opened[place]
        words = dict(opened.at(session).settings)
        said = "  ".join(
            safe(words[name]) for name in ("class", "inputs", "device") if name in words
        )
        found = complaint(session, debug=False)
        if opened.file:
            now = State("finished", opened.file)
        elif session.hello is None and not found:
            now = State("waiting", "waits for A" if place else "starts")
        else:
            now = _of_turn(state(session, self._clock() - self._began[place]))
        return SideLook(opened.label, said, now, found[0] if found else "")

    def _beginning(self, place: int) -> Begin | None:
        start = self._opened[place].start
        if start is None:
            return None

        def begin() -> Source:
            if self._opened[place].began is None:
                self._began[place] = self._clock()
            return start(self._began[place])

        return begin


def _of_turn(found: State) -> State:
    """Say it in the words of a comparison: held is waiting for a turn."""
    if found.kind == "held":
        return State("held", "waiting for its turn")
    return State("live", "runs") if found.kind == "live" else found

"""Two sides on screen: loads them, and measures them in turns."""

from collections.abc import Callable

from tui_profiler.formatting.text import safe
from tui_profiler.queries.compare.side import Side
from tui_profiler.queries.panel.state import State, state
from tui_profiler.session import Session
from tui_profiler.session.session_group import SessionGroup, with_session
from tui_profiler.source import Source, Told
from tui_profiler.verbs.compare import Begin, compare
from tui_profiler.verbs.outcome import complaint

from ...common.base_app import AT_ONCE
from .opened import Opened
from .sides import SideLook


class TwoSides:
    """Two sessions that are measured in turns.

    Args:
        opened: A and B.
        clock: returns Unix time.
        measuring: run the models.
        seconds: per side; None: until ``run`` is cancelled.
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
        self._began = [one.began for one in opened]
        """Unix time from which the stages of each count; None before its start."""
        self._is_done = False
        self.newest = SessionGroup(compared=(opened[0].session, opened[1].session))

    async def run(self, show: Callable[[], None]) -> None:
        """Load the models and run them in turns; call ``show`` on changes of state.

        Raises:
            WireError: a worker's messages could not be decoded.
        """

        def heard(place: int, message: Told, session: Session) -> None:
            self.learn(place, session)
            if isinstance(message, AT_ONCE):
                show()

        begins = (self._beginning(0), self._beginning(1))
        await compare(begins, measuring=self._measuring, seconds=self._seconds, heard=heard)
        self._is_done = True

    def learn(self, place: int, session: Session) -> None:
        """Update the session of A (0) or B (1)."""
        self.newest = with_session(self.newest, place, session)

    def sides(self, group: SessionGroup) -> tuple[Side, Side]:
        """Return the compared sides."""
        a, b = group.compared
        return self._opened[0].at(a), self._opened[1].at(b)

    def looks(self, group: SessionGroup) -> tuple[SideLook, SideLook]:
        """Return each side as drawn."""
        a, b = group.compared
        return self._look(0, a), self._look(1, b)

    def turns(self) -> str:
        """Return the state of the measurement."""
        begun = [session.hello is not None for session in self.newest.compared]
        wanted = [side.start is not None for side in self._opened]
        if any(want and not has for want, has in zip(wanted, begun, strict=True)):
            return "loaded one after the other"
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
            now = State("waiting", "waiting for A" if place else "starting")
        else:
            now = _of_turn(state(session, self._clock() - (self._began[place] or 0.0)))
        began = self._began[place]
        return SideLook(
            opened.label,
            said,
            now,
            found,
            session,
            opened.spec,
            None if began is None else self._clock() - began,
        )

    def _beginning(self, place: int) -> Begin | None:
        start = self._opened[place].start
        if start is None:
            return None

        def begin() -> Source:
            began = self._began[place] or self._clock()
            self._began[place] = began
            return start(began)

        return begin


def _of_turn(found: State) -> State:
    """Return a state in a comparison, where paused is waiting for its turn."""
    if found.kind == "held":
        return State("held", "waiting for its turn")
    return State("live", "running") if found.kind == "live" else found

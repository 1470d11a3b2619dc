"""Whether what is on screen stands still: one state for the explorer and every view beside it."""

from collections.abc import Callable

from tui_profiler.messages import Halt, Play, Request
from tui_profiler.queries.panel.playback import place, speed
from tui_profiler.session import Session

NOTHING_YET = "nothing to pause yet: there is no tree"


class ViewPause:
    """Keeps what is shown while the view is paused; goes with the user from view to view.

    Args:
        send: what plays a recording.
    """

    def __init__(self, send: Callable[[Request], None]) -> None:
        self._send = send
        self.held: tuple[Session, float] | None = None
        """What is shown, and since when; None: what is newest."""

    def press(self, session: Session, now: float) -> str:
        """Pause the view, or let it go on; a recording is halted, or played.

        Args:
            session: the newest.
            now: on its clock.

        Returns:
            What is to be said; empty where the header says it.
        """
        playback = session.playback
        if playback is None and self.held is None and session.tree is None:
            return NOTHING_YET  # Else a tree that arrives later would not be shown.
        if playback is None or self.held is not None:
            self.held = (session, now) if self.held is None else None
            return ""
        if playback.is_playing:
            self._send(Halt())
            return f"paused at {place(playback, now)}"
        self._send(Play())
        return f"playing {speed(playback)}"

"""The key that pauses the model: it asks twice, because a server's model may be paused by it."""

from tui_profiler.messages import Pause, Request, Resume
from tui_profiler.session import Session

HOLD_SECONDS = 3.0
"""From the first press until the second one is a first one again."""


class ModelPause:
    """Pauses the model when asked twice, or resumes it."""

    def __init__(self) -> None:
        self._asked_at = -1e9

    def press(self, session: Session, now: float) -> tuple[Request | None, str]:
        """Return what to ask of the probe, if anything, and what is to be said.

        Args:
            session: the newest.
            now: on its clock.
        """
        loop = session.loop
        if loop is not None and loop.state == "paused":
            if loop.detail:
                return None, f"model paused: {loop.detail}"
            return Resume(), "model resumed"
        if now - self._asked_at <= HOLD_SECONDS:
            self._asked_at = -1e9
            return Pause(), "model paused: P resumes"
        self._asked_at = now
        return None, "P again pauses the model"

"""What the keys ask of a recording: play, halt, another speed, another place."""

from __future__ import annotations

from tui_profiler.formatting.text import safe
from tui_profiler.messages import Playback, Seek, SetSpeed
from tui_profiler.queries.panel.accepted_requests import refusal

from ..widgets.prompt import Prompt
from .run_control import RunActions


class PlayActions(RunActions):
    """Actions of a screen that shows a session, where that comes from a recording."""

    _speed_asked: tuple[Playback | None, float] = (None, 1.0)
    """What was told when a speed was asked for last, and that speed."""

    def action_speed(self, times: float) -> None:
        """Play so many times as fast as before; where nothing is played, redraw so often."""
        playback = self.session.playback
        if playback is None:
            self.change_rate(times)
            return
        # Keys may come faster than the source answers: each goes on from what was asked last.
        before, asked = self._speed_asked
        wanted = (asked if before is playback else playback.speed) * times
        self._speed_asked = (playback, wanted)
        self._request(SetSpeed(wanted), "faster" if times > 1 else "slower")

    def change_rate(self, times: float) -> None:
        """Redraw more often, or less often."""
        raise NotImplementedError

    def action_seek(self, seconds: float) -> None:
        """Go on or back by so many seconds of a recording."""
        self._request(Seek(self.now() + seconds), f"{abs(seconds)} s {_way(seconds)}")

    def action_seek_to(self) -> None:
        """Ask which place of a recording to go to."""
        if why_not := refusal(self.session, "Seek"):
            self.say(why_not)
        else:
            self.open_prompt(Prompt("go to ", "", lambda text: None, self.seek_to))

    def seek_to(self, text: str) -> None:
        """Go to the place that was typed."""
        playback = self.session.playback
        at = typed_place(text, playback) if playback is not None else None
        if at is not None:
            self._request(Seek(at), f"at {safe(text)}")
        elif text:
            self.say(f"a place is 12.5, 1:30, 50% or end, not {safe(text)!r}")


def typed_place(text: str, playback: Playback) -> float | None:
    """Give the time of a typed place; None where it is none.

    Args:
        text: ``12.5`` or ``1:30`` or ``1:02:03`` since the beginning, ``50%`` of it, ``end``.
        playback: of the recording.
    """
    length = playback.ends - playback.begins
    words = text.strip().casefold()
    if words == "end":
        return playback.ends
    try:
        if words.endswith("%"):
            return playback.begins + length * float(words[:-1]) / 100
        seconds = 0.0
        for part in words.split(":"):
            seconds = seconds * 60 + float(part)
    except ValueError:
        return None
    return playback.begins + seconds


def _way(seconds: float) -> str:
    return "on" if seconds > 0 else "back"

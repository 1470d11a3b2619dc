"""``try``: follow one model until it is measured, then have changes tried on it, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui_profiler import messages
from tui_profiler.figures.units import duration
from tui_profiler.formatting.text import safe
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told
from tui_profiler.verbs.outcome import measured
from tui_profiler.verbs.report import is_complete, progress_line, trusted_line

SOON_SECONDS = 10.0
"""A trial that is over sooner has no steps to tell."""
_STEPS = {
    "start": "starting a process for the trial",
    "load": "loading the model",
    "change": "changing it",
    "warm up": "warming up",
    "compare": "comparing outputs",
    "memory": "measuring memory",
    "measure": "measuring",
}


async def try_out(
    source: Source,
    wishes: Sequence[messages.Wish],
    *,
    progress: Callable[[str], None],
    kept: Callable[[Session], None],
) -> Session:
    """Fold what a source says until the model was measured and every wish has its result.

    Args:
        source: a probe that was told to start, and to stop running after some time; it is closed
            before this returns or raises.
        wishes: what to try.
        progress: is given one line for each stage, each step and each result.
        kept: is given the session after each result: what is there if it is interrupted.

    Returns:
        The session as it was left; its findings are those of the model as it is.
    """
    session, asked, done = EMPTY, False, 0
    speaker = _Speaker(progress)
    try:
        async for message in source.messages():
            lines = [trusted_line(session, message), progress_line(message)]
            session = apply(session, message)
            for line in filter(None, lines):
                progress(line)
            speaker.hear(message)
            if isinstance(message, messages.TrialResult):
                done += 1
                kept(session)
            is_over = session.ended is not None or session.failure is not None
            if is_over or done == len(wishes):
                break
            if session.tree is not None and not session.tree.has_forward:
                session = apply(session, _nothing_to_try(session))
                break
            if not asked and is_complete(session, measuring=True):
                session = measured(session)
                if session.failure is not None:
                    break
                asked = True
                for wish in wishes:
                    source.send(messages.Try(wish))
    finally:
        await source.close()
    return session


def _nothing_to_try(session: Session) -> messages.Failed:
    """Say that a change of parameters alone changes nothing that runs."""
    hint = session.file.hint if session.file is not None else ""
    remedies = (messages.Remedy(hint, "runs them"),) if hint else ()
    return messages.Failed(
        "run", f"nothing to try: {messages.NO_FORWARD}", remedies=remedies, bad_argument=True
    )


class _Speaker:
    """Tells that a trial begins, its steps where it takes long, and how it came out."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._last = ("", "")

    def hear(self, message: Told) -> None:
        """Tell what a message says of a trial, if anything."""
        if (
            isinstance(message, messages.TrialProgress)
            and (message.kind, message.step) != self._last
        ):
            if message.step != "start" and message.seconds < SOON_SECONDS:
                return
            self._last = (message.kind, message.step)
            self._progress(f"{message.kind}: {_STEPS[message.step]}")
        if isinstance(message, messages.TrialResult):
            self._progress(f"{message.kind}: {_result(message)}")


def _result(result: messages.TrialResult) -> str:
    if result.speedup is None:
        return f"{result.outcome}: {safe(result.why)}"
    interval = f" ({result.low:.3g} to {result.high:.3g})" if result.low and result.high else ""
    return f"{result.speedup:.3g} times as fast{interval}, in {duration(result.seconds)}"

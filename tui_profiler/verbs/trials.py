"""``try``: follow one model until it is measured, then have changes tried on it, one at a time."""

from collections.abc import Callable, Sequence

from tui_profiler import messages
from tui_profiler.figures.units import duration
from tui_profiler.findings import findings
from tui_profiler.findings.trial_verdict import step_words, wish
from tui_profiler.formatting.text import safe
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told
from tui_profiler.verbs.outcome import measured
from tui_profiler.verbs.report import folded, is_complete

SOON_SECONDS = 10.0
"""A trial that is over sooner has no steps to tell."""


async def try_out(
    source: Source,
    wishes: Sequence[messages.Wish],
    *,
    progress: Callable[[str], None],
    kept: Callable[[Session], None],
) -> Session:
    """Fold the messages of a source until the model is measured and every trial has a result.

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
            session = folded(session, message, progress)
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
                found = {one.trial: one for one in findings(session)}
                for asked_for in wishes:
                    finding = found.get(asked_for.kind)
                    one = wish(finding, session.tree, asked_for) if finding else asked_for
                    source.send(messages.Try(one))
    finally:
        await source.close()
    return session


def _nothing_to_try(session: Session) -> messages.Failed:
    """Return the failure of a session without a forward."""
    hint = session.file.hint if session.file is not None else ""
    remedies = (messages.Remedy(hint, "runs them"),) if hint else ()
    return messages.Failed(
        "run", f"nothing to try: {messages.NO_FORWARD}", remedies=remedies, bad_argument=True
    )


class _Speaker:
    """Reports when a trial starts, its steps where it takes long, and its result."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._last = ("", "")

    def hear(self, message: Told) -> None:
        """Report what a message says of a trial."""
        if (
            isinstance(message, messages.TrialProgress)
            and (message.kind, message.step) != self._last
        ):
            if message.step != "start" and message.seconds < SOON_SECONDS:
                return
            self._last = (message.kind, message.step)
            left = message.left_seconds
            limit = f", at most {left:.0f} s" if left is not None else ""
            self._progress(f"{message.kind}: {step_words(message.step)}{limit}")
        if isinstance(message, messages.TrialResult):
            self._progress(f"{message.kind}: {_result(message)}")


def _result(result: messages.TrialResult) -> str:
    if result.speedup is None:
        return f"{result.outcome}: {safe(result.why)}"
    low, high = result.low, result.high
    interval = f" (95 % CI {low:.3g} to {high:.3g})" if low and high else ""
    return f"speed-up {result.speedup:.3g}×{interval}, in {duration(result.seconds)}"

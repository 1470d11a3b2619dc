"""What the process does now, in words: the header's right end, and whether figures are stale."""

import signal
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import clock, three_digits
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Ended
from tui_profiler.queries.time.modes import is_program, runs_own_steps
from tui_profiler.session import Session, StageRecord

StateKind: TypeAlias = Literal[
    "live", "loading", "paused", "held", "waiting", "failed", "silent", "gone", "finished"
]
STALE_SECONDS = 5.0
_SIGNALS = {
    "SIGKILL": "was killed by SIGKILL",
    "SIGSEGV": "crashed in native code (SIGSEGV, a segmentation fault)",
    "SIGABRT": "aborted itself (SIGABRT)",
    "SIGBUS": "crashed in native code (SIGBUS)",
    "SIGFPE": "crashed in native code (SIGFPE)",
    "SIGILL": "executed an illegal instruction (SIGILL)",
    "SIGTERM": "was ended by SIGTERM",
}


class State(Struct, frozen=True):
    """The state of the process, with the words for it."""

    kind: StateKind
    words: str
    """``live``, ``loading``, ``first run failed``, ``no data``."""
    detail: str = ""
    """What follows, such as how long: ``3.42 s``."""


def stage_name(stage: str) -> str:
    """Return what a stage is called on screen."""
    return "roofline" if stage == "ceilings" else stage


def running_stage(session: Session) -> StageRecord | None:
    """Return the stage under way."""
    return next((record for record in reversed(session.stages) if record.seconds is None), None)


def awaited_forward(session: Session) -> StageRecord | None:
    """Return the stage in which a program's next forward is waited for beside an older tree.

    The older figures stay until it comes. None where it is not waited for.
    """
    stage, loop = running_stage(session), session.loop
    if stage is None or stage.stage != "trace" or session.tree is None or not is_program(session):
        return None
    is_over = session.ended is not None or (loop is not None and loop.state == "finished")
    return None if is_over else stage


def is_stale(session: Session, now: float) -> bool:
    """Tell whether nothing was heard for so long that figures are old, though the probe lives."""
    over = session.ended is not None or session.heard_at <= 0
    return not over and now - session.heard_at > STALE_SECONDS


def state(session: Session, now: float, paused_at: float | None = None) -> State:
    """Return the state that the header names.

    Args:
        session: what is known.
        now: seconds since the command was started, on the probe's clock.
        paused_at: when the view was paused, on the same clock; None where it was not.
    """
    failure = session.failure
    if session.ended is not None and not session.ended.expected:
        if session.ended.is_script:
            return _script_gone(session.ended)
        return State("gone", "program gone" if session.ended.attached else "worker gone")
    if failure is not None and failure.fatal:
        return State("failed", f"{safe(stage_name(failure.stage))} failed")
    if paused_at is not None:
        return State("paused", "paused", whole_seconds(now - paused_at))
    if session.ended is not None:
        return State("finished", "finished")
    if is_stale(session, now):
        return State("silent", "no data", whole_seconds(now - session.heard_at))
    return _working(session, now)


def _script_gone(ended: Ended) -> State:
    if ended.code < 0:
        return State("gone", f"script ended by {_signal_name(-ended.code)}")
    return State("failed", "script failed")


def _working(session: Session, now: float) -> State:
    loop = session.loop
    if loop is not None and loop.state == "paused":
        words = safe(loop.detail) or "model paused"
        return State("held", words, whole_seconds(now - loop.at))
    awaited = awaited_forward(session)
    if awaited is not None:
        return State("waiting", "waiting for a forward", whole_seconds(now - awaited.started_at))
    if loop is not None and loop.state == "waiting":
        return State("waiting", "no forward", whole_seconds(now - loop.at))
    if loop is not None and loop.state == "finished":
        # What was never run has not finished: it says why, and no more.
        run, _, why = loop.detail.partition(": ")
        if run == "not run":
            return State("finished", run, safe(why))
        return State("finished", "finished", safe(loop.detail))
    if loop is not None and session.forward_seconds > STALE_SECONDS:
        # Before the first figures too: a forward may never return.
        return State("live", f"in one {_unit(session)}", whole_seconds(session.forward_seconds))
    stage = running_stage(session)
    if session.timings is None or (stage is not None and loop is None):
        if session.tree is not None and stage is not None:
            return State("loading", stage_name(stage.stage), seconds_text(now - stage.started_at))
        if loop is not None and loop.state == "running":
            return State("loading", "warming up")
        if session.hello is not None and session.hello.program is not None:
            return State(
                "loading", "waiting for forwards"
            )  # How old the program is does not matter.
        return State("loading", "loading", seconds_text(now))
    return State("live", "live")


def _unit(session: Session) -> str:
    """Return what the worker runs one after another."""
    if runs_own_steps(session):
        return "step"
    is_own = session.generation is not None and not is_program(session)
    return "request" if is_own else "forward"


def whole_seconds(seconds: float) -> str:
    """Return how long something lasts: ``12 s``, ``16m 40s``."""
    seconds = max(seconds, 0.0)
    return f"{seconds:.0f} s" if seconds < 999.5 else clock(seconds)


def about_time(seconds: float) -> str:
    """Return an estimated time, two digits: ``8 s``, ``6 min``, ``2.1 h``."""
    for unit, of in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * of:
            return f"{seconds / of:.{1 if seconds < 10 * of and unit == 'h' else 0}f} {unit}"
    return f"{max(seconds, 1.0):.0f} s"


def seconds_text(seconds: float) -> str:
    """Return a stage's time, in seconds whatever its size: ``0.04 s``, ``12.4 s``."""
    seconds = max(seconds, 0.0)
    return f"{three_digits(seconds)} s" if seconds < 999.5 else clock(seconds)


def ended_text(ended: Ended) -> str:
    """Return a sentence on how the worker went: ``worker 48213 was killed by SIGKILL after …``."""
    worker = f"worker {ended.pid}" if ended.pid else "the worker"
    if ended.is_script:
        worker = "the script"
    after = f" after {seconds_text(ended.seconds)}" if ended.seconds > 0 else ""
    if ended.attached:
        return f"process {ended.pid} ended or disconnected{after}"
    if ended.code == -signal.SIGKILL:
        return f"{worker} {_SIGNALS['SIGKILL']}{after}, {killer(ended.out_of_memory)}"
    if ended.code < 0:
        name = _signal_name(-ended.code)
        return f"{worker} {_SIGNALS.get(name, f'was ended by {name}')}{after}"
    if ended.code == 0:
        return f"{worker} ended{after}"
    return f"{worker} ended with exit code {ended.code}{after}"


def killer(out_of_memory: bool | None) -> str:
    """Return whether the kernel's out-of-memory killer sent a SIGKILL, in words."""
    if out_of_memory is None:
        return "sender not known"
    return f"{'very likely ' if out_of_memory else 'not '}by the kernel's out-of-memory killer"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

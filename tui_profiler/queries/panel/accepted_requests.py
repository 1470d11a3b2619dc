"""What may be asked of the probe that is looked at, and why not."""

from __future__ import annotations

from tui_profiler.formatting.text import safe
from tui_profiler.messages import NO_FORWARD
from tui_profiler.session import Session

_OF_RECORDINGS = ("Play", "Halt", "SetSpeed", "Seek")
_OF_FORWARDS = ("Pause", "Resume", "Step", "SetBatch", "SetPhase", "ReplayNode")
"""What parameters alone cannot be asked for."""


def refusal(session: Session, request: str) -> str:
    """Return why a request is not carried out, empty where it is, or where no one is known to ask.

    Args:
        session: what is known.
        request: name of the request; empty for what needs none.
    """
    hello, tree = session.hello, session.tree
    if request in _OF_FORWARDS and tree is not None and not tree.has_forward:
        return NO_FORWARD
    if not request or hello is None or request in hello.accepts:
        return ""
    if request in _OF_RECORDINGS:
        return "only a recording is played"
    return safe(hello.refusal) or f"this probe does not accept {request}"


def why_not_now(session: Session, request: str) -> str:
    """Return why nobody would carry a request out now; empty where somebody would.

    Args:
        session: what is known.
        request: name of the request, which a worker of ours is asked for.
    """
    if why_not := refusal(session, request):
        return why_not
    is_gone = session.ended is not None and session.playback is None
    return why_gone(session, "ctrl+r in the explorer") if is_gone else ""


def why_gone(session: Session, key: str = "ctrl+r") -> str:
    """Return why there is no one to ask, and what helps.

    Args:
        session: what is known.
        key: what starts a worker, in words.
    """
    ended = session.ended
    if ended is not None and ended.attached:
        return "the program has ended; tui-profiler attach lists others"
    if ended is not None and ended.is_script:
        return "the script has ended; start it again in a shell"
    return f"no worker; {key} starts one"

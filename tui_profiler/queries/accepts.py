"""What may be asked of the probe that is looked at, and why not."""

from __future__ import annotations

from tui_profiler.session import Session
from tui_profiler.text import safe

_OF_RECORDINGS = ("Play", "Halt", "SetSpeed", "Seek")


def refusal(session: Session, request: str) -> str:
    """Give why a request is not carried out, empty where it is, or where no one is known to ask.

    Args:
        session: what is known.
        request: name of the request; empty for what needs none.
    """
    hello = session.hello
    if not request or hello is None or request in hello.accepts:
        return ""
    if request in _OF_RECORDINGS:
        return "only a recording is played"
    return safe(hello.refusal) or f"this probe does not accept {request}"

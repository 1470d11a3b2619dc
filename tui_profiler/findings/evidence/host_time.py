"""What a forward spends outside of the work itself: Python between operators, and calling them."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.findings.evidence.affected_operators import call_seconds
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import Unknown
from tui_profiler.queries.time.node_seconds import root_seconds
from tui_profiler.session import Session

NO_WINDOW = Unknown("no operator window was opened: what Python takes is not known")


class Host(Struct, frozen=True):
    """Seconds of one forward."""

    python: float
    """In which no operator ran."""
    calling: float
    """What calling the operators takes at least."""
    operators: int
    whole: float

    @property
    def share(self) -> float:
        """Of the forward, both together."""
        return share_of(self.python + self.calling, self.whole)


def host(session: Session) -> Host | Unknown:
    """Return what is not work, from the last operator window and the measured roof of calls.

    The window's forward is slower than others: its shares are taken, of a usual forward's time.
    """
    tree, whole = session.tree, root_seconds(session)
    shares = session.windows.shares(0) if session.windows is not None else None
    if tree is None or whole is None or shares is None or shares.seconds <= 0:
        return NO_WINDOW
    call = call_seconds(session.ceilings)
    if call is None:
        return Unknown("what calling an operator takes was not measured well enough")
    operators = tree.costs[0].ops
    python = whole * share_of(shares.host, shares.seconds)
    return Host(python, min(operators * call, whole - python), operators, whole)

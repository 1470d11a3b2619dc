"""A failure in words: what, where, why, what to try, and what is known nevertheless."""

from __future__ import annotations

import signal

from msgspec import Struct

from tui_profiler.messages import Failed, Remedy
from tui_profiler.queries.panel_state import ended_text, running_stage, seconds_text
from tui_profiler.session import Session
from tui_profiler.text import safe
from tui_profiler.units import thousands


class Trouble(Struct, frozen=True):
    """What the failure panel says; every text is safe."""

    title: str
    after: str
    """How long after the start, or empty."""
    what: str
    where: str = ""
    type: str = ""
    """Class name of the node that failed."""
    at: str = ""
    why: str = ""
    likely: str = ""
    remedies: tuple[Remedy, ...] = ()


class Fact(Struct, frozen=True):
    """One thing that is known, or is not."""

    label: str
    is_known: bool
    words: str


def trouble(session: Session) -> Trouble | None:
    """Give what went wrong, None where nothing did: a failure before the worker's end."""
    if session.failure is not None:
        return _failed(session)
    if session.ended is not None and not session.ended.expected:
        return _gone(session)
    return None


def _failed(session: Session) -> Trouble | None:
    failure = session.failure
    if failure is None:
        return None
    kind = ""
    if session.tree is not None and failure.where:
        found = session.tree.find(failure.where)
        kind = session.tree.nodes[found].type if found is not None else ""
    return Trouble(
        title=f"{safe(failure.stage)} failed",
        after="",
        what=safe(failure.what),
        where=safe(failure.where),
        type=safe(kind),
        at=safe(failure.at),
        why=safe(failure.why),
        likely="" if failure.why else safe(failure.likely),
        remedies=_remedies(failure),
    )


def _remedies(failure: Failed) -> tuple[Remedy, ...]:
    """Give what to try: what the probe found, else to look closer and, once changed, start anew."""
    found = failure.remedies[:3]
    if not found and failure.traceback:
        found = (Remedy("L", "shows the traceback"),)
    if not failure.remedies and not failure.bad_argument:
        found = (*found, Remedy("ctrl+r", "runs it again, once it is changed"))
    return tuple(Remedy(safe(remedy.command), safe(remedy.result)) for remedy in found)


def _gone(session: Session) -> Trouble | None:
    ended = session.ended
    if ended is None:
        return None
    what, _, guess = ended_text(ended).partition(", probably ")
    by_itself = "something in the model called exit" if ended.code >= 0 else ""
    stage = running_stage(session)
    during = f"during {stage.stage}" if stage is not None else "while the model ran"
    remedies = [Remedy("ctrl+r", "restarts it")]
    if ended.code in (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT):
        remedies.append(Remedy("--no-run", "costs only, nothing is run"))
    if ended.code == -signal.SIGKILL and guess:
        remedies.append(Remedy("--batch 1", "the least memory"))
    return Trouble(
        title="worker gone",
        after=f"after {seconds_text(ended.seconds)}" if ended.seconds > 0 else "",
        what=what,
        where=during,
        likely=f"{guess}, or killed by hand" if guess else safe(ended.last_line) or by_itself,
        remedies=tuple(remedies),
    )


def still_known(session: Session) -> tuple[Fact, ...]:
    """Give what stays in spite of a failure, and what is missing and why."""
    tree, tick = session.tree, session.tick
    if tree is None or not len(tree):
        return (
            Fact("tree", False, "unavailable: needs the trace"),
            Fact("costs", False, "unavailable: needs the trace"),
        )
    whole = tree.costs[0]
    counted = "every operator counted"
    if whole.uncosted:
        counted = f"{thousands(whole.uncosted)} of {thousands(whole.ops)} operators uncounted"
    modules = sum(node.kind == "module" for node in tree.nodes)
    operators = len(tree) - modules
    return (
        Fact("tree", True, f"{thousands(modules)} modules, {thousands(operators)} operators"),
        Fact("costs", True, counted),
        Fact("times", True, f"of {thousands(tick.forwards)} forwards")
        if tick is not None
        else Fact("times", False, "unavailable: no forward finished"),
        _bound_fact(session),
    )


def _bound_fact(session: Session) -> Fact:
    if session.tick is None:
        return Fact("bound", False, "unavailable: needs times")
    if session.ceilings is None:
        return Fact("bound", False, "unavailable: needs this machine's roofs")
    return Fact("bound", True, "against this machine")

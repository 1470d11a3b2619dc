"""A failure in words: what, where, why, what to try, and what is known nevertheless."""

import signal
from collections.abc import Callable, Sequence

from msgspec import Struct

from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import SCRIPT, Ended, Failed, OutOfMemory, Remedy
from tui_profiler.queries.panel import out_of_memory
from tui_profiler.queries.panel.provenance import bound_provenance
from tui_profiler.queries.panel.state import ended_text, running_stage, seconds_text, stage_name
from tui_profiler.queries.time.forward_kinds import why_times_do_not_fit
from tui_profiler.session import Session


class FailureText(Struct, frozen=True):
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


def trouble(session: Session) -> FailureText | None:
    """Return what went wrong, None where nothing did: a failure before the worker's end."""
    if session.failure is not None:
        return _failed(session, session.failure)
    if session.ended is not None and not session.ended.expected:
        return _gone(session, session.ended)
    return None


def _failed(session: Session, failure: Failed) -> FailureText:
    ran_out = out_of_memory.uncaught(session)
    if ran_out is not None and failure.stage == SCRIPT:
        title, at = f"{safe(stage_name(failure.stage))} failed", safe(failure.at)
        return _ran_out(session, ran_out, title, at=at, remedies=_remedies(failure, session))
    kind = ""
    if session.tree is not None and failure.where:
        found = session.tree.find(failure.where)
        kind = session.tree.nodes[found].type if found is not None else ""
    return FailureText(
        title=f"{safe(stage_name(failure.stage))} failed",
        after="",
        what=safe(failure.what),
        where=safe(failure.where),
        type=safe(kind),
        at=safe(failure.at),
        why=safe(failure.why),
        likely="" if failure.why else safe(failure.likely),
        remedies=_remedies(failure, session),
    )


def _ran_out(
    session: Session, found: OutOfMemory, title: str, *, at: str, remedies: tuple[Remedy, ...]
) -> FailureText:
    where, kind = out_of_memory.where(session, found)
    return FailureText(
        title=title,
        after="",
        what=out_of_memory.what(session, found),
        where=where,
        type=kind,
        at=at,
        why=out_of_memory.alive_words(session, found),
        likely=out_of_memory.why_no_where(found),
        remedies=remedies,
    )


def _remedies(failure: Failed, session: Session) -> tuple[Remedy, ...]:
    """Return what to try: what the probe found, else to look closer and, once changed, restart."""
    found = not_so_already(failure.remedies, session)[:3]
    if not found and failure.traceback:
        found = (Remedy("L", "shows the traceback"),)
    is_live = session.playback is None  # Nothing runs again in a recording.
    if is_live and all(one.is_tried for one in failure.remedies) and not failure.bad_argument:
        found = (*found, Remedy("ctrl+r", "runs it again after a change"))
    return tuple(
        Remedy(safe(remedy.command), safe(remedy.result), remedy.is_tried) for remedy in found
    )


def first_untried(remedies: Sequence[Remedy], was_tried: Callable[[Remedy], bool]) -> int:
    """Return which remedy to mark: the first that is not what failed; -1 where all are.

    Args:
        remedies: what to try.
        was_tried: whether this session has tried one.
    """
    untried = (at for at, one in enumerate(remedies) if not one.is_tried and not was_tried(one))
    return next(untried, -1)


def not_so_already(remedies: tuple[Remedy, ...], session: Session) -> tuple[Remedy, ...]:
    """Return the remedies that would change something: not ``--batch 1`` at batch 1."""
    model, loop = session.model, session.loop
    already: set[str] = set()
    if model is not None:
        # Without a batch axis the option is refused.
        already.add("--batch 1" if model.batch is None else f"--batch {model.batch}")
    if model is not None:
        already.add(f"--device {model.device}")
    if loop is not None and loop.detail.startswith("not run"):
        already.add("--no-run")
    return tuple(one for one in remedies if one.command not in already)


def _gone(session: Session, ended: Ended) -> FailureText:
    ran_out = out_of_memory.uncaught(session)
    if ran_out is not None and ended.attached:
        remedies, at = _of_gone(ended, session), safe(ran_out.line)
        return _ran_out(session, ran_out, "program gone", at=at, remedies=remedies)
    by_itself = "something in the model called exit" if ended.code >= 0 else ""
    stage = running_stage(session)
    during = f"during {stage_name(stage.stage)}" if stage is not None else "while the model ran"
    is_killed = ended.code == -signal.SIGKILL
    likely = safe(ended.last_line) or by_itself
    if is_killed:
        likely = killed_likely(ended.out_of_memory)
    return FailureText(
        title="program gone" if ended.attached else "worker gone",
        after=f"after {seconds_text(ended.seconds)}" if ended.seconds > 0 else "",
        what=ended_text(ended),
        where="" if ended.attached else during,
        why="; ".join(filter(None, (safe(ended.why), _free(session)))) if is_killed else "",
        likely=safe(ended.last_line) if ended.attached else likely,
        remedies=_of_gone(ended, session),
    )


def _of_gone(ended: Ended, session: Session) -> tuple[Remedy, ...]:
    if ended.attached:
        return (Remedy("tui-profiler attach", "lists the programs that can be attached to"),)
    remedies = [Remedy("ctrl+r", "restarts it")] if session.playback is None else []
    is_killed = ended.code == -signal.SIGKILL
    if ended.code in (-signal.SIGSEGV, -signal.SIGABRT) or (
        is_killed and ended.out_of_memory is not False
    ):
        remedies.append(Remedy("--no-run", "costs only, nothing is run"))
    if is_killed and ended.out_of_memory is not False:
        remedies.append(Remedy("--batch 1", "the least memory"))
    return not_so_already(tuple(remedies), session)


def killed_likely(out_of_memory: bool | None) -> str:
    """Return what is likely to have sent a SIGKILL; empty where it is known."""
    if out_of_memory:
        return ""
    others = "kill -9, a supervisor, systemd-oomd or earlyoom"
    return others if out_of_memory is False else f"the kernel's out-of-memory killer, {others}"


def _free(session: Session) -> str:
    """Return how much memory was free when the worker was last heard of."""
    sample = session.sample
    if sample is None:
        return ""
    free = size(max(sample.memory_total_bytes - sample.memory_bytes, 0))
    return f"{free} of {size(sample.memory_total_bytes)} memory were free at the last sample"


def still_known(session: Session) -> tuple[Fact, ...]:
    """Return what stays in spite of a failure, and what is missing and why."""
    tree, tick = session.tree, session.tick
    if (partial := session.partial) is not None and (tree is None or not len(tree)):
        return (
            Fact(
                "tree",
                True,
                f"{thousands(partial.finished)} of {thousands(partial.modules)} modules ran",
            ),
            Fact("costs", False, "unavailable: needs the whole trace"),
        )
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
    if why := why_times_do_not_fit(session):
        return Fact("bound", True, f"on paper: {safe(why)}")
    return Fact("bound", True, safe(bound_provenance(session)))

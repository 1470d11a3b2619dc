"""What the user waits for, and the share of it that a node takes: the base of all shares on screen.

1. In training it is the step, where the backward of modules is timed; of a model that generates,
   whose phase is known, a request; else the forward. Before the first times shares are of MACs, of
   parameters alone of these.
2. Shares, bars, orders, filters and colours of one screen have this base, and name it.
3. Of a step, a module has its forward, its backward and what checkpointing runs again. An operator
   has its forward: what it runs in the backward is other operators.
4. Of a request, a node has its part of the phase that is shown, in all forwards of that phase.
"""

from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from tui_profiler.messages import known
from tui_profiler.queries.time.node_seconds import macs_share, node_seconds, part_of, root_seconds
from tui_profiler.queries.time.step_seconds import node_share, step_forward, timed_backward
from tui_profiler.session import Session, Tree

BaseName: TypeAlias = Literal["step", "request", "forward", "MACs", "parameters"]
BASE_WORDS: dict[BaseName, tuple[str, str]] = {
    "step": ("step%", "share of the training step"),
    "request": ("req%", "share of a request"),
    "forward": ("%", "share of the forward"),
    "MACs": ("%MAC", "share of the MACs, on paper"),
    "parameters": ("%", "share of the parameters"),
}
"""Heading of a column of shares, and what they are."""


class Base(NamedTuple):
    """The whole that shares are of."""

    name: BaseName
    seconds: float | None
    """Mean seconds of the whole; None where shares are on paper."""
    of_forwards: float
    """Share of the whole that the forwards of the shown tree take, 0 to 1."""

    @property
    def is_measured(self) -> bool:
        """Whether shares are of time."""
        return self.seconds is not None

    @property
    def words(self) -> str:
        """``of the step``, ``of a request``, ``of the forward``, ``of the MACs``."""
        return f"of {'a' if self.name == 'request' else 'the'} {self.name}"


@lru_cache(maxsize=4)
def base(session: Session) -> Base:
    """Return the whole that the shares of a session are of."""
    tree = session.tree
    if tree is not None and len(tree):
        found = _step(session) or _request(session)
        if found is not None:
            return found
        if (seconds := root_seconds(session)) is not None:
            return Base("forward", seconds, 1.0)
    has_forward = tree is None or tree.has_forward
    return Base("MACs" if has_forward else "parameters", None, 1.0)


def _step(session: Session) -> Base | None:
    training, root = session.training, timed_backward(session, 0)
    seconds = None if training is None else known(training.step.seconds)
    if root is None or not seconds or known(root.share) is None:
        return None
    return Base("step", seconds, min(root.forward / seconds, 1.0))


def _request(session: Session) -> Base | None:
    seen, tree = session.generation, session.tree
    if seen is None or tree is None or not session.phases or root_seconds(session) is None:
        return None
    between = known(seen.between)
    inside = seen.prefill.seconds + seen.decode.seconds
    phase = {"prefill": seen.prefill, "decode": seen.decode}.get(tree.phase)
    if between is None or not 0 <= between < 1 or phase is None or not phase.seconds:
        return None
    whole = inside / (1.0 - between)
    return Base("request", whole / max(seen.requests, 1), phase.seconds / whole)


def share(session: Session, node: int) -> float | None:
    """Return the share of the base that a node takes with everything inside, 0 to 1."""
    tree, whole = session.tree, base(session)
    if tree is None or not len(tree):
        return None
    if not whole.is_measured:
        return macs_share(tree, node)
    if whole.name == "step":
        return _of_step(session, tree, node)
    part = part_of(node_seconds(session, node), root_seconds(session))
    return None if part is None else part * whole.of_forwards


def own_share(session: Session, node: int) -> float | None:
    """Return the share of the base that a module takes without the modules inside, 0 to 1.

    None before the first times, and for operators.
    """
    tree, whole, timings = session.tree, base(session), session.timings
    if tree is None or not whole.is_measured or tree.nodes[node].kind == "op":
        return None
    if whole.name == "step":
        of_step = session.training.of(node) if session.training is not None else None
        return None if of_step is None else part_of(max(of_step.own, 0.0), whole.seconds)
    own = timings.own_per_forward(node) if timings is not None else None
    # By rounding, a self time may be a hair below zero.
    part = None if own is None else part_of(max(own, 0.0), root_seconds(session))
    return None if part is None else part * whole.of_forwards


def base_seconds(session: Session, node: int) -> float | None:
    """Return the seconds that a node takes of one step, one request or one forward."""
    whole, part = base(session), share(session, node)
    return None if part is None or whole.seconds is None else part * whole.seconds


def own_base_seconds(session: Session, node: int) -> float | None:
    """Return the seconds that a module takes of them without the modules inside."""
    whole, part = base(session), own_share(session, node)
    return None if part is None or whole.seconds is None else part * whole.seconds


def own_ranked_seconds(session: Session, node: int) -> float | None:
    """Return the seconds of a step or of a forward by which modules are ranked, children apart.

    On a contended host they are without waiting for a core, which in a backward is known of the
    whole step alone: it is taken off evenly.
    """
    timings, training = session.timings, session.training
    ranked = timings.own_ranked(node) if timings is not None else None
    if timings is None or training is None or base(session).name != "step":
        return ranked
    of_step, own = training.of(node), timings.own_per_forward(node)
    if of_step is None or not timings.is_contended:
        return None if of_step is None else of_step.own
    thread, seconds = training.step.thread, known(training.step.seconds)
    waiting = known(thread.waiting) if thread is not None else None
    waits = timings.waiting if waiting is None or not seconds else min(waiting / seconds, 1.0)
    forward = of_step.own_forward * ((ranked or 0.0) / own if own else 1.0 - waits)
    return forward + (of_step.own_backward + of_step.own_recomputed) * (1.0 - waits)


def forward_share(session: Session, node: int) -> float | None:
    """Return the share of the base that a node takes in the forwards of the shown tree."""
    if not base(session).is_measured:
        return share(session, node)
    part = part_of(node_seconds(session, node), root_seconds(session))
    return None if part is None else part * base(session).of_forwards


def _of_step(session: Session, tree: Tree, node: int) -> float | None:
    if tree.nodes[node].kind == "op":
        return part_of(step_forward(session, node), base(session).seconds)
    found = node_share(session, node)
    return None if found is None else part_of(known(found.share), 1.0)

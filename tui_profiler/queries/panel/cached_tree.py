"""What is known of last time: whether its tree is looked at, how old it is, what has changed since.

Times of nodes are never remembered: only the tree on paper, and how long each stage took.
"""

from collections.abc import Iterable

from tui_profiler.figures.units import count, quantity, thousands
from tui_profiler.messages.live import Stage
from tui_profiler.queries.panel.state import running_stage
from tui_profiler.session import Session, Tree

UNTIL_TREE: tuple[Stage, ...] = ("worker", "import torch", "load model", "trace")
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def is_remembered(session: Session) -> bool:
    """Tell whether the tree that is looked at is that of last time."""
    kept = session.remembered
    if kept is None or kept.tree is None:
        return False
    return any(session.tree is tree for tree in (kept.tree, *kept.phases))


def age(session: Session) -> str:
    """Return how old what is remembered was when it was opened: ``2 h ago``; empty for nothing."""
    return ago(session.remembered.age_seconds) if session.remembered is not None else ""


def ago(seconds: float) -> str:
    """Return how long ago something was, in its largest unit: ``5 min ago``, ``3 days ago``."""
    if seconds < _MINUTE:
        return "a moment ago"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min ago"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.0f} h ago"
    return f"{seconds / _DAY:.0f} days ago"


def last_seconds(session: Session, stage: Stage) -> float | None:
    """Return how long a stage took last time; None where that is not known."""
    kept = session.remembered.stages if session.remembered is not None else ()
    return next((seconds for name, seconds in kept if name == stage), None)


def seconds_left(session: Session, now: float, stages: Iterable[Stage]) -> float | None:
    """Return how long the stages that are not over will take, going by last time.

    Args:
        session: what is known.
        now: seconds since the command was started, on the probe's clock.
        stages: all that this request goes through; one that had no time last time is left out.

    Returns:
        None where nothing is known of any of them.
    """
    over = {record.stage for record in session.stages if record.seconds is not None}
    known = [(stage, last_seconds(session, stage)) for stage in stages]
    if all(seconds is None for _, seconds in known):
        return None
    left = sum(seconds for stage, seconds in known if seconds is not None and stage not in over)
    running = running_stage(session)
    if running is None:
        return left
    before = last_seconds(session, running.stage) or 0.0
    return left - min(max(now - running.started_at, 0.0), before)


def when_replaced(session: Session) -> str:
    """Say when the worker's own tree is to be expected, going by last time."""
    left = seconds_left(session, session.heard_at, UNTIL_TREE)
    if left is None or left < 0.5:
        return "tracing"
    return f"new trace in about {left:.0f} s"


def change(session: Session) -> str:
    """Say how the tree that is looked at differs from the one of last time; empty without both."""
    kept, tree = session.remembered, session.tree
    if kept is None or kept.tree is None or tree is None:
        return ""
    before = next((one for one in kept.phases if one.phase == tree.phase), kept.tree)
    differences = _differences(before, tree)
    if not differences:
        return "the tree equals the cached one"
    return f"the tree changed: {', '.join(differences)}"


def _differences(before: Tree, tree: Tree) -> list[str]:
    old, new = before.costs[0], tree.costs[0]
    nodes, macs = len(tree) - len(before), new.macs - old.macs
    parameters = new.parameters - old.parameters
    found = []
    if nodes:
        found.append(f"{thousands(abs(nodes))} node{'' if abs(nodes) == 1 else 's'} {_more(nodes)}")
    if macs:
        found.append(f"{quantity(abs(macs), 'MAC')} {_more(macs)}")
    if parameters:
        found.append(f"{count(abs(parameters))} parameters {_more(parameters)}")
    if found or (before.nodes == tree.nodes and before.costs == tree.costs):
        return found
    both = zip(
        zip(before.nodes, before.costs, strict=True),
        zip(tree.nodes, tree.costs, strict=True),
        strict=True,
    )
    others = sum(one != other for one, other in both)
    return [f"{thousands(others)} of {thousands(len(tree))} nodes differ"]


def _more(difference: int) -> str:
    return "more" if difference > 0 else "less"

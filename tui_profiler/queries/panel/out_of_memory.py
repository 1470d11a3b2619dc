"""What a program was doing when memory ran out, and what was alive then."""

from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Figure, OutOfMemory, Unknown, known
from tui_profiler.queries.forward.memory import steps_of
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Memory

Source: TypeAlias = Literal["measured", "derived", "estimated"]
"""Read from the tensors or the process; the allocator's total without what was read; what was alive
then in the forward that the tree was recorded of."""

USES = ("parameters", "buffers", "gradients", "optimizer_state")
_NAMES = {"optimizer_state": "optimizer state"}
_PARTS = {
    "clip": "gradient clipping",
    "data": "data loading",
    "optimizer": "optimizer step",
}


class AliveUse(Struct, frozen=True):
    """Bytes of one use."""

    name: str
    bytes: Figure
    source: Source


def uncaught(session: Session) -> OutOfMemory | None:
    """Return what a program ended by, where that was a lack of memory; else None."""
    found = session.out_of_memory
    return found if found is not None and found.is_uncaught else None


def alive_uses(session: Session, found: OutOfMemory) -> tuple[AliveUse, ...]:
    """Return what was alive by use, activations last."""
    measured = [AliveUse(_NAMES.get(name, name), getattr(found, name), "measured") for name in USES]
    allocated = known(found.allocated)
    if allocated is None:
        return (*measured, AliveUse("activations", _activations(session, found), "estimated"))
    rest: Figure = Unknown("the other parts are not all known")
    if all(known(one.bytes) is not None for one in measured):
        rest = max(allocated - sum(known(one.bytes) or 0.0 for one in measured), 0.0)
    return (*measured, AliveUse("activations and others", rest, "derived"))


def _activations(session: Session, found: OutOfMemory) -> Figure:
    """Return what was alive at that module in the recorded forward."""
    memory, tree = steps_of(session), session.tree
    if isinstance(memory, Unknown) or tree is None:
        return memory if isinstance(memory, Unknown) else Unknown("there is no tree")
    node = tree.find(found.node) if found.node is not None else None
    if found.part not in ("forward", "backward") or node is None:
        return Unknown("the running module is not known")
    inside = [step for step, one in enumerate(memory.nodes) if _is_in(tree, one, node)]
    if not inside:
        return Unknown("no operator of that module was recorded")
    return _alive_at(memory, inside, is_forward=found.part == "forward")


def _alive_at(memory: Memory, inside: list[int], *, is_forward: bool) -> float:
    if is_forward:  # What it has made itself so far is not known.
        return float(memory.live[inside[0] - 1]) if inside[0] else 0.0
    # The backward comes to it when all that later modules had saved is gone.
    return float(memory.live[inside[-1]])


def _is_in(tree: Tree, node: int, module: int) -> bool:
    return module <= node < tree.ends[module]


def what(session: Session, found: OutOfMemory) -> str:
    """Return ``out of memory: tried to allocate 3.06 GiB in the backward of step 13``."""
    wanted = known(found.wanted)
    asked = f"tried to allocate {size(wanted)}" if wanted is not None else "an allocation failed"
    on = "" if found.device == "cpu" else f" on {safe(found.device)}"
    part = _PARTS.get(found.part, found.part)
    during = f" in the {part}" if found.part != "other" else ""
    step = f" of step {thousands(found.steps + 1)}" if found.steps else ""
    between = f" in{step.removeprefix(' of')}" if step and not during else f"{during}{step}"
    return f"out of memory{on}: {asked}{between}"


def where(session: Session, found: OutOfMemory) -> tuple[str, str]:
    """Return the module under way and its class; two empty texts where it is not known."""
    if found.node is None:
        return "", ""
    tree = session.tree
    node = tree.find(found.node) if tree is not None else None
    kind = safe(tree.nodes[node].type) if tree is not None and node is not None else ""
    return safe(found.node) or "the model itself", kind


def why_no_where(found: OutOfMemory) -> str:
    """Return why no module is named; empty where one is, or where none can be."""
    if found.node is not None or found.part not in ("forward", "backward"):
        return ""
    return f"module unavailable: {safe(found.why_no_node)}"


def alive_words(session: Session, found: OutOfMemory) -> str:
    """Return what was alive by use, and the total that is known, in one sentence."""
    uses = alive_uses(session, found)
    measured = [one for one in uses if one.source == "measured"]
    *_, last = uses
    words = f"alive: {', '.join(_use(one) for one in measured)} (measured)"
    source = {
        "derived": "derived: all allocated memory minus these",
        "estimated": "estimated from the recorded forward",
        "measured": "measured",
    }[last.source]
    is_known = known(last.bytes) is not None
    words += f"; {_use(last)}" + (f" ({source})" if is_known else "")
    totals = [
        f"{name} {size(figure)}"
        for name, value in (
            (f"allocated on {safe(found.device)}", found.allocated),
            ("process", found.resident),
        )
        if (figure := known(value)) is not None
    ]
    return "; ".join((words, *totals))


def _use(one: AliveUse) -> str:
    figure = known(one.bytes)
    if figure is not None:
        return f"{one.name} {'~' * (one.source == 'estimated')}{size(figure)}"
    reason = safe(one.bytes.reason) if isinstance(one.bytes, Unknown) else ""
    return f"{one.name} unavailable: {reason}"

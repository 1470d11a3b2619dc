"""An opaque module's time is held against the work of all its parts."""

from __future__ import annotations

from msgspec.structs import replace

from tests.small_model import CEILINGS, MEASURED, ROOT, folded
from tui_profiler.messages import Message, Nodes
from tui_profiler.queries.cost.bound import KINDS, node_mix, own_cost
from tui_profiler.session import Session, apply


def opaque(message: Message) -> Message:
    """Make the root of the tree one that is timed as a whole."""
    if not isinstance(message, Nodes):
        return message
    root, *others = message.nodes
    return replace(message, nodes=(replace(root, is_opaque=True), *others))


def session(*, is_opaque: bool) -> Session:
    return folded(tuple(opaque(message) if is_opaque else message for message in MEASURED))


def test_its_own_work_is_all_that_is_inside() -> None:
    tree = session(is_opaque=True).tree
    assert tree is not None
    assert tree.nodes[ROOT].is_opaque
    assert own_cost(tree, ROOT) == tree.costs[ROOT]
    bare = session(is_opaque=False).tree
    assert bare is not None
    assert own_cost(bare, ROOT).flops < bare.costs[ROOT].flops


def test_all_of_its_work_explains_its_time() -> None:
    # Of its 900 µs three calls of 10 µs explain too little, four on a slower machine enough; its
    # own operator alone, one call, would not.
    slow = replace(CEILINGS, op_seconds=30e-6)
    opaque_one, plain = (apply(session(is_opaque=each), slow) for each in (True, False))
    assert node_mix(opaque_one, ROOT)[KINDS.index("overhead")] > 0.4e-3
    assert node_mix(plain, ROOT)[KINDS.index("unexplained")] > 0.4e-3

"""An opaque module's time is held against the work of all its parts."""

from __future__ import annotations

from msgspec.structs import replace

from tests.small_model import MEASURED, ROOT, folded
from tui_profiler.messages import Message, Nodes
from tui_profiler.queries.bound import mix, own_cost
from tui_profiler.queries.mixes import limits, mixes
from tui_profiler.session import Session


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


def test_both_ways_to_a_mix_agree() -> None:
    known = session(is_opaque=True)
    assert known.tree is not None
    assert known.timings is not None
    assert known.ceilings is not None
    found = mixes(known.tree, limits(known.tree, known.ceilings), known.timings)
    assert found.of(ROOT) == tuple(mix(known, ROOT).values())

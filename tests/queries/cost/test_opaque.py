"""An opaque module's time is held against the work that no compiler can leave out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.small_model import CEILINGS, MEASURED, ROOT, folded
from tui_profiler.messages import Message, Nodes
from tui_profiler.queries.cost.bound import certain_cost, node_mix, own_cost
from tui_profiler.queries.cost.bound_classes import KINDS
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


def test_operators_and_bytes_inside_which_a_compiler_may_leave_out_explain_nothing() -> None:
    tree = session(is_opaque=True).tree
    assert tree is not None
    whole, at = tree.costs[ROOT], tree.nodes[ROOT]
    assert certain_cost(tree, ROOT) == replace(
        whole, ops=0, input_bytes=at.inputs[0].bytes, output_bytes=at.outputs[0].bytes
    )
    assert whole.ops > 0
    assert whole.input_bytes > at.inputs[0].bytes
    assert whole.output_bytes > at.outputs[0].bytes
    bare = session(is_opaque=False).tree
    assert bare is not None
    assert certain_cost(bare, ROOT) == own_cost(bare, ROOT)


@pytest.mark.parametrize(("is_opaque", "kind"), [(True, "unexplained"), (False, "overhead")])
def test_its_time_is_never_that_of_calling_operators(is_opaque: bool, kind: str) -> None:
    # Of its 450 µs the four operators inside take 120 µs, its own 100, if they are called.
    slow = replace(CEILINGS, op_seconds=100e-6 if not is_opaque else 30e-6)
    mix = node_mix(apply(session(is_opaque=is_opaque), slow), ROOT)
    assert mix[KINDS.index(kind)] > 0.4e-3


def counted(message: Message) -> Message:
    """Leave out that one operator has no formula: then nothing but compute could be concluded."""
    if not isinstance(message, Nodes):
        return message
    return replace(message, costs=tuple(replace(cost, uncosted=0) for cost in message.costs))


def test_the_bytes_at_its_edges_explain_its_time() -> None:
    whole = folded(tuple(counted(opaque(message)) for message in MEASURED))
    assert whole.tree is not None
    edges = certain_cost(whole.tree, ROOT)
    moved = edges.input_bytes + edges.output_bytes + edges.weight_bytes
    # They take a fifth of the 0.1 ms that are its own; what modules inside move takes nothing away.
    slow = replace(CEILINGS, bytes_per_second=moved / 0.02e-3, op_seconds=1e-9)
    mix = node_mix(apply(whole, slow), ROOT)
    assert mix[KINDS.index("memory")] == pytest.approx(1e-4, rel=1e-3)

"""Trees as they come from outside: what is repeated is held once, what is no tree is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.small_model import DONE, IMAGE, MEASURED, cost, folded, node
from tui_profiler.connection import wire
from tui_profiler.messages import Message, Node, Nodes, TraceStarted
from tui_profiler.session import EMPTY, Session, Tree, apply


def from_parents(*parents: int) -> tuple[Message, ...]:
    nodes = tuple(node(parent, f"n{i}", f"n{i}", "Layer") for i, parent in enumerate(parents))
    costs = tuple(cost() for _ in parents)
    return (TraceStarted(len(parents), "dispatch:fake"), Nodes(nodes, costs), DONE)


def over_the_wire(session: Session, *messages: Message) -> Session:
    decoder = wire.message_decoder()
    for message in messages:
        for received in decoder.feed(wire.encode(message)):
            session = apply(session, received)
    return session


def whole(session: Session) -> Tree:
    assert session.tree is not None
    return session.tree


def test_a_tree_in_preorder_is_taken() -> None:
    tree = whole(folded(from_parents(-1, 0, 1, 1, 0, 4)))

    assert (list(tree.ends), list(tree.depths)) == ([6, 4, 3, 4, 6, 6], [0, 1, 2, 2, 1, 2])


@pytest.mark.parametrize(
    "parents",
    [
        (0,),
        (1, 0),
        (-1, -1),
        (-1, 1),
        (-1, 2, 0),
        (-1, 0, 7),
        (-1, 0, -2),
        (-2, 0),
        (-1, 0, 0, 1),
        (-1, 2**63 - 1),
    ],
)
def test_what_is_no_tree_in_preorder_leaves_everything_as_it_was(parents: tuple[int, ...]) -> None:
    before = folded(MEASURED)

    after = folded(from_parents(*parents), before)

    assert (after.tree, after.timings, after.history) == (
        before.tree,
        before.timings,
        before.history,
    )
    assert after.arriving is None


def test_nodes_without_a_cost_for_each_are_refused() -> None:
    nodes = Nodes((node(-1, "a", "", "Layer"),), ())

    assert folded((TraceStarted(1, "dispatch:fake"), nodes, DONE)).tree is None


def test_a_tree_of_no_nodes_is_taken() -> None:
    assert len(whole(folded(from_parents()))) == 0


def test_what_nodes_repeat_is_held_once() -> None:
    def layer(index: int) -> Node:
        return node(
            index - 1, "conv", f"conv{index}", "Conv2d", inputs=(IMAGE,), source="model.py:1"
        )

    sent = tuple(layer(index) for index in range(4))
    started = TraceStarted(4, "dispatch:fake")
    parts = (Nodes(sent[:2], (cost(),) * 2), Nodes(sent[2:], (cost(),) * 2))

    nodes = whole(over_the_wire(EMPTY, started, *parts, DONE)).nodes

    assert nodes == sent
    assert all(a.type is b.type and a.source is b.source for a, b in pairwise(nodes))
    assert nodes[0].inputs is nodes[1].inputs
    assert nodes[2].inputs is nodes[3].inputs

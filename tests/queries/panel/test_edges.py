"""Edges lifted to modules, and nodes that are alike."""

from __future__ import annotations

from msgspec.structs import replace

from tests.screens.panel_session import (
    BN2,
    BN_OP,
    CONV2,
    CONV_OP,
    LOADING,
    NODES,
    RELU,
    RELU_OP,
    TRACED,
    folded,
)
from tui_profiler.messages import Edges, Message
from tui_profiler.queries.panel.neighbours import neighbours, same_shape, short_names, sibling
from tui_profiler.session import Tree


def tree(edges: Edges | None = None) -> Tree:
    messages: tuple[Message, ...] = tuple(
        edges if edges is not None and isinstance(m, Edges) else m for m in TRACED
    )
    found = folded((*LOADING, *messages)).tree
    assert found is not None
    return found


def test_edges_between_operators_are_lifted_to_their_modules():
    found = neighbours(tree(), BN2)
    assert found.sources == (CONV2,)
    assert found.targets == (RELU,)


def test_an_operators_neighbours_are_operators():
    found = neighbours(tree(), BN_OP)
    assert found.sources == (CONV_OP,)
    assert found.targets == (RELU_OP,)


def test_edges_inside_a_block_are_not_its_own():
    found = neighbours(tree(), 2)
    assert found.sources == found.targets == ()


def test_a_module_that_is_read_twice_is_named_once():
    twice = Edges(((CONV_OP, BN_OP), (CONV_OP, BN_OP), (CONV_OP, RELU_OP)))
    assert neighbours(tree(twice), CONV2).targets == (BN2, RELU)


def test_an_edge_to_no_node_is_passed_over():
    assert neighbours(tree(Edges(((CONV_OP, 99), (-1, CONV_OP)))), CONV2).targets == ()


def test_siblings_stop_at_the_ends():
    found = tree()
    assert sibling(found, CONV2, 1) == BN2
    assert sibling(found, CONV2, -1) == CONV2
    assert sibling(found, RELU, 1) == RELU
    assert sibling(found, 0, 1) == 0


def test_alike_are_those_of_the_same_type_settings_and_shapes():
    found = tree()
    assert same_shape(found, CONV2) == ()
    assert same_shape(found, CONV_OP) == ()
    nodes = list(found.nodes)
    nodes[RELU] = replace(nodes[CONV2], parent=2)
    assert same_shape(replace(found, nodes=tuple(nodes)), CONV2) == (CONV2, RELU)
    nodes[RELU] = replace(nodes[RELU], detail="other settings")
    assert same_shape(replace(found, nodes=tuple(nodes)), CONV2) == ()


def test_the_nearest_are_taken_where_there_are_many():
    found = tree()
    many = tuple(replace(found.nodes[CONV2], parent=0) for _ in range(20))
    wide = replace(found, nodes=(NODES[0][0], *many))
    assert same_shape(wide, 10) == (7, 8, 9, 10, 11, 12)
    assert same_shape(wide, 1) == (1, 2, 3, 4, 5, 6)
    assert same_shape(wide, 20) == (15, 16, 17, 18, 19, 20)


def test_what_all_paths_share_is_left_out():
    assert short_names(("a.b.1.conv", "a.b.2.conv")) == ("1.conv", "2.conv")
    assert short_names(("a.conv",)) == ("conv",)
    assert short_names(("a", "a.b")) == ("a", "a.b")

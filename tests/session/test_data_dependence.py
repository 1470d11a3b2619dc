"""Which figures depend on the data, on a small graph drawn by hand."""

from __future__ import annotations

from tests.queries.sessions import session_of
from tui_profiler.messages import Node
from tui_profiler.session.data_dependence import reach

TREE = """
net Net 0 0
  backbone Conv 0 0
    aten::convolution aten.convolution.default 0 9
  heads Heads 0 0
    aten::nonzero aten.nonzero.default 0 0
    aten::index aten.index.Tensor 0 0
    aten::addmm aten.addmm.default 0 5
    aten::relu aten.relu.default 0 0
  tail Tail 0 0
    aten::_local_scalar_dense aten._local_scalar_dense.default 0 0
    aten::mm aten.mm.default 0 5
"""
NET, BACKBONE, CONVOLUTION, HEADS, NONZERO, INDEX, ADDMM, RELU, TAIL, SCALAR, MM = range(11)
EDGES = [(CONVOLUTION, NONZERO), (NONZERO, INDEX), (INDEX, ADDMM), (CONVOLUTION, RELU)]


def nodes() -> tuple[Node, ...]:
    tree = session_of(TREE).tree
    assert tree is not None
    return tree.nodes


def test_nothing_depends_on_the_data_where_nothing_asked_for_it() -> None:
    assert reach(nodes(), EDGES, ()) == {}


def test_what_reads_a_bound_is_at_most_and_so_is_whatever_holds_it() -> None:
    marked = dict.fromkeys((NET, HEADS, NONZERO, INDEX, ADDMM), "at most")
    assert reach(nodes(), EDGES, ("aten::nonzero",)) == marked


def test_what_runs_after_a_value_was_read_is_about() -> None:
    found = reach(nodes(), EDGES, ("aten::_local_scalar_dense",))
    assert found == dict.fromkeys((NET, TAIL, SCALAR, MM), "about")


def test_after_a_value_was_read_means_after_it_in_time() -> None:
    # A module calls others and reads a value itself: its own operators come after theirs.
    found = reach(nodes(), EDGES, ("aten::_local_scalar_dense",), (CONVOLUTION, SCALAR, ADDMM, MM))
    assert found == dict.fromkeys((NET, HEADS, ADDMM, TAIL, SCALAR, MM), "about")
    again = reach(nodes(), EDGES, ("aten::_local_scalar_dense",), (MM, SCALAR, MM, CONVOLUTION))
    assert set(again) == {NET, BACKBONE, CONVOLUTION, TAIL, SCALAR, MM}


def test_a_constant_outweighs_a_bound_above_both() -> None:
    found = reach(nodes(), EDGES, ("aten::nonzero", "aten::_local_scalar_dense"))
    assert found[NET] == "about"
    assert found[HEADS] == "at most"
    assert RELU not in found
    assert BACKBONE not in found


def test_a_circle_of_edges_ends() -> None:
    found = reach(nodes(), [(INDEX, ADDMM), (ADDMM, INDEX)], ("aten::index",))
    assert found[ADDMM] == found[INDEX] == "at most"

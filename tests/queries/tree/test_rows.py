from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from tests.queries.sessions import (
    RESNET,
    RESNET_SECONDS,
    cost_of,
    node_of,
    resnet,
    session_of,
    ticked,
    traced,
)
from tui_profiler.messages import Node
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.queries.tree.focus import Focus
from tui_profiler.queries.tree.rows import Outline
from tui_profiler.session import EMPTY, Session


@dataclass
class Looking:
    """A session and how it is looked at."""

    session: Session
    laid: Outline

    @classmethod
    def at(cls, session: Session) -> Looking:
        assert session.tree is not None
        return cls(session, rows.outline(session, focuses.initial(session.tree)))

    def paths(self) -> list[str]:
        return [self.laid.tree.nodes[node].path for node in self.laid.rows]

    def node(self, path: str) -> int:
        found = self.laid.tree.find(path)
        assert found is not None
        return found

    def toggle(self, *paths: str) -> Looking:
        laid = self.laid
        for path in paths:
            laid = rows.toggled(laid, self.session, self.node(path))
        return Looking(self.session, laid)

    def look(self, **changes: object) -> Looking:
        view = replace(self.laid.focus, **changes)
        return Looking(self.session, rows.relaid(self.laid, self.session, view))


TOP = ["", "conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "avgpool", "fc"]


def test_at_first_the_children_of_the_root_are_shown() -> None:
    assert Looking.at(resnet()).paths() == TOP


def test_at_first_a_chain_of_single_children_is_unfolded() -> None:
    looking = Looking.at(session_of("a A 0 0\n  b B 0 0\n    c C 0 0\n    d D 0 0"))

    assert looking.paths() == ["", "b", "b.c", "b.d"]


def test_unfolding_puts_the_children_below_their_parent() -> None:
    paths = Looking.at(resnet()).toggle("layer1").paths()

    assert paths == [*TOP[:6], "layer1.0", "layer1.1", "layer1.2", *TOP[6:]]


def test_folding_keeps_what_was_unfolded_inside() -> None:
    open_ = Looking.at(resnet()).toggle("layer1", "layer1.1")

    again = open_.toggle("layer1").toggle("layer1")

    assert again.paths() == open_.paths()
    assert "layer1.1.conv1" in again.paths()


def test_a_leaf_does_not_unfold() -> None:
    looking = Looking.at(resnet())

    assert looking.toggle("fc").laid is looking.laid


def test_folding_above_the_cursor_takes_it_to_the_folded_node() -> None:
    looking = Looking.at(resnet()).toggle("layer1")
    inside = looking.look(selected=looking.node("layer1.1"))

    folded = inside.toggle("layer1")

    assert folded.laid.focus.selected == looking.node("layer1")
    assert folded.laid.rows[folded.laid.cursor] == looking.node("layer1")


def test_the_cursor_follows_its_node_when_rows_above_it_unfold() -> None:
    looking = Looking.at(resnet())
    at_fc = looking.look(selected=looking.node("fc"))

    assert at_fc.laid.cursor == 8
    assert at_fc.toggle("layer1").laid.cursor == 11


def test_splicing_gives_the_rows_that_laying_out_anew_gives() -> None:
    for sort in ("order", "seconds", "name"):
        looking = Looking.at(resnet()).look(sort=sort, descending=True)
        for path in ("layer1", "layer2", "layer1.2", "layer1", "", "", "layer1", "layer2"):
            looking = looking.toggle(path)
            anew = rows.outline(looking.session, looking.laid.focus)
            assert looking.laid.rows == anew.rows
            assert looking.laid.cursor == anew.cursor


def test_operators_are_shown_on_request() -> None:
    looking = Looking.at(resnet())

    shown = looking.look(show_operators=True).toggle("conv1")

    assert shown.paths()[1:4] == ["conv1", "conv1/0", "bn1"]
    assert (looking.laid.shape.total, shown.laid.shape.total) == (17, 18)


def test_hiding_operators_takes_the_cursor_to_their_module() -> None:
    looking = Looking.at(resnet()).look(show_operators=True).toggle("conv1")
    on_operator = looking.look(selected=looking.node("conv1/0"))

    hidden = on_operator.look(show_operators=False)

    assert hidden.laid.focus.selected == looking.node("conv1")


def test_depth_unfolds_so_many_levels() -> None:
    looking = Looking.at(resnet())
    tree, view = looking.laid.tree, looking.laid.focus

    one = rows.relaid(looking.laid, looking.session, focuses.unfolded_to_depth(view, tree, 1))
    two = rows.relaid(looking.laid, looking.session, focuses.unfolded_to_depth(view, tree, 2))
    all_ = rows.relaid(looking.laid, looking.session, focuses.all_unfolded(view, tree))

    assert [len(laid) for laid in (one, two, all_)] == [9, 14, 17]


def test_folding_all_leaves_the_children_of_the_root() -> None:
    looking = Looking.at(resnet()).toggle("layer1", "layer1.0")
    deep = looking.look(selected=looking.node("layer1.0.conv1"))

    folded = rows.relaid(
        deep.laid, deep.session, focuses.all_folded(deep.laid.focus, deep.laid.tree)
    )

    assert [looking.laid.tree.nodes[node].path for node in folded.rows] == TOP
    assert folded.focus.selected == looking.node("layer1")


def test_drilling_down_shows_one_block_and_its_depth_from_there() -> None:
    looking = Looking.at(resnet())
    node = looking.node("layer1")

    laid = rows.relaid(
        looking.laid, looking.session, focuses.drilled_down(looking.laid.focus, node)
    )
    back = rows.relaid(laid, looking.session, focuses.drilled_up(laid.focus, laid.tree))

    assert [laid.tree.nodes[each].path for each in laid.rows] == [
        "layer1",
        "layer1.0",
        "layer1.1",
        "layer1.2",
    ]
    assert [laid.depth(each) for each in laid.rows] == [0, 1, 1, 1]
    assert (back.focus.root, back.focus.selected) == (0, node)


@pytest.mark.parametrize(
    ("sort", "descending", "expected"),
    [
        ("seconds", True, "layer1 layer2 conv1 fc maxpool bn1 relu avgpool"),
        ("seconds", False, "avgpool relu bn1 maxpool fc conv1 layer2 layer1"),
        ("share", True, "layer1 layer2 conv1 fc maxpool bn1 relu avgpool"),
        ("macs", True, "layer2 layer1 conv1 fc bn1 relu maxpool avgpool"),
        ("params", True, "fc layer2 layer1 conv1 bn1 relu maxpool avgpool"),
        ("name", False, "avgpool bn1 conv1 fc layer1 layer2 maxpool relu"),
        ("order", False, "conv1 bn1 relu maxpool layer1 layer2 avgpool fc"),
    ],
)
def test_siblings_are_sorted(sort: str, descending: bool, expected: str) -> None:
    looking = Looking.at(resnet()).look(sort=sort, descending=descending)

    assert looking.paths()[1:] == expected.split()


def test_without_a_figure_a_node_is_last_in_both_directions() -> None:
    some = {path: seconds for path, seconds in RESNET_SECONDS.items() if path != "layer1"}
    some = {path: seconds for path, seconds in some.items() if not path.startswith("layer1")}
    looking = Looking.at(ticked(session_of(RESNET), some))

    for descending in (True, False):
        assert looking.look(sort="seconds", descending=descending).paths()[-1] == "layer1"


def test_numbered_children_sort_as_numbers() -> None:
    text = "m M 0 0\n" + "".join(f"  {i} B 0 0\n" for i in (10, 9, 2)) + f"  {'7' * 5000} B 0 0"

    paths = Looking.at(session_of(text)).look(sort="name").paths()

    assert paths[2:] == ["2", "9", "10"]


def test_names_sort_without_regard_to_case() -> None:
    text = "m M 0 0\n" + "".join(f"  {name} B 0 0\n" for name in ("Zoom", "beta", "Alpha", "ß"))

    paths = Looking.at(session_of(text)).look(sort="name").paths()

    assert paths[1:] == ["Alpha", "beta", "ß", "Zoom"]  # Casefold of ß is ss.


def test_sorted_rows_stay_inside_their_parent() -> None:
    looking = Looking.at(resnet()).toggle("layer1").look(sort="seconds", descending=True)

    assert looking.paths()[:5] == ["", "layer1", "layer1.1", "layer1.2", "layer1.0"]


def test_a_filter_keeps_what_it_finds_with_everything_above() -> None:
    looking = Looking.at(resnet())

    laid = rows.filtered(looking.laid, looking.session, "1.CONV")

    paths = [laid.tree.nodes[node].path for node in laid.rows]
    assert paths == ["", "layer1", "layer1.1", "layer1.1.conv1"]
    assert laid.shape.found == 1
    assert laid.focus.selected == looking.node("")


def test_a_filter_finds_types_and_takes_the_cursor_there() -> None:
    looking = Looking.at(resnet())
    at_relu = looking.look(selected=looking.node("relu"))

    laid = rows.filtered(at_relu.laid, looking.session, "bottle")

    assert laid.shape.found == 5
    assert laid.tree.nodes[laid.focus.selected].path == "layer1.0"


def test_dropping_the_filter_shows_the_node_it_found() -> None:
    looking = Looking.at(resnet())
    at_relu = looking.look(selected=looking.node("relu"))
    found = rows.filtered(at_relu.laid, looking.session, "layer1.2.conv")

    dropped = rows.filtered(found, looking.session, "")

    assert dropped.tree.nodes[dropped.focus.selected].path == "layer1.2.conv1"
    assert dropped.rows[dropped.cursor] == dropped.focus.selected
    assert "layer2" in [dropped.tree.nodes[node].path for node in dropped.rows]


def test_folding_works_while_a_filter_holds() -> None:
    looking = Looking.at(resnet())
    laid = rows.filtered(looking.laid, looking.session, "conv1")

    folded = rows.toggled(laid, looking.session, looking.node("layer1"))

    assert len(laid) - len(folded) == 6
    assert rows.toggled(folded, looking.session, looking.node("layer1")).rows == laid.rows


def test_a_filter_that_finds_nothing_leaves_the_root() -> None:
    looking = Looking.at(resnet())

    laid = rows.filtered(looking.laid, looking.session, "conv9")

    assert list(laid.rows) == [0]
    assert laid.shape.found == 0


def test_a_new_tree_is_looked_at_as_the_one_before() -> None:
    before = Looking.at(resnet()).toggle("layer1", "layer1.2")
    view = replace(before.laid.focus, selected=before.node("layer1.2.conv1"))
    shorter = session_of(RESNET.replace("  bn1 BatchNorm2d 128 0\n", ""), after=before.session)
    assert shorter.tree is not None

    carried = focuses.carried_over(view, before.laid.tree, shorter.tree)
    laid = rows.outline(shorter, carried)

    paths = [laid.tree.nodes[node].path for node in laid.rows]
    assert paths == [path for path in before.paths() if path != "bn1"]
    assert laid.tree.nodes[laid.focus.selected].path == "layer1.2.conv1"


def test_revealing_a_node_unfolds_what_is_above_it() -> None:
    looking = Looking.at(resnet())
    node = looking.node("layer1.2.conv1")

    view = focuses.revealing(looking.laid.focus, looking.laid.tree, node)
    laid = rows.relaid(looking.laid, looking.session, view)

    assert laid.rows[laid.cursor] == node


def test_three_thousand_levels_unfold_fold_and_filter() -> None:
    nodes: list[Node] = []
    for depth in range(3000):
        nodes.append(node_of(depth - 1, f"m{depth}", "Block", nodes))
    session = traced(nodes, [cost_of(1, 1)] * len(nodes))
    at_first = Looking.at(session)
    view = focuses.all_unfolded(at_first.laid.focus, at_first.laid.tree)
    looking = Looking(session, rows.relaid(at_first.laid, session, view))

    assert (len(at_first.laid), len(looking.laid)) == (5, 3000)
    assert len(rows.toggled(looking.laid, session, 1000)) == 1001
    sorted_ = looking.look(sort="macs", descending=True)
    assert len(sorted_.laid) == 3000
    assert len(rows.filtered(looking.laid, session, "m2999")) == 3000


def test_a_session_without_a_tree_has_nothing_to_lay_out() -> None:
    with pytest.raises(ValueError, match="no tree"):
        rows.outline(EMPTY, Focus())

"""Two trees laid onto each other, and the differences of their figures."""

from __future__ import annotations

import random
from array import array
from math import sqrt

import numpy as np
import pytest
from msgspec.structs import replace

from tests.queries.pairs import former, latter, pair
from tests.queries.sessions import RESNET, RESNET_SECONDS, resnet, session_of, ticked
from tui_profiler.messages import Tick, Unknown
from tui_profiler.queries.alignment import Alignment, align
from tui_profiler.queries.compare import (
    Comparison,
    change_counts,
    comparison,
    default_figure,
    different_settings,
    figure_pair,
    former_path,
    node_of,
    row_difference,
    total_rows,
    why_no_times,
    worst,
)
from tui_profiler.queries.compare_rows import (
    View,
    first_view,
    folded_to,
    next_figure,
    next_worst,
    revealed,
    visible,
)
from tui_profiler.queries.noise import WholeRun, is_noise
from tui_profiler.queries.sides import Side, SideNode, SideTree, side_of
from tui_profiler.session import EMPTY, Session, apply


def changes(compared: Comparison) -> list[tuple[str, str]]:
    assert compared.alignment is not None
    return [(node_of(compared, one).path, one.change) for one in compared.alignment.nodes]


def test_what_belongs_together_appeared_vanished_and_moved() -> None:
    compared = pair()

    assert changes(compared) == [
        ("", "changed"),
        ("stem", "changed"),
        ("stem/0", "appeared"),
        ("stem/0", "changed"),
        ("stem/0", "same"),
        ("body", "appeared"),
        ("body.neck", "moved"),
        ("body.neck.a", "same"),
        ("body.neck.b", "same"),
        ("body.new", "appeared"),
        ("head", "same"),
        ("tail", "moved"),
    ]
    assert compared.alignment is not None
    moved = [one for one in compared.alignment.nodes if one.change == "moved"]
    assert [former_path(compared, one) for one in moved] == ["neck", "extra"]
    assert change_counts(compared) == {
        "changed": 2,
        "moved": 2,
        "appeared": 2,
        "vanished": 0,
        "same": 3,
    }


def test_what_vanished_stands_where_it_was() -> None:
    back = comparison(side_of("b", latter()), side_of("a", former()))

    assert ("body", "vanished") in changes(back)
    assert ("body.new", "vanished") in changes(back)
    paths = [path for path, _ in changes(back)]
    assert paths.index("body") < paths.index("head")
    assert paths.index("stem") < paths.index("body")


def test_a_model_and_itself_are_the_same_node_by_node() -> None:
    compared = comparison(side_of("a", resnet()), side_of("b", resnet()))

    assert {change for _, change in changes(compared)} == {"same"}
    assert worst(compared, "flops", 10) == ()
    assert all(row.pair.difference in (0, None) for row in total_rows(compared))


def random_tree(dice: random.Random, size: int) -> SideTree:
    nodes = [SideNode(-1, "module", "net", "", "Net", 1, (1,), 9, 9, 9, 9)]
    while len(nodes) < size:
        above = dice.choice([0, len(nodes) - 1])
        while nodes[above].kind == "op":
            above = nodes[above].parent
        name, cost = dice.choice("abcde"), dice.choice([0, 5, 7])
        path = f"{nodes[above].path}.{name}".lstrip(".")
        kind = dice.choice(["module", "module", "op"])
        nodes.append(
            SideNode(above, kind, name, path, name, 1, (cost,), cost, cost, cost, cost)  # type: ignore[arg-type]  # a kind
        )
    return SideTree(_preorder(nodes))


def _preorder(nodes: list[SideNode]) -> tuple[SideNode, ...]:
    found: list[SideNode] = []
    pending = [(0, -1)]
    while pending:
        index, parent = pending.pop()
        here = len(found)
        found.append(replace(nodes[index], parent=parent))
        below = [i for i, node in enumerate(nodes) if node.parent == index]
        pending += [(child, here) for child in reversed(below)]
    return tuple(found)


def check(found: Alignment, first: SideTree, second: SideTree) -> None:
    """Each node of both sides is there once, in one tree in preorder."""
    assert sorted(one.a for one in found.nodes if one.a >= 0) == list(range(len(first.nodes)))
    assert sorted(one.b for one in found.nodes if one.b >= 0) == list(range(len(second.nodes)))
    for index, one in enumerate(found.nodes):
        assert one.parent < index < found.ends[one.parent] if index else one.parent == -1
        if one.b >= 0 and index:
            assert found.nodes[one.parent].b == second.nodes[one.b].parent
        elif index:
            assert found.nodes[one.parent].a == first.nodes[one.a].parent


@pytest.mark.parametrize("seed", range(40))
def test_any_two_trees_are_aligned_whole_and_always_alike(seed: int) -> None:
    dice = random.Random(seed)
    first, second = random_tree(dice, 60), random_tree(dice, 60)

    found = align(first, second)

    check(found, first, second)
    again = align(SideTree(first.nodes), SideTree(second.nodes))
    assert again.nodes == found.nodes


def test_large_trees_are_aligned_in_time_that_grows_with_them() -> None:
    from time import process_time

    def tree(blocks: int, name: str) -> SideTree:
        nodes = [SideNode(-1, "module", "net", "", "Net", 1, (1,), 9, 9, 9, 9)]
        for block in range(blocks):
            above = len(nodes)
            path = f"{name}{block}"
            nodes.append(SideNode(0, "module", path, path, "Block", 1, (1,), 9, 9, 9, 9))
            for part in "abcdefghi":
                inner = f"{path}.{part}"
                nodes.append(SideNode(above, "module", part, inner, "L", 1, (1,), 1, 1, 1, 1))
        return SideTree(tuple(nodes))

    began = process_time()
    small = align(tree(400, "x"), tree(400, "y"))  # All of it has moved: the worst case.
    between = process_time()
    large = align(tree(3_200, "x"), tree(3_200, "y"))
    assert sum(one.change == "moved" for one in small.nodes) == 400
    assert sum(one.change == "moved" for one in large.nodes) == 3_200
    assert process_time() - between < 30 * (between - began)  # 64 times, were it quadratic.


def test_differences_and_ratios_are_of_the_second_side_and_the_first() -> None:
    rows = {row.name: row for row in total_rows(pair())}

    assert rows["total_parameters"].pair.difference == 300
    assert rows["total_macs"].pair.ratio == 7 / 5
    assert rows["latency.p50_s"].pair.difference == pytest.approx(0.006)
    assert "peak_memory.total" not in rows  # Neither side knows it.


def test_a_side_without_times_says_so_and_has_no_difference() -> None:
    compared = comparison(side_of("a", former()), side_of("b", latter(measured=False)))

    row = next(row for row in total_rows(compared) if row.name == "latency.p50_s")
    assert isinstance(row.pair.b, Unknown)
    assert row.pair.difference is None
    assert why_no_times(compared) == "B: not measured; --measure SECONDS does"
    assert default_figure(compared) == "flops"


def test_the_worst_are_modules_by_themselves_and_lone_ones_whole() -> None:
    compared = pair()
    assert compared.alignment is not None

    found = [
        (node_of(compared, compared.alignment.nodes[one.index]).path, one.difference, one.is_whole)
        for one in worst(compared, "macs", 10)
    ]

    assert found == [
        ("body", 3_000_000, True),
        ("stem", 1_000_000, False),
    ]
    # The root by itself: 5M less its parts 5M, and 7M less 7M.
    assert ("", 0) not in [(path, difference) for path, difference, _ in found]


def test_what_only_one_side_has_differs_by_all_of_it_and_has_no_ratio() -> None:
    compared = pair()
    assert compared.alignment is not None
    one = next(one for one in compared.alignment.nodes if node_of(compared, one).path == "body")
    found = figure_pair(compared, one, "macs")

    assert row_difference(one, found) == 3_000_000
    assert found.ratio is None


def test_a_model_without_a_tree_says_why_there_is_none() -> None:
    compared = comparison(Side("a"), side_of("b", latter()))

    assert compared.alignment is None
    assert compared.why_no_alignment == "A has no tree: it was not traced"
    assert visible(compared, first_view(compared, "macs")) == ()


def test_settings_that_differ_are_named() -> None:
    a = replace(side_of("a", former()), settings=(("batch", "1"), ("device", "cpu")))
    b = replace(side_of("b", latter()), settings=(("batch", "8"), ("device", "cpu")))

    assert different_settings(comparison(a, b)) == (("batch", "1", "8"),)
    items = {row.name: row for row in total_rows(comparison(a, b))}
    assert items["latency_per_item.p50_s"].pair.b == pytest.approx(0.016 / 8)


def history(means: list[float], *, jitter: float = 0.0, window: int = 5000) -> Session:
    """A session in which each hundred forwards took so long."""
    session = session_of(RESNET)
    total = 0.0
    for place, mean in enumerate(means, start=1):
        total += 100 * mean
        session = ticked(session, {"": mean}, at=place / 4, forwards=100 * place)
        tick = session.tick
        assert tick is not None
        p95 = array("f", [mean + jitter]).tobytes()
        p50 = array("f", [mean]).tobytes()
        told: Tick = replace(
            tick, total=array("d", [total]).tobytes(), p50=p50, p95=p95, window=window
        )
        ticks = session.history.ticks[:-1]
        session = replace(session, history=replace(session.history, ticks=ticks))
        session = apply(session, told)
    return session


def test_noise_between_blocks_is_the_standard_error_that_numpy_gives() -> None:
    dice = np.random.default_rng(1)
    means = [0.01, *(dice.normal(0.01, 0.001, 12).tolist())]

    found = WholeRun(history(means)).error(0)

    expected = 1.2533 * np.std(means[1:], ddof=1) / sqrt(12)
    assert found == pytest.approx(expected, rel=1e-6)
    assert WholeRun(history(means)).seconds(0) == pytest.approx(float(np.median(means[1:])))


def test_noise_between_calls_is_the_error_of_the_median_by_simulation() -> None:
    dice = np.random.default_rng(2)
    sigma, calls = 0.001, 100
    medians = np.median(dice.normal(0.01, sigma, (4000, calls)), axis=1)
    one_block = history([0.01], jitter=1.645 * sigma, window=calls)

    found = WholeRun(one_block).error(0)

    assert found == pytest.approx(float(np.std(medians)), rel=0.05)


def test_equal_models_are_said_to_differ_in_about_one_case_of_twenty() -> None:
    dice = np.random.default_rng(3)
    said = 0
    for _ in range(200):
        a, b = (dice.normal(0.01, 0.001, 13).tolist() for _ in range(2))
        difference = float(np.median(b[1:]) - np.median(a[1:]))
        said += (
            is_noise(difference, WholeRun(history(a)).error(0), WholeRun(history(b)).error(0))
            is False
        )
    assert 2 <= said <= 28  # Of 200; the blocks are few, so a little more than 10.


def test_noise_that_is_not_known_is_not_said() -> None:
    assert is_noise(1.0, None, 0.1) is None
    assert WholeRun(EMPTY).error(0) is None


def test_the_view_unfolds_what_differs_sorts_and_filters() -> None:
    compared = pair()
    view = first_view(compared, "macs")
    assert compared.alignment is not None
    nodes = compared.alignment.nodes

    def paths(view: View) -> list[str]:
        return [node_of(compared, nodes[index]).path for index in visible(compared, view)]

    assert paths(view) == ["", "stem", "body", "body.neck", "body.new", "head", "tail"]
    assert paths(replace(view, order="difference"))[:3] == ["", "body", "body.new"]
    assert paths(replace(view, filter="moved")) == ["", "body", "body.neck", "tail"]
    assert paths(replace(view, filter="linear !same !moved")) == ["", "body", "body.new"]
    assert paths(folded_to(view, compared, 1)) == ["", "stem", "body", "head", "tail"]
    assert "stem/0" in paths(replace(folded_to(view, compared, 9), operators=True))
    assert next_worst(view, compared) == paths(folded_to(view, compared, 9)).index("body") + 3
    found = revealed(folded_to(view, compared, 0), compared, len(nodes) - 1)
    assert found.selected in visible(compared, found)


def test_the_next_figure_is_one_that_both_sides_have() -> None:
    on_paper = pair(measured=False)
    view = first_view(on_paper, "flops")
    seen = [view.figure]
    for _ in range(4):
        view = next_figure(view, on_paper)
        seen.append(view.figure)

    assert seen == ["flops", "memory", "parameters", "macs", "flops"]
    assert next_figure(first_view(pair(), "parameters"), pair()).figure == "seconds"


def test_times_are_those_of_the_session() -> None:
    side = side_of("a", ticked(session_of(RESNET), RESNET_SECONDS))
    assert side.tree is not None
    by_path = {node.path: index for index, node in enumerate(side.tree.nodes)}

    assert side.seconds(by_path["layer1"]) == pytest.approx(0.0182)
    inside = sum(RESNET_SECONDS[f"layer1.{block}"] for block in range(3))
    assert side.own_seconds(by_path["layer1"]) == pytest.approx(max(0.0182 - inside, 0))
    assert side.error(0)

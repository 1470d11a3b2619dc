"""Two trees laid onto each other, and the differences of their figures."""

from __future__ import annotations

import random
from array import array
from math import sqrt

import numpy as np
import pytest
from msgspec.structs import replace

from tests.queries.compare.pairs import former, latter, pair
from tests.queries.sessions import RESNET, RESNET_SECONDS, medians_alone, resnet, session_of, ticked
from tui_profiler.figures.units import UNAVAILABLE
from tui_profiler.messages import Tick, Unknown
from tui_profiler.queries.compare.alignment import Alignment, align
from tui_profiler.queries.compare.comparison import (
    Comparison,
    Pair,
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
from tui_profiler.queries.compare.figure_text import mark_of, ratio_text
from tui_profiler.queries.compare.rows import (
    View,
    first_view,
    folded_to,
    next_figure,
    next_worst,
    revealed,
    visible,
)
from tui_profiler.queries.compare.side import Side, SideNode, SideTree, side_of
from tui_profiler.queries.time.standard_error import WholeRun, doubt, is_noise
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


def aligned(before: str, after: str) -> list[tuple[str, str]]:
    return changes(comparison(side_of("a", session_of(before)), side_of("b", session_of(after))))


def test_what_vanished_stands_between_its_former_neighbours() -> None:
    text = "net N 10 10\n  v A 1 1\n  w B 2 2\n  x C 3 3\n  y D 4 4\n  z E 5 5\n"
    kept = "net N 10 10\n  w B 2 2\n  y D 4 4\n"
    assert [path for path, _ in aligned(text, kept)] == ["", "v", "w", "x", "y", "z"]


def test_of_equal_modules_the_one_of_the_same_name_is_where_it_moved_to() -> None:
    after = "net N 600 10\n  box Box 600 10\n    first Linear 300 5\n    proj Linear 300 5\n"
    found = dict(aligned("net N 300 10\n  proj Linear 300 5\n", after))
    assert (found["box.proj"], found["box.first"]) == ("moved", "appeared")


def test_a_module_that_costs_nothing_is_not_known_again() -> None:
    after = "net N 300 10\n  box Box 300 5\n    act ReLU 0 0\n    lin Linear 300 5\n"
    found = aligned("net N 300 10\n  act ReLU 0 0\n  lin Linear 300 5\n", after)
    assert ("box.lin", "moved") in found
    assert ("act", "vanished") in found
    assert ("box.act", "appeared") in found


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

    def seconds(blocks: int) -> float:
        """Return the least of three: other programs, and our own garbage, only add to it."""
        spent = []
        for _ in range(3):
            sides = tree(blocks, "x"), tree(blocks, "y")  # All of it has moved: the worst case.
            began = process_time()
            found = align(*sides)
            spent.append(process_time() - began)
            assert sum(one.change == "moved" for one in found.nodes) == blocks
        return min(spent)

    assert seconds(3_200) < 30 * seconds(400)  # 64 times, were it quadratic.


def test_differences_and_ratios_are_of_the_second_side_and_the_first() -> None:
    rows = {row.name: row for row in total_rows(pair())}

    assert rows["total_parameters"].pair.difference == 300
    assert rows["total_macs"].pair.ratio == 7 / 5
    assert rows["latency.p50_s"].pair.difference == pytest.approx(0.006)
    assert "peak_memory.total" not in rows  # Neither side knows it.


@pytest.mark.parametrize(
    ("noise", "doubted", "is_ranked"),
    [(None, "", True), (False, "", True), (True, "", False), (False, "it varies", False)],
)
def test_neither_noise_nor_doubtful_times_are_ranked(
    noise: bool | None, doubted: str, is_ranked: bool
) -> None:
    assert Pair(1.0, 2.0, noise, doubted).is_ranked == is_ranked


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
    assert compared.why_no_alignment == "A has no tree: not traced"
    assert visible(compared, first_view(compared, "macs")) == ()


def test_items_per_second_are_not_compared_with_forwards_per_second() -> None:
    one, other = side_of("former", former()), side_of("latter", latter())
    sides = (replace(one, settings=(("batch", "4"),)), replace(other, settings=(("batch", ""),)))
    rows = {row.name: row for row in total_rows(comparison(*sides))}
    assert rows["throughput.per_s"].pair.difference is None
    assert rows["latency.p50_s"].pair.difference is not None


def test_settings_that_differ_are_named() -> None:
    a = replace(side_of("a", former()), settings=(("batch", "1"), ("device", "cpu")))
    b = replace(side_of("b", latter()), settings=(("batch", "8"), ("device", "cpu")))

    assert different_settings(comparison(a, b)) == (("batch", "1", "8"),)
    items = {row.name: row for row in total_rows(comparison(a, b))}
    assert items["latency_per_item.p50_s"].pair.b == pytest.approx(0.016 / 8)


def history(
    means: list[float], *, jitter: float = 0.0, window: int = 5000, own: float = 1.0
) -> Session:
    """A session in which each hundred forwards took so long, a share of it by themselves."""
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
            tick,
            total=array("d", [total]).tobytes(),
            own=array("d", [own * total]).tobytes(),
            p50=p50,
            p95=p95,
            window=window,
        )
        ticks = session.history.ticks[:-1]
        session = replace(session, history=replace(session.history, ticks=ticks))
        session = apply(session, told)
    return session


def test_noise_between_blocks_is_the_standard_error_that_numpy_gives() -> None:
    dice = np.random.default_rng(1)
    means = [0.01, *(dice.normal(0.01, 0.001, 12).tolist())]

    found = WholeRun(history(means)).error(0)

    expected = np.std(means[1:], ddof=1) / sqrt(12)
    assert found == pytest.approx(expected, rel=1e-6)
    assert WholeRun(history(means)).seconds(0) == pytest.approx(float(np.mean(means[1:])))
    own = WholeRun(history(means, own=0.25)).own_seconds(0)
    assert own == pytest.approx(float(np.mean(means[1:])) / 4)


def test_a_stretch_that_stalled_decides_no_comparison() -> None:
    means = [0.01] * 7 + [1.0] + [0.01] * 5
    stalled = WholeRun(history(means, own=0.25))

    assert stalled.seconds(0) == pytest.approx(0.01)
    assert stalled.own_seconds(0) == pytest.approx(0.0025)
    assert stalled.statistic == "mean of 11 segments"


def test_noise_between_calls_is_the_error_of_the_median_by_simulation() -> None:
    dice = np.random.default_rng(2)
    sigma, calls = 0.001, 100
    medians = np.median(dice.normal(0.01, sigma, (4000, calls)), axis=1)
    one_block = history([0.01], jitter=1.645 * sigma, window=calls)

    found = WholeRun(one_block).error(0)

    assert found == pytest.approx(float(np.std(medians)), rel=0.05)


def test_the_error_of_a_forward_is_that_of_all_calls_in_it() -> None:
    one_block = history([0.01], jitter=0.001)
    timings = one_block.timings
    assert timings is not None
    called = array("Q", [4 * calls for calls in memoryview(timings.tick.calls).cast("Q")])
    often = apply(one_block, replace(timings.tick, calls=called.tobytes()))

    once, four = (WholeRun(session).error(0) for session in (one_block, often))

    assert once is not None
    # Four calls per forward, each known from four times as many.
    assert four == pytest.approx(4 * once / sqrt(4))


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


def test_a_difference_of_two_standard_errors_is_no_noise() -> None:
    # Of 0.6 and 0.8 together 1; within 1.96 lie 95 % of a normal distribution.
    found = [is_noise(by, 0.6, 0.8) for by in (1.95, 1.97, -1.95, -1.97)]
    assert found == [True, False, True, False]


@pytest.mark.parametrize(
    ("made", "error", "is_doubtful"),
    [
        (0.86, 0.1, False),
        (0.84, 0.1, True),
        (1.17, 0.1, False),
        (1.18, 0.1, True),
        (None, 0.24, False),
        (None, 0.26, True),
        (None, None, True),
    ],
)
def test_a_time_is_doubtful_where_parts_miss_15_percent_or_it_varies_by_a_quarter(
    made: float | None, error: float | None, *, is_doubtful: bool
) -> None:
    assert bool(doubt(1.0, made, error)) is is_doubtful


def test_noise_that_is_not_known_is_not_said() -> None:
    assert is_noise(1.0, None, 0.1) is None
    assert WholeRun(EMPTY).error(0) is None


STAGES = """
net Net 0 800
  stem Conv2d 0 100
  stage Sequential 0 400
    a Conv2d 0 200
    b Conv2d 0 200
  head Linear 0 300
"""


def stages(scale: float, **others: float) -> Session:
    spent = {"": 0.08, "stem": 0.01, "stage": 0.04, "stage.a": 0.02, "stage.b": 0.02, "head": 0.03}
    seconds = {path: others.get(path, each * scale) for path, each in spent.items()}
    session = ticked(session_of(STAGES), seconds)
    assert session.tick is not None
    # Calls vary little, so that all of it is far from noise.
    return apply(session, replace(session.tick, p95=session.tick.p50))


def test_times_that_do_not_add_up_are_marked_and_not_ranked() -> None:
    # Eight times the work; the stage was interrupted in every forward, its parts in few.
    interrupted = stages(8, stage=0.04 * 37, **{"": 1.72})
    tick_ = interrupted.tick
    assert tick_ is not None
    compared = comparison(side_of("a", stages(1)), side_of("b", interrupted))
    alignment = compared.alignment
    assert alignment is not None
    pairs = {
        node_of(compared, one).path: figure_pair(compared, one, "seconds")
        for one in alignment.nodes
    }
    # The stage makes its time itself here, and so does the whole: those are sound.
    assert not any(pair.doubt for pair in pairs.values())
    assert ratio_text(pairs["stage"]) == "×37.0"

    # Its median of own time has none of the interruptions: 320 of 1,480 ms are accounted for.
    own = array("f", tick_.own_per_forward)
    own[list(array("I", tick_.nodes)).index(2)] = 0.0
    compared = comparison(
        side_of("a", stages(1)),
        side_of("b", apply(interrupted, medians_alone(tick_, own=own.tobytes()))),
    )
    alignment = compared.alignment
    assert alignment is not None
    stage = figure_pair(compared, alignment.nodes[2], "seconds")
    assert stage.doubt == "B: self time and children add up to 22 % of it"
    assert ratio_text(stage) == UNAVAILABLE
    assert mark_of(stage) == "?"
    view = replace(first_view(compared, "seconds"), order="difference")
    shown = [node_of(compared, alignment.nodes[index]).path for index in visible(compared, view)]
    assert [path for path in shown if "." not in path] == ["", "head", "stem", "stage"]


def test_times_that_vary_much_are_not_ranked() -> None:
    session = stages(8)
    assert session.tick is not None
    # Of ten calls, with a 95th percentile of four times the median.
    wide = array("f", [4 * each for each in array("f", session.tick.p50)])
    calls = array("Q", [10] * len(wide)).tobytes()
    loaded = apply(session, replace(session.tick, p95=wide.tobytes(), calls=calls, forwards=10))
    compared = comparison(side_of("a", stages(1)), side_of("b", loaded))
    assert compared.alignment is not None
    stem = figure_pair(compared, compared.alignment.nodes[1], "seconds")
    assert stem.doubt == "B: its time is known to ± 72 % only"
    assert not stem.is_ranked

    # Three calls that happen to be alike say nothing of how much they vary.
    calls = array("Q", [3] * len(wide)).tobytes()
    few = apply(session, replace(session.tick, calls=calls, forwards=3))
    compared = comparison(side_of("a", stages(1)), side_of("b", few))
    assert compared.alignment is not None
    stem = figure_pair(compared, compared.alignment.nodes[1], "seconds")
    assert stem.doubt.startswith("B: fewer than 8 calls")
    assert not stem.is_ranked


def test_what_is_never_called_itself_has_no_calls_to_vary() -> None:
    def timed(scale: float) -> Session:
        spent = {"": 0.08, "stem": 0.01, "stage.a": 0.02, "stage.b": 0.02, "head": 0.03}
        return ticked(session_of(STAGES), {path: each * scale for path, each in spent.items()})

    compared = comparison(side_of("a", timed(1)), side_of("b", timed(8)))
    assert compared.alignment is not None
    stage = figure_pair(compared, compared.alignment.nodes[2], "seconds")
    assert (stage.doubt, ratio_text(stage)) == ("", "×8.00")


def test_only_sound_times_are_the_worst() -> None:
    session = stages(8)
    assert session.tick is not None
    wide = array("f", session.tick.p50)
    nodes = list(array("I", session.tick.nodes))
    wide[nodes.index(5)] *= 40  # Of the head, which has the largest difference.
    loaded = apply(session, replace(session.tick, p95=wide.tobytes()))
    compared = comparison(side_of("a", stages(1)), side_of("b", loaded))
    assert compared.alignment is not None
    found = worst(compared, "seconds", 10)
    paths = [node_of(compared, compared.alignment.nodes[one.index]).path for one in found]
    assert paths == ["stage.a", "stage.b", "stem", "head"]
    assert [one.pair.is_ranked for one in found] == [True, True, True, False]


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
    assert paths(replace(view, filter="added linear")) == ["", "body", "body.new"]
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


def run_of(p50s: list[float], forwards_between: int) -> Side:
    """Return the side of a run whose ticks have these medians, 100 forwards in each."""
    session = session_of(STAGES)
    for at, p50 in enumerate(p50s, 1):
        ran = ticked(session, {"": 0.01}, at=float(at), forwards=100 + (at - 1) * forwards_between)
        assert ran.tick is not None
        session = apply(session, replace(ran.tick, latency_p50=p50, latency_p95=2 * p50))
    return side_of("a", session)


def test_the_p50_is_of_the_whole_run_not_of_its_last_turn() -> None:
    # Windows of 100 forwards, a tick each 50: every second one overlaps with none before.
    side = run_of([0.010, 9.0, 0.012, 9.0, 0.050], 50)
    assert side.totals["latency.p50_s"] == 0.012
    assert side.totals["latency.p95_s"] == 0.024
    # Of few forwards the last window has them all.
    assert run_of([0.010, 0.012, 0.050], 0).totals["latency.p50_s"] == 0.050


def test_the_error_of_the_p50_has_the_drift_between_segments() -> None:
    def error(*, drifts: bool) -> float:
        session = session_of(STAGES)
        total = 0.0
        for at in range(1, 10):
            total += 1.0 if not drifts or at % 2 else 3.0
            spent = {"": 0.01}
            session = ticked(session, spent, at=at, forwards=100 * at, totals={"": total})
        return side_of("a", session).total_errors["latency.p50_s"]

    # Calls vary as little in both; 1 and 3 s in turn are a deviation of half the mean.
    assert error(drifts=False) < 1e-9
    assert error(drifts=True) == pytest.approx(0.01 * 0.5 / sqrt(8), rel=0.2)


def test_a_total_is_judged_by_its_direction_and_its_uncertainty() -> None:
    def verdict(name: str, a: float, b: float, error: float | None = 0.1) -> str:
        errors = {} if error is None else {name: error}
        first, second = side_of("a", former()), side_of("b", former())
        sides = [
            replace(side, totals={name: value}, total_errors=errors)
            for side, value in ((first, a), (second, b))
        ]
        [row] = total_rows(comparison(*sides))
        return row.verdict

    assert verdict("latency.p50_s", 1.0, 2.0) == "worse"
    assert verdict("latency.p50_s", 2.0, 1.0) == "better"
    assert verdict("throughput.per_s", 2.0, 1.0) == "worse"
    assert verdict("energy.forward.joules", 2.0, 1.0) == "better"
    # Two errors of 0.1 together are 0.14: 1.96 of them are 0.28.
    assert verdict("latency.p50_s", 2.0, 2.27) == ""
    assert verdict("latency.p50_s", 2.0, 2.29) == "worse"
    assert verdict("latency.p50_s", 1.0, 2.0, error=None) == ""
    assert verdict("peak_memory.total", 1.0, 2.0, error=None) == "worse"
    assert verdict("total_flops", 1.0, 2.0) == ""
    assert verdict("total_parameters", 1.0, 2.0) == ""


def test_times_are_those_of_the_session() -> None:
    side = side_of("a", ticked(session_of(RESNET), RESNET_SECONDS))
    assert side.tree is not None
    by_path = {node.path: index for index, node in enumerate(side.tree.nodes)}

    assert side.seconds(by_path["layer1"]) == pytest.approx(0.0182)
    inside = sum(RESNET_SECONDS[f"layer1.{block}"] for block in range(3))
    assert side.own_seconds(by_path["layer1"]) == pytest.approx(max(0.0182 - inside, 0))
    assert side.error(0)

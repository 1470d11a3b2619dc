"""One forward by depth: widths computed by hand, and what holds for any tree."""

from __future__ import annotations

import random
from array import array

import pytest

from tests.queries.sessions import (
    RESNET,
    cost_of,
    medians_alone,
    node_of,
    resnet,
    session_of,
    ticked,
    traced,
)
from tui_profiler.messages import Node
from tui_profiler.queries.forward.flame import Flame, beside, first_inside, flame, spot
from tui_profiler.queries.forward.strip import ELSEWHERE
from tui_profiler.session import EMPTY, Session, apply

SMALL = """
m M 0 0
  a A 0 60
    x X 0 45
    y Y 0 15
  b B 0 30
  c C 0 10
  d D 0 0
"""
SECONDS = {"": 1.0, "a": 0.5, "a.x": 0.3, "a.y": 0.1, "b": 0.3, "c": 0.1}
M, A, X, Y, B, C, D = range(7)


def small() -> Session:
    return ticked(session_of(SMALL), SECONDS)


def cells(shown: Flame) -> list[list[tuple[int, int, int]]]:
    return [[(s.first, s.start, s.cells) for s in level.segments] for level in shown.levels]


def test_widths_are_shares_of_the_time_with_own_time_last():
    assert cells(flame(small(), M, 20)) == [
        [(M, 0, 20)],
        [(A, 0, 10), (B, 10, 6), (C, 16, 2), (ELSEWHERE, 18, 2)],
        [(X, 0, 6), (Y, 6, 2), (ELSEWHERE, 8, 2)],
    ]


def test_what_is_left_over_goes_to_the_largest_remainders():
    # Of eight cells: a 4, b 2.4, c 0.8, own 0.8; inside a, of four: x 2.4, y 0.8, own 0.8.
    assert cells(flame(small(), M, 8)) == [
        [(M, 0, 8)],
        [(A, 0, 4), (B, 4, 2), (C, 6, 1), (ELSEWHERE, 7, 1)],
        [(X, 0, 2), (Y, 2, 1), (ELSEWHERE, 3, 1)],
    ]


def test_a_block_that_is_zoomed_into_fills_the_width():
    shown = flame(small(), A, 10)
    assert cells(shown) == [[(A, 0, 10)], [(X, 0, 6), (Y, 6, 2), (ELSEWHERE, 8, 2)]]
    assert [s.share for s in shown.levels[1].segments] == pytest.approx([0.3, 0.1, 0.1])


def test_where_medians_do_not_add_up_what_is_missing_stays_blank():
    session = small()
    assert session.timings is not None
    tick = session.timings.tick
    own = array("f", [0.05, 0.1, 0.3, 0.1, 0.3, 0.1])
    session = apply(session, medians_alone(tick, own=own.tobytes()))
    shown = flame(session, M, 20)
    # The parts' medians make 0.9, self 0.05: a cell of twenty is nobody's.
    assert cells(shown)[1] == [(A, 0, 10), (B, 10, 6), (C, 16, 2), (ELSEWHERE, 18, 1)]
    timings = session.timings
    assert timings is not None
    assert shown.levels[1].segments[-1].share == pytest.approx(timings.own_per_forward(M))
    assert shown.is_uneven
    assert not flame(small(), M, 20).is_uneven


def test_on_paper_widths_are_shares_of_the_macs():
    session = session_of(SMALL.replace("m M 0 0", "m M 0 100"))
    shown = flame(session, M, 20)
    assert cells(shown)[1:] == [[(A, 0, 12), (B, 12, 6), (C, 18, 2)], [(X, 0, 9), (Y, 9, 3)]]
    assert not any(level.measured for level in shown.levels)


def test_without_anything_to_share_there_are_no_blocks():
    assert flame(session_of(SMALL.replace("m M 0 0", "m M 0 0")), M, 20).levels == ()
    assert flame(EMPTY, 0, 20).levels == ()
    assert flame(small(), M, 0).levels == flame(small(), 99, 20).levels == ()


def test_neighbours_too_narrow_are_one_block_and_are_counted():
    names = "".join(f"  n{i} N 0 0\n" for i in range(40))
    session = ticked(
        session_of(f"m M 0 0\n  big B 0 0\n{names}"),
        {"": 1.0, "big": 0.8, **{f"n{i}": 0.005 for i in range(40)}},
    )
    shown = flame(session, 0, 20)
    # Each of the forty is a tenth of a cell, together four.
    assert cells(shown)[1] == [(1, 0, 16), (2, 16, 4)]
    run = shown.levels[1].segments[1]
    assert (run.alone, run.stop, shown.hidden) == (False, 42, 40)


def test_what_gets_no_cell_is_counted_with_all_inside_it():
    session = ticked(
        session_of("m M 0 0\n  big B 0 0\n  a A 0 0\n    b B 0 0\n    c C 0 0"),
        {"": 1.0, "big": 0.99, "a": 0.01, "a.b": 0.006, "a.c": 0.004},
    )
    shown = flame(session, 0, 10)
    assert (cells(shown)[1], shown.hidden) == ([(1, 0, 10)], 3)


def test_a_module_that_is_never_called_is_not_too_short():
    assert flame(small(), M, 20).hidden == 0


def random_session(seed: int) -> Session:
    chance = random.Random(seed)
    nodes: list[Node] = []
    seconds: dict[str, float] = {}

    def grow(parent: int, name: str, time: float, depth: int) -> None:
        nodes.append(node_of(parent, name, "M", nodes))
        here = len(nodes) - 1
        seconds[nodes[here].path] = time
        if depth == 5:
            return
        shares = [chance.random() ** 4 for _ in range(chance.choice([0, 1, 2, 7, 30]))]
        whole = sum(shares) + chance.random()
        for index, part in enumerate(shares):
            grow(here, f"n{index}", time * part / whole, depth + 1)

    grow(-1, "m", 1.0, 0)
    return ticked(traced(nodes, [cost_of(0, 0) for _ in nodes]), seconds)


@pytest.mark.parametrize("seed", range(8))
def test_children_fill_their_parents_and_lie_within_them(seed):
    session = random_session(seed)
    tree = session.tree
    assert tree is not None
    for width in (1, 7, 58, 118):
        shown = flame(session, 0, width)
        drawn = 0
        for upper, lower in zip(shown.levels, (*shown.levels[1:], None), strict=True):
            drawn += sum(s.alone and s.first != ELSEWHERE for s in upper.segments)
            taken = [at for s in upper.segments for at in range(s.start, s.start + s.cells)]
            assert taken == sorted(set(taken))
            below = lower.segments if lower is not None else ()
            for s in upper.segments:
                inner = [b for b in below if s.start <= b.start < s.start + s.cells]
                assert sum(b.cells for b in inner) in (0, s.cells)
                if inner:
                    assert all(
                        b.first == ELSEWHERE or s.first < b.first < b.stop <= s.stop for b in inner
                    )
        assert drawn + shown.hidden == len(tree)


def test_a_node_is_found_in_its_block_or_in_the_one_that_hides_it():
    shown = flame(small(), M, 20)
    found = spot(shown, Y)
    assert found is not None
    assert (found[0], found[1].first) == (2, Y)
    assert spot(flame(small(), A, 10), B) is None
    narrow = flame(small(), M, 1)
    hidden = spot(narrow, Y)
    assert hidden is not None
    assert hidden[1].start == 0


def test_walking_goes_from_sibling_to_sibling_and_on_to_the_next_parents():
    session = ticked(
        session_of("m M 0 0\n  a A 0 0\n    x X 0 0\n    y Y 0 0\n  b B 0 0\n    z Z 0 0"),
        {"": 1.0, "a": 0.5, "a.x": 0.2, "a.y": 0.3, "b": 0.5, "b.z": 0.5},
    )
    assert [beside(session, 0, node, 1) for node in (1, 2, 3, 4, 5)] == [4, 3, 5, 4, 5]
    assert [beside(session, 0, node, -1) for node in (5, 3, 2, 4, 1)] == [3, 2, 2, 1, 1]
    assert beside(session, 1, 3, 1) == 3  # Inside a there is nothing after y.
    assert beside(session, 0, 0, 1) == 0
    assert beside(EMPTY, 0, 3, 1) == 3


def test_walking_passes_over_what_takes_no_part():
    session = small()
    assert beside(session, M, C, 1) == C
    assert first_inside(session, flame(session, M, 20), A) == X
    assert first_inside(session, flame(session, M, 20), C) == C


def test_going_in_prefers_what_has_a_block_of_its_own():
    session = ticked(session_of("m M 0 0\n  a A 0 0\n  b B 0 0"), {"": 1.0, "a": 0.001, "b": 0.999})
    assert first_inside(session, flame(session, 0, 20), 0) == 2


def test_operators_are_part_of_their_modules():
    session = resnet()
    assert RESNET.count("aten::") == 1
    shown = flame(session, 0, 118)
    assert session.tree is not None
    assert {session.tree.nodes[s.first].kind for s in shown.levels[1].segments} == {"module"}

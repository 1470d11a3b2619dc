"""Forwards with times made up by hand, so that every figure is known exactly."""

from __future__ import annotations

import gc
import math
import random
import struct
import weakref
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes, node
from tui_profiler.messages import Tick
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import Forward
from tui_profiler.probe.process.wire_names import writable

WARM = 4
"""Equal forwards that it takes until a model counts as warm."""

UNIT = 1 / 256
"""Seconds of one unit below: short enough for a warm-up, and exact in binary."""

COLUMNS = {
    "nodes": np.uint32,
    "calls": np.uint64,
    "total": np.float64,
    "own": np.float64,
    "last": np.float32,
    "p50": np.float32,
    "p95": np.float32,
    "maximum": np.float32,
    "per_forward": np.float32,
    "own_per_forward": np.float32,
}


def rows(tick: Tick) -> dict[int, dict[str, float]]:
    columns = {
        name: np.frombuffer(getattr(tick, name), dtype).tolist() for name, dtype in COLUMNS.items()
    }
    for name in set(columns) - {"nodes", "calls"}:
        columns[name] = [seconds / UNIT for seconds in columns[name]]
    assert len({len(column) for column in columns.values()}) == 1
    return {
        index: {name: column[row] for name, column in columns.items()}
        for row, index in enumerate(columns["nodes"])
    }


def forward(
    *events: tuple[nn.Module, float, float], unit: float = UNIT, since: float | None = None
) -> Forward:
    """A forward of (module, start, end), given in any order."""
    ended = sorted(events, key=lambda event: event[2])
    starts, ends = [event[1] * unit for event in ended], [event[2] * unit for event in ended]
    times = struct.pack(f"{2 * len(ended)}d", *starts, *ends)
    return Forward([event[0] for event in ended], times, since)


def block() -> nn.Module:
    """root(0) - a(1) - b(2), c(3); d(4)."""
    model = nn.Module()
    model.a = nn.Module()
    model.a.b = nn.Module()
    model.a.c = nn.Module()
    model.d = nn.Module()
    return model


def simple(model: nn.Module, scale: float = 1.0) -> Forward:
    return forward(
        (model, 0, 10 * scale),
        (model.a, 1, 1 + 6 * scale),
        (model.a.b, 2, 2 + 1 * scale),
        (model.a.c, 2 + 1 * scale, 2 + 3 * scale),
        (model.d, 1 + 6 * scale, 1 + 8 * scale),
    )


def warmed(model: nn.Module, one: Forward, **settings: int) -> Aggregator:
    aggregator = Aggregator(module_nodes(model), model, **settings)
    aggregator.add([one] * WARM)
    assert aggregator.tick(0.0).forwards == 0
    return aggregator


def test_inclusive_and_own_times() -> None:
    model = block()
    aggregator = warmed(model, simple(model))
    aggregator.add([simple(model)])
    found = rows(aggregator.tick(1.0))
    assert {index: row["total"] for index, row in found.items()} == {0: 10, 1: 6, 2: 1, 3: 2, 4: 2}
    assert {index: row["own"] for index, row in found.items()} == {0: 2, 1: 3, 2: 1, 3: 2, 4: 2}
    assert all(row["calls"] == 1 for row in found.values())


def test_own_time_and_children_make_the_inclusive_time() -> None:
    model = block()
    nodes = module_nodes(model)
    aggregator = warmed(model, simple(model))
    aggregator.add([simple(model, scale=scale) for scale in (1.0, 1.5, 0.7)])
    found = rows(aggregator.tick(1.0))
    for index, row in found.items():
        children = [found[at]["total"] for at in found if nodes[at].parent == index]
        assert row["own"] + sum(children) == pytest.approx(row["total"])


def test_recent_times_are_of_every_shape_however_many_forwards_come_at_once() -> None:
    model = block()
    aggregator = warmed(model, simple(model), window=64)
    short = forward((model, 0, 2), (model.a, 0, 1))
    aggregator.add([simple(model), simple(model), short] * 200)
    found = rows(aggregator.tick(1.0))
    assert (found[1]["p50"], found[2]["p50"]) == (6, 1)  # The last 64 calls of a: two of three long


def test_warm_up_is_in_no_figure() -> None:
    model = block()
    aggregator = Aggregator(module_nodes(model), model)
    aggregator.add([simple(model, scale=100)] + [simple(model)] * 5)
    tick = aggregator.tick(1.0)
    assert (tick.warmup_forwards, tick.forwards) == (4, 2)
    assert rows(tick)[0]["maximum"] == 10
    assert tick.latency_p95 == 10 * UNIT


def test_before_the_steady_state_nothing_is_known() -> None:
    model = block()
    aggregator = Aggregator(module_nodes(model), model)
    tick = aggregator.tick(1.0)
    assert rows(tick) == {}
    assert np.isnan([tick.latency_p50, tick.latency_p95, tick.per_second]).all()


def test_repeated_calls_are_merged_for_a_forward_but_not_for_a_call() -> None:
    model = nn.Module()
    model.a = nn.Module()
    one = forward((model, 0, 10), (model.a, 1, 2), (model.a, 3, 6), (model.a, 7, 9))
    aggregator = warmed(model, one)
    aggregator.add([one] * 2)
    row = rows(aggregator.tick(1.0))[1]
    assert (row["calls"], row["total"], row["per_forward"]) == (6, 12, 6)
    assert (row["p50"], row["maximum"], row["last"]) == (2, 3, 2)
    assert row["own_per_forward"] == 6


def test_a_node_that_is_repeated_only_later_keeps_what_it_had() -> None:
    model = nn.Module()
    model.a = nn.Module()
    once = forward((model, 0, 10), (model.a, 1, 2))
    twice = forward((model, 0, 10), (model.a, 1, 2), (model.a, 3, 5))
    aggregator = warmed(model, once)
    aggregator.add([once, once, once])
    assert rows(aggregator.tick(1.0))[1]["per_forward"] == 1
    aggregator.add([twice])
    row = rows(aggregator.tick(1.0))[1]
    assert (row["per_forward"], row["calls"], row["total"]) == (1, 5, 6)
    aggregator.add([twice] * 4)
    assert rows(aggregator.tick(1.0))[1]["per_forward"] == 3
    assert rows(aggregator.tick(1.0))[0]["own_per_forward"] == 7


def test_recursion_counts_the_outermost_time_and_every_call() -> None:
    model = nn.Module()
    model.a = nn.Module()
    model.a.b = nn.Module()
    one = forward((model, 0, 20), (model.a, 1, 11), (model.a, 2, 9), (model.a.b, 3, 7))
    aggregator = warmed(model, one)
    aggregator.add([one])
    found = rows(aggregator.tick(1.0))
    assert (found[1]["calls"], found[1]["total"], found[1]["per_forward"]) == (2, 10, 10)
    assert found[1]["own"] == 6
    assert found[2]["total"] == 4
    assert sum(row["own"] for row in found.values()) == found[0]["total"]


def test_a_root_inside_itself_is_not_counted_twice() -> None:
    model = nn.Module()
    one = forward((model, 0, 10), (model, 1, 9), (model, 2, 8))
    aggregator = warmed(model, one)
    aggregator.add([one])
    row = rows(aggregator.tick(1.0))[0]
    assert (row["calls"], row["total"], row["own"]) == (3, 10, 10)


def test_a_shared_module_is_one_node_for_each_caller() -> None:
    model = nn.Module()
    model.a, model.b = nn.Module(), nn.Module()
    model.a.shared = model.b.shared = shared = nn.Module()
    # root(0), a(1), a.shared(2), b(3), b.shared(4)
    one = forward(
        (model, 0, 20), (model.a, 1, 5), (shared, 2, 3), (model.b, 6, 12), (shared, 7, 11)
    )
    aggregator = warmed(model, one)
    aggregator.add([one])
    found = rows(aggregator.tick(1.0))
    assert (found[2]["total"], found[4]["total"]) == (1, 4)
    assert (found[1]["own"], found[3]["own"]) == (3, 2)


def test_children_of_a_list_belong_to_the_module_around_it() -> None:
    model = nn.Module()
    model.blocks = nn.ModuleList([nn.Module(), nn.ModuleDict({"x": nn.Module()})])
    # root(0), blocks(1), blocks.0(2), blocks.1(3), blocks.1.x(4)
    one = forward((model, 0, 10), (model.blocks[0], 1, 3), (model.blocks[1]["x"], 4, 8))
    aggregator = warmed(model, one)
    aggregator.add([one])
    found = rows(aggregator.tick(1.0))
    assert set(found) == {0, 2, 4}
    assert found[0]["own"] == 4
    assert aggregator.unseen == {}


def test_a_module_that_the_trace_did_not_call_is_found_and_so_are_its_children() -> None:
    model = block()
    # a was not called when the model was traced; now it is.
    nodes = (
        node(-1, ""),
        node(0, "a", calls=0),
        node(1, "a.b", calls=0),
        node(1, "a.c", calls=0),
        node(0, "d"),
    )
    aggregator = Aggregator(nodes, model)
    aggregator.add([simple(model)] * (WARM + 1))
    found = rows(aggregator.tick(1.0))
    assert {index: row["own"] for index, row in found.items()} == {0: 2, 1: 3, 2: 1, 3: 2, 4: 2}


def test_what_the_trace_did_not_see_is_counted_by_path_and_stays_in_its_caller() -> None:
    model = block()
    nodes = (node(-1, ""), node(0, "a"), node(1, "a.c"))
    aggregator = Aggregator(nodes, model)
    foreign = nn.ReLU()
    one = forward(
        (model, 0, 10), (model.a, 1, 7), (model.a.b, 2, 5), (model.a.c, 3, 4), (foreign, 8, 9)
    )
    aggregator.add([one] * (WARM + 2))
    found = rows(aggregator.tick(1.0))
    assert aggregator.unseen == {"a.b": 2, "<ReLU>": 2}
    assert found[0]["own"] == 2 * 4
    # c was called inside b, which has no node: it is a child of a nevertheless.
    assert (found[1]["own"], found[2]["total"]) == (2 * 5, 2 * 1)


def test_operator_nodes_are_never_measured() -> None:
    model = nn.Module()
    nodes = (node(-1, ""), node(0, "/0", kind="op"))
    aggregator = Aggregator(nodes, model)
    aggregator.add([forward((model, 0, 1))] * (WARM + 1))
    assert set(rows(aggregator.tick(1.0))) == {0}


def test_the_same_calls_nested_in_another_way_are_told_apart() -> None:
    model = nn.Module()
    model.a = nn.Module()
    model.a.b = nn.Module()
    model.b = model.a.b
    # root(0), a(1), a.b(2), b(3); both end in the order b, a, root.
    inside = forward((model, 0, 10), (model.a, 1, 6), (model.b, 2, 4))
    beside = forward((model, 0, 10), (model.b, 1, 3), (model.a, 4, 6))
    aggregator = warmed(model, inside)
    aggregator.add([inside, beside, inside, beside, beside])
    found = rows(aggregator.tick(1.0))
    assert (found[2]["calls"], found[3]["calls"]) == (2, 3)
    assert found[1]["own"] == 2 * 3 + 3 * 2
    assert found[0]["own"] == 2 * 5 + 3 * 6


def test_quantiles_are_those_of_the_last_window_of_calls() -> None:
    chance = random.Random(1)
    model = block()
    aggregator = warmed(model, simple(model), window=50)
    scales = [chance.uniform(0.5, 2) for _ in range(133)]
    for first, last in pairwise([0, 3, 50, 51, 120, 133]):
        aggregator.add([simple(model, scale=scale) for scale in scales[first:last]])
        tick = aggregator.tick(1.0)
        durations = [6 * scale for scale in scales[:last][-50:]]
        row = rows(tick)[1]
        assert row["p50"] == pytest.approx(float(np.percentile(durations, 50)), rel=1e-6)
        assert row["p95"] == pytest.approx(float(np.percentile(durations, 95)), rel=1e-6)
        assert row["maximum"] == pytest.approx(max(durations), rel=1e-6)
        assert row["last"] == pytest.approx(6 * scales[last - 1], rel=1e-6)
        assert row["own_per_forward"] == pytest.approx(row["p50"] / 2, rel=1e-6)
        assert row["total"] == pytest.approx(sum(6 * scale for scale in scales[:last]))
        assert tick.latency_p50 / UNIT == pytest.approx(row["p50"] * 10 / 6, rel=1e-6)
    assert tick.window == 50


def test_many_calls_in_one_forward_keep_the_last_ones() -> None:
    model = nn.Module()
    model.a = nn.Module()
    calls = [(model.a, float(at), at + 0.1 + at / 1000) for at in range(100)]
    one = forward((model, -1, 200), *calls)
    aggregator = warmed(model, one, window=20)
    aggregator.add([one] * 3)
    row = rows(aggregator.tick(1.0))[1]
    last = [0.1 + at / 1000 for at in range(80, 100)]
    assert row["p50"] == pytest.approx(float(np.median(last)), rel=1e-4)
    assert row["calls"] == 300
    assert row["total"] == pytest.approx(3 * sum(0.1 + at / 1000 for at in range(100)))


def test_a_node_called_in_some_forwards_only_tells_of_those() -> None:
    model = block()
    without = forward((model, 0, 4), (model.d, 1, 2))
    aggregator = warmed(model, without)
    aggregator.add([without, simple(model), without, without])
    found = rows(aggregator.tick(1.0))
    assert (found[1]["calls"], found[1]["per_forward"]) == (1, 6)
    assert (found[4]["calls"], found[0]["calls"]) == (4, 4)


def test_the_window_shrinks_for_large_models() -> None:
    model = nn.Module()
    nodes = (node(-1, ""), *(node(0, f"m{at}") for at in range(100_000)))
    assert Aggregator(nodes, model).window * len(nodes) <= 4_000_000
    assert Aggregator(nodes[:100], model).window == 256


def test_throughput_counts_the_time_between_forwards_but_not_gaps() -> None:
    model = nn.Module()
    aggregator = Aggregator(module_nodes(model), model, batch=8)
    one_a_second = [
        forward((model, at, at + 0.3), unit=1.0, since=at - 0.7) for at in range(WARM + 4)
    ]
    aggregator.add(one_a_second)
    assert aggregator.tick(0.0).per_second == pytest.approx(8.0)
    assert aggregator.tick(0.0).gaps == 0

    after_gap = forward((model, 1000.0, 1000.3), unit=1.0)
    next_one = forward((model, 1001.0, 1001.3), unit=1.0, since=1000.3)
    aggregator.add([after_gap, next_one])
    assert aggregator.tick(0.0).per_second == pytest.approx(8.0)
    assert aggregator.tick(0.0).gaps == 1


def test_a_forward_that_is_left_out_takes_its_time_along() -> None:
    model = nn.Module()
    aggregator = Aggregator(module_nodes(model), model)
    steps = [forward((model, at, at + 0.3), unit=1.0, since=at - 0.7) for at in range(WARM + 8)]
    shown = [*steps[: WARM + 3], *steps[WARM + 4 :]]
    aggregator.add(shown)
    assert aggregator.tick(0.0).per_second == pytest.approx(1.0)


def test_of_forwards_with_gaps_before_each_there_is_no_throughput() -> None:
    model = nn.Module()
    aggregator = Aggregator(module_nodes(model), model)
    aggregator.add(forward((model, at, at + 0.3), unit=1.0) for at in range(WARM + 8))
    tick = aggregator.tick(0.0)
    assert (tick.forwards, tick.gaps) == (8, 8)
    assert math.isnan(tick.per_second)


def test_throughput_is_of_the_last_five_seconds() -> None:
    model = nn.Module()
    aggregator = Aggregator(module_nodes(model), model)
    ends = [*range(100), *(99 + at / 100 for at in range(1, 501))]
    aggregator.add(
        forward((model, since, end), unit=1.0, since=since) for since, end in pairwise(ends)
    )
    assert aggregator.tick(0.0).per_second == pytest.approx(100.0, rel=0.02)


def test_forwards_that_overlap_are_each_counted_once_in_the_time() -> None:
    model = nn.Module()
    aggregator = Aggregator(module_nodes(model), model)
    aggregator.add(forward((model, at, at + 1.0), unit=1.0) for at in range(WARM))
    # Two threads: each forward takes 1 s, and one ends every half second.
    ends = [WARM, *(WARM + 1 + at / 2 for at in range(40))]
    aggregator.add(
        forward((model, end - 1, end), unit=1.0, since=since) for since, end in pairwise(ends)
    )
    assert aggregator.tick(0.0).per_second == pytest.approx(2.0, rel=0.1)


def test_a_replaced_module_is_found_at_its_path() -> None:
    model = block()
    aggregator = warmed(model, simple(model))
    model.d = nn.Module()
    aggregator.add([simple(model)])
    assert rows(aggregator.tick(1.0))[4]["calls"] == 1
    assert aggregator.unseen == {}


def test_a_name_that_the_wire_spells_out_is_found() -> None:
    model = nn.Module()
    model.add_module("half \udc80", nn.Module())
    inner = model.get_submodule("half \udc80")
    nodes = tuple(replace(one, path=writable(one.path)) for one in module_nodes(model))
    aggregator = Aggregator(nodes, model)
    calls = forward((model, 0, 4), (inner, 1, 2))
    aggregator.add([calls] * (WARM + 1))
    assert rows(aggregator.tick(1.0))[1]["calls"] == 1
    assert aggregator.unseen == {}


def test_modules_that_say_they_equal_others_are_told_apart() -> None:
    class Equal(nn.Module):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = nn.Module.__hash__

    model = nn.Module()
    model.a, model.b = Equal(), Equal()
    first = forward((model, 0, 4), (model.a, 1, 2))
    second = forward((model, 0, 4), (model.b, 1, 3))
    aggregator = warmed(model, first)
    aggregator.add([first, second, second])
    found = rows(aggregator.tick(1.0))
    assert (found[1]["calls"], found[2]["calls"]) == (1, 2)


def test_times_are_of_forwards_as_traced_and_the_others_are_counted() -> None:
    model = block()
    long = simple(model, scale=8)._replace(as_traced=False)
    aggregator = warmed(model, simple(model))
    aggregator.add([simple(model), long, simple(model), long, long, simple(model)])
    tick = aggregator.tick(1.0)
    assert (tick.as_traced, tick.forwards, tick.others) == (True, 3, 3)
    assert tick.others_share == 240 / 270
    assert (tick.latency_p50, tick.latency_p95) == (10 * UNIT, 10 * UNIT)
    assert {row["calls"] for row in rows(tick).values()} == {3}
    assert {row["maximum"] for row in rows(tick).values()} == {10, 6, 1, 2}


def test_where_forwards_as_traced_are_next_to_nothing_times_are_of_the_others() -> None:
    model = block()
    other = simple(model, scale=2)._replace(as_traced=False)
    aggregator = warmed(model, simple(model))
    aggregator.add([simple(model), *[other] * 10])
    tick = aggregator.tick(1.0)
    assert (tick.as_traced, tick.forwards, tick.others) == (False, 10, 1)
    assert tick.latency_p50 == 20 * UNIT
    assert {row["calls"] for row in rows(tick).values()} == {10}
    aggregator.add([simple(model)] * 9)
    tick = aggregator.tick(2.0)
    assert (tick.as_traced, tick.forwards, tick.others) == (True, 10, 10)
    assert tick.latency_p50 == 10 * UNIT


def test_of_forwards_before_the_steady_state_there_are_cold_figures_when_asked_for() -> None:
    model = block()
    aggregator = Aggregator(module_nodes(model), model)
    aggregator.add([simple(model, scale=3), simple(model)])
    waiting = aggregator.tick(1.0)
    assert (waiting.forwards, waiting.warmup_forwards, waiting.cold) == (0, 2, False)
    assert (len(waiting.nodes), math.isnan(waiting.latency_p50)) == (0, True)
    tick = aggregator.tick(1.0, or_cold=True)
    assert (tick.forwards, tick.warmup_forwards, tick.cold) == (2, 0, True)
    assert tick.latency_p50 == 20 * UNIT
    assert math.isnan(tick.per_second)
    assert {index: row["total"] for index, row in rows(tick).items()} == {
        0: 40,
        1: 24,
        2: 4,
        3: 8,
        4: 8,
    }


def test_cold_figures_are_forgotten_with_the_first_steady_forward() -> None:
    model = block()
    aggregator = Aggregator(module_nodes(model), model)
    long = simple(model, scale=3)
    aggregator.add([long] * 7, is_early=True)  # However many, they are no warm-up.
    aggregator.add([long] * WARM)
    assert aggregator.tick(1.0, or_cold=True).forwards == 7 + WARM
    aggregator.add([simple(model)])
    aggregator.add([long], is_early=True)
    tick = aggregator.tick(1.0, or_cold=True)
    assert (tick.forwards, tick.warmup_forwards, tick.cold) == (1, 8 + WARM, False)
    assert {row["calls"] for row in rows(tick).values()} == {1}
    assert rows(tick)[0]["total"] == rows(tick)[0]["maximum"] == 10


def test_cold_figures_are_of_one_sort_as_well() -> None:
    model = block()
    aggregator = Aggregator(module_nodes(model), model)
    other = simple(model, scale=2)._replace(as_traced=False)
    aggregator.add([other])
    tick = aggregator.tick(1.0, or_cold=True)
    assert (tick.forwards, tick.others, tick.as_traced, tick.cold) == (1, 0, False, True)
    aggregator.add([simple(model)])
    tick = aggregator.tick(1.0, or_cold=True)
    assert (tick.forwards, tick.others, tick.as_traced, tick.cold) == (1, 1, True, True)


def test_cold_figures_keep_no_module_alive() -> None:
    model = block()
    aggregator = Aggregator(module_nodes(model), model)
    gone = weakref.ref(model)
    aggregator.add([simple(model)])
    del model
    gc.collect()
    assert gone() is None

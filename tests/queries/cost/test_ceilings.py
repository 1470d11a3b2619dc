from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from tui_profiler.connection.wire import encode, message_decoder
from tui_profiler.messages import CacheCeiling, Ceiling, Ceilings, RoofQuality, Unknown
from tui_profiler.queries.cost.ceilings import usable_roofs

GOOD = RoofQuality(measured_at=1.0, busy=0.0, pieces=100, undisturbed=100)
BAD = replace(GOOD, busy=0.9, why_not_good="2 of 100 pieces ran without waiting")
CEILINGS = Ceilings(
    "cpu",
    2,
    (Ceiling("float32", 100e9, GOOD), Ceiling("float16", Unknown("no product"), None)),
    10e9,
    1e-6,
    1.0,
    2.0,
    memory_quality=GOOD,
    op_quality=GOOD,
    caches=(CacheCeiling(2, 2_000_000, 200e9, GOOD), CacheCeiling(3, 32_000_000, 100e9, GOOD)),
    waits_from="schedstat",
)


@pytest.mark.parametrize(
    ("touched", "name"),
    [(0, "L2"), (2_000_000, "L2"), (2_000_001, "L3"), (32_000_000, "L3"), (32_000_001, "memory")],
)
def test_a_working_set_lies_in_the_nearest_level_that_holds_it(touched: int, name: str) -> None:
    level = usable_roofs(CEILINGS).level(touched)
    assert level is not None
    assert level.name == name


def test_the_working_set_is_that_of_one_call() -> None:
    roofs = usable_roofs(CEILINGS)
    assert roofs.memory_seconds(4_000_000, 0, 1, 0) == pytest.approx(4e6 / 100e9)
    assert roofs.memory_seconds(4_000_000, 0, 2, 0) == pytest.approx(4e6 / 200e9)


def test_weights_come_from_where_all_weights_of_the_model_fit() -> None:
    roofs = usable_roofs(CEILINGS)
    near = 200_000 / 200e9
    for all_weights, rate in ((800_000, 200e9), (60_000_000, 100e9), (65_000_000, 10e9)):
        found = roofs.memory_seconds(200_000, 800_000, 1, all_weights)
        assert found == pytest.approx(near + 800_000 / rate)


def test_without_cache_roofs_everything_is_memory() -> None:
    roofs = usable_roofs(replace(CEILINGS, caches=()))
    assert roofs.memory_seconds(10, 0, 1, 0) == pytest.approx(10 / 10e9)
    assert usable_roofs(replace(CEILINGS, bytes_per_second=Unknown("full"))).levels == ()


def test_a_cache_that_was_not_measured_is_no_level() -> None:
    unknown = replace(CEILINGS.caches[0], bytes_per_second=Unknown("no sizes"))
    levels = usable_roofs(replace(CEILINGS, caches=(unknown, CEILINGS.caches[1]))).levels
    assert [level.name for level in levels] == ["L3", "memory"]


def test_a_roof_that_is_not_good_enough_is_no_roof() -> None:
    ceilings = replace(
        CEILINGS,
        compute=(Ceiling("float32", 100e9, BAD), Ceiling("bfloat16", 200e9, GOOD)),
        memory_quality=BAD,
        op_quality=BAD,
    )
    roofs = usable_roofs(ceilings)
    assert roofs.compute == {"bfloat16": 200e9}
    assert roofs.op_seconds is None
    assert roofs.memory_seconds(40_000_000, 0, 1, 0) is None
    assert roofs.memory_seconds(40_000, 0, 1, 0) is not None
    assert set(roofs.not_good) == {"float32", "memory", "operator"}


def test_a_rate_that_is_not_good_enough_is_reached_at_least() -> None:
    roofs = usable_roofs(
        replace(
            CEILINGS,
            compute=(Ceiling("float32", 100e9, BAD), Ceiling("float16", Unknown("no product"))),
            memory_quality=BAD,
            op_quality=BAD,
        )
    )
    assert roofs.compute_at_least == {"float32": 100e9}
    assert roofs.op_seconds_at_most == 1e-6
    assert roofs.memory_seconds_at_most(40_000_000, 0, 1, 0) == pytest.approx(40e6 / 10e9)
    assert roofs.sentence("float16") == "no float16 roof: no product"
    assert roofs.sentence("float64") == "no float64 roof: not measured"
    good = usable_roofs(CEILINGS)
    assert (good.compute_at_least, good.op_seconds_at_most) == ({}, None)


def test_a_cache_whose_difference_of_times_is_not_good_moves_at_least_what_farther_ones_do() -> (
    None
):
    near, far = CEILINGS.caches
    doubted = replace(near, quality=BAD)
    roofs = usable_roofs(replace(CEILINGS, caches=(doubted, far)))
    assert [level.at_least for level in roofs.levels] == [100e9, 100e9, 10e9]
    assert roofs.memory_seconds(1_000_000, 0, 1, 0) is None
    assert roofs.memory_seconds_at_most(1_000_000, 0, 1, 0) == pytest.approx(1e6 / 100e9)
    assert roofs.level_not_good(1_000_000, 0, 1, 0) == "L2"
    assert roofs.level_not_good(20_000_000, 0, 1, 0) == ""
    assert list(roofs.level_names(20_000_000, 0, 1, 0)) == [("L3", pytest.approx(20e6 / 100e9))]
    none = usable_roofs(replace(CEILINGS, bytes_per_second=Unknown("full")))
    assert none.level_not_good(1, 0, 1, 0) == "memory"


def test_ceilings_from_before_roofs_had_a_quality_go_by_the_cores_that_were_busy() -> None:
    old = Ceilings("cpu", 2, (Ceiling("float32", 1e9),), 1e9, 1e-6, 1.0, 2.0, 0.09)
    assert usable_roofs(old).compute == {"float32": 1e9}
    assert usable_roofs(replace(old, busy=0.11)).compute == {}
    busy = usable_roofs(replace(old, busy=1.8))
    assert (busy.compute, busy.op_seconds) == ({}, None)
    assert busy.not_good["memory"] == "1.8 cores were busy during calibration, peaks may be low"


def test_ceilings_go_over_the_wire_with_their_quality() -> None:
    assert tuple(message_decoder().feed(encode(CEILINGS))) == (CEILINGS,)
    assert usable_roofs(CEILINGS).levels[-1].bytes == math.inf

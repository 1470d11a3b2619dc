from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.small_model import cost, tick
from tui_profiler import messages
from tui_profiler.probe.measure.ceilings.ceilings import reasons
from tui_profiler.probe.measure.ceilings.roof_check import EVERY_SECONDS, LEAST_FORWARDS, RoofCheck

GOOD = messages.RoofQuality(1.0, 0.0)
FOUND = messages.Ceilings(
    "cpu",
    2,
    (messages.Ceiling("float32", 1e9, GOOD),),
    1e9,
    1e-6,
    1.0,
    1.0,
    memory_quality=GOOD,
    caches=(messages.CacheCeiling(3, 2**20, 4e9, GOOD),),
)
LINEAR, RELU, MANY = 1_000_000, 2**21, 4


def tree(
    operator: str, spent: messages.Cost, weights: tuple[messages.Weight, ...]
) -> tuple[list[messages.Node], list[messages.Cost]]:
    """A root and four leaf modules of one operator each."""
    nodes = [messages.Node(-1, "module", "net", "", "Net", 1, (), (), (), "", "", "")]
    costs = [cost()]
    for at in range(MANY):
        path = f"layer{at}"
        nodes.append(
            messages.Node(0, "module", path, path, "Layer", 1, (), (), weights, "", "", "")
        )
        nodes.append(
            messages.Node(
                len(nodes) - 1, "op", operator, f"{path}/0", operator, 1, (), (), (), "", "", ""
            )
        )
        costs += [spent, spent]
    return nodes, costs


def ticked(seconds: list[float], forwards: int = LEAST_FORWARDS, at: float = 5.0) -> messages.Tick:
    times = {1 + 2 * place: (spent, spent) for place, spent in enumerate(seconds)}
    return replace(tick(times), forwards=forwards, at=at)


def products() -> RoofCheck:
    weights = (messages.Weight("weight", (10, 10), "float32", 400, False, ""),)
    return RoofCheck(*tree("aten::addmm", cost(flops=LINEAR, ops=1, weight_bytes=400), weights))


def movers() -> RoofCheck:
    return RoofCheck(*tree("aten::relu", cost(input_bytes=RELU, output_bytes=RELU, ops=1), ()))


def test_the_third_highest_rate_raises_a_roof() -> None:
    # 1,000,000 FLOP in 1 ms are at the roof of 1 GFLOP/s.
    found = products().check(FOUND, ticked([0.5e-3, 0.8e-3, 0.9e-3, 2e-3]))
    (raised,) = found.compute
    assert raised.flops_per_second == pytest.approx(1e9 / 0.9)
    assert raised.quality is not None
    assert raised.quality.raised_by == "layer2 and 2 more modules achieved 11 % more"


def test_two_modules_above_a_roof_are_not_believed() -> None:
    assert products().check(FOUND, ticked([0.1e-3, 0.1e-3, 1e-3, 1e-3])) is FOUND


def test_far_above_it_the_roof_is_not_good_enough() -> None:
    found = products().check(FOUND, ticked([0.1e-3] * MANY))
    assert reasons(found)["float32"].endswith("and 2 more modules achieved 10.0 times of it")
    assert found.compute[0].flops_per_second == 1e9


def test_bytes_are_held_against_the_level_that_has_them() -> None:
    moved = 2 * RELU
    found = movers().check(FOUND, ticked([moved / 1.2e9] * MANY))
    assert found.bytes_per_second == pytest.approx(1.2e9)
    larger = replace(FOUND, caches=(replace(FOUND.caches[0], bytes=moved),))
    assert movers().check(larger, ticked([moved / 1.2e9] * MANY)) is larger
    found = movers().check(larger, ticked([moved / 4.8e9] * MANY))
    assert found.caches[0].bytes_per_second == pytest.approx(4.8e9)
    assert found.bytes_per_second == 1e9


def test_convolutions_and_weights_say_nothing_of_a_roof() -> None:
    weights = (messages.Weight("weight", (10, 10), "float32", 400, False, ""),)
    convolutions = RoofCheck(
        *tree("aten::convolution", cost(flops=LINEAR, ops=1, weight_bytes=400), weights)
    )
    assert convolutions.check(FOUND, ticked([0.1e-3] * MANY)) is FOUND
    spent = cost(input_bytes=RELU, output_bytes=RELU, weight_bytes=RELU, ops=1)
    assert RoofCheck(*tree("aten::add", spent, ())).check(FOUND, ticked([1e-4] * MANY)) is FOUND
    unknown = cost(input_bytes=RELU, output_bytes=RELU, ops=1, uncosted=1)
    assert RoofCheck(*tree("aten::x", unknown, ())).check(FOUND, ticked([1e-4] * MANY)) is FOUND


def test_it_waits_for_medians_and_looks_now_and_then() -> None:
    check, fast = products(), [0.9e-3] * MANY
    assert check.check(FOUND, ticked(fast, forwards=LEAST_FORWARDS - 1)) is FOUND
    assert check.check(FOUND, replace(ticked(fast), cold=True)) is FOUND
    assert check.check(FOUND, replace(ticked(fast), as_traced=False)) is FOUND
    assert check.check(FOUND, ticked([1e-3] * MANY, at=5.0)) is FOUND
    assert check.check(FOUND, ticked(fast, at=5.0 + EVERY_SECONDS - 1)) is FOUND
    assert check.check(FOUND, ticked(fast, at=5.0 + EVERY_SECONDS)) is not FOUND


def test_times_too_short_for_the_clock_say_nothing() -> None:
    tiny = RoofCheck(*tree("aten::relu", cost(input_bytes=10_000, output_bytes=10_000, ops=1), ()))
    assert tiny.check(FOUND, ticked([1e-6] * MANY)) is FOUND


def called(check: tuple[list[messages.Node], list[messages.Cost]], calls: int) -> RoofCheck:
    """Return the check of a tree whose every module is called so often in per forward."""
    nodes, costs = check
    return RoofCheck([replace(node, calls=calls) for node in nodes], costs)


def test_three_modules_are_enough() -> None:
    found = products().check(FOUND, ticked([0.9e-3] * 3))
    assert found.compute[0].flops_per_second == pytest.approx(1e9 / 0.9)
    assert products().check(FOUND, ticked([0.9e-3] * 2)) is FOUND


def test_many_short_calls_are_as_short_as_one() -> None:
    """0.09 ms of per forward in ten calls: 9 us each, of which the clock is a part."""
    mover = cost(input_bytes=250_000, output_bytes=250_000, ops=1)
    fast = ticked([0.09e-3] * MANY)
    assert called(tree("aten::relu", mover, ()), 10).check(FOUND, fast) is FOUND
    small = replace(FOUND, caches=())
    assert called(tree("aten::relu", mover, ()), 1).check(small, fast) is not small


def test_the_level_is_that_of_what_one_call_touches() -> None:
    moved = 2 * RELU
    spent = cost(input_bytes=RELU, output_bytes=RELU, ops=1)
    often = called(tree("aten::relu", spent, ()), moved // 2**20)
    found = often.check(FOUND, ticked([moved / 4.8e9] * MANY))
    assert found.caches[0].bytes_per_second == pytest.approx(4.8e9)
    assert found.bytes_per_second == 1e9


def test_a_module_that_computes_more_than_its_product_says_nothing() -> None:
    weights = (messages.Weight("weight", (10, 10), "float32", 400, False, ""),)
    nodes, costs = tree("aten::addmm", cost(flops=LINEAR, ops=1, weight_bytes=400), weights)
    twice = [
        replace(one, flops=2 * one.flops) if node.kind == "module" else one
        for node, one in zip(nodes, costs, strict=True)
    ]
    assert RoofCheck(nodes, twice).check(FOUND, ticked([0.9e-3] * MANY)) is FOUND


def test_work_that_depends_on_the_data_says_nothing_of_a_roof() -> None:
    # Eight experts that may each get all tokens: together eight times the work that is done.
    weights = (messages.Weight("weight", (10, 10), "float32", 400, False, ""),)
    routed = tree("aten::addmm", cost(flops=LINEAR, ops=1, weight_bytes=400), weights)
    fast = ticked([0.1e-3] * MANY)

    assert RoofCheck(*routed).check(FOUND, fast) is not FOUND
    assert RoofCheck(*routed, ("aten::nonzero",)).check(FOUND, fast) is FOUND

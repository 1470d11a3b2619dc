"""What holds a node back, worked out by hand.

The ceilings are 10 GFLOP/s, 1 GB/s and 10 µs an operator.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.small_model import (
    ACT,
    CEILINGS,
    CONV,
    FC,
    MEASURED,
    ROOT,
    TICK,
    TRACED,
    cost,
    folded,
    tick,
)
from tui_profiler.messages import Ceiling, Unknown
from tui_profiler.queries.bound import bound, bytes_moved, intensity, mix, on_paper, own_cost


def test_bytes_are_inputs_weights_and_outputs() -> None:
    assert bytes_moved(cost(input_bytes=100, weight_bytes=20, output_bytes=3)) == 123


def test_intensity_is_flops_a_byte() -> None:
    assert intensity(cost(flops=100, input_bytes=30, output_bytes=20)) == 2.0


def test_what_moves_nothing_has_no_intensity() -> None:
    assert intensity(cost(flops=100)) is None


@pytest.mark.parametrize(("flops", "kind"), [(1000, "memory"), (1001, "compute"), (0, "memory")])
def test_on_paper_ten_flops_a_byte_divide(flops: int, kind: str) -> None:
    found = on_paper(cost(flops=flops, input_bytes=100))
    assert found is not None
    assert (found.kind, found.measured) == (kind, False)


def test_what_moves_nothing_has_no_class_on_paper() -> None:
    assert on_paper(cost(ops=1)) is None


def test_before_times_the_class_is_on_paper() -> None:
    found = bound(folded(TRACED), CONV)
    # 13,824 FLOP over 768 + 432 + 1,024 bytes.
    assert found is not None
    assert (found.kind, found.measured, found.intensity) == (
        "memory",
        False,
        pytest.approx(13824 / 2224),
    )


def test_without_ceilings_the_class_is_on_paper() -> None:
    found = bound(folded((*TRACED, TICK)), CONV)
    assert found is not None
    assert not found.measured


def test_without_a_tree_there_is_no_class() -> None:
    assert bound(folded(()), 0) is None


def test_a_node_that_moves_much_is_memory_bound() -> None:
    # 11,344 bytes at 1 GB/s are 11.3 µs, 5,130 FLOP 0.5 µs, one operator 10 µs; of 20 µs.
    found = bound(folded((*TRACED, CEILINGS, tick({FC: (20e-6, 20e-6)}))), FC)
    assert found is not None
    assert (found.kind, found.memory_share, found.compute_share, found.overhead_share) == (
        "memory",
        pytest.approx(0.5672, rel=1e-4),
        pytest.approx(0.02565, rel=1e-4),
        pytest.approx(0.5, rel=1e-4),
    )


def test_a_node_that_computes_much_is_compute_bound() -> None:
    fast_memory = replace(CEILINGS, bytes_per_second=1e12, op_seconds=1e-9)
    # 13,824 FLOP at 10 GFLOP/s are 1.38 µs of 2 µs.
    found = bound(folded((*TRACED, fast_memory, tick({CONV: (2e-6, 2e-6)}))), CONV)
    assert found is not None
    assert (found.kind, found.compute_share, found.ridge) == (
        "compute",
        pytest.approx(0.6912, rel=1e-4),
        pytest.approx(0.01),
    )


def test_a_node_that_only_calls_is_overhead_bound() -> None:
    # One operator of 10 µs, 80 bytes, 10 FLOP; of 12.5 µs.
    found = bound(folded((*TRACED, CEILINGS, tick({ACT: (12.5e-6, 12.5e-6)}))), ACT)
    assert found is not None
    assert (found.kind, found.overhead_share, found.confident) == (
        "overhead",
        pytest.approx(0.8, rel=1e-4),
        True,
    )


def test_a_node_far_above_every_roof_is_overhead_and_not_confident() -> None:
    found = bound(folded((*TRACED, CEILINGS, tick({CONV: (1.0, 1.0)}))), CONV)
    assert found is not None
    assert (found.kind, found.confident) == ("overhead", False)


def test_a_time_of_nothing_says_nothing() -> None:
    found = bound(folded((*TRACED, CEILINGS, tick({CONV: (0.0, 0.0)}))), CONV)
    assert found is not None
    assert not found.measured


def test_a_dtype_without_a_ceiling_is_judged_by_the_others() -> None:
    ceilings = replace(CEILINGS, compute=(Ceiling("float32", Unknown("too slow")),))
    found = bound(folded((*TRACED, ceilings, tick({FC: (20e-6, 20e-6)}))), FC)
    assert found is not None
    assert (found.kind, found.compute_share, found.ridge) == ("memory", None, None)


def test_the_reason_names_the_figures() -> None:
    found = bound(folded((*TRACED, CEILINGS, tick({FC: (20e-6, 20e-6)}))), FC)
    assert found is not None
    # 5,130 FLOP over 11,344 bytes, against 10 GFLOP/s over 1 GB/s.
    assert found.reason == "0.452 FLOP/B is 0.05× the ridge at 10"


def test_own_cost_leaves_out_modules_inside() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    # Only the operator that the root calls itself.
    assert bytes_moved(own_cost(tree, ROOT)) == 80


def test_the_mix_of_all_classes_is_the_whole_time() -> None:
    seconds = mix(folded(MEASURED), ROOT)
    assert sum(seconds.values()) == pytest.approx(0.001)


def test_the_mix_gives_each_module_its_own_class() -> None:
    times = {ROOT: (42.5e-6, 0.0), FC: (20e-6, 20e-6), ACT: (12.5e-6, 12.5e-6)}
    seconds = mix(folded((*TRACED, CEILINGS, tick(times))), ROOT)
    assert seconds == {
        "compute": 0.0,
        "memory": pytest.approx(20e-6),
        "overhead": pytest.approx(12.5e-6),
    }

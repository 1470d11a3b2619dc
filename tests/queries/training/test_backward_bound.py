"""The class of the backward of a node, by hand."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import cost_of, node_of, traced
from tests.queries.training.trained import cost, memory
from tests.small_model import CEILINGS, CONV, CONV_OP, FC, MEASURED, ROOT, folded
from tests.training_session import column, step_parts, training_step
from tui_profiler.messages import Ceiling, ThreadTime, Unknown
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.training.backward_bound import backward_bound, why_no_backward_bound
from tui_profiler.queries.training.step_costs import gradient_bytes, is_at_most
from tui_profiler.session import Session, apply

# Of the convolution 13,824 FLOP at 10 GFLOP/s are 1.38 µs, 1,500 B at 1 GB/s 1.5 µs, one operator
# 10 µs; of the linear layer 10,240 FLOP 1.02 µs, 7,500 B 7.5 µs, two operators 20 µs.
FAST = replace(CEILINGS, op_seconds=1e-9)
STEP = replace(
    training_step(step_parts(forward=0.25, backward=0.5, other=0.25)),
    nodes=array("I", (ROOT, CONV, FC)).tobytes(),
    **dict.fromkeys(("forward", "own_forward"), column(100e-6, 60e-6, 30e-6)),
    backward=column(50e-6, 20e-6, 12e-6),
    own_backward=column(18e-6, 20e-6, 12e-6),
    **dict.fromkeys(("recomputed", "own_recomputed"), column(0.0, 0.0, 0.0)),
)


def session(step: object = STEP, ceilings: object = FAST) -> Session:
    return folded((cost(), memory(), ceilings, step), folded(MEASURED))  # type: ignore[arg-type] # any message


def test_the_largest_least_time_of_a_pass_is_the_class() -> None:
    linear = backward_bound(session(), FC)
    assert linear is not None
    assert linear.kind == "memory"
    assert linear.memory_share == pytest.approx(7.5e-6 / 12e-6)
    assert linear.compute_share == pytest.approx(1.024e-6 / 12e-6)
    assert linear.flops_per_second == pytest.approx(10_240 / 12e-6)
    assert linear.reason == "62 % of its time at the memory roof"
    slow_calls = backward_bound(session(ceilings=CEILINGS), FC)
    assert slow_calls is not None
    assert slow_calls.kind == "overhead"


def test_seconds_are_of_one_pass() -> None:
    accumulated = replace(STEP, passes=4.0, backward=column(200e-6, 80e-6, 48e-6))
    accumulated = replace(accumulated, own_backward=column(72e-6, 80e-6, 48e-6))
    assert backward_bound(session(accumulated), FC) == backward_bound(session(), FC)


def test_below_a_tenth_of_every_roof_it_is_unexplained_and_a_container_has_a_mix() -> None:
    conv, root = backward_bound(session(), CONV), backward_bound(session(), ROOT)
    assert conv is not None
    assert conv.kind == "unexplained"
    assert root is not None
    assert root.kind == "unexplained"
    assert root.mix == pytest.approx((0.0, 12 / 50, *(0.0,) * (len(KINDS) - 3), 38 / 50))
    assert root.reason == "76 % of its time is unexplained"


def test_waiting_for_a_core_is_taken_off_evenly() -> None:
    thread = ThreadTime(1.0, 0.5, 0.5, *(Unknown("not read"),) * 4)
    found = backward_bound(session(replace(STEP, thread=thread)), FC)
    assert found is not None
    assert found.kind == "memory"
    assert found.mix[KINDS.index("memory")] == pytest.approx(1.0)
    assert found.waiting == pytest.approx(0.5)


def test_what_is_missing_is_told() -> None:
    assert backward_bound(session(), CONV_OP) is None
    untrained = folded((cost(), memory()), folded(MEASURED))
    assert backward_bound(untrained, FC) is None
    assert why_no_backward_bound(untrained) == "no training step was measured"
    without = apply(folded(MEASURED), STEP)
    assert why_no_backward_bound(without) == "the work of the backward is known with --train only"
    unknown = Ceiling("float32", Unknown("too slow"))
    no_roofs = replace(CEILINGS, compute=(unknown,), bytes_per_second=Unknown("too slow"))
    no_roofs = replace(no_roofs, op_seconds=Unknown("too slow"))
    assert why_no_backward_bound(session(ceilings=no_roofs)) == "the roofline is not calibrated"


def test_gradient_bytes_are_those_recorded_or_of_all_trainable_parameters() -> None:
    assert gradient_bytes(session(), CONV) == 432
    assert not is_at_most(session())
    program = apply(folded(MEASURED), STEP)
    assert gradient_bytes(program, CONV) == 4 * 3 * 3 * 3 * 4  # All of its weight, in float32.
    assert is_at_most(program)
    assert gradient_bytes(folded(MEASURED), CONV) is None
    frozen = replace(cost_of(100, 5), parameter_bytes=400, trainable=25)
    assert gradient_bytes(apply(traced([node_of(-1, "m", "M", [])], [frozen]), STEP), ROOT) == 100

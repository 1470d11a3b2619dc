"""What holds a node back, worked out by hand.

The ceilings are 10 GFLOP/s, 1 GB/s and 10 µs an operator.
"""

from __future__ import annotations

import json
from array import array

import pytest
from msgspec.structs import replace

from tests.small_model import (
    ACT,
    CEILINGS,
    CONV,
    CONV_OP,
    DONE,
    FACTS,
    FC,
    FC_OP,
    MEASURED,
    ROOT,
    STRANGE_OP,
    TICK,
    TRACED,
    cost,
    folded,
    node,
    operator_times,
    tick,
)
from tui_profiler.messages import (
    CacheCeiling,
    Ceiling,
    Cost,
    Nodes,
    OperatorTimes,
    RoofQuality,
    Tensor,
    TraceStarted,
    Unknown,
    Weight,
)
from tui_profiler.queries.cost.bound import (
    bound,
    bytes_moved,
    floors,
    intensity,
    is_counted,
    kinds_of,
    known_bytes,
    known_flops,
    known_macs,
    least_seconds,
    node_dtype,
    node_mix,
    not_decided_modules,
    on_paper,
    own_cost,
    own_moved,
    why_no_class,
    why_not_decided,
)
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.queries.panel.provenance import why
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.reports.json.report import json_report
from tui_profiler.session import Tree


def of_one(work: Cost) -> tuple[Tree, int]:
    """Return a tree of one node, and that node."""
    return Tree("dispatch:fake", 1, costs=(work,)), 0


def test_bytes_are_inputs_weights_and_outputs() -> None:
    assert bytes_moved(cost(input_bytes=100, weight_bytes=20, output_bytes=3)) == 123


def test_intensity_is_flops_a_byte() -> None:
    assert intensity(cost(flops=100, input_bytes=30, output_bytes=20)) == 2.0


def test_what_moves_nothing_has_no_intensity() -> None:
    assert intensity(cost(flops=100)) is None


@pytest.mark.parametrize(("flops", "kind"), [(1000, "memory"), (1001, "compute"), (0, "memory")])
def test_on_paper_ten_flops_a_byte_divide(flops: int, kind: str) -> None:
    found = on_paper(*of_one(cost(flops=flops, input_bytes=100)))
    assert found is not None
    assert (found.kind, found.measured) == (kind, False)


def test_a_lower_bound_of_the_flops_makes_nothing_memory_bound_on_paper() -> None:
    """As in a vLLM worker, whose matrix products are custom operators: 0.03 FLOP/B counted."""
    least = cost(macs=50, flops=100, input_bytes=100, ops=2, uncosted=1)
    assert on_paper(*of_one(least)) is None
    assert (
        why_no_class(*of_one(least))
        == "its FLOPs are a lower bound: 1 of 2 operators have no formula"
    )
    counted = on_paper(*of_one(cost(macs=50, flops=100, input_bytes=100, ops=2)))
    assert counted is not None
    assert counted.reason.endswith(" FLOP/B, at most 10: memory-bound")


def test_there_is_no_intensity_where_nothing_was_counted() -> None:
    assert intensity(cost(input_bytes=100, ops=2, uncosted=1)) is None
    assert intensity(cost(input_bytes=100, ops=2)) == 0
    assert intensity(cost(flops=200, input_bytes=100, ops=2, uncosted=1)) == 2


def test_what_moves_nothing_has_no_class_on_paper() -> None:
    assert on_paper(*of_one(cost(ops=1))) is None
    assert why_no_class(*of_one(cost(ops=1))) == "it moves no bytes"


def test_an_operator_of_unknown_flops_is_not_said_to_be_memory_bound() -> None:
    unknown = cost(input_bytes=100, ops=1, uncosted=1)
    assert on_paper(*of_one(unknown)) is None
    assert why_no_class(*of_one(unknown)) == "its FLOPs are not known: the operator has no formula"
    many = why_no_class(*of_one(cost(input_bytes=100, ops=3, uncosted=2)))
    assert many == "its FLOPs are not known: 2 of 3 operators have no formula"
    session = folded(TRACED)
    assert bound(session, STRANGE_OP) is None
    told = dict(why(session, STRANGE_OP))["bound"]
    assert told.startswith("its FLOPs are not known: the operator")
    # Where what is counted exceeds 10 FLOP/B, more cannot make it less.
    above = on_paper(*of_one(cost(flops=1001, input_bytes=100, ops=2, uncosted=1)))
    assert above is not None
    assert (above.kind, why_no_class(*of_one(cost(flops=11, input_bytes=1, uncosted=1)))) == (
        "compute",
        "",
    )


def test_a_node_computes_in_the_dtype_of_its_weights_not_of_its_buffers() -> None:
    """Half precision with running statistics in float32, as ``model.half()`` never leaves them."""
    weights = (
        Weight("running_mean", (4,), "float32", 16, True),
        Weight("weight", (4,), "float16", 8, False),
    )
    half = Tensor((1, 4), "float16", 8)
    nodes = (node(-1, "net", "", "BatchNorm1d", weights=weights, outputs=(half,)),)
    session = folded((FACTS, TraceStarted(1, "dispatch:real"), Nodes(nodes, (cost(ops=1),)), DONE))
    assert session.tree is not None
    assert node_dtype(session.tree, 0) == "float16"


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
    assert (found.kind, found.overhead_share) == ("overhead", pytest.approx(0.8, rel=1e-4))


def test_a_node_far_above_every_floor_is_unexplained() -> None:
    found = bound(folded((*TRACED, CEILINGS, tick({CONV: (1.0, 1.0)}))), CONV)
    assert found is not None
    assert found.kind == "unexplained"
    assert found.reason == "neither compute- nor bandwidth-limited; cause unknown"


@pytest.mark.parametrize("seconds", [1e-3, 1e-6])
def test_where_work_is_a_lower_bound_no_limit_is_excluded(seconds: float) -> None:
    """Its call alone would explain a microsecond ten times over, but its FLOPs may as well."""
    messages = (*TRACED, CEILINGS, TICK, operator_times({STRANGE_OP: seconds}))
    found = bound(folded(messages), STRANGE_OP)
    assert found is not None
    assert found.kind == "unexplained"
    assert found.reason == "work is a lower bound: 1 of 1 operators have no formula"


@pytest.mark.parametrize(("seconds", "kind"), [(99e-6, "overhead"), (101e-6, "unexplained")])
def test_overhead_explains_a_tenth_of_the_time_or_is_not_the_class(
    seconds: float, kind: str
) -> None:
    # One operator takes 10 µs at least: a tenth of 100 µs.
    found = bound(folded((*TRACED, CEILINGS, tick({ACT: (seconds, seconds)}))), ACT)
    assert found is not None
    assert found.kind == kind


def test_a_container_is_of_the_class_of_most_of_its_time() -> None:
    # All of it together: 10 operators of 10 µs would explain a tenth of its 100 µs and more. But
    # 60 µs are in fc, whose bytes explain 19 % of them, and 40 in act, whose call explains 25 %.
    times = {ROOT: (100e-6, 0.0), FC: (60e-6, 60e-6), ACT: (40e-6, 40e-6)}
    session = folded((*TRACED, CEILINGS, tick(times)))
    found = bound(session, ROOT)
    assert found is not None
    assert (found.kind, found.is_container) == ("memory", True)
    assert found.mix == pytest.approx((0.0, 0.6, 0.4, *(0.0,) * (len(KINDS) - 3)))
    assert found.reason == "60 % of its time is memory-bound"


def test_time_outside_of_operators_is_unexplained_and_not_overhead() -> None:
    # The root's own operator, 80 bytes and a call of 10 µs, explains 1 % of its own millisecond.
    session = folded((*TRACED, CEILINGS, tick({ROOT: (1e-3, 1e-3)})))
    found = bound(session, ROOT)
    assert found is not None
    assert found.kind == "unexplained"


def test_a_time_of_nothing_says_nothing() -> None:
    found = bound(folded((*TRACED, CEILINGS, tick({CONV: (0.0, 0.0)}))), CONV)
    assert found is not None
    assert not found.measured


@pytest.mark.parametrize(
    ("compute", "why_open"),
    [
        ((Ceiling("float32", Unknown("too slow")),), "no float32 roof: too slow"),
        ((), "no float32 roof: not measured"),
    ],
)
def test_without_a_roof_of_its_dtype_no_class_is_measured(
    compute: tuple[Ceiling, ...], why_open: str
) -> None:
    """Slow arithmetic, as of float16 on a processor without it, would be called memory-bound."""
    ceilings = replace(CEILINGS, compute=compute)
    session = folded((*TRACED, ceilings, tick({FC: (20e-6, 20e-6)})))
    found = bound(session, FC)
    assert found is not None
    assert (found.kind, found.measured) == ("memory", False)
    assert why_not_decided(session, FC) == why_open


def test_without_a_roof_of_memory_only_what_moves_nothing_is_judged() -> None:
    ceilings = replace(CEILINGS, bytes_per_second=Unknown("no memory free"))
    session = folded((*TRACED, ceilings, tick({FC: (20e-6, 20e-6)})))
    found = bound(session, FC)
    assert found is not None
    assert not found.measured
    assert why_not_decided(session, FC) == "no memory roof: no memory free"


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
    assert sum(node_mix(folded(MEASURED), ROOT)) == pytest.approx(0.001)


def test_the_mix_gives_each_module_its_own_class() -> None:
    times = {ROOT: (42.5e-6, 0.0), FC: (20e-6, 20e-6), ACT: (12.5e-6, 12.5e-6)}
    seconds = node_mix(folded((*TRACED, CEILINGS, tick(times))), ROOT)
    assert seconds == pytest.approx((0.0, 20e-6, 12.5e-6, *(0.0,) * (len(KINDS) - 3)))


GOOD = RoofQuality(1.0, 0.0)
DOUBTED = RoofQuality(1.0, 0.9, "0 of 9 pieces ran without waiting for a core")


NEAR = {ROOT: (42.5e-6, 0.0), FC: (20e-6, 20e-6), ACT: (12.5e-6, 12.5e-6), CONV: (5e-6, 5e-6)}
"""Not far above their floors. Of 5 µs, conv's are 1.4 of compute, 2.2 of memory, 10 of its call."""


@pytest.mark.parametrize(
    ("doubted", "on_paper_are", "name"),
    [
        # Compute asks fc for 0.5 µs at most, and its bytes for 11.3: no better roof changes that.
        ({"compute": (Ceiling("float32", 10e9, DOUBTED),)}, [], "float32"),
        # Not so of a roof whose least figure would let compute take 51 µs.
        ({"compute": (Ceiling("float32", 1e8, DOUBTED),)}, [CONV, FC], "float32"),
        # Memory asks fc for up to 11.3 µs and its call for 10; conv and act are calls in any case.
        ({"memory_quality": DOUBTED}, [FC], "memory"),
        # Calls are at most 10 µs, less than fc's bytes.
        ({"op_quality": DOUBTED}, [CONV, ACT], "operator"),
        ({"busy": 1.8}, [CONV, FC, ACT], ""),
    ],
)
def test_only_modules_that_a_doubtful_roof_can_decide_are_on_paper(
    doubted: dict[str, object], on_paper_are: list[int], name: str
) -> None:
    times = tick(NEAR)
    good = folded((*TRACED, CEILINGS, times))
    session = folded((*TRACED, replace(CEILINGS, **doubted), times))
    assert session.tree is not None
    for each in (CONV, FC, ACT):
        found, before = bound(session, each), bound(good, each)
        assert found is not None
        assert before is not None
        assert before.measured
        assert why_not_decided(good, each) == ""
        is_open = each in on_paper_are
        assert found.measured is not is_open
        assert found == on_paper(session.tree, each) or found.kind == before.kind
        assert bool(sum(node_mix(session, each))) is not is_open
        assert why_not_decided(session, each).startswith(f"the {name}") is is_open
        told = dict(why(session, each))["bound"].removeprefix(f"{found.reason}; ")
        assert told.startswith("on paper, the ") is is_open
    assert not_decided_modules(session) == (len(on_paper_are), 3)
    assert bool(why_not_decided(session, ROOT)) == bool(on_paper_are)


def test_a_share_of_time_is_not_0_where_no_good_roof_decides() -> None:
    """Only fc is bound by memory: without that roof its 20 of 37.5 µs are of no class."""
    shares = bound_shares(folded((*TRACED, CEILINGS, tick(NEAR))))
    assert shares["memory"].time_share == pytest.approx(20 / 37.5)
    assert shares["compute"].time_share == 0
    session = folded((*TRACED, replace(CEILINGS, memory_quality=DOUBTED), tick(NEAR)))
    shares = bound_shares(session)
    assert (shares["memory"].time_share, shares["compute"].time_share) == (None, None)
    assert shares["overhead"].time_share == pytest.approx(17.5 / 37.5)
    reasons = json.loads(json_report(session))["unavailable"]
    assert reasons["bottlenecks.memory.time_share"].startswith("the memory roof is not good enough")


def test_a_doubtful_roof_is_not_shown_as_a_share_and_its_most_is_said() -> None:
    doubted = replace(CEILINGS, compute=(Ceiling("float32", 10e9, DOUBTED),))
    found = bound(folded((*TRACED, doubted, tick(NEAR))), FC)
    assert found is not None
    assert (found.compute_share, found.ridge) == (None, None)
    assert dict(found.no_roof)["compute"].startswith("the float32 roof is not good enough: 0 of 9")
    assert found.reason == "memory takes at least 57 % of the time, compute at most 2.6 %"


def test_far_above_what_a_doubtful_roof_could_ask_a_module_is_unexplained() -> None:
    # At most 10.2 µs by calls: a tenth of 99 µs, not of 101.
    for seconds, measured in ((99e-6, False), (113e-6, False), (114e-6, True)):
        times = tick({FC: (seconds, seconds)})
        found = bound(folded((*TRACED, replace(CEILINGS, busy=1.8), times)), FC)
        assert found is not None
        assert found.measured is measured
    assert found is not None
    assert found.kind == "unexplained"


@pytest.mark.parametrize(
    ("fc", "act", "measured"), [(40e-6, 100e-6, True), (60e-6, 40e-6, False), (50e-6, 50e-6, True)]
)
def test_a_container_has_a_class_where_what_is_open_cannot_change_it(
    fc: float, act: float, *, measured: bool
) -> None:
    """The bytes of fc have no good roof; act is its call in any case."""
    times = {ROOT: (fc + act, 0.0), FC: (fc, fc), ACT: (act, act)}
    doubted = replace(CEILINGS, memory_quality=DOUBTED)
    session = folded((*TRACED, doubted, tick(times)))
    found = bound(session, ROOT)
    kind = None if found is None else found.kind
    # On paper it has none: one of its operators has no formula.
    assert (kind, kinds_of(session)(ROOT)) == (("overhead",) * 2 if measured else (None, None))
    if found is not None:
        assert found.measured
        assert found.not_decided == pytest.approx(fc / (fc + act))
        assert sum(found.mix) == pytest.approx(act / (fc + act))
        assert "is not decided" in found.reason
    assert why_not_decided(session, ROOT).startswith("the memory roof is not good enough")
    shares = [part.time_share for part in bound_shares(session).values()]
    assert sum(filter(None, shares)) == pytest.approx(act / (fc + act))


def test_a_roof_that_this_model_does_not_need_may_be_doubtful() -> None:
    compute = (Ceiling("float32", 10e9, GOOD), Ceiling("bfloat16", 1e9, DOUBTED))
    found = bound(folded((*TRACED, replace(CEILINGS, compute=compute), TICK)), CONV)
    assert found is not None
    assert found.measured


def test_a_node_whose_data_fits_in_a_cache_is_held_against_the_cache_s_roof() -> None:
    times = tick({ACT: (48e-9, 48e-9)})
    without = bound(folded((*TRACED, replace(CEILINGS, op_seconds=1e-9), times)), ACT)
    caches = (CacheCeiling(2, 2**20, 4e9, GOOD),)
    cached = replace(CEILINGS, op_seconds=1e-9, caches=caches)
    found = bound(folded((*TRACED, cached, times)), ACT)
    assert without is not None
    assert without.memory_share is not None
    assert without.memory_share > 1.64
    assert without.reason == "above its memory roof: the data is in a cache"
    assert found is not None
    assert found.memory_share == pytest.approx(without.memory_share / 4)
    assert found.kind == "memory"


@pytest.mark.parametrize(
    ("figures", "is_known", "told"),
    [
        ({}, True, (0, 0, 0)),
        ({"uncosted": 1}, False, (None, None, None)),
        ({"uncosted": 1, "flops": 1}, True, (None, 1, 0)),  # A lower bound.
        ({"uncosted": 1, "flops": 2, "macs": 1}, True, (1, 2, 0)),
        ({"uncosted": 1, "output_bytes": 1}, True, (None, None, 1)),
        ({"uncosted": 1, "parameters": 1}, False, (None, None, None)),
    ],
)
def test_nothing_is_a_figure_only_where_everything_was_seen(
    figures: dict[str, int], is_known: bool, told: tuple[int | None, ...]
) -> None:
    found = cost(**figures)
    assert is_counted(found) == is_known
    assert (known_macs(found), known_flops(found), known_bytes(found)) == told


def test_own_cost_is_every_figure_less_those_of_modules_inside() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    own, whole = own_cost(tree, ROOT), tree.costs[ROOT]
    # All but the strange operator is in conv, fc and act.
    assert (own.macs, own.flops, own.ops, own.uncosted) == (0, 0, 1, 1)
    assert (own.input_bytes, own.weight_bytes, own.output_bytes) == (40, 0, 40)
    assert (own.parameters, own.parameter_bytes) == (whole.parameters, whole.parameter_bytes)


def test_least_times_are_the_work_over_the_roofs() -> None:
    roofs = usable_roofs(CEILINGS)
    found = least_seconds(cost(flops=50_000, ops=3), roofs, "float32", 7e-6)
    assert found == pytest.approx({"compute": 5e-6, "memory": 7e-6, "overhead": 30e-6})
    assert set(least_seconds(cost(flops=50_000, ops=3), roofs, "float16", None)) == {"overhead"}


def test_least_time_of_memory_is_of_what_modules_inside_do_not_move() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    found = floors(tree, CEILINGS)
    assert own_moved(tree, found, ROOT) == (pytest.approx(80e-9), 0.0)
    assert own_moved(tree, found, FC) == (pytest.approx(11344e-9), 0.0)
    # Of one that is timed as a whole only what goes in and out, and the parameters, is certain.
    first, *others = (message for message in TRACED if isinstance(message, Nodes))
    root = replace(first.nodes[0], is_opaque=True)
    parts = (replace(first, nodes=(root, *first.nodes[1:])), *others)
    opaque = folded((*TRACED[:6], *parts, DONE)).tree
    assert opaque is not None
    assert own_moved(opaque, floors(opaque, CEILINGS), ROOT).seconds == pytest.approx(11520e-9)
    doubted = floors(tree, replace(CEILINGS, memory_quality=DOUBTED))
    assert own_moved(tree, doubted, ROOT) == (0.0, pytest.approx(80e-9))
    assert own_moved(tree, doubted, ROOT).seconds is None


@pytest.mark.parametrize(
    ("weights", "inputs", "outputs", "dtype"),
    [
        (("float16",), ("float32",), ("float32",), "float16"),
        ((), ("float32",), ("bfloat16",), "bfloat16"),
        ((), ("float16",), ("int64",), "float16"),
        (("int8",), ("int64",), ("int64",), "float32"),
    ],
)
def test_a_node_computes_in_the_dtype_of_its_weights_else_of_what_comes_out(
    weights: tuple[str, ...], inputs: tuple[str, ...], outputs: tuple[str, ...], dtype: str
) -> None:
    one = node(
        *(-1, "net", "", "Linear"),
        weights=tuple(Weight(name, (4,), name, 8, False) for name in weights),
        inputs=tuple(Tensor((4,), name, 8) for name in inputs),
        outputs=tuple(Tensor((4,), name, 8) for name in outputs),
    )
    session = folded((FACTS, TraceStarted(1, "dispatch:real"), Nodes((one,), (cost(),)), DONE))
    assert session.tree is not None
    assert node_dtype(session.tree, 0) == dtype


@pytest.mark.parametrize(
    "name", ["quantized::linear_dynamic", "aten::_weight_int8pack_mm", "aten::_int_mm"]
)
def test_products_of_integers_are_not_judged_by_the_roof_of_float32(name: str) -> None:
    """Every tensor that goes in and out of them may be float32."""
    messages = tuple(
        replace(m, nodes=tuple(replace(n, name=name) if n.path == "fc/0" else n for n in m.nodes))
        if isinstance(m, Nodes)
        else m
        for m in TRACED
    )
    session = folded((*messages, CEILINGS, tick({FC: (20e-6, 20e-6)})))
    assert session.tree is not None
    assert (node_dtype(session.tree, FC), node_dtype(session.tree, FC_OP)) == ("int8", "int8")
    assert node_dtype(session.tree, CONV) == "float32"
    found = bound(session, FC)
    assert found is not None
    assert not found.measured
    assert why_not_decided(session, FC) == "no int8 roof: not measured"


def test_pointwise_operators_of_16_bits_are_not_held_against_slow_products_of_theirs() -> None:
    compute = (Ceiling("float32", 10e9, GOOD), Ceiling("float16", 1e9, GOOD))
    roofs = usable_roofs(replace(CEILINGS, compute=compute))
    relu, product = cost(flops=1000, ops=1), cost(flops=1000, macs=500, ops=1)
    assert least_seconds(relu, roofs, "float16", None)["compute"] == pytest.approx(100e-9)
    assert least_seconds(product, roofs, "float16", None)["compute"] == pytest.approx(1e-6)
    fast = usable_roofs(replace(CEILINGS, compute=(*compute[:1], Ceiling("float16", 50e9, GOOD))))
    assert least_seconds(relu, fast, "float16", None)["compute"] == pytest.approx(20e-9)


def test_what_is_faster_than_memory_is_said_to_come_from_the_caches() -> None:
    fast = replace(CEILINGS, op_seconds=1e-9)
    for seconds, is_cached in ((10.7e-6, True), (10.9e-6, False)):  # 11.344 µs at its roof.
        found = bound(folded((*TRACED, fast, tick({FC: (seconds, seconds)}))), FC)
        assert found is not None
        assert found.kind == "memory"
        assert (found.reason == "above its memory roof: the data is in a cache") == is_cached


@pytest.mark.parametrize(("seconds", "kind"), [(99e-6, "overhead"), (101e-6, "unexplained")])
def test_an_operator_is_unexplained_where_no_floor_explains_a_tenth(
    seconds: float, kind: str
) -> None:
    times = array("f", [seconds]).tobytes()
    operators = OperatorTimes(
        *(5.0, 1, seconds, 0, "", array("I", [CONV_OP]).tobytes()),
        *(array("I", [1]).tobytes(), times, times),
    )
    session = folded((*TRACED, CEILINGS, tick({CONV: (seconds, seconds)}), operators))
    found = bound(session, CONV_OP)
    assert found is not None
    assert (found.kind, found.measured) == (kind, True)
    # Of forwards unlike the one that was traced no operator's time stands beside its cost.
    others = replace(tick({CONV: (seconds, seconds)}), as_traced=False)
    session = folded((*TRACED, CEILINGS, others, operators))
    assert node_seconds(session, CONV_OP) is None
    assert node_seconds(session, CONV) == pytest.approx(seconds)

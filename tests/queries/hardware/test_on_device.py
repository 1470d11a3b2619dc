"""Least times on a device of round figures: 100 TFLOP/s in 16 bits, 1 TB/s, a cache of 10 MB."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.queries.sessions import traced
from tests.small_model import cost, node
from tui_profiler.messages import Tensor, Unknown, Weight
from tui_profiler.queries.hardware.data_sheets import DataSheet
from tui_profiler.queries.hardware.on_device import LeastTime, least_time, peak
from tui_profiler.session import Tree

SHEET = DataSheet(
    name="X",
    title="X",
    memory_bytes=16e9,
    bytes_per_second=1e12,
    l2_bytes=10e6,
    flops_per_second={"float32": 5e13, "float16": 1e14, "float64": 1e12},
    vector_flops_per_second=1e13,
    watts=200.0,
    source="none",
)
ROOT, FC, MATMUL, ACT, ADD = range(5)


def tree_of(
    *, dtype: str = "float16", weights: int = 100_000_000, calls: int = 1, uncosted: int = 0
) -> Tree:
    """Return a product of 2 TFLOP and ``weights`` bytes, then a sum of 1 GFLOP and 30 MB."""
    out = Tensor((1,), dtype, 30_000_000)
    matmul = cost(macs=10**12, flops=2 * 10**12, weight_bytes=weights, output_bytes=10**6, ops=1)
    add = cost(flops=10**9, input_bytes=20 * 10**6, output_bytes=10 * 10**6, ops=1)
    whole = cost(
        parameter_bytes=weights,
        macs=matmul.macs,
        flops=matmul.flops + add.flops,
        weight_bytes=weights,
        input_bytes=add.input_bytes,
        output_bytes=matmul.output_bytes + add.output_bytes,
        ops=2,
        uncosted=uncosted,
    )
    held = (Weight("weight", (1,), dtype, weights, False),)
    nodes = [
        node(-1, "net", "", "Net"),
        node(ROOT, "fc", "fc", "Linear", weights=held, outputs=(out,)),
        node(FC, "aten::mm", "fc/0", "aten.mm.default", outputs=(out,)),
        node(ROOT, "act", "act", "Add", outputs=(out,)),
        node(ACT, "aten::add", "act/0", "aten.add.Tensor", outputs=(out,), calls=calls),
    ]
    session = traced(nodes, [whole, matmul, matmul, add, add])
    assert session.tree is not None
    return session.tree


def least(tree: Tree, at: int = ROOT) -> LeastTime:
    found = least_time(tree, at, SHEET)
    assert isinstance(found, LeastTime)
    return found


def test_the_larger_least_time_of_each_operator_is_summed() -> None:
    found = least(tree_of())
    # 2 TFLOP at 100 TFLOP/s; 30 MB at 1 TB/s, for which 1 GFLOP at twice 10 TFLOP/s is 50 µs.
    assert found.compute_seconds == pytest.approx(0.02 + 50e-6)
    assert found.memory_seconds == 0.0
    assert found.limit == "compute"
    assert found.joules(SHEET) == pytest.approx(200 * found.seconds)
    assert least(tree_of(), FC).seconds == pytest.approx(0.02)
    assert least(tree_of(), ADD).seconds == pytest.approx(50e-6)


def test_fused_kernels_take_their_matrix_products_only() -> None:
    tree = tree_of(weights=10**11)
    assert least(tree).fused_seconds == least(tree, FC).seconds  # The sum runs inside of it.
    assert least(tree, ADD).fused_seconds == 0 < least(tree, ADD).seconds
    # Without weights it may be a part of fused attention: what it writes may stay in the kernel.
    alone = replace(tree.costs[MATMUL], weight_bytes=0, output_bytes=10**11)
    of_activations = replace(tree, costs=(*tree.costs[:FC], alone, alone, *tree.costs[ACT:]))
    assert least(of_activations, MATMUL).seconds == pytest.approx(0.1)
    assert least(of_activations, MATMUL).fused_seconds == pytest.approx(0.02)


def test_weights_are_read_from_memory_where_the_cache_does_not_keep_them() -> None:
    much = least(tree_of(weights=10**11), FC)  # 0.1 s at 1 TB/s.
    assert much.memory_seconds == pytest.approx(0.1, rel=1e-4)
    assert much.limit == "memory"
    assert least(tree_of(weights=19 * 10**6), FC).compute_seconds == pytest.approx(0.02)


def test_what_a_call_touches_may_lie_in_the_cache() -> None:
    in_32_bits = tree_of(dtype="float32")
    assert least(in_32_bits, ADD).seconds == pytest.approx(100e-6)  # 1 GFLOP at 10 TFLOP/s.
    # 30 MB in one call are above 10 MB and take 30 µs; in four calls of 7.5 MB they cost nothing.
    wide = DataSheet(
        **{
            **{name: getattr(SHEET, name) for name in DataSheet.__struct_fields__},
            "vector_flops_per_second": 1e18,
        }
    )
    for calls, seconds in ((1, 30e-6), (4, 0.0)):
        found = least_time(tree_of(dtype="float32", calls=calls), ADD, wide)
        assert isinstance(found, LeastTime)
        assert found.memory_seconds == pytest.approx(seconds)


def test_a_dtype_without_a_peak_is_said_and_not_guessed() -> None:
    found = least(tree_of(dtype="bfloat16"))
    assert found.no_peak == ("bfloat16",)
    assert found.seconds == pytest.approx(150e-6, rel=0.01)  # Weights from memory, and the sum.


def test_operators_without_a_formula_are_counted() -> None:
    assert least(tree_of(uncosted=3)).uncosted == 3


def test_other_work_than_products_never_has_a_higher_peak_than_they() -> None:
    assert peak(SHEET, "float32", has_macs=False) == 1e13
    assert peak(SHEET, "float16", has_macs=False) == 2e13
    assert peak(SHEET, "float64", has_macs=False) == 1e12
    assert peak(SHEET, "bfloat16", has_macs=False) == 2e13
    assert peak(SHEET, "bfloat16", has_macs=True) is None


def test_a_file_of_parameters_has_no_least_time() -> None:
    from tui_profiler.session.tree import Tree as Empty

    found = least_time(Empty(method="parameters", expected=0), 0, SHEET)
    assert isinstance(found, Unknown)

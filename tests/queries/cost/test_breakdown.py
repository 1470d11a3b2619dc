"""Operators by type, and what that makes of a model."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.queries.sessions import cost_of, node_of, traced
from tests.small_model import ACT, CEILINGS, CONV, FC, NODES, ROOT, TRACED, folded, node, tick
from tui_profiler.messages import Node, Tensor, Unknown
from tui_profiler.queries.cost import breakdown
from tui_profiler.queries.cost.bound_classes import KINDS


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::convolution", "Conv2d"),
        ("aten::mkldnn_convolution", "Conv2d"),
        ("torchvision::deform_conv2d", "Conv2d"),
        ("aten::addmm", "Linear"),
        ("aten::mm", "Linear"),
        ("aten::linear", "Linear"),
        ("aten::bmm", "matmul"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::_native_multi_head_attention", "attention"),
        ("aten::_transformer_encoder_layer_fwd", "transformer layer"),
        ("aten::mkldnn_rnn_layer", "recurrent"),
        ("aten::lstm", "recurrent"),
        ("aten::native_batch_norm", "norm"),
        ("aten::_native_batch_norm_legit_no_training", "norm"),
        ("aten::native_layer_norm", "norm"),
        ("aten::relu_", "activation"),
        ("aten::_softmax", "activation"),
        ("aten::max_pool2d_with_indices", "pooling"),
        ("aten::_adaptive_avg_pool2d", "pooling"),
        ("aten::embedding", "embedding"),
        ("aten::mean", "reduction"),
        ("aten::add_", "elementwise"),
        ("aten::view", "layout"),
        ("aten::_to_copy", "layout"),
        ("torchvision::nms", "other"),
        ("mine::strange", "other"),
        ("aten::__and__", "other"),
    ],
)
def test_an_operator_has_a_type_by_its_name(name: str, kind: breakdown.OpType) -> None:
    assert breakdown.op_type(node(0, name, "0", name)) == kind


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1, 3, 8), "Conv1d"), ((1, 3, 8, 8), "Conv2d"), ((1, 3, 8, 8, 8), "Conv3d")],
)
def test_a_convolution_has_the_axes_of_its_input(
    shape: tuple[int, ...], kind: breakdown.OpType
) -> None:
    convolution = replace(NODES[2], inputs=(Tensor(shape, "float32", 4),))
    assert breakdown.op_type(convolution) == kind


def test_types_are_ordered_by_flops_and_their_shares_add_up() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    found = breakdown.breakdown(tree)
    assert [(part.type, part.count, part.flops) for part in found] == [
        ("Conv2d", 1, 13824),
        ("Linear", 1, 5130),
        ("activation", 1, 10),
        ("other", 1, Unknown("not counted: mine::strange")),
    ]
    assert sum(part.share or 0 for part in found) == pytest.approx(1)


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ({"Conv2d": 0.71, "Linear": 0.29}, "CNN-heavy"),
        ({"Conv2d": 0.7, "Linear": 0.3}, "mixed"),
        ({"Conv1d": 0.4, "Conv3d": 0.4}, "CNN-heavy"),
        ({"Linear": 0.3, "matmul": 0.1, "attention": 0.11}, "transformer-heavy"),
        ({"Linear": 1.0}, "dense"),
        ({"Linear": 0.5, "elementwise": 0.5}, "mixed"),
        ({"recurrent": 0.51, "elementwise": 0.49}, "recurrent"),
        ({"recurrent": 0.5, "elementwise": 0.5}, "mixed"),
        ({"layout": 0.0}, "unknown"),
    ],
)
def test_the_architecture_is_where_the_flops_are(
    shares: dict[breakdown.OpType, float], name: breakdown.Architecture
) -> None:
    parts = tuple(
        breakdown.TypeShare(kind, 1, int(share * 1000), share) for kind, share in shares.items()
    )
    assert breakdown.architecture(parts, has_attention="attention" in shares) == name


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("addmm relu addmm", False),
        ("addmm relu addmm softmax", False),
        # A classifier's softmax between linear layers is no attention, nor are DLRM's products.
        ("addmm softmax addmm", False),
        ("addmm bmm addmm relu addmm softmax", False),
        # The router of a mixture of experts, whose products are batched.
        ("bmm gelu bmm addmm softmax bmm gelu bmm", False),
        ("addmm addmm addmm bmm mul _softmax bmm addmm", True),
        ("addmm addmm baddbmm softmax addmm bmm", True),
        ("addmm scaled_dot_product_attention addmm", True),
        ("_transformer_encoder_layer_fwd", True),
    ],
)
def test_attention_is_fused_or_a_softmax_between_two_products(names: str, expected: bool) -> None:
    nodes: list[Node] = [node_of(-1, "net", "Net", [])]
    for name in names.split():
        nodes.append(node_of(0, f"aten::{name}", f"aten.{name}.default", nodes))
    session = traced(nodes, [cost_of(0, 10) for _ in nodes])
    assert session.tree is not None
    assert breakdown.has_attention(session.tree) is expected


def test_on_paper_operators_are_compute_or_memory_bound() -> None:
    # Three operators have fewer than 10 FLOPs per byte, of the fourth they are not known.
    shares = breakdown.bound_shares(folded(TRACED))
    assert shares == {
        "compute": breakdown.BoundShare(0, 0.0, None),
        "memory": breakdown.BoundShare(3, 1.0, None),
        **dict.fromkeys(KINDS[2:], breakdown.BoundShare(None, None, None)),
    }


def test_once_measured_each_class_has_its_share_of_the_time() -> None:
    times = {ROOT: (40e-6, 0.0), FC: (20e-6, 20e-6), ACT: (12e-6, 12e-6), CONV: (8e-6, 8e-6)}
    shares = breakdown.bound_shares(folded((*TRACED, CEILINGS, tick(times))))
    # conv: one operator takes 10 µs at least, more than its 8 µs: overhead, as act is.
    assert [shares[kind].time_share for kind in ("compute", "memory", "overhead")] == [
        0.0,
        pytest.approx(0.5),
        pytest.approx(0.5),
    ]

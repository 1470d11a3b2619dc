"""Names that tracers mangled, made readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_profiler.formatting.text import width
from tui_profiler.queries.tree.names import abbreviated, fitted, short, shown

READABLE = [
    ("g__model___model_0_conv", "model.0.conv"),
    # The seed's own example says 22 on the right where the left says 23.
    (
        "getattr_getattr_L__yolo_model___model_23_cv3_0___0_____0___conv",
        "model.23.cv3.0[0][0].conv",
    ),
    ("L__self___layer1_0_conv1", "layer1.0.conv1"),
    ("L__self___encoder_layers_0_self_attn", "encoder_layers.0.self_attn"),
    ("L__self___layers_0", "layers.0"),
    ("getattr_L__self___layers_1_2_norm", "layers.1.2.norm"),
    ("backbone_23_conv", "backbone.23.conv"),
    ("model.model.x", "model.x"),
    ("model.model.model.x", "model.x"),
    ("blocks_____0___", "blocks[0]"),
]

UNCHANGED = [
    "layer1.0.conv1",
    "layer1_conv1",
    "relu_1",
    "model.x",
    "self_attn",
    "__init__",
    "",
    "L__",
    "x" * 5000,
]


@pytest.mark.parametrize(("mangled", "readable"), READABLE)
def test_a_mangled_name_becomes_readable(mangled: str, readable: str) -> None:
    assert abbreviated(mangled) == readable


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_plain_name_stays(name: str) -> None:
    assert abbreviated(name) == name


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("L__self___layer1_0_conv1", "layer1.0.conv1"),
        ("g__model___model_0_conv", "model.0.conv"),
        ("getattr_L__self___layers_1_2_norm", "layers.1.2.norm"),
        ("getattr_getattr_L__m___model_23_cv3_0___0_____0___conv", "model.23.cv3.0[0][0].conv"),
        ("blocks_____0___", "blocks[0]"),
        ("norm_1_out", "norm_1_out"),
        ("getattribute", "getattribute"),
        ("conv2d_7", "conv2d_7"),
        ("self_attn", "self_attn"),
    ],
)
def test_a_tree_abbreviates_only_what_a_tracer_called_so(name: str, readable: str) -> None:
    assert shown(name) == readable


def test_a_long_name_keeps_its_start_and_its_end() -> None:
    assert short("backbone.body.layer4.2.downsample.conv", 16) == "backbon...e.conv"


@given(st.text(alphabet="LgG_.[]012ab\x1b\u0301漢", max_size=60), st.integers(0, 30))
def test_a_name_never_takes_more_than_its_cells(name: str, cells: int) -> None:
    assert width(short(name, cells)) <= cells


@given(st.text(alphabet="Lg_01ab", min_size=1, max_size=40))
def test_no_name_is_lost(name: str) -> None:
    assert abbreviated(name)


ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


@pytest.mark.parametrize(
    ("name", "cells", "text"),
    [
        (f"aten::{ATTENTION}", 60, f"aten::{ATTENTION}"),
        (f"aten::{ATTENTION}", 44, ATTENTION),
        (f"aten::{ATTENTION}", 34, "scaled_dot_product_flash_attention"),
        (f"aten::{ATTENTION}", 20, "sdpa_flash"),
        ("aten::_scaled_dot_product_attention_math_for_cpu", 22, "sdpa_math"),
        ("aten::mkldnn_convolution", 12, "mkldnn_conv…"),
        ("aten::add", 3, "add"),
        (f"encoder.layers.11/{ATTENTION}", 20, "enco…s.11/sdpa_flash"),
        (f"encoder.layers.11/{ATTENTION}", 12, "sdpa_flash"),
        ("backbone.body.layer4.2.downsample.conv", 16, "backbone…le.conv"),
    ],
)
def test_an_operator_that_is_cut_says_what_it_does(name: str, cells: int, text: str) -> None:
    shown_name = fitted(name, cells)
    assert width(shown_name) <= cells
    assert shown_name == text

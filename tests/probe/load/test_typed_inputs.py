"""``--input`` as people type it."""

import pytest
import torch
from torch import Tensor, nn

from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.common.loaded_model import Settings
from tui_profiler.probe.load.inputs.input_candidates import Typed, parse_input, typed_call

CPU = Settings(torch.device("cpu"), None, None)


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image: Tensor, scale: Tensor | None = None, *, mask: Tensor | None = None):
        return self.conv(image)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None):
        return self.words(ids)


class Pair(nn.Module):
    def forward(self, left: Tensor, right: Tensor):
        return left + right


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,3,224,224", Typed("", (1, 3, 224, 224), None)),
        (" 1, 3 ,8 ", Typed("", (1, 3, 8), None)),
        ("1x3x8x8", Typed("", (1, 3, 8, 8), None)),
        ("1×3×8×8", Typed("", (1, 3, 8, 8), None)),
        ("5", Typed("", (5,), None)),
        ("1,16:int64", Typed("", (1, 16), torch.int64)),
        ("1,16:torch.bool", Typed("", (1, 16), torch.bool)),
        ("image=1,3,8,8:bfloat16", Typed("image", (1, 3, 8, 8), torch.bfloat16)),
        ("x = 2,4", Typed("x", (2, 4), None)),
        ("größe=2,4", Typed("größe", (2, 4), None)),
    ],
)
def test_a_typed_input_is_read(text, expected):
    assert parse_input(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "1,",
        "1,,2",
        "a,b",
        "1,-3",
        "1,3:",
        "=1,3",
        "1=2",
        "1.5",
        "x=",
        "1,3:float32:x",
        "x",
    ],
)
def test_another_form_is_refused_with_the_right_one(text):
    with pytest.raises(LoadError) as caught:
        parse_input(text)
    assert caught.value.failed.bad_argument
    assert "[name=]1,3,224,224[:float32]" in caught.value.failed.what
    assert caught.value.failed.remedies[0].command == "--input 1,3,224,224"


@pytest.mark.parametrize(
    ("text", "said"),
    [("1,0,3", "axis of size 0"), ("1,3:float31", "near it: float32"), ("1,3:nn", "no dtype")],
)
def test_what_no_tensor_can_have_is_refused(text, said):
    with pytest.raises(LoadError, match=said) as caught:
        parse_input(text)
    assert caught.value.failed.bad_argument


def test_inputs_are_bound_in_order_and_by_name():
    call = typed_call(("1,3,8,8", "mask=1,8", "scale=1,1"), Image(), CPU)
    inputs = call.inputs(CPU)
    assert [tuple(value.shape) for value in inputs.args] == [(1, 3, 8, 8)]
    assert {name: tuple(value.shape) for name, value in inputs.kwargs.items()} == {
        "mask": (1, 8),
        "scale": (1, 1),
    }
    assert [(spec.name, spec.shape, spec.why) for spec in inputs.specs] == [
        ("image", (1, 3, 8, 8), "--input"),
        ("mask", (1, 8), "--input"),
        ("scale", (1, 1), "--input"),
    ]


def test_without_a_dtype_images_are_floating_and_ids_whole():
    assert typed_call(("1,3,8,8",), Image(), CPU).inputs(CPU).specs[0].dtype == "float32"
    (ids,) = typed_call(("3,50",), Text(), CPU).inputs(CPU).args
    assert ids.dtype == torch.int64
    assert int(ids.min()) >= 0
    assert int(ids.max()) < 7


def test_a_mask_is_boolean_by_its_name():
    inputs = typed_call(("1,8", "attention_mask=1,8"), Text(), CPU).inputs(CPU)
    assert [spec.dtype for spec in inputs.specs] == ["int64", "bool"]


def test_a_typed_dtype_wins_over_the_model_dtype():
    half = Settings(torch.device("cpu"), torch.bfloat16, None)
    inputs = typed_call(("1,3,8,8:float32", "scale=1,1"), Image(), half).inputs(half)
    assert [spec.dtype for spec in inputs.specs] == ["float32", "bfloat16"]


def test_batch_replaces_the_leading_axis_of_every_input_that_has_it():
    eight = Settings(torch.device("cpu"), None, 8)
    inputs = typed_call(("2,4", "right=2,4"), Pair(), eight).inputs(eight)
    assert [spec.shape for spec in inputs.specs] == [(8, 4), (8, 4)]
    assert inputs.batch == 8
    inputs = typed_call(("2,4", "right=5,4"), Pair(), eight).inputs(eight)
    assert [spec.shape for spec in inputs.specs] == [(8, 4), (5, 4)]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("1,3,8,8", "1", "1", "1"), "was given 4 times, but .* takes 2"),
        (("picture=1,3,8,8",), 'has no parameter "picture"'),
        (("1,3,8,8", "image=1,3,8,8"), 'gives "image" .* twice'),
        (("mask=1,8",), "needs image as well"),
    ],
)
def test_what_does_not_bind_is_refused(texts, said):
    with pytest.raises(LoadError, match=said) as caught:
        typed_call(texts, Image(), CPU)
    assert caught.value.failed.bad_argument


def test_the_nearest_parameter_is_offered():
    with pytest.raises(LoadError) as caught:
        typed_call(("imge=1,3,8,8",), Image(), CPU)
    assert caught.value.failed.remedies[0].command.startswith("--input image=")


def test_what_does_not_fit_in_memory_is_refused_before_it_is_made():
    with pytest.raises(LoadError, match=r"need .* GiB") as caught:
        typed_call(("1000000,3,10000,10000",), Image(), CPU)
    assert caught.value.failed.bad_argument
    meta = Settings(torch.device("meta"), None, None)
    inputs = typed_call(("1000000,3,10000,10000",), Image(), meta).inputs(meta)
    assert inputs.specs[0].shape == (1000000, 3, 10000, 10000)


def test_a_forward_that_tells_nothing_takes_anything_in_order():
    class Anything(nn.Module):
        def forward(self, *args, **kwargs):
            return args[0]

    inputs = typed_call(("2,3", "2,4", "x=2,5"), Anything(), CPU).inputs(CPU)
    assert [spec.name for spec in inputs.specs] == ["input", "input_2", "x"]

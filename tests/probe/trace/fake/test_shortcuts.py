"""Operators on fake tensors answered sooner: what torch's own fake run answers.

1. By C++ shape functions; 2. by the cache of shapes; 3. by shapes known here.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchvision  # noqa: F401 - its operators are registered
from torch import nn

from tui_profiler.probe.torch_compat.internals import FakeTensor, fake_inputs, storage_key
from tui_profiler.probe.trace.fake.shortcuts import ShapeCache, quick_fake, shortcut

aten = torch.ops.aten
SQUARE = torch.zeros(4, 4)
IMAGE = torch.zeros(2, 4, 6, 6)
LAST = IMAGE.contiguous(memory_format=torch.channels_last)
BATCHES = torch.zeros(3, 4, 5)
HALF = torch.zeros(4, 4, dtype=torch.float16)
WHOLE = torch.zeros(4, 4, dtype=torch.int64)

CALLS = [
    (aten.view.default, (IMAGE, [2, 4, 36])),
    (aten.view.default, (IMAGE, [2, -1])),
    (aten._unsafe_view.default, (BATCHES, [12, 5])),
    (aten.t.default, (SQUARE[:, :2],)),
    (aten.transpose.int, (LAST, 1, 3)),
    (aten.permute.default, (IMAGE, [0, 2, 3, 1])),
    (aten.expand.default, (torch.zeros(1, 4), [3, 4])),
    (aten.select.int, (IMAGE, 1, -1)),
    (aten.slice.Tensor, (IMAGE, 2, 1, 9223372036854775807, 2)),
    (aten.unsqueeze.default, (IMAGE, -1)),
    (aten.squeeze.dim, (torch.zeros(1, 4), 0)),
    (aten.mm.default, (SQUARE, SQUARE.t())),
    (aten.addmm.default, (SQUARE[0], SQUARE, SQUARE)),
    (aten.addmm.default, (torch.zeros(1, 4), SQUARE, SQUARE)),
    (aten.bmm.default, (BATCHES, BATCHES.transpose(1, 2))),
    (aten.baddbmm.default, (torch.zeros(3, 1, 4), BATCHES, BATCHES.transpose(1, 2))),
    (aten.add.Tensor, (IMAGE, LAST)),
    (aten.add.Tensor, (LAST, LAST)),
    (aten.add.Tensor, (HALF, WHOLE)),
    (aten.add.Tensor, (WHOLE, 1.5)),
    (aten.add_.Tensor, (IMAGE, LAST)),
    (aten.sub.Tensor, (IMAGE, IMAGE[0])),
    (aten.mul.Tensor, (LAST, torch.zeros(4, 1, 1))),
    (aten.mul_.Tensor, (LAST, 2)),
    (aten.div.Tensor, (WHOLE, WHOLE)),
    (aten.gelu.default, (LAST,)),
    (aten.silu.default, (IMAGE.transpose(1, 2),)),
    (aten.silu_.default, (IMAGE,)),
    (aten.sigmoid.default, (WHOLE,)),
    (aten.tanh.default, (IMAGE[:, ::2],)),
    (aten.pow.Tensor_Scalar, (WHOLE, 0.5)),
    (aten.rsqrt.default, (SQUARE,)),
    (aten.clamp_min.default, (HALF, 0)),
    (aten.clone.default, (LAST,)),
    (aten.clone.default, (IMAGE[:, :, ::2].transpose(1, 3),)),
    (aten.clone.default, (torch.zeros(1, 4).expand(3, 4),)),
    (aten.mean.dim, (LAST, [-1, -2], True)),
    (aten.mean.dim, (SQUARE, None)),
    (aten.sum.dim_IntList, (WHOLE, [1])),
    (aten._softmax.default, (BATCHES.transpose(1, 2), -1, False)),
    (aten.cat.default, ([LAST, LAST], 1)),
    (aten.cat.default, ([IMAGE, LAST], 1)),
    (aten.cat.default, ([HALF, SQUARE],)),
]


def faked(args: tuple[object, ...]) -> tuple[object, ...]:
    return fake_inputs(args)[1]


def described(tensor: torch.Tensor) -> tuple[object, ...]:
    return (
        type(tensor),
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        tensor.dtype,
        tensor.device,
        tensor.untyped_storage().nbytes(),
    )


@pytest.mark.parametrize(("operator", "args"), CALLS, ids=[str(call[0]) for call in CALLS])
def test_the_answer_is_torchs_own(operator, args: tuple[object, ...]) -> None:
    one, two = faked(args), faked(args)
    quick, slow = quick_fake(operator, one, {}), operator(*two)
    assert quick is not None
    assert described(quick) == described(slow)
    firsts = [given[0] for given in (one, two)]
    if isinstance(firsts[0], torch.Tensor):
        shared = [
            storage_key(f) == storage_key(r) for f, r in zip(firsts, (quick, slow), strict=True)
        ]
        assert shared[0] == shared[1]
        assert (quick is firsts[0]) == (slow is firsts[1])


def test_a_clone_takes_the_memory_format_that_is_asked_for() -> None:
    (given,) = faked((LAST,))
    wanted = {"memory_format": torch.contiguous_format}
    quick = quick_fake(aten.clone.default, (given,), wanted)
    assert quick is not None
    assert described(quick) == described(aten.clone.default(given, **wanted))


def test_a_real_weight_beside_a_fake_input_is_taken_by_its_shape() -> None:
    weight = nn.Parameter(torch.zeros(4, 7)).t()
    (given,) = faked((torch.zeros(5, 7),))
    args = (torch.zeros(4), given, weight)
    quick = quick_fake(aten.addmm.default, args, {})
    assert quick is not None
    assert described(quick) == described(aten.addmm.default(*args))
    assert weight.device.type == "cpu"


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.relu.default, (faked((IMAGE,))[0],)),
        (aten.add.Tensor, (SQUARE, SQUARE)),
        (aten.add.Tensor, (faked((IMAGE,))[0], torch.tensor(2.0))),
        (aten.add_.Tensor, (SQUARE, faked((SQUARE,))[0])),
        (aten.mm.default, (faked((SQUARE,))[0], torch.zeros(4, 4, device="meta"))),
        (aten.mm.default, (faked((SQUARE,))[0], faked((SQUARE,))[0])),
        (aten.cat.default, ([faked((SQUARE,))[0], torch.tensor(1.0)],)),
    ],
    ids=["unknown", "real", "a number", "written", "elsewhere", "two modes", "in a list"],
)
def test_what_follows_rules_of_its_own_is_left_to_torch(operator, args) -> None:
    assert quick_fake(operator, args, {}) is None


def test_shapes_that_do_not_fit_are_an_error_as_ever() -> None:
    given, other = faked((torch.zeros(2, 3), torch.zeros(2, 3)))
    assert isinstance(given, FakeTensor)
    with pytest.raises(RuntimeError, match=r"mat1|reduction dim"):
        quick_fake(aten.mm.default, (given, other), {})


HEADS = torch.zeros(2, 3, 5, 8)
CHANNELS = torch.ones(4)
KERNEL = torch.zeros(6, 4, 3, 3)
IDS = torch.zeros(3, dtype=torch.int64)

NORM = (CHANNELS, CHANNELS, CHANNELS, CHANNELS, False, 0.1, 1e-5)
CONVOLUTION = (KERNEL, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
MORE_CALLS = [
    (aten.convolution.default, (IMAGE, *CONVOLUTION)),
    (aten.convolution.default, (LAST, *CONVOLUTION)),
    (aten.native_batch_norm.default, (LAST, *NORM)),
    (aten.native_layer_norm.default, (HEADS, [8], None, None, 1e-5)),
    (aten.relu.default, (HEADS.transpose(1, 2),)),
    (aten.relu_.default, (LAST,)),
    (aten.neg.default, (IMAGE[:, ::2],)),
    (aten.copy_.default, (IMAGE, LAST)),
    (aten.mul.Tensor, (HEADS, torch.zeros(()))),
    (aten.sum.default, (HEADS,)),
    (aten.max_pool2d_with_indices.default, (LAST, [2, 2])),
    (aten._scaled_dot_product_flash_attention_for_cpu.default, (HEADS, HEADS, HEADS)),
    (aten.embedding.default, (torch.zeros(7, 4), IDS)),
    (aten.eq.Scalar, (IDS, 1)),
    (aten.topk.default, (HEADS, 2)),
    (aten.repeat.default, (IDS, [2, 2])),
]
VIEWS = {
    *("aten.view.default", "aten._unsafe_view.default", "aten.t.default", "aten.transpose.int"),
    *("aten.permute.default", "aten.expand.default", "aten.select.int", "aten.slice.Tensor"),
    *("aten.unsqueeze.default", "aten.squeeze.dim"),
}
ALL_CALLS = [call for call in (*CALLS, *MORE_CALLS) if str(call[0]) not in VIEWS]


def asked(cache: ShapeCache, operator: Any, *args: Any, **kwargs: Any) -> object:
    """Ask the cache, and torch where it does not know; as the recorder does."""
    key = cache.key(operator, args, kwargs)
    found = cache.answer(key, args)
    if found is None:
        cache.keep(key, args, operator(*args, **kwargs))
    return found


def tensors(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple | list) else [result]


@pytest.mark.parametrize(("operator", "args"), ALL_CALLS, ids=[str(call[0]) for call in ALL_CALLS])
def test_the_second_answer_is_torchs_own(operator: Any, args: tuple[Any, ...]) -> None:
    given = faked(args)
    cache = ShapeCache()
    assert asked(cache, operator, *given) is None
    cached = asked(cache, operator, *given)
    own = operator(*given)
    assert type(cached) is type(own)
    assert [described(one) for one in tensors(cached)] == [described(one) for one in tensors(own)]
    inputs = given[0] if isinstance(given[0], list) else [given[0]]
    before = {storage_key(tensor) for tensor in inputs}
    for mine, torchs in zip(tensors(cached), tensors(own), strict=True):
        assert (storage_key(mine) in before) == (storage_key(torchs) in before)
        assert (mine is given[0]) == (torchs is given[0])


@pytest.mark.parametrize(("operator", "args"), CALLS, ids=[str(call[0]) for call in CALLS])
def test_views_are_asked_for_each_time(operator: Any, args: tuple[Any, ...]) -> None:
    is_known = ShapeCache().key(operator, faked(args), {}) is not None
    assert is_known == (str(operator) not in VIEWS)


def test_every_answer_is_a_tensor_of_its_own() -> None:
    (given,) = faked((IMAGE,))
    cache = ShapeCache()
    asked(cache, aten.relu.default, given)
    one, other = (asked(cache, aten.relu.default, given) for _ in range(2))
    assert isinstance(one, FakeTensor)
    assert isinstance(other, FakeTensor)
    assert len({storage_key(tensor) for tensor in (given, one, other)}) == 3


SOME_IDS = faked((IDS, IDS))
FIRST = faked((IMAGE,))[0]


@pytest.mark.parametrize(
    ("operator", "one", "other"),
    [
        (aten.mul.Tensor, (SOME_IDS[0], 1), (SOME_IDS[0], 1.0)),
        (aten.mul.Tensor, (SOME_IDS[0], 1), (SOME_IDS[0], True)),
        (aten.sum.dim_IntList, (FIRST, [1]), (FIRST, [-1])),
        (aten.relu.default, (FIRST,), (FIRST.transpose(1, 3),)),
        (aten.relu.default, (FIRST,), (FIRST[:1],)),
        (aten.cat.default, ([FIRST, FIRST],), ([FIRST, FIRST, FIRST],)),
        (aten.cat.default, ([FIRST, FIRST], 0), ([FIRST, FIRST], 1)),
    ],
    ids=["float", "boolean", "axis", "strides", "size", "list", "after a list"],
)
def test_another_call_has_another_key(operator: Any, one: Any, other: Any) -> None:
    cache = ShapeCache()
    keys = [cache.key(operator, args, {}) for args in (one, other)]
    assert None not in keys
    assert keys[0] != keys[1]
    assert keys[0] == cache.key(operator, one, {})


def test_keyword_arguments_are_in_the_key() -> None:
    (given,) = faked((IMAGE,))
    cache = ShapeCache()
    keys = {
        cache.key(aten._to_copy.default, (given,), {"dtype": dtype})
        for dtype in (torch.float16, torch.bfloat16)
    }
    assert len(keys) == 2
    assert None not in keys


def test_what_division_of_integers_gives_follows_from_the_default_type() -> None:
    cache = ShapeCache()
    before = cache.key(aten.div.Tensor, SOME_IDS, {})
    try:
        torch.set_default_dtype(torch.float64)
        assert cache.key(aten.div.Tensor, SOME_IDS, {}) != before
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.relu.default, (IMAGE,)),
        (aten.nonzero.default, (faked((IDS,))[0],)),
        (aten._local_scalar_dense.default, (faked((torch.zeros(()),))[0],)),
        (aten.index.Tensor, (faked((IDS,))[0], [IDS > 0])),
        (aten.mul.Tensor, (faked((IDS,))[0], IDS)),
        (aten.mul.Tensor, (faked((IMAGE,))[0], faked((IMAGE,))[0])),
        (aten.unsqueeze_.default, (faked((IMAGE,))[0], 0)),
        (aten.detach.default, (faked((IMAGE,))[0],)),
        (aten.split.Tensor, (faked((IMAGE,))[0], 2)),
        (torch.ops.torchvision.nms.default, faked((torch.zeros(3, 4), torch.zeros(3), 0.5))),
    ],
    ids=["real", "values", "number", "mask", "integers", "modes", "shape", "alias", "parts", "not"],
)
def test_what_depends_on_more_is_asked_for_each_time(operator: Any, args: tuple[Any, ...]) -> None:
    assert ShapeCache().key(operator, args, {}) is None


def test_a_real_tensor_that_fake_values_are_written_into_is_not_answered() -> None:
    cache = ShapeCache()
    real = torch.zeros(2, 4, 6, 6)
    key = cache.key(aten.add_.Tensor, (real, FIRST), {})
    cache.keep(key, (real, FIRST), real)
    assert cache.answer(key, (real, FIRST)) is None


@torch.no_grad()
def test_a_parameter_stands_beside_a_fake_input() -> None:
    weight = nn.Parameter(torch.zeros(4, 7)).t()
    (given,) = faked((torch.zeros(5, 7),))
    cache = ShapeCache()
    args = (torch.zeros(4), given, weight)
    asked(cache, aten.addmm.default, *args)
    cached = asked(cache, aten.addmm.default, *args)
    assert isinstance(cached, FakeTensor)
    assert described(cached) == described(aten.addmm.default(*args))


BATCH_NORM = torch.ops.aten.native_batch_norm.default
GROUPED = torch.ops.aten._grouped_mm.default
LAYER_NORM = torch.ops.aten.native_layer_norm.default


def all_described(value: object) -> list[tuple[object, ...]]:
    assert isinstance(value, tuple)
    return [described(tensor) for tensor in value]


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (1, 3, 4, 6), (2, 3, 2, 2, 2)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("channels_last", [True, False])
def test_batch_norm_with_running_statistics(shape, affine: bool, channels_last: bool) -> None:
    x = torch.zeros(shape)
    if channels_last and len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    weight = torch.ones(3) if affine else None
    _, (given,) = fake_inputs((x,))
    args = (given, weight, weight, torch.zeros(3), torch.ones(3), False, 0.1, 1e-5)

    assert all_described(shortcut(BATCH_NORM, args)) == all_described(BATCH_NORM(*args))


@pytest.mark.parametrize(("shape", "axes"), [((2, 3, 4), [4]), ((2, 3, 4), [3, 4]), ((4,), [4])])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(shape, axes: list[int], affine: bool) -> None:
    weight = torch.ones(axes) if affine else None
    _, (given,) = fake_inputs((torch.zeros(shape),))
    args = (given, axes, weight, weight, 1e-5)

    assert all_described(shortcut(LAYER_NORM, args)) == all_described(LAYER_NORM(*args))


@pytest.mark.parametrize(
    ("x", "axes"),
    [
        (torch.zeros(2, 4, dtype=torch.float16), [4]),
        (torch.zeros(4, 4).t(), [4]),
        (torch.zeros(2, 4), [3]),
    ],
)
def test_of_other_layer_norms_torch_is_asked(x: torch.Tensor, axes: list[int]) -> None:
    _, (given,) = fake_inputs((x,))
    assert shortcut(LAYER_NORM, (given, axes, None, None, 1e-5)) is None
    assert shortcut(LAYER_NORM, (x, axes, None, None, 1e-5)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("out", [16, 18])
@pytest.mark.parametrize("is_batched", [True, False])
def test_a_grouped_product_is_answered_as_the_cpu_does(
    dtype: torch.dtype, out: int, is_batched: bool
) -> None:
    one = torch.zeros((3, 5, 32) if is_batched else (10, 32), dtype=dtype)
    other = torch.zeros(3, out, 32, dtype=dtype).transpose(1, 2)
    ends = None if is_batched else torch.tensor([3, 6, 10], dtype=torch.int32)
    real = (GROUPED(one, other, ends),)
    _, (fake_one, fake_other) = fake_inputs((one, other))
    (made,) = (shortcut(GROUPED, (fake_one, fake_other, ends)),)
    assert [d[1:] for d in all_described((made,))] == [d[1:] for d in all_described(real)]
    on_meta = shortcut(GROUPED, (one.to("meta"), other.to("meta"), ends))
    assert isinstance(on_meta, torch.Tensor)
    assert (on_meta.shape, on_meta.stride()) == (real[0].shape, real[0].stride())


def test_a_grouped_product_that_the_cpu_refuses_has_no_shortcut() -> None:
    one, other = torch.zeros(10, 32), torch.zeros(3, 32, 18)
    ends = torch.tensor([3, 6, 10], dtype=torch.int32)
    with pytest.raises(RuntimeError, match="multiple of 16 bytes"):
        GROUPED(one, other, ends)
    assert shortcut(GROUPED, (one.to("meta"), other.to("meta"), ends)) is None


def test_in_training_and_for_real_there_is_none() -> None:
    x, ones = torch.zeros(2, 3), torch.ones(3)
    _, (given,) = fake_inputs((x,))

    assert shortcut(BATCH_NORM, (given, ones, ones, ones, ones, True, 0.1, 1e-5)) is None
    assert shortcut(BATCH_NORM, (x, ones, ones, ones, ones, False, 0.1, 1e-5)) is None
    assert shortcut(torch.ops.aten.relu.default, (given,)) is None

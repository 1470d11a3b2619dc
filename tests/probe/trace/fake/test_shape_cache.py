"""What is answered from the cache is what torch answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchvision  # noqa: F401 - its operators are registered
from torch import nn

from tests.probe.trace.fake.test_quick_fakes import CALLS, described, faked
from tui_profiler.probe.torch_compat.internals import FakeTensor, storage_key
from tui_profiler.probe.trace.fake.shape_cache import ShapeCache

aten = torch.ops.aten
IMAGE = torch.zeros(2, 4, 6, 6)
LAST = IMAGE.contiguous(memory_format=torch.channels_last)
HEADS = torch.zeros(2, 3, 5, 8)
CHANNELS = torch.ones(4)
KERNEL = torch.zeros(6, 4, 3, 3)
WHOLE = torch.zeros(3, dtype=torch.int64)

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
    (aten.embedding.default, (torch.zeros(7, 4), WHOLE)),
    (aten.eq.Scalar, (WHOLE, 1)),
    (aten.topk.default, (HEADS, 2)),
    (aten.repeat.default, (WHOLE, [2, 2])),
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


WHOLES = faked((WHOLE, WHOLE))
FIRST = faked((IMAGE,))[0]


@pytest.mark.parametrize(
    ("operator", "one", "other"),
    [
        (aten.mul.Tensor, (WHOLES[0], 1), (WHOLES[0], 1.0)),
        (aten.mul.Tensor, (WHOLES[0], 1), (WHOLES[0], True)),
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
    before = cache.key(aten.div.Tensor, WHOLES, {})
    try:
        torch.set_default_dtype(torch.float64)
        assert cache.key(aten.div.Tensor, WHOLES, {}) != before
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.relu.default, (IMAGE,)),
        (aten.nonzero.default, (faked((WHOLE,))[0],)),
        (aten._local_scalar_dense.default, (faked((torch.zeros(()),))[0],)),
        (aten.index.Tensor, (faked((WHOLE,))[0], [WHOLE > 0])),
        (aten.mul.Tensor, (faked((WHOLE,))[0], WHOLE)),
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

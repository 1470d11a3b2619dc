"""A shortcut gives what the fake run itself would."""

from __future__ import annotations

import pytest
import torch

from tui_profiler.probe.torch_compat.internals import fake_inputs
from tui_profiler.probe.trace.fake.shortcuts import shortcut

BATCH_NORM = torch.ops.aten.native_batch_norm.default
GROUPED = torch.ops.aten._grouped_mm.default
LAYER_NORM = torch.ops.aten.native_layer_norm.default


def described(value: object) -> list[tuple[object, ...]]:
    assert isinstance(value, tuple)
    return [(type(t), t.shape, t.stride(), t.dtype, t.device) for t in value]


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

    assert described(shortcut(BATCH_NORM, args)) == described(BATCH_NORM(*args))


@pytest.mark.parametrize(("shape", "axes"), [((2, 3, 4), [4]), ((2, 3, 4), [3, 4]), ((4,), [4])])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(shape, axes: list[int], affine: bool) -> None:
    weight = torch.ones(axes) if affine else None
    _, (given,) = fake_inputs((torch.zeros(shape),))
    args = (given, axes, weight, weight, 1e-5)

    assert described(shortcut(LAYER_NORM, args)) == described(LAYER_NORM(*args))


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
    assert [d[1:] for d in described((made,))] == [d[1:] for d in described(real)]
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

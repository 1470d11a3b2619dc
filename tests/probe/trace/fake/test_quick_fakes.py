"""The quick way gives what torch's own fake run gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tui_profiler.probe.torch_compat.internals import FakeTensor, fake_inputs, storage_key
from tui_profiler.probe.trace.fake.shortcuts import quick_fake

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

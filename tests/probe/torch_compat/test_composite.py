"""Operators that torch makes of others: recorded alike in every mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tui_profiler.probe.torch_compat.composite import is_composite, run_parts
from tui_profiler.probe.trace.record_program_forward import ProgramForwardRecorder
from tui_profiler.probe.trace.trace import Trace


class Seen(TorchDispatchMode):
    """Names of operators, composite ones run as their parts."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if is_composite(func, types, args, kwargs or {}):
            return run_parts(self, func, args, kwargs or {})
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def recorded(
    model: nn.Module, inputs: Tensor, mode: Callable[[], AbstractContextManager[object]]
) -> tuple[Trace, object]:
    recorder = ProgramForwardRecorder(model, "")
    with mode():
        output = recorder.run(nn.Module.__call__, (inputs,), {})
    made = recorder.trace()
    assert made is not None, recorder.trouble
    return made, output


class Everything(nn.Module):
    """Composite operators of all kinds, in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding="same")
        self.norm = nn.BatchNorm2d(4)
        self.drop, self.drop2d, self.alpha = nn.Dropout(0.3), nn.Dropout2d(0.3), nn.AlphaDropout()
        self.group, self.instance = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4)
        self.layer, self.rms = nn.LayerNorm(8), nn.RMSNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.linear = nn.Linear(4 * 6 * 6, 8)
        self.bilinear = nn.Bilinear(8, 8, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop2d(self.norm(self.conv(x)))
        x = self.instance(self.group(nn.functional.max_pool2d(x, 2)))
        x = self.linear(self.drop(x.flatten(1)))
        x = self.alpha(self.rms(self.layer(x))).softmax(-1)
        x = self.bilinear(x, nn.functional.normalize(x))
        x = x.reshape(2, 1, 8).expand(2, 5, 8)
        heads = x.unflatten(-1, (2, 4)).movedim(2, 1)
        x = (
            x
            + nn.functional.scaled_dot_product_attention(heads, heads, heads).mean((1, 3))[
                ..., None
            ]
        )
        x = self.attention(x, x, x)[0]
        return torch.einsum("bij,bkj->bik", self.gru(x)[0], x).chunk(2)[0]


def test_costs_are_those_of_no_grad_under_inference_mode() -> None:
    torch.manual_seed(0)
    model, inputs = Everything().eval(), torch.randn(2, 3, 12, 12)

    with torch.inference_mode():
        plain = model(inputs)
    no_grad, _ = recorded(model, inputs, torch.no_grad)
    inference, output = recorded(model, inputs, torch.inference_mode)

    assert inference.done.uncosted == no_grad.done.uncosted == ()
    ours, theirs = inference.costs[0], no_grad.costs[0]
    # Not every byte: under no_grad torch itself folds a product whose weight requires a gradient.
    assert (ours.macs, ours.flops, ours.uncosted) == (theirs.macs, theirs.flops, 0)
    modules = [
        [node.path for node in one.nodes if node.kind == "module"] for one in (inference, no_grad)
    ]
    assert modules[0] == modules[1]
    assert torch.equal(output, plain)


@pytest.mark.parametrize(
    "name", ["squeezenet1_1", "vgg11", "vit_b_32", "efficientnet_b0", "swin_t"]
)
def test_published_models_cost_alike_in_both_modes(name: str) -> None:
    get_model = pytest.importorskip("torchvision").models.get_model
    model, inputs = get_model(name).eval(), torch.randn(1, 3, 64, 64)
    if name == "vit_b_32":
        model = get_model(name, image_size=64).eval()

    no_grad, expected = recorded(model, inputs, torch.no_grad)
    inference, output = recorded(model, inputs, torch.inference_mode)

    assert inference.done.uncosted == ()
    assert inference.costs == no_grad.costs
    assert torch.equal(output, expected)


class Calls(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        torch.manual_seed(2)
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


F = nn.functional


@pytest.mark.parametrize("has_autocast", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.linear(x.transpose(0, 1), w),
        lambda x, w: torch.einsum("bij,bkj->bik", x, x @ w),
        lambda x, w: torch.matmul(torch.complex(x, x).conj(), torch.complex(w, w).conj()),
        lambda x, w: torch.linalg.norm(torch.complex(x, x).conj().imag @ w, dim=-1),
        lambda x, w: F.cosine_similarity(x, x @ w, dim=-1),
        lambda x, w: F.scaled_dot_product_attention(x, x @ w, x.to((x @ w).dtype)),
        lambda x, w: F.triplet_margin_loss(x[0], x[1] @ w, x[1]),
        lambda x, w: F.instance_norm(x @ w),
        lambda x, w: torch.linalg.multi_dot([x[0], w, w]),
    ],
)
def test_outputs_are_bit_identical_whatever_lies_above_the_mode(
    function: Callable[[Tensor, Tensor], Tensor], has_autocast: bool
) -> None:
    @contextmanager
    def mode() -> Iterator[None]:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=has_autocast):
            yield

    model, x = Calls(function).eval(), torch.randn(2, 5, 8)
    with mode():
        expected = model(x)

    made, output = recorded(model, x, mode)

    assert torch.equal(output, expected)
    assert output.dtype is expected.dtype
    assert made.done.uncosted == ()


def test_a_dropout_that_draws_draws_the_same() -> None:
    model, inputs = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5)), torch.randn(4, 16)
    torch.manual_seed(1)
    with torch.inference_mode():
        expected = model(inputs)

    torch.manual_seed(1)
    made, output = recorded(model, inputs, torch.inference_mode)

    assert torch.equal(output, expected)
    assert made.done.uncosted == ()


def test_buffers_that_a_batch_norm_writes_are_seen_to_be_written() -> None:
    norm, x = nn.BatchNorm1d(3).train(), torch.randn(8, 3)
    with torch.inference_mode(), Seen() as seen:
        norm(x)

    assert "aten.native_batch_norm.default" in seen.names


def test_every_composite_operator_of_torch_has_a_kernel_that_can_be_run() -> None:
    names = torch._C._dispatch_get_all_op_names()
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    composite = [
        name
        for name in names
        if name.startswith("aten::")
        and has_kernel(name, "CompositeImplicitAutograd")
        and not has_kernel(name, "CPU")
    ]

    whole = []
    for name in composite:
        base, _, overload = name.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, base, None)
        operator = getattr(packet, overload or "default", None)
        with torch.inference_mode():
            if operator is not None and not is_composite(operator, (), (torch.zeros(1),), {}):
                whole.append(name)

    assert len(composite) > 500
    assert whole == []


class Tagged(Tensor):
    """A tensor with a dispatch of its own, to which ``linear`` arrives whole."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Tagged.seen.append(str(func))
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))


Tagged.seen = []


def test_a_tensor_with_a_dispatch_of_its_own_is_given_the_whole_operator() -> None:
    tagged = torch.randn(2, 4).as_subclass(Tagged)
    weight = torch.randn(3, 4)

    with torch.inference_mode(), Seen() as seen:
        nn.functional.linear(tagged, weight)

    assert "aten.linear.default" in seen.names


def test_sparse_tensors_keep_the_whole_operator() -> None:
    matrix = torch.eye(4).to_sparse()

    with torch.inference_mode():
        assert not is_composite(torch.ops.aten.linear.default, (), (torch.randn(2, 4), matrix), {})

"""Sensitivity of the output to each weight: against torch's own arithmetic, and what it leaves."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from tui_profiler.messages import Message, Unknown, known
from tui_profiler.messages.parameters import (
    Change,
    MeasureSensitivity,
    PerScale,
    Scheme,
    Sensitivity,
    SensitivityDone,
    SensitivityStarted,
)
from tui_profiler.probe.parameters.sensitivity import Meter, changed
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

INT8 = Scheme("int8")


class Net(nn.Module):
    """Statistics that change, dropout, a weight of two names, a bias, a factor, a view."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.conv = nn.Conv1d(16, 16, 3, padding=1, groups=2)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.3)
        self.up = nn.ConvTranspose1d(16, 12, 2)
        self.rnn = nn.LSTM(12, 16, batch_first=True)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("part", self.embed.weight.detach()[:, :8])
        self.calls = 0

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls += 1
        x = self.drop(self.norm(self.conv(self.embed(tokens).transpose(1, 2))))
        hidden, _ = self.rnn(self.up(x).transpose(1, 2))
        assert isinstance(self.part, torch.Tensor)
        return {"logits": self.head(hidden), "part": self.part * 2, "ids": tokens}


TOKENS = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(3))


def net(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def asked(
    model: nn.Module,
    scheme: Scheme = INT8,
    under: str = "",
    inputs: Inputs | None = None,
    is_over: Callable[[], bool] = lambda: False,
    most_seconds: float = 60.0,
) -> list[Message]:
    given = inputs or Inputs((TOKENS,))
    made = trace(model, (given,))
    told: list[Message] = []
    meter = Meter(model, made.nodes, given, is_random=True, tell=told.append, now=lambda: 1.0)
    meter.run(MeasureSensitivity(scheme, under, most_seconds), is_over)
    return told


def measured(told: list[Message]) -> dict[str, Sensitivity]:
    return {one.name: one for one in told if isinstance(one, Sensitivity) and one.done}


def end_of(told: list[Message]) -> SensitivityDone:
    assert isinstance(told[-1], SensitivityDone)
    return told[-1]


def bytes_of(model: nn.Module) -> dict[str, bytes]:
    return {
        name: value.contiguous().numpy().tobytes() for name, value in model.state_dict().items()
    }


@pytest.mark.parametrize("per", ["tensor", "channel"])
def test_int8_is_what_torch_makes_of_it(per: PerScale) -> None:
    weight = torch.randn(6, 5, 3, generator=torch.Generator().manual_seed(1))
    if per == "tensor":
        scale = float(weight.abs().max()) / 127
        wanted = torch.fake_quantize_per_tensor_affine(weight, scale, 0, -127, 127)
    else:
        scales = weight.abs().amax(dim=(1, 2)) / 127
        zeros = torch.zeros(6, dtype=torch.int32)
        wanted = torch.fake_quantize_per_channel_affine(weight, scales, zeros, 0, -127, 127)
    torch.testing.assert_close(changed(weight, Scheme("int8", per)), wanted, rtol=1e-6, atol=1e-7)


def test_formats_and_axes_by_hand() -> None:
    weight = torch.tensor([[1.0, -0.4, 0.2], [7.0, 3.4, 0.0]])
    four = changed(weight, Scheme("int4"))
    # Steps of 1/7 and of 1: 0.4 is 2.8 steps, 0.2 is 1.4, 3.4 is 3.4.
    assert torch.allclose(four, torch.tensor([[1.0, -3 / 7, 1 / 7], [7.0, 3.0, 0.0]]))
    # Of the second axis: 7 columns' own maxima are exact, 1.0 is one step of 7/7.
    other = changed(weight, Scheme("int4"), channel_axis=1)
    assert torch.allclose(other[1, :2], weight[1, :2])
    assert float(other[0, 0]) == 1.0
    eight = changed(torch.tensor([[448.0, 17.0, 0.0]]), Scheme("float8_e4m3fn", "tensor"))
    assert eight.tolist() == [[448.0, 16.0, 0.0]]  # 3 bits of mantissa; half goes to even.
    zeros = torch.zeros(2, 3)
    assert torch.equal(changed(zeros, INT8), zeros)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_pruning_takes_exactly_the_share_and_the_smallest(share: float) -> None:
    weight = torch.randn(10, 7, generator=torch.Generator().manual_seed(2))
    weight[3, :4] = 0.25  # Equal magnitudes.
    found = changed(weight, Scheme("values", share=share)).flatten()
    gone = (found == 0).nonzero().flatten().tolist()
    assert len(gone) == round(70 * share)
    magnitudes = np.abs(weight.numpy().ravel())
    assert np.sort(magnitudes[gone]).tolist() == np.sort(magnitudes)[: len(gone)].tolist()
    rows = changed(weight, Scheme("channels", share=share)).abs().sum(dim=1)
    kept = set(np.argsort(np.linalg.norm(weight.numpy(), axis=1))[min(round(10 * share), 9) :])
    assert set(rows.nonzero().flatten().tolist()) == kept


@pytest.mark.parametrize("change", ["int8", "int4", "float8_e4m3fn", "values", "channels"])
def test_the_error_is_that_of_a_copy_with_one_weight_changed(change: Change) -> None:
    model = net().eval()
    scheme = Scheme(change, "tensor")
    found = measured(asked(model, scheme))
    assert sorted(found) == sorted(
        ["conv.weight", "embed.weight", "rnn.weight_hh_l0", "rnn.weight_ih_l0", "up.weight"]
    )
    for name, one in found.items():
        other = copy.deepcopy(model)
        path, _, last = name.rpartition(".")
        weight = getattr(other.get_submodule(path), last)
        axis = 1 if path == "up" else 0
        with torch.no_grad():
            before = model(TOKENS)
            weight.copy_(changed(weight, scheme, axis))
            if path == "embed":
                other.part = weight.detach()[:, :8]
            after = other(TOKENS)
        wanted = [
            np.concatenate([out[key].numpy().astype("f8").ravel() for key in ("logits", "part")])
            for out in (before, after)
        ]
        error = np.linalg.norm(wanted[1] - wanted[0]) / np.linalg.norm(wanted[0])
        assert one.output_error == pytest.approx(error, rel=1e-6, abs=1e-12)
        assert one.largest == pytest.approx(np.abs(wanted[1] - wanted[0]).max(), rel=1e-6)
        assert error > 0


def test_what_is_predicted_is_the_derivative() -> None:
    torch.manual_seed(5)
    # Of a linear model the first derivative is all there is: only the projections are random.
    model = nn.Sequential(nn.Linear(30, 20), nn.Linear(20, 50)).eval()
    told = asked(model, Scheme("int4"), inputs=Inputs((torch.randn(8, 30),)))
    first = {one.name: one for one in told if isinstance(one, Sensitivity) and not one.done}
    for name, one in measured(told).items():
        assert one.predicted == first[name].predicted
        assert isinstance(first[name].output_error, Unknown)
        assert known(one.predicted) == pytest.approx(known(one.output_error), rel=0.4)


def test_everything_is_left_as_it_was_in_training_too() -> None:
    model = net().train()
    model.head.weight.requires_grad_(False)
    before, pointers = bytes_of(model), [one.data_ptr() for one in model.parameters()]
    flags = [(one.requires_grad, one.grad) for one in model.parameters()]
    call, was_on = nn.Module.__call__, torch.is_grad_enabled()
    torch.manual_seed(9)
    random.seed(9)
    states = torch.get_rng_state(), random.getstate()
    told = asked(model)
    assert end_of(told).why == ""
    assert end_of(told).noise == 0.0  # Dropout draws the same numbers each time.
    assert bytes_of(model) == before
    assert [one.data_ptr() for one in model.parameters()] == pointers
    assert [(one.requires_grad, one.grad) for one in model.parameters()] == flags
    assert (nn.Module.__call__, torch.is_grad_enabled()) == (call, was_on)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert model.calls == 0
    assert model.head.weight is model.embed.weight
    assert isinstance(model.part, torch.Tensor)
    assert model.part.data_ptr() == model.embed.weight.data_ptr()


def test_a_forward_that_fails_midway_is_told_and_everything_put_back() -> None:
    model = net().eval()
    before = bytes_of(model)
    reached: list[int] = []

    class Angry(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # Its own weight is changed by now: the state in which a failure is worst.
            if not torch.equal(model.up.weight, kept):
                reached.append(1)
                raise ValueError("not with these weights")
            return x

    kept = model.up.weight.detach().clone()
    model.drop = Angry()  # type: ignore[assignment] # any module will do
    told = asked(model, under="up")
    assert reached
    assert end_of(told).why == "the forward fails: ValueError: not with these weights"
    assert end_of(told).measured == 0
    assert bytes_of(model) == before


def test_it_can_be_stopped_after_any_weight() -> None:
    model = net().eval()
    before, told = bytes_of(model), []
    made = trace(model, (Inputs((TOKENS,)),))
    meter = Meter(
        model, made.nodes, Inputs((TOKENS,)), is_random=False, tell=told.append, now=lambda: 1.0
    )
    meter.run(MeasureSensitivity(INT8), lambda: len(measured(told)) >= 2)
    assert end_of(told).why == "stopped: 2 of 5 weights were measured"
    assert bytes_of(model) == before
    late = asked(model, most_seconds=0.0)
    assert end_of(late).why == "out of time: 0 of 5 weights were measured"


def test_only_what_was_asked_for_is_measured() -> None:
    told = asked(net(), under="rnn.weight_hh_l0")
    assert isinstance(told[0], SensitivityStarted)
    assert told[0].weights == 1
    assert list(measured(told)) == ["rnn.weight_hh_l0"]
    assert end_of(asked(net(), under="norm")).why == "no weights with two or more axes"


def test_what_has_no_figure_says_why() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.no_grad():
        model[0].weight[1, 1] = float("nan")
    inputs = Inputs((torch.randn(2, 4),))
    assert end_of(asked(model, inputs=inputs)).why == "the output has NaN or infinite values"
    with torch.no_grad():
        model[0].weight.zero_()
        model[1].weight.zero_()
        model[1].bias.zero_()
    assert "zeros" in end_of(asked(model, inputs=inputs)).why

    class Chosen(nn.Module):
        """An output whose shape follows from the weights, and one weight that is not a number."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 9)
            self.unused = nn.Parameter(torch.full((2, 2), float("inf")))
            self.kept = self.inner.weight.detach().clone()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) if torch.equal(self.kept, self.inner.weight) else self.inner(x[:1])

    found = measured(asked(Chosen(), inputs=inputs))
    assert found["inner.weight"].output_error == Unknown(
        "the change alters the shape of the output"
    )
    assert found["unused"].output_error == Unknown("it has NaN or infinite values")
    assert found["unused"].weight_error == Unknown("it has NaN or infinite values")

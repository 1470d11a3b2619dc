"""Training steps in a loop of ours: weights stay, steps are timed, requests are answered."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.worker import Conversation, spec
from tui_profiler import profile
from tui_profiler.api import ProfileError
from tui_profiler.messages import (
    MeasureSensitivity,
    Scheme,
    SensitivityDone,
    SetBatch,
    Stop,
    TrainSpec,
    TrialResult,
    Try,
    Wish,
    known,
)
from tui_profiler.session import Session

X = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Has what a step may change beside weights: running statistics, random numbers."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(), nn.Linear(4, 2)
        self.factor = factor

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.conv(x))))
        return self.head(x.mean((2, 3))) * self.factor


class Deep(Net):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def bits(model: nn.Module) -> list[bytes]:
    return [value.detach().numpy().tobytes() for value in model.state_dict().values()]


OPTIMIZERS = ["sgd,momentum=0.9", "adam", "adamw", "rmsprop", "rprop", "adadelta", "nadam,lr=1"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_stay_to_the_bit(optimizer: str) -> None:
    model = Net()
    with torch.no_grad():
        model.head.weight.mul_(-0.0)  # Negative zeros: adding 0 to them changes their sign.
        model.head.bias[0] = float("inf")
    before, random = bits(model), torch.get_rng_state()
    model.conv.weight.grad = gradient = torch.ones_like(model.conv.weight)

    found = profile(model, X, train=True, optimizer=optimizer, forwards=3)

    assert bits(model) == before
    assert not model.training or all(one.training for one in model.modules())
    assert torch.equal(torch.get_rng_state(), random)
    assert model.conv.weight.grad is gradient
    assert model.head.weight.grad is None
    assert found.session.loop is not None
    assert found.session.loop.detail == "3 steps were requested"


def test_gradients_that_are_not_finite_do_not_reach_the_weights() -> None:
    model = Net(factor=float("inf"))
    before = bits(model)

    profile(model, X, train=True, forwards=3)

    assert bits(model) == before


def test_updates_are_made_where_they_are_asked_for() -> None:
    model = Net()
    own = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    weights = model.head.weight.detach().clone()
    running = model.norm.running_mean.clone()

    profile(model, X, train=True, optimizer=own, forwards=3)
    assert torch.equal(model.head.weight, weights)
    assert not own.state

    profile(model, X, train=True, optimizer=own, forwards=3, update=True)
    assert not torch.equal(model.head.weight, weights)
    assert own.state
    assert torch.equal(model.norm.running_mean, running)


def test_an_optimizer_that_is_given_has_its_groups_settings() -> None:
    model = Net()
    groups = [
        {"params": [model.head.weight], "momentum": 0.9},
        {"params": [model.conv.weight]},
    ]
    found = profile(
        model, X, train=True, optimizer=torch.optim.SGD(groups, lr=0.1, momentum=0.0), seconds=0
    )

    memory = found.session.training_memory
    assert memory is not None
    assert memory.memory.optimizer_state == 64  # Eight numbers of the first group's momentum.
    assert found.to_dict()["train"]["optimizer"] == "SGD"


def test_steps_are_timed_and_reported() -> None:
    found = profile(Deep(), X, train=True, optimizer="adamw", checkpoint="head", forwards=60)
    session, report = found.session, found.to_dict()

    assert session.model is not None
    assert session.model.training
    assert session.training is not None
    step = session.training.step
    assert step.ended_by == "optimizer"
    assert step.optimizers == ("AdamW",)
    assert step.recorded > 0
    assert (step.forwards, step.passes, step.updates) == (1.0, 1.0, 1.0)
    parts = [known(getattr(step.parts, name)) for name in ("forward", "backward", "optimizer")]
    assert all(parts)
    assert known(step.recompute)
    every = (known(getattr(step.parts, name)) for name in step.parts.__struct_fields__)
    assert sum(seconds or 0.0 for seconds in every) == pytest.approx(known(step.seconds))
    assert report["train"]["step_s"] == step.seconds
    assert report["train"]["checkpoint"] == "head"
    assert report["train"]["updates"] is False
    layers = {layer["path"]: layer for layer in report["layers"]}
    assert layers["head"]["backward_macs"] == 2 * layers["head"]["macs"] == 2 * 8 * (32 + 16)
    assert layers["head"]["gradient_bytes"] == 4 * (32 + 8 + 16 + 2)
    assert layers["norm"]["saved_bytes"] > 0
    # The last layer's product is not needed again.
    assert report["train"]["recomputed"]["macs"] == 8 * 32
    assert "learning rate 0" in found.report("text")


def test_what_does_not_train_is_said() -> None:
    with pytest.raises(ProfileError, match="no parameter requires a gradient"):
        profile(Net().requires_grad_(requires_grad=False), X, train=True)
    with pytest.raises(ProfileError, match="no optimizer named 'adamm'"):
        profile(Net(), X, train=True, optimizer="adamm")
    with pytest.raises(ProfileError, match="LBFGS evaluates the model"):
        profile(Net(), X, train=True, optimizer="lbfgs")
    with pytest.raises(ValueError, match="need train=True"):
        profile(Net(), X, checkpoint="blocks")


def has_steps(session: Session) -> bool:
    return session.training is not None and session.training.step.recorded > 0


async def test_a_worker_trains_and_answers() -> None:
    talk = Conversation(spec("demo:cnn", train=TrainSpec(accumulate=2)))
    session = await talk.until(has_steps)
    assert session.training_cost is not None
    assert session.training_memory is not None
    assert session.training is not None
    assert session.training.step.forwards == session.training.step.passes == 2.0
    assert session.training_memory.memory.gradients_before > 0

    talk.source.send(Try(Wish("compile")))
    talk.source.send(MeasureSensitivity(Scheme("values", "tensor", 0.25)))
    await talk.until(lambda _: any(isinstance(one, SensitivityDone) for one in talk.heard))
    trial = next(one for one in talk.heard if isinstance(one, TrialResult))
    refused = next(one for one in talk.heard if isinstance(one, SensitivityDone))
    assert (trial.outcome, "training steps run" in trial.why) == ("impossible", True)
    assert "training steps run" in refused.why

    before = session.training_memory.memory.saved
    talk.source.send(SetBatch(2))

    def is_larger(one: Session) -> bool:
        memory = one.training_memory
        return memory is not None and memory.memory.saved > 1.9 * before and has_steps(one)

    await talk.until(is_larger)

    talk.source.send(Stop())
    await talk.until(lambda one: one.ended is not None)
    await talk.close()
    assert talk.session.failure is None


def test_a_model_on_meta_has_a_step_on_paper() -> None:
    model = nn.Linear(4, 4, device="meta")

    found = profile(model, torch.randn(2, 4, device="meta"), train=True, forwards=1).to_dict()

    assert found["train"]["model_flops"] > 0
    assert model.weight.grad is None

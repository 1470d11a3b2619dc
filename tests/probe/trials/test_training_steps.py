"""Changes to training steps: what each saves, what is compared, and that weights stay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tui_profiler.messages import STEP_KINDS, TrainSpec, TrialKind, TrialResult, Wish, known
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.training.record_step import trace_step
from tui_profiler.probe.trials.experiment import Progress, try_change
from tui_profiler.probe.trials.kinds.change import Subject
from tui_profiler.probe.trials.kinds.table import KINDS

X = torch.randn(256, 8, generator=torch.Generator().manual_seed(1))


class Block(nn.Module):
    """Wide activations, small weights."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(8, 64), nn.Linear(64, 8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.drop(self.narrow(torch.relu(self.wide(x)).sigmoid()))
        return y


class Blocks(nn.Sequential):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__(nn.BatchNorm1d(8), *(Block() for _ in range(4)))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = super().forward(x) * self.factor
        return y


def subject(spec: TrainSpec, model: nn.Module | None = None, *paths: str) -> Subject:
    torch.manual_seed(0)
    module = (model or Blocks()).train()
    return Subject(module, Inputs((X,), batch=len(X)), 4 << 30, train=spec, paths=paths)


def tried(kind: TrialKind, of: Subject) -> TrialResult:
    wish = Wish(kind, seconds=0.02)
    return try_change(KINDS[kind], wish, of, Progress(wish))


@pytest.fixture(scope="module")
def of() -> Subject:
    return subject(TrainSpec("adamw"))


@pytest.fixture(scope="module")
def before(of: Subject) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in of.module.state_dict().items()}


@pytest.fixture(scope="module")
def results(of: Subject, before: dict[str, torch.Tensor]) -> dict[TrialKind, TrialResult]:
    return {kind: tried(kind, of) for kind in STEP_KINDS}


def test_steps_are_measured_and_weights_stay_to_the_bit(
    of: Subject, before: dict[str, torch.Tensor], results: dict[TrialKind, TrialResult]
) -> None:
    for result in results.values():
        assert (result.outcome, result.is_step) == ("measured", True), result.why
        assert result.baseline is not None
        # Two numbers of AdamW for each parameter, one count for each tensor, and the inputs.
        parameters = list(of.module.parameters())
        state = sum(2 * one.nbytes for one in parameters) + 4 * len(parameters)
        assert result.baseline.kept_bytes == state + X.nbytes
    now = of.module.state_dict()
    assert all(torch.equal(now[name], value) for name, value in before.items())
    assert not any("forward" in vars(module) for module in of.module.modules())


def test_checkpointing_lowers_the_measured_peak_as_was_predicted(
    of: Subject, results: dict[TrialKind, TrialResult]
) -> None:
    result = results["checkpoint"]
    assert result.detail == "checkpointed: 4 modules, 1 to 4"
    assert result.error is not None
    assert result.error.relative < 1e-6
    assert result.baseline is not None
    assert result.changed is not None
    saved = known(result.baseline.peak_bytes) - known(result.changed.peak_bytes)  # type: ignore[operator]
    made = trace_step(of.module, [of.inputs], TrainSpec("adamw"), "adamw")
    paths = [node.path for node in made.trace.nodes]
    nodes = tuple(paths.index(path) for path in ("1", "2", "3", "4"))
    predicted = next(one for one in made.memory.checkpointing if one.nodes == nodes)
    whole = made.memory.peak + (known(made.memory.workspace) or 0)
    assert saved > 0.2 * whole
    assert saved == pytest.approx(whole - predicted.peak, abs=0.04 * whole)


def test_modules_that_are_named_are_checkpointed_and_those_that_are_already_are_not() -> None:
    one = tried("checkpoint", subject(TrainSpec("sgd"), None, "2"))
    assert one.detail == "checkpointed: 2"
    again = tried("checkpoint", subject(TrainSpec("sgd", checkpoint="2"), None, "2"))
    assert (again.outcome, again.why) == ("impossible", "these modules are checkpointed already")
    rest = tried("checkpoint", subject(TrainSpec("sgd", checkpoint="2")))
    assert rest.detail == "checkpointed: 3 modules, 1 to 4"
    none = tried("checkpoint", subject(TrainSpec("sgd"), nn.Linear(8, 8)))
    assert none.why == "the model has no repeated blocks to checkpoint"


def test_the_updates_of_a_fused_optimizer_are_compared(
    results: dict[TrialKind, TrialResult],
) -> None:
    result = results["optimizer-loop"]
    assert result.detail == "AdamW with fused=True, over 18 tensors"
    assert result.error is not None
    assert result.error.values == sum(one.numel() for one in Blocks().parameters())
    assert result.error.relative < 1e-4
    listed = tried("optimizer-loop", subject(TrainSpec("rmsprop")))
    assert listed.detail == "RMSprop with foreach=True, over 18 tensors"


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        ("adamw,fused=True", "AdamW steps with fused=True already"),
        ("rmsprop,foreach=True", "RMSprop steps with foreach=True already"),
        ("adamax,foreach=True", "Adamax steps with foreach=True already"),
        ("adafactor,foreach=True", "Adafactor steps with foreach=True already"),
    ],
)
def test_an_optimizer_that_steps_so_already_is_not_tried(optimizer: str, why: str) -> None:
    result = tried("optimizer-loop", subject(TrainSpec(optimizer)))
    assert (result.outcome, result.why) == ("impossible", why)


def test_gradients_under_autocast_are_those_of_torch(
    results: dict[TrialKind, TrialResult],
) -> None:
    error = results["bf16-autocast"].error
    assert error is not None
    assert 1e-4 < error.relative < 0.2
    assert results["fp16-autocast"].detail == "autocast to float16, loss not scaled"
    again = tried("bf16-autocast", subject(TrainSpec("sgd", autocast="bf16")))
    assert again.why == "steps run under autocast to bf16 already"


def test_gradients_that_are_not_finite_do_not_reach_the_weights() -> None:
    of = subject(TrainSpec("sgd"), Blocks(factor=float("inf")))
    before = [one.clone() for one in of.module.parameters()]
    assert tried("optimizer-loop", of).outcome == "measured"
    assert all(map(torch.equal, before, of.module.parameters()))


def test_a_change_of_the_other_kind_of_run_says_so() -> None:
    step = tried("channels-last", subject(TrainSpec("sgd")))
    assert step.why == "it is tried on forwards in eval mode, and training steps run"
    forward = tried("checkpoint", Subject(Blocks().eval(), Inputs((X,), batch=len(X))))
    assert forward.why == "it changes training steps, which run with --train"

"""Each kind of trial on a small model, in this process; values against torch's own."""

from __future__ import annotations

import copy
import importlib.util
import time

import pytest
import torch
from torch import nn

from tests.probe.trials.every_change_model import BATCH, WIDTH, Attending, attending, subject
from tui_profiler.messages import (
    STEP_ONLY,
    TRIAL_KINDS,
    ProlongTrial,
    Request,
    TrialKind,
    TrialProgress,
    TrialResult,
    Wish,
)
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.experiment import Progress, try_change
from tui_profiler.probe.trials.kinds import compile
from tui_profiler.probe.trials.kinds.change import Kind, Subject
from tui_profiler.probe.trials.kinds.fold_conv_bn import fold, pairs_of
from tui_profiler.probe.trials.kinds.remove_identity import remove
from tui_profiler.probe.trials.kinds.table import KINDS
from tui_profiler.probe.trials.kinds.threads import numbers
from tui_profiler.probe.trials.paired_timing import MOST_PAIRS, NARROW

NOT_HERE = ("compile", "static-kv-cache", *STEP_ONLY)
IN_PROCESS = tuple(kind for kind in TRIAL_KINDS if kind not in NOT_HERE)


class Found:
    """A model and the settings of this process, as they were before any trial."""

    def __init__(self, of: Subject) -> None:
        self.of = of
        self.values = {name: value.clone() for name, value in of.module.state_dict().items()}
        self.held = {name: dict(vars(part)) for name, part in of.module.named_modules()}
        self.settings = torch.get_num_threads(), torch.is_grad_enabled()
        self.random = self.random_after = torch.get_rng_state()


def tried(kind: TrialKind, of: Subject | None = None, seconds: float = 0.02) -> TrialResult:
    wish = Wish(kind, seconds=seconds)
    return try_change(KINDS[kind], wish, of or subject(), Progress(wish))


@pytest.fixture(scope="module")
def as_found() -> Found:
    return Found(subject())


@pytest.fixture(scope="module")
def results(as_found: Found) -> dict[TrialKind, TrialResult]:
    found = {kind: tried(kind, as_found.of) for kind in IN_PROCESS}
    as_found.random_after = torch.get_rng_state()
    return found


@pytest.fixture(scope="module")
def outputs() -> dict[str, torch.Tensor]:
    of = subject()
    with torch.no_grad():
        return {"plain": of.module(*of.inputs.args)}


@pytest.mark.parametrize("kind", IN_PROCESS)
def test_every_kind_measures_a_speedup_with_an_interval(
    kind: TrialKind, results: dict[TrialKind, TrialResult]
) -> None:
    result = results[kind]
    if kind == "threads" and result.outcome == "impossible":
        assert result.why == "there is only one core, and one thread"
        return
    assert result.outcome == "measured", result.why
    assert result.pairs >= 1
    assert result.baseline is not None
    assert result.changed is not None
    assert result.speedup is not None
    assert 0 < result.baseline.seconds < result.seconds
    if result.pairs >= 6:
        assert result.low is not None
        assert result.high is not None
        assert result.low <= result.speedup <= result.high
    assert result.error is not None
    assert result.error.again == 0
    assert result.batch == BATCH


@pytest.mark.parametrize(
    "kind", ["inference-mode", "remove-dropout-identity", "threads", "larger-batch"]
)
def test_changes_of_how_it_is_run_give_the_same_values(
    kind: TrialKind, results: dict[TrialKind, TrialResult]
) -> None:
    error = results[kind].error
    if error is not None:
        assert error.relative < 1e-6


@pytest.mark.parametrize("kind", ["fold-conv-bn", "channels-last", "sdpa"])
def test_changes_of_the_order_of_sums_differ_by_rounding(
    kind: TrialKind, results: dict[TrialKind, TrialResult]
) -> None:
    error = results[kind].error
    assert error is not None
    assert error.values == BATCH * 10
    assert error.relative < 1e-5


def test_the_error_of_autocast_is_that_of_torch(
    results: dict[TrialKind, TrialResult], outputs: dict[str, torch.Tensor]
) -> None:
    of = subject()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        half = of.module(*of.inputs.args)
    plain = outputs["plain"].double()
    error = results["bf16-autocast"].error
    assert error is not None
    expected = (half.double() - plain).norm() / plain.norm()
    assert error.relative == pytest.approx(float(expected), rel=1e-6)
    assert error.largest == pytest.approx(float((half.double() - plain).abs().max()), rel=1e-6)
    assert error.relative > 1e-5


def test_whole_number_weights_take_a_quarter(results: dict[TrialKind, TrialResult]) -> None:
    result = results["int8-dynamic"]
    assert result.baseline is not None
    assert result.changed is not None
    linear = 4 * (WIDTH * 3 * WIDTH + WIDTH * WIDTH + WIDTH * 10)
    saved = result.baseline.weight_bytes - result.changed.weight_bytes  # type: ignore[operator]
    assert saved == linear * 3 // 4
    assert result.detail == "3 layers of 3 quantised"


def test_a_fused_encoder_layer_is_quantised_unfused() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    result = tried("int8-dynamic", Subject(layer, Inputs((torch.randn(2, 5, 16),), batch=2)))
    assert result.outcome == "measured", result.why
    assert result.detail == "2 layers of 3 quantised, encoder layers not fused"
    assert torch.backends.mha.get_fastpath_enabled()


def test_an_item_of_a_larger_batch_is_what_counts(results: dict[TrialKind, TrialResult]) -> None:
    result = results["larger-batch"]
    assert result.baseline is not None
    assert result.changed is not None
    items = result.changed.items
    assert items in (2, 4, 8, 16)
    assert result.detail == f"{BATCH * items} items per call instead of {BATCH}"
    whole = items * result.baseline.seconds / result.changed.seconds
    assert result.speedup == pytest.approx(whole, rel=0.9)


def test_what_was_changed_is_told(results: dict[TrialKind, TrialResult]) -> None:
    assert results["fold-conv-bn"].detail == "2 batch norms folded into convolutions"
    assert results["remove-dropout-identity"].detail == "3 modules removed"
    assert results["sdpa"].detail.startswith("1 attention replaced by one operator")
    assert results["channels-last"].detail.startswith("2 convolutions")


def test_no_trial_changes_the_model_or_the_process(
    as_found: Found, results: dict[TrialKind, TrialResult]
) -> None:
    assert len(results) == len(IN_PROCESS)
    module = as_found.of.module
    assert [name for name, _ in module.named_modules()] == list(as_found.held)
    for name, part in module.named_modules():
        now, before = vars(part), as_found.held[name]
        assert now.keys() == before.keys()
        assert all(now[key] is before[key] for key in now), name
    for name, value in module.state_dict().items():
        assert torch.equal(value, as_found.values[name])
        assert value.is_contiguous()
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == as_found.settings
    assert torch.equal(as_found.random_after, as_found.random)


def test_compiling_is_told_apart_from_running() -> None:
    kind = Kind(lambda of: compile.compiled(of, backend="eager"))
    wish = Wish("compile", seconds=0.02)
    result = try_change(kind, wish, subject(), Progress(wish))
    assert result.outcome == "measured", result.why
    assert result.changed is not None
    assert result.change_seconds > 10 * result.changed.seconds
    assert result.error is not None
    assert result.error.relative == 0


def test_a_trial_measures_for_longer_where_that_is_asked_while_it_runs() -> None:
    asked: list[Request] = []
    told: list[TrialProgress] = []

    def send(progress: TrialProgress) -> None:
        told.append(progress)
        if progress.step == "compare":
            asked.append(ProlongTrial(3.0))

    wish = Wish("inference-mode", seconds=0.001)
    progress = Progress(wish, send, lambda: asked.pop() if asked else None)
    began = time.perf_counter()
    result = try_change(KINDS[wish.kind], wish, subject(), progress)
    took = time.perf_counter() - began
    assert result.outcome == "measured"
    # Until the time is over, or the interval narrow; as asked at first it is a few milliseconds.
    assert took > 3 or result.pairs == MOST_PAIRS or half_interval(result) <= NARROW
    left = [one.left_seconds for one in told if one.left_seconds is not None]
    assert left[0] == 0.001
    # With fewer pairs than an interval needs it may take four times as long.
    assert 2 < max(left) <= 4 * 3.001
    assert [one.left_seconds for one in told if one.step in ("change", "warm up")] == [None, None]


def half_interval(result: TrialResult) -> float:
    assert result.low is not None
    assert result.high is not None
    assert result.speedup is not None
    return (result.high - result.low) / 2 / result.speedup


class Grows(nn.Module):
    """Keeps what it has seen, and returns another output at each call."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(1, 8))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen = torch.cat((self.seen, self.linear(x)))
        return self.seen.sum(0) * self.calls


def test_a_model_that_keeps_state_is_compared_from_the_same_state() -> None:
    module = Grows()
    result = tried("inference-mode", Subject(module, Inputs((torch.ones(1, 8),), batch=1)))
    assert result.error is not None
    assert (result.error.relative, result.error.again) == (0, 0)
    assert module.calls == 0
    assert module.seen.shape == (1, 8)


class TwoReaders(nn.Module):
    """The convolution is read by the norm and by the shortcut beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.conv(x)
        return made + self.norm(made)


def test_a_convolution_with_two_readers_is_not_folded() -> None:
    of = Subject(TwoReaders().eval(), Inputs((torch.ones(1, 3, 4, 4),), batch=1))
    result = tried("fold-conv-bn", of)
    assert result.outcome == "impossible"
    assert result.why == "no batch norm is the only consumer of a convolution"


def test_transposed_convolutions_are_folded_rightly() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.ConvTranspose2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU()).eval()
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        expected = model(x)
        folded = copy.deepcopy(model)
        fold(folded, pairs_of(folded, lambda: folded(x)))
        assert isinstance(folded[1], nn.Identity)
        torch.testing.assert_close(folded(x), expected)


def test_what_does_nothing_is_taken_out_of_a_sequence_and_replaced_elsewhere() -> None:
    model = attending()
    assert remove(model) == 3
    assert [type(part).__name__ for part in model.stem] == [
        *("Conv2d", "BatchNorm2d", "ReLU", "Conv2d", "BatchNorm2d")
    ]
    assert not isinstance(model.same, nn.Module)
    assert not isinstance(model.attention.drop, nn.Module)


def test_dropout_in_training_stays() -> None:
    model = Attending().train()
    assert remove(model) == 1  # The identity.


def test_numbers_of_threads() -> None:
    assert numbers(now=1, cores=1) == ()
    assert numbers(now=2, cores=2) == (1,)
    assert numbers(now=6, cores=12) == (1, 2, 4, 8, 12)


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="no transformers")
def test_a_static_cache_generates_the_same_scores() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **layers)).eval()
    ids = torch.randint(0, 32, (1, 7))
    result = tried("static-kv-cache", Subject(model, Inputs((), {"input_ids": ids}, batch=1)))
    assert result.outcome == "measured", result.why
    assert result.detail == "16 tokens after 7, in a static cache of length 23"
    assert result.error is not None
    assert result.error.values == 16 * 32
    assert result.error.relative < 1e-5

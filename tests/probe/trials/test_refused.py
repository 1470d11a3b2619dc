"""Trials that fail: impossible changes, and errors of the changed model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.probe.trials.test_trials import tried
from tui_profiler.messages import TrialKind
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds.change import Subject

NOTHING: dict[TrialKind, tuple[nn.Module, str]] = {
    "fold-conv-bn": (nn.Linear(3, 3), "it has no batch norms after convolutions"),
    "channels-last": (nn.Linear(3, 3), "it has no 2-D or 3-D convolutions"),
    "bf16-autocast": (nn.Linear(3, 3).bfloat16(), "its parameters are bfloat16 already"),
    "fp16-autocast": (
        nn.Linear(3, 3).double(),
        "autocast casts float32, and no parameter is float32",
    ),
    "int8-dynamic": (nn.Conv1d(3, 3, 1), "it has no nn.Linear, nn.LSTM or nn.GRU"),
    "compile": (
        torch.jit.script(nn.ReLU()),
        "torch.compile does not change TorchScript",
    ),
    "sdpa": (
        nn.Linear(3, 3),
        "no softmax runs in it: attention, if any, is already one operator",
    ),
    "static-kv-cache": (
        nn.Linear(3, 3),
        "it does not generate with a KV cache of transformers",
    ),
    "remove-dropout-identity": (
        nn.Linear(3, 3),
        "it has no no-op dropout or identity modules",
    ),
}


@pytest.mark.parametrize("kind", NOTHING)
def test_a_change_that_cannot_be_made_says_why(kind: TrialKind) -> None:
    module, why = NOTHING[kind]
    result = tried(kind, Subject(module, Inputs((torch.ones(1, 3),), batch=1)))
    assert (result.outcome, result.why) == ("impossible", why)
    assert result.speedup is None
    assert result.error is None


def test_a_model_without_a_batch_axis_has_no_larger_batch() -> None:
    result = tried("larger-batch", Subject(nn.Linear(3, 3), Inputs((torch.ones(3),))))
    assert (result.outcome, result.why) == ("impossible", "its inputs have no batch axis")


class Raises(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.linear(x)
        if made.dtype != torch.float32:
            raise ValueError("float32 or nothing")
        return made


class Wants(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.linear(x).dtype != torch.float32:
            torch.empty(1 << 50)
        return x


def test_what_a_changed_model_raises_is_the_result() -> None:
    result = tried("bf16-autocast", Subject(Raises(), Inputs((torch.ones(1, 3),), batch=1)))
    assert result.outcome == "failed"
    assert result.why == "the changed model raised ValueError: float32 or nothing"


def test_wanting_more_memory_than_there_is_is_told_as_that() -> None:
    result = tried("bf16-autocast", Subject(Wants(), Inputs((torch.ones(1, 3),), batch=1)))
    assert result.outcome == "memory"
    assert result.why.startswith("out of memory: ")


def test_a_module_that_cannot_be_copied_says_so() -> None:
    class Single(nn.Sequential):
        def __deepcopy__(self, memo: object) -> None:
            raise TypeError("there is only one of me")

    module = Single(nn.Conv2d(3, 3, 1))
    result = tried("channels-last", Subject(module, Inputs((torch.ones(1, 3, 4, 4),), batch=1)))
    assert result.outcome == "impossible"
    assert result.why == "the module cannot be copied: TypeError: there is only one of me"

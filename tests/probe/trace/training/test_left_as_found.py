"""A recorded step leaves the model, and the process, as they were."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from tests.probe.trace.test_leaves_no_trace import Failing, OnlyForReal, Remembering, X, state_of
from tests.probe.trace.training.recorded import recorded
from tui_profiler.messages import TrainSpec
from tui_profiler.probe.trace.failure import TraceError


def equal(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(equal(one[key], other[key]) for key in one)
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))  # type: ignore[arg-type]
    return one == other


@pytest.mark.parametrize("kind", [Remembering, OnlyForReal, Failing])
@pytest.mark.parametrize("spec", [TrainSpec(), TrainSpec("sgd", accumulate=2, checkpoint="layer")])
def test_a_model_is_left_as_it_was(kind, spec: TrainSpec) -> None:
    model = kind().train()
    parameters = list(model.parameters())
    parameters[0].grad = gradient = torch.ones_like(parameters[0])
    before, call = state_of(model), nn.Module.__call__
    torch.manual_seed(1)
    random.seed(1)
    drawn = torch.get_rng_state(), random.getstate()

    try:
        recorded(model, X, spec=spec)
    except TraceError:
        assert kind is Failing

    assert equal(state_of(model), before)
    assert all(map(lambda one, other: one is other, model.parameters(), parameters))
    assert parameters[0].grad is gradient
    assert torch.equal(gradient, torch.ones_like(gradient))
    assert all(parameter.grad is None for parameter in parameters[1:])
    assert nn.Module.__call__ is call
    assert torch.equal(torch.get_rng_state(), drawn[0])
    assert random.getstate() == drawn[1]
    assert torch.is_grad_enabled()


def test_a_recurrent_layer_keeps_its_list_of_weights() -> None:
    layer = nn.LSTM(4, 4)
    weights = layer._flat_weights

    recorded(layer, X[None])

    assert layer._flat_weights is weights
    assert all(map(lambda one, other: one is other, weights, layer.parameters()))

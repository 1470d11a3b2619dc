"""The most sensitive layers by independent code: a sample of benchmarks/weights/sensitivity.py."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks.weights.sensitivity import cost, elsewhere, measured, most, spearman
from tui_profiler.messages import known
from tui_profiler.messages.parameters import Scheme
from tui_profiler.probe.torch_compat.forward_inputs import Inputs


def test_spearman_by_hand() -> None:
    # Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, variances 4.5 and 5.
    assert spearman([1, 5, 5, 9], [10, 30, 20, 40]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_the_layers_named_most_sensitive_are_so_for_other_code_and_inputs() -> None:
    torch.manual_seed(4)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(24, 24), nn.Tanh()) for _ in range(8))).eval()
    with torch.no_grad():
        for at, block in enumerate(model):
            # Values far out make the steps of all others coarse: more so with each layer.
            block[0].weight[0, 0] = 1.5 * 1.5**at  # type: ignore[index] # a Sequential
    scheme = Scheme("int4", "tensor")
    found, _ = measured(model, Inputs((torch.randn(64, 24),)), scheme)
    ours = {name: known(one.output_error) or 0.0 for name, one in found.items()}
    other = elsewhere(model, lambda seed: Inputs((torch.randn(64, 24),)), list(ours), scheme)
    # The weakest differ by less than the inputs make them differ.
    assert spearman(list(ours.values()), [other[name] for name in ours]) > 0.6
    assert cost(ours, other, 3) > 0.95
    assert most(ours, 1) == most(other, 1)

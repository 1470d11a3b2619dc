"""What a scripted model holds: each value until its last use, as TorchScript's interpreter does."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchvision.models import resnet18

from tests.probe.trace.traced import inputs_of, traced
from tui_profiler.probe.trace.measured_peak import measured_peak
from tui_profiler.probe.trace.tree.torchscript import ScriptWalker

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:FutureWarning")

KIB = 1024


def activations(module: nn.Module, *tensors: torch.Tensor) -> float:
    found = traced(module, *tensors).done.peak_memory.activations
    assert isinstance(found, float | int)
    return found


class Chain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = x + 1
        second = first * 2
        third = second - 1
        return third / 2


class Turns(nn.Module):
    """A loop that carries a tensor, with a branch in it, and a value from before it read after."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x * 3
        total = x
        for turn in range(4):
            doubled = total + total
            total = doubled + kept if turn % 2 == 0 else doubled - 1
        return total + kept


def test_a_chain_holds_no_more_than_what_is_read_and_written() -> None:
    script = torch.jit.script(Chain())
    # x, which the caller holds, and the two of one step.
    assert activations(script, torch.ones(1, 256)) == 3 * KIB


def test_a_loop_lets_go_of_what_a_turn_made() -> None:
    script = torch.jit.script(Turns())
    # x, kept, and in a turn at the most three: what came in, doubled, what goes out.
    assert activations(script, torch.ones(1, 256)) <= 5 * KIB


def test_values_that_are_let_go_are_not_needed_again() -> None:
    x = torch.randn(1, 256)
    script = torch.jit.script(Turns())
    assert torch.equal(ScriptWalker().call(script, (x,), {}), Turns()(x))  # type: ignore[arg-type]


def test_a_scripted_network_holds_what_it_was_scripted_from_holds() -> None:
    model, image = resnet18().eval(), torch.zeros(1, 3, 224, 224)
    assert activations(torch.jit.script(model), image) == activations(model, image)


def test_a_traced_convolution_has_the_scratch_memory_of_an_eager_one() -> None:
    net = nn.Sequential(nn.Conv2d(8, 64, 3, padding=1), nn.Conv2d(64, 64, 3, stride=2)).eval()
    x = torch.randn(1, 8, 28, 28)
    by_trace = traced(torch.jit.trace(net, x), x)
    assert "aten::_convolution" in {node.name for node in by_trace.nodes}
    found = by_trace.done.peak_memory
    assert found.workspace == traced(net, x).done.peak_memory.workspace
    measured = measured_peak(net, inputs_of(x))
    assert found.activations + found.workspace == pytest.approx(measured.peak_bytes, rel=1e-3)

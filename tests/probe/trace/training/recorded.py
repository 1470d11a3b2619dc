"""What the tests of training on paper share: a recorded step, and looking into it."""

from __future__ import annotations

import torch

from tests.probe.trace.traced import inputs_of
from tui_profiler.messages import TrainSpec
from tui_profiler.probe.trace.training.record_step import TrainedTrace, trace_step
from tui_profiler.session.training import CostColumns, NodeCost

SGD = TrainSpec("sgd")


def recorded(model: torch.nn.Module, *tensors: torch.Tensor, spec: TrainSpec = SGD) -> TrainedTrace:
    return trace_step(model.train(), [inputs_of(*tensors)], spec, spec.optimizer)


def cost_at(made: TrainedTrace, path: str = "") -> NodeCost:
    index = next(at for at, node in enumerate(made.trace.nodes) if node.path == path)
    found = CostColumns(made.cost).of(index)
    assert found is not None
    return found


def backward(model: torch.nn.Module, *tensors: torch.Tensor) -> NodeCost:
    """Return the cost of the backward of a whole model, all of whose operators have formulas."""
    made = recorded(model, *tensors)
    assert made.cost.uncosted == ()
    assert made.cost.elsewhere.ops == 0
    return cost_at(made)

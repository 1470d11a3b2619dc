"""What the tests of tracing share: a trace of a module on tensors, and looking into it."""

from __future__ import annotations

import torch

from tui_profiler.messages import Cost, InputSpec, Node
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.trace import Trace, trace


def inputs_of(*tensors: torch.Tensor, why: str = "test") -> Inputs:
    specs = tuple(
        InputSpec(f"x{index}", tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), why)
        for index, tensor in enumerate(tensors)
    )
    return Inputs(tensors, {}, specs, None)


def traced(module: torch.nn.Module, *tensors: torch.Tensor, name: str = "") -> Trace:
    for inner in each_module(module):  # eval() recurses, which deep and cyclic models do not bear
        inner.training = False
    return trace(module, (inputs_of(*tensors),), name=name)


def total(module: torch.nn.Module, *tensors: torch.Tensor) -> Cost:
    made = traced(module, *tensors)
    assert made.done.uncosted == ()
    return made.costs[0]


def at(made: Trace, path: str) -> Node:
    return next(node for node in made.nodes if node.path == path)


def cost_at(made: Trace, path: str) -> Cost:
    return next(c for node, c in zip(made.nodes, made.costs, strict=True) if node.path == path)


def paths(made: Trace, kind: str = "module") -> list[str]:
    return [node.path for node in made.nodes if node.kind == kind]

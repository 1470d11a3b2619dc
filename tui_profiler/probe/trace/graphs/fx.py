"""The graph that ``torch.fx`` makes of a model: its forward run once on placeholders.

Layers of ``torch.nn`` are called as they are; what is around them becomes nodes. Arguments that
hold no tensor (flags, None) keep the values that they have in the inputs.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.fx import Tracer
from torch.fx._symbolic_trace import PH

from tui_profiler.probe.cost.traffic import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import tree_leaves, tree_map_only
from tui_profiler.probe.trace.graphs.graph_run import GraphRun, held_by
from tui_profiler.probe.trace.graphs.traced_programs import Program, check_modules
from tui_profiler.probe.trace.tree.module_stack import ModuleStack

MOST_MODULES = 20_000
"""It looks for the path of each module that is called among all of them: the time is quadratic.
5,000 took 2 to 12 s, 20,000 took 9 s and more, on shared cores."""


class _Tracer(Tracer):
    """Notes the line that each node comes from."""

    def __init__(self) -> None:
        super().__init__()
        self.record_stack_traces = True


def symbolic(model: torch.nn.Module, inputs: Inputs) -> Program:
    """Trace ``model`` with ``torch.fx``; raises what it, or the model, raises."""
    check_modules(model, MOST_MODULES)
    bound = _bound(model, inputs)
    concrete = {name: value for name, value in bound.items() if not isinstance(value, torch.Tensor)}
    holds_tensors = any(tensors_in(value) for value in concrete.values())
    shapes = tree_map_only(torch.Tensor, lambda _: PH, concrete)
    graph = _Tracer().trace(model, concrete_args=shapes or None)
    held = held_by(model, graph)

    def run(given: Inputs, stack: ModuleStack) -> object:
        stack.enter(model, given.args, given.kwargs)
        values: list[Any] = list(_bound(model, given).values())
        arguments = tree_leaves(values) if holds_tensors else values
        result = graph.process_outputs(GraphRun(graph, held, stack).go(*arguments))
        stack.leave(stack.running.place, result)
        stack.end()
        return result

    return Program(run, graphs=1, graph_breaks=0)


def _bound(model: torch.nn.Module, inputs: Inputs) -> dict[str, object]:
    """Give the arguments of ``forward`` by name, defaults included."""
    bound = inspect.signature(model.forward).bind(*inputs.args, **inputs.kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)

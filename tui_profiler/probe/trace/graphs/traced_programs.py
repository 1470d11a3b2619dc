"""What runs under the recorder: a model itself, or a graph that a tracer made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch

from tui_profiler.messages.model import Method
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.tree.module_stack import ModuleStack
from tui_profiler.probe.trace.tree.weights import all_modules

Run: TypeAlias = Callable[[Inputs, ModuleStack], object]
"""One forward on the inputs that it is given."""


class Program(NamedTuple):
    """Something to run in place of a model."""

    run: Run
    graphs: int | None = None
    """Graphs that a tracer made, those inside of operators included; None where it makes none."""
    graph_breaks: int | None = None
    """Places where the model's Python had to run between two graphs."""


class BrokenGraphError(Exception):
    """A model cannot be one graph; the cause is what the tracer raised."""

    def __init__(self, error: Exception, graphs: int | None, graph_breaks: int | None) -> None:
        super().__init__(str(type(error)))
        self.error = error
        self.graphs = graphs
        """That it would be, None where they could not be counted."""
        self.graph_breaks = graph_breaks


class TooLargeError(Exception):
    """A model has so many modules that making its graph would take minutes."""


def check_modules(model: torch.nn.Module, most: int) -> None:
    """Refuse a model that a tracer would take minutes for.

    Raises:
        TooLargeError: it has more modules.
    """
    modules = len(all_modules(model))
    if modules > most:
        raise TooLargeError(
            f"it has {modules:,} modules, and with more than {most:,} this takes minutes"
        )


class Way(NamedTuple):
    """One way of tracing."""

    method: Method
    variant: str
    """What tells two ways of one method apart: ``strict``."""
    program: Callable[[torch.nn.Module, Inputs], Program]
    """Makes what runs; it may run the model's code, and raise what that raises."""
    makes_graph: bool
    """The model's own forward does not run under the recorder."""


def own_forward(model: torch.nn.Module, inputs: Inputs) -> Program:
    """Return the model's own forward; ``inputs`` do not matter."""
    return Program(lambda given, stack: model(*given.args, **given.kwargs))

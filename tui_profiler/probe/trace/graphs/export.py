"""The graph that ``torch.export`` makes of a model: ATen operators, parameters as inputs.

Non-strict runs the model's Python on fake tensors; strict reads its bytecode, which is Dynamo.
Neither splits a model: where a graph would break, it fails, and Dynamo tells how often.
"""

from __future__ import annotations

import importlib
import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import partial

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind
from torch.fx import GraphModule

from tui_profiler.probe.cost.traffic import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import FakeTensor, tree_leaves, tree_unflatten
from tui_profiler.probe.trace.graphs.graph_run import GraphRun, held_by
from tui_profiler.probe.trace.graphs.names import module_at
from tui_profiler.probe.trace.graphs.traced_programs import (
    BrokenGraphError,
    Program,
    TooLargeError,
    check_modules,
)
from tui_profiler.probe.trace.tree.module_stack import ModuleStack

MOST_MODULES = 10_000
"""5 ms and more for each, in either way, on shared cores."""


def exported(model: torch.nn.Module, inputs: Inputs, *, strict: bool) -> Program:
    """Export ``model``; raises what ``torch.export``, or the model, raises."""
    check_modules(model, MOST_MODULES)
    _know_caches()
    # Where it fails, it prints the graph that it has so far.
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, inputs.args, inputs.kwargs, strict=strict)
    run = partial(_run, model, program)
    return Program(run, graphs=sum(1 for _ in graphs_in(program.graph_module)), graph_breaks=0)


def _know_caches() -> None:
    """Let ``torch.export`` see into the cache that transformers' language models give back."""
    if "transformers" not in sys.modules:
        return
    try:
        support = importlib.import_module("transformers.integrations.executorch")
    except ImportError:
        return  # A version without it: the refusal names the class that is not known.
    register = getattr(support, "register_dynamic_cache_export_support", None)
    if register is not None:
        register()


exported_non_strict = partial(exported, strict=False)


def exported_strict(model: torch.nn.Module, inputs: Inputs) -> Program:
    """Export ``model`` by Dynamo.

    Raises:
        BrokenGraphError: it makes several graphs of it, or none.
        Exception: the same, where they cannot be counted.
    """
    try:
        return exported(model, inputs, strict=True)
    except TooLargeError:
        raise
    except Exception as error:
        if any(
            isinstance(tensor, FakeTensor) for tensor in tensors_in((inputs.args, inputs.kwargs))
        ):
            raise  # to count them, the model must run for real
        graphs, breaks = _counted_by_dynamo(model, inputs)
        raise BrokenGraphError(error, graphs, breaks) from error


def _counted_by_dynamo(model: torch.nn.Module, inputs: Inputs) -> tuple[int | None, int | None]:
    """Give the graphs that Dynamo splits a model into, and the breaks between them.

    The model runs once. Dynamo forgets what it had compiled in this process.
    """
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            told = torch._dynamo.explain(model)(*inputs.args, **inputs.kwargs)
    except Exception:  # noqa: BLE001, RUF100 - the reason why there is no graph is told already
        return None, None
    return int(told.graph_count), int(told.graph_break_count)


def graphs_in(graph_module: GraphModule) -> Iterator[GraphModule]:
    """Give a graph and those that its operators run: branches, loop bodies."""
    pending = [graph_module]
    while pending:
        graph = pending.pop()
        yield graph
        inner = (getattr(graph, str(n.target)) for n in graph.graph.nodes if n.op == "get_attr")
        pending.extend(part for part in inner if isinstance(part, GraphModule))


def _run(
    model: torch.nn.Module, program: ExportedProgram, given: Inputs, stack: ModuleStack
) -> object:
    stack.enter(model, given.args, given.kwargs)
    kwargs = {name: given.kwargs[name] for name in _keywords(program, given)}
    leaves = iter(tree_leaves((given.args, kwargs)))
    arguments = [
        _argument(model, program, spec, leaves) for spec in program.graph_signature.input_specs
    ]
    held = held_by(program.graph_module, program.graph)
    outputs = GraphRun(program.graph, held, stack).go(*arguments)
    result = _result(program, outputs)
    stack.leave(stack.running.place, result)
    stack.end()
    return result


def _keywords(program: ExportedProgram, given: Inputs) -> list[str]:
    """Keywords stand in the order of ``forward``, not in that of the call."""
    names = program.call_spec.in_spec.child(1).context
    return [str(name) for name in names] if names is not None else list(given.kwargs)


def _argument(
    model: torch.nn.Module, program: ExportedProgram, spec: InputSpec, leaves: Iterator[object]
) -> object:
    """Give what one placeholder stands for: the model's own tensors, else the program's."""
    if spec.kind is InputKind.USER_INPUT:
        return next(leaves)
    target = spec.target or ""
    path, _, name = target.rpartition(".")
    module = module_at(model, path)
    own = getattr(module, name, None) if module is not None else None
    if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and own is not None:
        return own
    return program.constants[target] if target in program.constants else program.state_dict[target]


def _result(program: ExportedProgram, outputs: object) -> object:
    """Give what ``forward`` would: its own outputs, without what was written into buffers."""
    assert isinstance(outputs, list | tuple)
    specs = program.graph_signature.output_specs
    own = [
        spec.arg.value if isinstance(spec.arg, ConstantArgument) else output
        for spec, output in zip(specs, outputs, strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    out_spec = program.call_spec.out_spec
    return own if out_spec is None else tree_unflatten(own, out_spec)

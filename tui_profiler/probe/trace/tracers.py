"""What runs under the recorder: a model itself, or a graph of it; the ways, in order.

``torch.export`` makes ATen operators, with parameters as inputs. Non-strict runs the model's Python
on fake tensors; strict reads its bytecode, which is Dynamo. Neither splits a model: where a graph
would break, it fails, and Dynamo tells how often.

``torch.fx`` runs the forward once on placeholders. Layers of ``torch.nn`` are called as they are;
what is around them becomes nodes. Arguments that hold no tensor (flags, None) keep the values that
they have in the inputs.
"""

import importlib
import inspect
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind
from torch.fx import GraphModule, Tracer
from torch.fx._symbolic_trace import PH

from tui_profiler.messages import Method
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat import internals
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.failure import NoGraphError
from tui_profiler.probe.trace.graph_run import GraphRun, held_by, module_at
from tui_profiler.probe.trace.tree.module_stack import ModuleStack

Run: TypeAlias = Callable[[Inputs, ModuleStack], object]
"""One forward on the inputs that it is given."""


class Program(NamedTuple):
    """Something to run in place of a model."""

    run: Run
    graphs: int | None = None
    """Graphs that a tracer made, those inside of operators included; None where it makes none."""
    graph_breaks: int | None = None
    """Places where the model's Python had to run between two graphs."""


class Way(NamedTuple):
    """One way of tracing."""

    method: Method
    variant: str
    """What tells two ways of one method apart: ``strict``."""
    program: Callable[[torch.nn.Module, Inputs], Program]
    """Makes what runs; it may run the model's code, and raise what that raises."""
    makes_graph: bool
    """The model's own forward does not run under the recorder."""

    def __str__(self) -> str:
        return f"{self.method} ({self.variant})" if self.variant else self.method


TRACERS = ("auto", "dispatch", "fx", "export")
"""What can be asked for; ``auto`` is ``dispatch``, which loses to no model."""


def ways(tracer: str, is_on_meta: bool) -> tuple[Way, ...]:
    """Return the ways of one tracer, the first to try first; on meta nothing is run for real."""
    match tracer:
        case "fx":
            return (_FX,)
        case "export":
            return _NON_STRICT, _STRICT
        case _:
            return (_DISPATCH_META,) if is_on_meta else (DISPATCH_FAKE, DISPATCH_REAL)


class TooLargeError(Exception):
    """A model has so many modules that making its graph would take minutes."""


def _check_modules(model: torch.nn.Module, most: int) -> None:
    modules = sum(1 for _ in each_module(model))
    if modules > most:
        raise TooLargeError(
            f"it has {modules:,} modules, and with more than {most:,} this takes minutes"
        )


MOST_MODULES = 10_000
"""5 ms and more for each, in either way, on shared cores."""


def _exported(model: torch.nn.Module, inputs: Inputs, *, strict: bool) -> Program:
    """Export ``model``; raises what ``torch.export``, or the model, raises."""
    _check_modules(model, MOST_MODULES)
    _know_caches()
    # Where it fails, it prints the graph that it has so far.
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, inputs.args, inputs.kwargs, strict=strict)
    run = partial(_run, model, program)
    return Program(run, graphs=sum(1 for _ in _graphs_in(program.graph_module)), graph_breaks=0)


def _know_caches() -> None:
    """Let ``torch.export`` see into the cache that transformers' language models return."""
    if "transformers" not in sys.modules:
        return
    try:
        support = importlib.import_module("transformers.integrations.executorch")
    except ImportError:
        return  # A version without it: the refusal names the class that is not known.
    register = getattr(support, "register_dynamic_cache_export_support", None)
    if register is not None:
        register()


def _exported_strict(model: torch.nn.Module, inputs: Inputs) -> Program:
    """Export ``model`` by Dynamo.

    Raises:
        NoGraphError: it makes several graphs of it, or none.
        Exception: the same, where they cannot be counted.
    """
    try:
        return _exported(model, inputs, strict=True)
    except TooLargeError:
        raise
    except Exception as error:
        given = tensors_in((inputs.args, inputs.kwargs))
        if any(isinstance(tensor, internals.FakeTensor) for tensor in given):
            raise  # to count them, the model must run for real
        raise NoGraphError(error, *_counted_by_dynamo(model, inputs)) from error


def _counted_by_dynamo(model: torch.nn.Module, inputs: Inputs) -> tuple[int | None, int | None]:
    """Return the graphs that Dynamo splits a model into, and the breaks between them.

    The model runs once. Dynamo forgets what it had compiled in this process.
    """
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            told = torch._dynamo.explain(model)(*inputs.args, **inputs.kwargs)
    except Exception:  # noqa: BLE001, RUF100 - the reason why there is no graph is told already
        return None, None
    return int(told.graph_count), int(told.graph_break_count)


def _graphs_in(graph_module: GraphModule) -> Iterator[GraphModule]:
    """Yield a graph and those that its operators run: branches, loop bodies."""
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
    leaves = iter(internals.tree_leaves((given.args, kwargs)))
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
    """Return what one placeholder stands for: the model's own tensors, else the program's."""
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
    """Return what ``forward`` would: its own outputs, without what was written into buffers."""
    assert isinstance(outputs, list | tuple)
    specs = program.graph_signature.output_specs
    own = [
        spec.arg.value if isinstance(spec.arg, ConstantArgument) else output
        for spec, output in zip(specs, outputs, strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    out_spec = program.call_spec.out_spec
    return own if out_spec is None else internals.tree_unflatten(own, out_spec)


MOST_FX_MODULES = 20_000
"""It looks for the path of each module that is called among all of them: the time is quadratic.
5,000 took 2 to 12 s, 20,000 took 9 s and more, on shared cores."""


def _symbolic(model: torch.nn.Module, inputs: Inputs) -> Program:
    """Trace ``model`` with ``torch.fx``; raises what it, or the model, raises."""
    _check_modules(model, MOST_FX_MODULES)
    bound = _bound(model, inputs)
    concrete = {name: value for name, value in bound.items() if not isinstance(value, torch.Tensor)}
    holds_tensors = any(tensors_in(value) for value in concrete.values())
    shapes = internals.tree_map_only(torch.Tensor, lambda _: PH, concrete)
    tracer = Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(model, concrete_args=shapes or None)
    held = held_by(model, graph)

    def run(given: Inputs, stack: ModuleStack) -> object:
        stack.enter(model, given.args, given.kwargs)
        values: list[Any] = list(_bound(model, given).values())
        arguments = internals.tree_leaves(values) if holds_tensors else values
        result = graph.process_outputs(GraphRun(graph, held, stack).go(*arguments))
        stack.leave(stack.running.place, result)
        stack.end()
        return result

    return Program(run, graphs=1, graph_breaks=0)


def _bound(model: torch.nn.Module, inputs: Inputs) -> dict[str, object]:
    bound = inspect.signature(model.forward).bind(*inputs.args, **inputs.kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _own_forward(model: torch.nn.Module, inputs: Inputs) -> Program:
    return Program(lambda given, stack: model(*given.args, **given.kwargs))


DISPATCH_FAKE = Way("dispatch:fake", "", _own_forward, makes_graph=False)
DISPATCH_REAL = Way("dispatch:real", "", _own_forward, makes_graph=False)
_DISPATCH_META = Way("dispatch:meta", "", _own_forward, makes_graph=False)
_FX = Way("fx", "", _symbolic, makes_graph=True)
_NON_STRICT = Way("export", "non-strict", partial(_exported, strict=False), makes_graph=True)
_STRICT = Way("export", "strict", _exported_strict, makes_graph=True)

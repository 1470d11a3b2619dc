"""One forward under the recorder, with everything around it put in place and taken away again."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch

from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.messages import Method
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat.dynamo_later import dynamo_later
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import FakeTensorMode, fake_inputs, fake_like
from tui_profiler.probe.torch_compat.kv_cache import ReturnedCache, kept_in, tensors_of
from tui_profiler.probe.torch_compat.modules import COMPILED, each_module, why_opaque
from tui_profiler.probe.torch_compat.versions import uncompiled, without_generated_code
from tui_profiler.probe.trace.failure import ForwardError, NoGraphError
from tui_profiler.probe.trace.fake.data_dependent import Bounds
from tui_profiler.probe.trace.fake.meta import as_if_on_cpu, has_fakes
from tui_profiler.probe.trace.recorder import Recorder, RecorderAroundCompiler
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.tracers import Program, Way
from tui_profiler.probe.trace.tree import weights
from tui_profiler.probe.trace.tree.growing_tree import Places
from tui_profiler.probe.trace.tree.lifetimes import Lifetimes
from tui_profiler.probe.trace.tree.messages import partial_tree
from tui_profiler.probe.trace.tree.module_stack import ModuleStack, watched
from tui_profiler.probe.trace.tree.torchscript import ScriptWalker, has_scripted

T = TypeVar("T")


@dataclass(frozen=True)
class Recording:
    """What one forward left behind: places, and the recorder that filled them."""

    places: Places
    recorder: Recorder
    growing: tuple[torch.nn.Module, ...]
    """Modules that made submodules or parameters in this forward; they are gone again."""
    kept: ReturnedCache | None
    """The cache that the forward gave back."""
    program: Program
    """What ran."""


def record(model: torch.nn.Module, inputs: Inputs, way: Way, name: str) -> Recording:
    """Run ``model``, or a graph of it, once under the recorder and leave it as it was.

    Raises:
        NoGraphError: no graph could be made of the model.
        ForwardError: the model raised.
    """
    if way.method == "dispatch:real":
        return _recorded(model, inputs, way, name)
    with without_collector(), dynamo_later():
        return _recorded(model, inputs, way, name)


def _recorded(model: torch.nn.Module, inputs: Inputs, way: Way, name: str) -> Recording:
    return with_retry(
        model,
        lambda bounds: _record(model, inputs, way, name, Recorder, bounds),
        lambda bounds: _record(model, inputs, way, name, RecorderAroundCompiler, bounds),
    )


def with_retry(
    model: torch.nn.Module,
    run: Callable[[Bounds], T],
    run_around_compiler: Callable[[Bounds], T],
    final: type[Exception] | tuple[()] = (),
) -> T:
    """Return the result of ``run``; run once more if the tracer caused the error.

    With the other value if a boolean was read, around the compiler if ``torch.compile`` refused.

    Args:
        model: whose forward is run.
        run: the first attempt.
        run_around_compiler: the second one, if ``torch.compile`` refused.
        final: errors that are raised at once.
    """
    bounds = Bounds(truth=False)
    is_compiled = any(why_opaque(module) == COMPILED for module in each_module(model))
    with uncompiled() if is_compiled else nullcontext():
        try:
            return run(bounds)
        except final:
            raise
        except Exception as error:
            is_refused = asks_for_compiler(error)
            if not (is_refused or bounds.read_a_truth):
                raise
        if not is_refused:
            return run(Bounds(truth=True))
    with without_generated_code():
        return run_around_compiler(bounds)


def asks_for_compiler(error: Exception) -> bool:
    """Tell whether ``torch.compile`` refused to work under a dispatch mode."""
    raised = error.error if isinstance(error, ForwardError) else error
    return isinstance(raised, RuntimeError) and "torch dispatch mode present" in str(raised)


def make_layers(model: torch.nn.Module, inputs: Inputs, growing: Iterable[torch.nn.Module]) -> None:
    """Run ``model`` once for real, so that the modules in ``growing`` make their layers for good.

    What the forward changes elsewhere is put back.

    Raises:
        ForwardError: the model raised.
    """
    snapshot = Snapshot(model, without={id(module) for module in growing})
    try:
        with torch.no_grad():
            model(*inputs.args, **inputs.keywords())
    except (Exception, SystemExit) as error:
        raise ForwardError(error, "") from error
    finally:
        snapshot.restore()


def waiting_for_shapes(model: torch.nn.Module) -> tuple[torch.nn.Module, ...]:
    """Return the modules with a parameter or buffer that gets its shape in the first forward."""
    return tuple(
        module
        for module in each_module(model)
        if any(torch.nn.parameter.is_lazy(tensor) for _, tensor, _ in weights.own_tensors(module))
    )


@contextmanager
def passed(model: torch.nn.Module, inputs: Inputs, method: Method) -> Iterator[Inputs]:
    """Return what is passed to forward; for a model on meta, with parameters as fakes."""
    if method == "dispatch:real":
        yield real_inputs(inputs)
        return
    mode, fakes = as_fakes(inputs)
    with as_if_on_cpu(model, mode) if method != "dispatch:fake" else nullcontext():
        yield fakes


def real_inputs(inputs: Inputs) -> Inputs:
    """Return what is passed to a real forward, with what each call needs anew."""
    return Inputs(inputs.args, inputs.keywords(), inputs.specs, inputs.batch)


def as_fakes(inputs: Inputs) -> tuple[FakeTensorMode, Inputs]:
    """Return fake tensors in the place of inputs, but for those that stay real, and their mode."""
    concrete = {name: part for name, part in inputs.kwargs.items() if name in inputs.concrete}
    others = {name: part for name, part in inputs.kwargs.items() if name not in concrete}
    mode, (args, kwargs) = fake_inputs((inputs.args, others))
    anew = {} if inputs.renewed is None else inputs.renewed(lambda like: fake_like(mode, like))
    return mode, Inputs(args, {**kwargs, **concrete, **anew}, inputs.specs, inputs.batch)


def _record(
    model: torch.nn.Module,
    inputs: Inputs,
    way: Way,
    name: str,
    kind: type[Recorder],
    bounds: Bounds,
) -> Recording:
    """Record; what is scripted is walked, or, where that fails, run by TorchScript itself."""
    if has_scripted(each_module(model)):
        try:
            return _record_once(model, inputs, way, name, kind, bounds, ScriptWalker())
        except ForwardError:
            pass  # the error to tell, if it is the model's, is TorchScript's own
    return _record_once(model, inputs, way, name, kind, bounds, None)


def _record_once(
    model: torch.nn.Module,
    inputs: Inputs,
    way: Way,
    name: str,
    kind: type[Recorder],
    bounds: Bounds,
    walker: ScriptWalker | None,
) -> Recording:
    with passed(model, inputs, way.method) as given:
        program = _program(model, inputs, given, way)
        places = Places(model, name)
        stack = ModuleStack(places)
        parameters, buffers = weights.weight_storages(model)
        lifetimes = Lifetimes(weights.stored_tensors(model), tensors_in((given.args, given.kwargs)))
        lifetimes.enter(tensors_of(given.kwargs))
        lifetimes.hold(weights.kept_tensors(model))
        snapshot = Snapshot(model)
        recorder = kind(stack, {*parameters, *buffers}, lifetimes, snapshot, bounds)
        try:
            with torch.no_grad(), watched(stack, places.depth, walker), recorder:
                output = program.run(given, stack)
            recorder.note_strangers(output, places.root)
            lifetimes.keep(weights.kept_tensors(model))
        except (Exception, SystemExit) as error:
            where = stack.raised_in.path if stack.raised_in is not None else ""
            # Where memory is short, nothing more may be taken.
            short = isinstance(error, MemoryError) or way.makes_graph
            partial = None if short else partial_tree(places, stack.raised_in)
            raise ForwardError(error, where, partial) from error
        finally:
            growing = snapshot.grown()
            snapshot.restore()
        return Recording(places, recorder, growing, kept_in(output), program)


def _program(model: torch.nn.Module, inputs: Inputs, given: Inputs, way: Way) -> Program:
    """Return what runs; where that is a graph, what making it changes in the model is put back."""
    if not way.makes_graph:
        return way.program(model, given)
    snapshot = Snapshot(model)
    real = real_inputs(inputs)
    try:
        return way.program(model, given if has_fakes(model) else real)
    except NoGraphError:
        raise
    except (Exception, SystemExit) as error:
        raise NoGraphError(error) from error
    finally:
        snapshot.restore()

"""One forward under the recorder, with everything around it put in place and taken away again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from tui_profiler.messages.model import Method
from tui_profiler.probe.cost.traffic import tensors_in
from tui_profiler.probe.inputs import Inputs
from tui_profiler.probe.torch_internals import fake_inputs
from tui_profiler.probe.trace.bounds import Bounds
from tui_profiler.probe.trace.calls import ModuleStack, watched
from tui_profiler.probe.trace.lifetimes import Lifetimes
from tui_profiler.probe.trace.places import Places
from tui_profiler.probe.trace.recorder import Recorder, RecorderAroundCompiler
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.weights import all_modules, own_tensors, weight_storages


class ForwardError(Exception):
    """The model's forward raised; the cause is what it raised."""

    def __init__(self, error: BaseException, where: str) -> None:
        super().__init__(str(type(error)))
        self.error = error
        self.where = where
        """Path of the innermost module that it came out of."""


@dataclass(frozen=True)
class Recording:
    """What one forward left behind: places, and the recorder that filled them."""

    places: Places
    recorder: Recorder
    growing: tuple[torch.nn.Module, ...]
    """Modules that made submodules or parameters in this forward; they are gone again."""


def record(model: torch.nn.Module, inputs: Inputs, method: Method, name: str) -> Recording:
    """Run ``model`` once under the recorder and leave it as it was.

    Raises:
        ForwardError: the model raised.
    """
    given = inputs if method == "dispatch:real" else _fake(inputs)
    bounds = Bounds(truth=False)
    try:
        return _record(model, given, name, Recorder, bounds)
    except ForwardError as error:
        if _asks_for_compiler(error.error):
            return _record(model, given, name, RecorderAroundCompiler, bounds)
        if not bounds.read_a_truth:
            raise
    return _record(model, _fake(inputs), name, Recorder, Bounds(truth=True))


def _asks_for_compiler(error: BaseException) -> bool:
    """Tell whether ``torch.compile`` refused to work under a dispatch mode."""
    return isinstance(error, RuntimeError) and "torch dispatch mode present" in str(error)


def make_layers(model: torch.nn.Module, inputs: Inputs, growing: Iterable[torch.nn.Module]) -> None:
    """Run ``model`` once for real, so that the modules in ``growing`` make their layers for good.

    What the forward changes elsewhere is put back.

    Raises:
        ForwardError: the model raised.
    """
    snapshot = Snapshot(model, without={id(module) for module in growing})
    try:
        with torch.no_grad():
            model(*inputs.args, **inputs.kwargs)
    except (Exception, SystemExit) as error:
        raise ForwardError(error, "") from error
    finally:
        snapshot.restore()


def waiting_for_shapes(model: torch.nn.Module) -> tuple[torch.nn.Module, ...]:
    """Give the modules with a parameter or buffer that gets its shape in the first forward."""
    return tuple(
        module
        for module in all_modules(model)
        if any(torch.nn.parameter.is_lazy(tensor) for _, tensor, _ in own_tensors(module))
    )


def _fake(inputs: Inputs) -> Inputs:
    _, (args, kwargs) = fake_inputs((inputs.args, inputs.kwargs))
    return Inputs(args, kwargs, inputs.specs, inputs.batch)


def _record(
    model: torch.nn.Module, inputs: Inputs, name: str, kind: type[Recorder], bounds: Bounds
) -> Recording:
    places = Places(model, name)
    stack = ModuleStack(places)
    parameters, buffers = weight_storages(model)
    tensors = [tensor for module in all_modules(model) for _, tensor, _ in own_tensors(module)]
    lifetimes = Lifetimes(tensors, tensors_in((inputs.args, inputs.kwargs)))
    snapshot = Snapshot(model)
    recorder = kind(stack, {*parameters, *buffers}, lifetimes, snapshot, bounds)
    try:
        with torch.no_grad(), watched(stack, places.depth), recorder:
            model(*inputs.args, **inputs.kwargs)
    except (Exception, SystemExit) as error:
        where = stack.raised_in.path if stack.raised_in is not None else ""
        raise ForwardError(error, where) from error
    finally:
        growing = snapshot.grown()
        snapshot.restore()
    return Recording(places, recorder, growing)

"""One step of training under the recorder: the tree of its forward, and what the rest costs.

1. It is tried on fake inputs and parameters, which takes no memory, then for real; a model on meta
   only on fakes. The optimizer always steps on fakes. The model is left as it was: parameters and
   their gradients, buffers, attributes, random generators.
2. The forward runs as in training: with gradients, the training flags as they are.
3. Accumulated gradients are there before the forward, as in the last of several passes.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.messages import Attempt, Failed, Remedy, TrainingCost, TrainingMemory, TrainSpec
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat import internals
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.failure import (
    ForwardError,
    TraceError,
    forward_failed,
    one_line,
    refused,
)
from tui_profiler.probe.trace.fake.data_dependent import Bounds
from tui_profiler.probe.trace.fake.meta import as_if_on_cpu, is_on_meta
from tui_profiler.probe.trace.record import (
    Recording,
    as_fakes,
    make_layers,
    real_inputs,
    waiting_for_shapes,
)
from tui_profiler.probe.trace.recorder import Recorder
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import Trace, finished
from tui_profiler.probe.trace.tracers import Program, Way, ways
from tui_profiler.probe.trace.training.backward_costs import StepCosts
from tui_profiler.probe.trace.training.checkpointing import checkpointed, chosen_modules
from tui_profiler.probe.trace.training.loss import NoLossError
from tui_profiler.probe.trace.training.messages import (
    Constants,
    Nodes,
    cost_message,
    memory_message,
    saved_bytes,
)
from tui_profiler.probe.trace.training.optimizers import (
    Choice,
    described,
    make_optimizer,
    state_tensors,
    use_lists,
)
from tui_profiler.probe.trace.training.step import Phase, TrainingStep
from tui_profiler.probe.trace.training.step_memory import StepLives, StepMemory
from tui_profiler.probe.trace.tree.growing_tree import Places
from tui_profiler.probe.trace.tree.lifetimes import Lifetimes, aligned
from tui_profiler.probe.trace.tree.module_stack import ModuleStack, watched
from tui_profiler.probe.trace.tree.weights import (
    held_bytes,
    kept_tensors,
    stored_tensors,
    weight_storages,
)
from tui_profiler.system import real_time as time


@dataclass(frozen=True)
class RecordedStep:
    """What one step left behind, beside the recording of its forward."""

    costs: StepCosts
    lives: StepLives
    loss: str
    """What the loss is."""
    held: Constants
    trained: frozenset[int]
    """``id`` of the model's parameters that have a gradient."""


@dataclass(frozen=True)
class TrainedTrace:
    """A model's tree of a forward in training, and what the step costs that it is from."""

    trace: Trace
    cost: TrainingCost
    memory: TrainingMemory


def trace_step(
    model: torch.nn.Module,
    candidates: Sequence[Inputs],
    spec: TrainSpec,
    choice: Choice,
    name: str = "",
) -> TrainedTrace:
    """Record one training step of ``model`` on the first candidate that it takes.

    Args:
        model: in training mode; left as it is, but for layers that it makes in its first forward.
        candidates: arguments to try, the likeliest first.
        spec: how it is trained.
        choice: of the optimizer.
        name: of the root node; its class where empty.

    Raises:
        TraceError: the model raised on every candidate, or nothing in it can be trained.
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        what = "nothing in it can be trained: no parameter requires a gradient"
        raise refused(what, Remedy("without --train", "runs its forward"))
    if spec.checkpoint:
        chosen_modules(model, spec.checkpoint)  # Raises where there are none.
    attempts: list[Attempt] = []
    failure: Failed | None = None
    for way in ways("auto", is_on_meta(model)):
        failure = None  # A real run says best what is wrong.
        for inputs in candidates:
            began = time.perf_counter()
            try:
                return _traced(model, inputs, way, spec, choice, name, attempts)
            except ForwardError as error:
                seconds = time.perf_counter() - began
                attempts.append(Attempt(way.method, seconds, one_line(error.error)))
                failure = failure or _failure(error, inputs)
    assert failure is not None
    raise TraceError(failure, tuple(attempts))


def _failure(error: ForwardError, inputs: Inputs) -> Failed:
    if isinstance(error.error, NoLossError):
        remedies = (Remedy("without --train", "runs its forward"),)
        return Failed("trace", f"no loss can be made: {error.error}", remedies=remedies)
    return forward_failed(error, inputs)


def _traced(
    model: torch.nn.Module,
    inputs: Inputs,
    way: Way,
    spec: TrainSpec,
    choice: Choice,
    name: str,
    attempts: Sequence[Attempt],
) -> TrainedTrace:
    began = time.perf_counter()
    waiting = waiting_for_shapes(model)
    if waiting:
        make_layers(model, inputs, waiting)
    with without_collector():
        recording, step = _recorded(model, inputs, way, spec, choice, name)
        made = (*attempts, Attempt(way.method, time.perf_counter() - began, ""))
        trace = finished(model, recording, way, made, inputs, bool(waiting))
        nodes = Nodes(recording.places)
        cost = cost_message(
            nodes,
            step.costs,
            saved_bytes(nodes, step.lives),
            step.trained,
            spec=spec,
            optimizer=described(choice),
            loss=step.loss,
        )
        flops = [cost.flops for cost in trace.costs]
        return TrainedTrace(trace, cost, memory_message(nodes, step.lives, step.held, flops))


def _recorded(
    model: torch.nn.Module,
    inputs: Inputs,
    way: Way,
    spec: TrainSpec,
    choice: Choice,
    name: str,
) -> tuple[Recording, RecordedStep]:
    """Record; where a boolean was read and the model raised, once more with the other one."""
    bounds = Bounds(truth=False)
    try:
        return _StepRun(model, inputs, way, spec, choice).record(name, bounds)
    except ForwardError:
        if not bounds.read_a_truth:
            raise
    return _StepRun(model, inputs, way, spec, choice).record(name, Bounds(truth=True))


class _StepRun:
    """One attempt at recording a step."""

    def __init__(
        self, model: torch.nn.Module, inputs: Inputs, way: Way, spec: TrainSpec, choice: Choice
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._way = way
        self._spec = spec
        self._choice = choice
        self._modes = ExitStack()
        """What operators go through in the phase that is under way."""

    def record(self, name: str, bounds: Bounds) -> tuple[Recording, RecordedStep]:
        """Record a whole step.

        Raises:
            ForwardError: the model raised, in its forward or its backward.
        """
        model = self._model
        snapshot = Snapshot(model)
        own = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
        try:
            with ExitStack() as around:
                for parameter in own:
                    parameter.grad = None
                mode, given, stands_for = around.enter_context(
                    _given(model, self._inputs, self._way)
                )
                return self._record(name, bounds, snapshot, mode, given, stands_for)
        finally:
            snapshot.restore()
            for parameter, gradient in gradients:
                parameter.grad = gradient

    def _record(
        self,
        name: str,
        bounds: Bounds,
        snapshot: Snapshot,
        mode: internals.FakeTensorMode | None,
        given: Inputs,
        parameters: dict[int, torch.Tensor],
    ) -> tuple[Recording, RecordedStep]:
        model = self._model
        places = Places(model, name)
        stack = ModuleStack(places)
        keys, buffers = weight_storages(model)
        tensors = list(stored_tensors(model))
        inside = tensors_in((given.args, given.kwargs))
        lifetimes = Lifetimes(tensors, inside)
        lifetimes.hold(kept_tensors(model))
        self._weights = {*keys, *buffers}
        self._recorder = recorder = Recorder(stack, self._weights, lifetimes, snapshot, bounds)
        self._memory = memory = StepMemory([*tensors, *inside, *kept_tensors(model)])
        self._costs = recorder.step = costs = StepCosts(stack, memory)
        self._mode = mode
        self._step = step = TrainingStep(model, given, self._spec, self._become)
        before = _gradients_before(parameters) if self._spec.accumulate > 1 else []
        memory.hold(before)
        checkpoint = _checkpointed(model, self._spec)
        try:
            with (
                checkpoint,
                torch.autograd.set_multithreading_enabled(False),
                watched(stack, places.depth),
                self._modes,
            ):
                step.run_pass()
        except (Exception, SystemExit) as error:
            where = stack.raised_in.path if stack.raised_in is not None else ""
            during = "backward" if costs.phase == "backward" else "forward"
            raise ForwardError(error, where, during=during) from error
        kept = _gradients_after(parameters, before)
        memory.hold_gradients(one.grad for one in kept.values() if one.grad is not None)
        memory.end_phase()
        gradients_before = _bytes_of([one.grad for one in kept.values() if before])
        state = self._step_optimizer(kept, mode)
        found = RecordedStep(
            costs=costs,
            lives=memory.lives(),
            loss=step.loss,
            held=Constants(
                parameters=sum(keys.values()),
                buffers=held_bytes(model) - sum(keys.values()),
                inputs=_bytes_of(inside),
                optimizer_state=state,
                gradients_before=gradients_before,
            ),
            trained=frozenset(kept),
        )
        memory.free()
        return Recording(places, recorder, (), None, Program(lambda *_: None)), found

    def _become(self, phase: Phase) -> None:
        """Have what follows recorded as part of a phase."""
        self._costs.phase = phase
        match phase:
            case "forward":
                self._modes.enter_context(self._recorder)
            case "backward":
                # Tensors that autograd makes from nothing are fake here too.
                self._modes.close()
                self._memory.hold_output(self._step.output)
                self._step.output = None
                self._memory.save_what_lives()
                self._memory.end_phase()
                if self._mode is not None:
                    self._modes.enter_context(self._mode)
                self._modes.enter_context(self._recorder)
            case _:
                pass

    def _step_optimizer(
        self, parameters: dict[int, torch.Tensor], mode: internals.FakeTensorMode | None
    ) -> int:
        """Record a step of the optimizer after another one and return the bytes of its state."""
        memory, costs = self._memory, self._costs
        if mode is None:
            parameters = _fakes_of(parameters)
        optimizer = make_optimizer(self._choice, parameters)
        if any(one.device.type == "cuda" for one in parameters.values()):
            use_lists(optimizer)
        memory.hold([*parameters.values(), *(_gradient(one) for one in parameters.values())])
        self._weights.update(
            key for one in parameters.values() if (key := internals.storage_key(one))
        )
        memory.is_on = False
        try:
            with self._recorder:
                self._become("optimizer")
                costs.is_on = False
                optimizer.step()
                costs.is_on = memory.is_on = True
                state = state_tensors(optimizer)
                memory.hold(state)
                optimizer.step()
        except Exception as error:
            what = f"a step of {type(optimizer).__name__} raised {one_line(error)}"
            raise refused(what, Remedy("--optimizer sgd", "takes any gradient")) from error
        return _bytes_of(state)


@contextmanager
def _given(
    model: torch.nn.Module, inputs: Inputs, way: Way
) -> Iterator[tuple[internals.FakeTensorMode | None, Inputs, dict[int, torch.Tensor]]]:
    """Yield the mode, what is passed to forward, and the parameters in use, by ``id`` of its own.

    Where it is not run for real, fake parameters stand in for those that the model has.
    """
    if way.method == "dispatch:real":
        own: dict[int, torch.Tensor] = {
            id(one): one for one in model.parameters() if one.requires_grad
        }
        yield None, real_inputs(inputs), own
        return
    mode, given = as_fakes(inputs)
    names = {
        id(one): (module, name)
        for module in each_module(model)
        for name, one in internals.parameters_of(module).items()
        if one is not None
    }
    with as_if_on_cpu(model, mode), _fake_parameters(model, mode):
        used = {key: internals.parameters_of(module)[name] for key, (module, name) in names.items()}
        trained: dict[int, torch.Tensor] = {
            key: one for key, one in used.items() if one is not None and one.requires_grad
        }
        yield mode, given, trained


@contextmanager
def _fake_parameters(model: torch.nn.Module, mode: internals.FakeTensorMode) -> Iterator[None]:
    """Put fake ones in the place of a model's parameters while the block runs.

    Recurrent layers hold their parameters in a list as well.
    """
    replaced: list[tuple[dict[str, object], str, object]] = []

    def fake(value: object) -> object:
        if isinstance(value, torch.nn.Parameter) and not isinstance(value, internals.FakeTensor):
            return mode.from_tensor(value, static_shapes=True)
        if isinstance(value, list) and any(isinstance(one, torch.nn.Parameter) for one in value):
            return [fake(one) for one in value]
        return value

    try:
        for module in each_module(model):
            for held in (internals.parameters_of(module), vars(module)):
                if isinstance(held, dict):
                    for name, value in list(held.items()):
                        if (used := fake(value)) is not value:
                            replaced.append((held, name, value))
                            held[name] = used
        yield
    finally:
        for held, name, value in reversed(replaced):
            held[name] = value


@contextmanager
def _checkpointed(model: torch.nn.Module, spec: TrainSpec) -> Iterator[None]:
    if not spec.checkpoint:
        yield
        return
    with checkpointed([module for _, module in chosen_modules(model, spec.checkpoint)]):
        yield


def _gradients_before(parameters: dict[int, torch.Tensor]) -> list[torch.Tensor]:
    """Put gradients in place, as a backward before this one left them."""
    for parameter in parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    return [_gradient(parameter) for parameter in parameters.values()]


def _gradients_after(
    parameters: dict[int, torch.Tensor], before: Sequence[torch.Tensor]
) -> dict[int, torch.Tensor]:
    """Return the parameters that the backward reached, and take from others what was put there."""
    if before:
        for parameter in parameters.values():
            if parameter.grad is not None and parameter.grad._version == 0:
                parameter.grad = None
    return {key: one for key, one in parameters.items() if one.grad is not None}


def _fakes_of(parameters: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return fake parameters with fake gradients in the place of real ones."""
    mode = internals.FakeTensorMode(allow_non_fake_inputs=True)
    found: dict[int, torch.Tensor] = {}
    for key, parameter in parameters.items():
        gradient, parameter.grad = parameter.grad, None
        found[key] = fake = mode.from_tensor(parameter, static_shapes=True)
        if gradient is not None:
            fake.grad = mode.from_tensor(gradient, static_shapes=True)
    return found


def _gradient(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _bytes_of(tensors: Sequence[torch.Tensor | None]) -> int:
    """Return the bytes of distinct storages, as torch's allocator rounds them up."""
    sizes = {
        internals.storage_key(one): aligned(one.untyped_storage().nbytes())
        for one in tensors
        if one is not None and internals.storage_key(one) is not None
    }
    return sum(sizes.values())

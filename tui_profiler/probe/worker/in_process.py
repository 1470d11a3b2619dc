"""A model profiled in its own process: traced, run for a while, and restored.

1. The result is the messages that a worker sends: together they are a session.
2. The model is restored, also if it raises: flags, attributes, hooks, parameters, buffers, random
   generators, ``nn.Module.__call__``. So are the inputs. The first forward runs under a mode that
   copies tensors before operators write into them; buffers are copied beforehand.
3. Lazy layers cannot be restored: a copy of such a model is profiled.
4. Not restored: parameters that compiled or scripted code writes into, and effects of the model's
   Python outside of it (files, counters in closures).
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from tui_profiler import messages
from tui_profiler.messages.live import Stage
from tui_profiler.probe.cost.call import Call, signature_of, tensors_in
from tui_profiler.probe.load.common.loaded_model import Settings, as_the_model
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.input_tensors import Candidates, forward_parameters, specs_of
from tui_profiler.probe.measure.ceilings.ceilings import kept_ceilings
from tui_profiler.probe.measure.devices.environment import environment
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.torch_compat import composite
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import Operator, TorchDispatchMode, storage_key
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace import trace
from tui_profiler.probe.trace.batch_axis import with_batch
from tui_profiler.probe.trace.record import asks_for_compiler, waiting_for_shapes
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.watch.model_facts import device_name
from tui_profiler.probe.watch.windows import why_no_windows
from tui_profiler.probe.worker.loop import Loop
from tui_profiler.system import real_time as time

GIVEN = "given"
if TYPE_CHECKING:
    from tui_profiler.probe.trace.training.optimizers import Choice

_NOT_MAIN = "only on the main thread: elsewhere torch's profiler prints a message"


@dataclass(frozen=True)
class ProfileOptions:
    """Options of ``profile``."""

    name: str = ""
    """Name of the model; its class where empty."""
    seconds: float | None = None
    """Seconds to run, after the warm-up."""
    forwards: int | None = None
    """Forwards to run at most. If both are None, it is only traced."""
    tracer: str = "auto"
    train: messages.TrainSpec | None = None
    """Run training steps; None: forwards, in the model's mode."""
    optimizer: Choice | None = None
    """Of training steps, in the place of that in ``train``."""


@dataclass
class _Talk:
    """Collects the messages of a loop; has no requests."""

    said: list[messages.Message] = field(default_factory=list)
    is_closed: bool = False
    dropped: int = 0

    def send(self, message: messages.Message) -> None:
        """Collect a message."""
        self.said.append(message)

    def next_request(self, timeout: float | None = 0.0) -> messages.Request | None:
        """Return none."""
        return None


def require_module(model: object) -> None:
    """Raise TypeError for anything but a ``torch.nn.Module``."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"profile takes a torch.nn.Module, not {type(model).__name__}")


def profiled(
    model: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    wanted: ProfileOptions,
) -> list[messages.Message]:
    """Return the messages of a profiled model: facts, tree, times.

    Args:
        model: restored at the end.
        args: positional arguments of ``forward``; inputs are guessed if both are empty.
        kwargs: keyword arguments of ``forward``.
        wanted: options.

    Raises:
        TraceError: it cannot be traced.
        Exception: whatever the model raises.
    """
    if waiting_for_shapes(model):
        model = copy.deepcopy(model)
    talk, started_at = _Talk(), time.time()
    talk.send(environment())
    candidates = _candidates(model, args, dict(kwargs))
    is_moved = wanted.train is not None and wanted.train.update
    with _left_as_it_was(model, (args, kwargs), without_parameters=is_moved) as keeping:
        with _stage("trace", talk, started_at):
            made, told = _traced(model, candidates, wanted)
            made = replace(made, inputs=with_batch(model, made))
        talk.send(_facts(model, made.inputs, wanted.name))
        for message in (*trace.messages(made), *told):
            talk.send(message)
        if wanted.seconds is None and wanted.forwards is None:
            talk.send(
                messages.LoopState("finished", time.time() - started_at, detail="not run, as asked")
            )
            return talk.said
        threads = torch.get_num_threads()
        if (kept := kept_ceilings(device_name(model), threads)) is not None:
            talk.send(kept)
        spec = messages.LoadSpec(
            wanted.name,
            forwards=wanted.forwards,
            seconds=wanted.seconds,
            started_at=started_at,
            train=wanted.train,
        )
        no_windows = _why_no_windows()
        sampler = Sampler(started_at)
        loop = Loop(
            talk,
            spec,
            lambda: time.time() - started_at,
            model,
            made,
            why_no_windows=no_windows,
        )
        loop.optimizer = wanted.optimizer or loop.optimizer
        try:
            with _stage("first run", talk, started_at):
                _first_run(loop, keeping)
            loop.run()
        finally:
            loop.close()
            talk.send(sampler.sample())
            sampler.close()
        if no_windows:
            talk.send(_no_operators(no_windows, time.time() - started_at))
        at = time.time() - started_at
        talk.send(messages.LoopState("finished", at, made.inputs.batch, loop.why_finished))
    return talk.said


def _traced(
    model: torch.nn.Module, candidates: Sequence[Inputs], wanted: ProfileOptions
) -> tuple[trace.Trace, tuple[messages.Message, ...]]:
    """Return the trace, and what is told after it: the cost of a training step."""
    if wanted.train is None:
        return trace.trace(model, candidates, wanted.tracer, name=wanted.name), ()
    from tui_profiler.probe.trace.training.record_step import trace_step  # noqa: PLC0415 # few train
    from tui_profiler.probe.trace.training.targets import WithTargets  # noqa: PLC0415

    model.train()
    choice = wanted.optimizer or wanted.train.optimizer
    given = WithTargets(model, candidates)
    found = trace_step(model, given, wanted.train, choice, name=wanted.name)
    return found.trace, (found.cost, found.memory)


@contextmanager
def _stage(stage: Stage, talk: _Talk, started_at: float) -> Iterator[None]:
    began = time.time()
    talk.send(messages.StageStarted(stage, began - started_at))
    yield
    ended = time.time()
    talk.send(messages.StageDone(stage, ended - started_at, ended - began))


@contextmanager
def _left_as_it_was(
    model: torch.nn.Module, inputs: object, *, without_parameters: bool = False
) -> Iterator[_KeepsWritten]:
    """Restore everything at the end; yield a mode that keeps values which a forward overwrites.

    Args:
        model: in any mode.
        inputs: restored likewise.
        without_parameters: training steps move them, and they keep their new values.
    """
    snapshot = Snapshot(model)
    modules = list(each_module(model))
    snapshot.before_write(buffer for module in modules for buffer in module.buffers(recurse=False))
    # Also tensors among the attributes: caches that are not buffers.
    held = [
        value
        for module in modules
        for values in (vars(module), dict(module.named_parameters(recurse=False)))
        for value in values.values()
        if isinstance(value, torch.Tensor) and not torch.nn.parameter.is_lazy(value)
    ]
    if without_parameters:
        held = [value for value in held if not isinstance(value, torch.nn.Parameter)]
    try:
        yield _KeepsWritten(snapshot, [*held, *tensors_in(inputs)])
    finally:
        snapshot.restore()


def _first_run(loop: Loop, keeping: _KeepsWritten) -> None:
    """Run once under the mode; compiled code refuses a dispatch mode."""
    try:
        with keeping:
            loop.first_run()
    except RuntimeError as error:
        if not asks_for_compiler(error):
            raise
        loop.first_run()


class _KeepsWritten(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    """Copies existing tensors before an operator writes into them."""

    def __init__(self, snapshot: Snapshot, there: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch has no types here
        self._snapshot = snapshot
        self._there = {storage_key(tensor) for tensor in there} - {None}

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run an operator, unchanged."""
        keywords = kwargs or {}
        if composite.is_composite(func, types, args, keywords):
            return composite.run_parts(self, func, args, keywords)
        call = Call(signature_of(func), args, keywords, ())
        written = [one for name in call.signature.written for one in tensors_in(call.get(name))]
        self._snapshot.before_write(t for t in written if storage_key(t) in self._there)
        result: object = func(*args, **keywords)
        return result


def _candidates(
    model: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
) -> Sequence[Inputs]:
    if not args and not kwargs:
        device = torch.device(device_name(model))
        return Candidates(guesses(model), as_the_model(model, Settings(device, None, None)))
    parameters = forward_parameters(model)
    named = [(parameters.name_at(place), value) for place, value in enumerate(args)]
    specs = [
        spec for name, value in (*named, *kwargs.items()) for spec in specs_of(value, name, GIVEN)
    ]
    return (Inputs(args, kwargs, tuple(specs)),)


def _facts(model: torch.nn.Module, inputs: Inputs, name: str) -> messages.ModelFacts:
    return messages.ModelFacts(
        name=name or class_name(model),
        type=class_name(model),
        source=f"this process, pid {os.getpid()}",
        weights="its own",
        inputs=inputs.specs,
        batch=inputs.batch,
        device=device_name(model),
        training=model.training,
        why_no_batch=inputs.why_no_batch,
    )


def _why_no_windows() -> str:
    if threading.current_thread() is not threading.main_thread():
        return _NOT_MAIN
    return why_no_windows()


def _no_operators(why: str, at: float) -> messages.OperatorTimes:
    return messages.OperatorTimes(at, 0, 0.0, 0, why, b"", b"", b"", b"")

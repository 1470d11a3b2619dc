"""A model profiled in the process that holds it: traced, run for a while, and left as it was.

1. What is told are the messages that a worker of ours would send: who folds them gets one session.
2. The model is as it was afterwards, also where it raises: flags, attributes, hooks, parameters,
   buffers, random generators, ``nn.Module.__call__``. So are the inputs. A first forward runs under
   a mode that sees what operators write into, and copies it before; buffers are copied beforehand.
3. Layers that wait for their shapes would be made for good: of such a model a copy is profiled.
4. Out of reach: what compiled or scripted code writes into parameters, and whatever the model's own
   Python does outside of it (files, counters in closures).
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from tui_profiler.messages import (
    InputSpec,
    LoadSpec,
    LoopState,
    Message,
    ModelFacts,
    OperatorTimes,
    Request,
    StageDone,
    StageStarted,
)
from tui_profiler.messages.live import Stage
from tui_profiler.probe.cost.call import Call, signature_of, tensors_in
from tui_profiler.probe.load.common.input_tensors import Candidates, specs_of
from tui_profiler.probe.load.common.settings import Settings, as_the_model
from tui_profiler.probe.load.common.signature import forward_parameters
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.measure.ceilings.ceilings import kept_ceilings
from tui_profiler.probe.measure.devices.environment import environment
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import Operator, TorchDispatchMode, storage_key
from tui_profiler.probe.trace.record import asks_for_compiler, waiting_for_shapes
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import messages, trace
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.trace.tree.weights import all_modules
from tui_profiler.probe.watch.facts import device_name
from tui_profiler.probe.watch.windows import why_no_windows
from tui_profiler.probe.worker.loop import Loop

GIVEN = "given"
_NOT_MAIN = "only on the main thread: torch's profiler would print once elsewhere"


@dataclass(frozen=True)
class ProfileOptions:
    """How a model is profiled."""

    name: str = ""
    """Of the model; its class where empty."""
    seconds: float | None = None
    """How long it runs, warmed up."""
    forwards: int | None = None
    """How often it runs, at most. Where both are None it is traced and never run."""
    tracer: str = "auto"


@dataclass
class _Talk:
    """Takes what a loop says, and asks nothing."""

    said: list[Message] = field(default_factory=list)
    is_closed: bool = False
    dropped: int = 0

    def send(self, message: Message) -> None:
        """Keep a message."""
        self.said.append(message)

    def next_request(self, timeout: float | None = 0.0) -> Request | None:
        """Return none."""
        return None


def require_module(model: object) -> None:
    """Refuse what is no model.

    Raises:
        TypeError: it is not a ``torch.nn.Module``.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"profile takes a torch.nn.Module, not {type(model).__name__}")


def profiled(
    model: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    wanted: ProfileOptions,
) -> list[Message]:
    """Return what a worker would say of a model: facts, tree, times.

    Args:
        model: left as it is.
        args: what is passed to ``forward`` in order; where both are empty it is guessed.
        kwargs: what is passed by name.
        wanted: how it is profiled.

    Raises:
        TraceError: it could not be traced.
        Exception: whatever the model raises when it is run.
    """
    if waiting_for_shapes(model):
        model = copy.deepcopy(model)
    talk, started_at = _Talk(), time.time()
    talk.send(environment())
    candidates = _candidates(model, args, dict(kwargs))
    with _left_as_it_was(model, (args, kwargs)) as keeping:
        with _stage("trace", talk, started_at):
            made = trace(model, candidates, wanted.tracer, name=wanted.name)
        talk.send(_facts(model, made.inputs, wanted.name))
        for message in messages(made):
            talk.send(message)
        if wanted.seconds is None and wanted.forwards is None:
            talk.send(LoopState("finished", time.time() - started_at, detail="not run, as asked"))
            return talk.said
        threads = torch.get_num_threads()
        if (kept := kept_ceilings(device_name(model), threads)) is not None:
            talk.send(kept)
        spec = LoadSpec(
            wanted.name, forwards=wanted.forwards, seconds=wanted.seconds, started_at=started_at
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
        talk.send(LoopState("finished", at, made.inputs.batch, loop.why_finished))
    return talk.said


@contextmanager
def _stage(stage: Stage, talk: _Talk, started_at: float) -> Iterator[None]:
    began = time.time()
    talk.send(StageStarted(stage, began - started_at))
    yield
    ended = time.time()
    talk.send(StageDone(stage, ended - started_at, ended - began))


@contextmanager
def _left_as_it_was(model: torch.nn.Module, inputs: object) -> Iterator[_KeepsWritten]:
    """Put everything back at the end; yields what keeps the values that a forward writes over."""
    snapshot = Snapshot(model)
    modules = list(all_modules(model))
    snapshot.before_write(buffer for module in modules for buffer in module.buffers(recurse=False))
    # Plain tensors among the attributes too: caches that are no buffers.
    held = [
        value
        for module in modules
        for values in (vars(module), dict(module.named_parameters(recurse=False)))
        for value in values.values()
        if isinstance(value, torch.Tensor) and not torch.nn.parameter.is_lazy(value)
    ]
    try:
        yield _KeepsWritten(snapshot, [*held, *tensors_in(inputs)])
    finally:
        snapshot.restore()


def _first_run(loop: Loop, keeping: _KeepsWritten) -> None:
    """Run once, with what is written into kept; compiled code refuses to be looked at."""
    try:
        with keeping:
            loop.first_run()
    except RuntimeError as error:
        if not asks_for_compiler(error):
            raise
        loop.first_run()


class _KeepsWritten(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    """While it is on, copies what was there before and is about to be written into."""

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
        """Run an operator as it is."""
        keywords = kwargs or {}
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
    return (Inputs(args, kwargs, tuple(specs), _batch(specs)),)


def _batch(specs: Sequence[InputSpec]) -> int | None:
    """Return the first axis, where all inputs agree on it."""
    axes = {spec.shape[0] if spec.shape else None for spec in specs}
    return axes.pop() if len(axes) == 1 else None


def _facts(model: torch.nn.Module, inputs: Inputs, name: str) -> ModelFacts:
    return ModelFacts(
        name=name or class_name(model),
        type=class_name(model),
        source=f"this process, pid {os.getpid()}",
        weights="its own",
        inputs=inputs.specs,
        batch=inputs.batch,
        device=device_name(model),
        training=model.training,
    )


def _why_no_windows() -> str:
    if threading.current_thread() is not threading.main_thread():
        return _NOT_MAIN
    return why_no_windows()


def _no_operators(why: str, at: float) -> OperatorTimes:
    return OperatorTimes(at, 0, 0.0, 0, why, b"", b"", b"", b"")

"""One model in the worker: loaded, traced, first run, ceilings, then the loop."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import torch

from tui_profiler.messages import LoadSpec, LoopState, ModelFacts, SetBatch, Stop
from tui_profiler.messages.live import Stage
from tui_profiler.probe.failures import StageError, failure
from tui_profiler.probe.inputs import Inputs
from tui_profiler.probe.link import Link
from tui_profiler.probe.load.load import load
from tui_profiler.probe.load.loaded import Loaded
from tui_profiler.probe.loop import Loop
from tui_profiler.probe.trace.trace import Trace, messages, trace

_Details: TypeAlias = list[str]


class Stages(Protocol):
    """Tells the viewer where we are."""

    def now(self) -> float:
        """Give seconds since the command was started."""
        ...

    def stage(self, stage: Stage, detail: str = "") -> AbstractContextManager[_Details]:
        """Tell that a stage begins and ends."""
        ...


class Run:
    """A model under way."""

    def __init__(self, stages: Stages, link: Link, spec: LoadSpec) -> None:
        self._stages = stages
        self._link = link
        self._spec = spec
        self._loaded: Loaded | None = None
        self._model: torch.nn.Module | None = None
        self._loop: Loop | None = None
        self.was_stopped = False
        """The viewer said stop, as against: enough was run."""

    def forward_seconds(self) -> float:
        """Give how long the forward that is running now has taken; 0 between forwards."""
        return self._loop.forward_seconds() if self._loop is not None else 0.0

    def go(self) -> None:
        """Load, trace and run until the viewer says stop, is gone, or enough was run.

        Raises:
            StageError: a stage failed; its message says which and what to try.
            LoadError, TraceError: likewise, with a message of their own.
        """
        with self._stages.stage("load model") as details:
            self._loaded = loaded = load(self._spec)
            self._model = loaded.model
            details.append(f"{self._spec.model}, {loaded.weights} weights")
        traced = self._trace(loaded.model, loaded)
        if not self._spec.run:
            self._finish(traced, "not run, as asked")
            return
        if loaded.initialise is not None:
            with self._stages.stage("initialise", "the same model, with values"):
                self._model = loaded.initialise()
        self._measure(traced)

    def retry(self, batch: int) -> None:
        """Run again with another batch size, after a failure or when enough was run."""
        if self._model is not None:
            self._measure(self._with_batch(batch))

    def _trace(self, model: torch.nn.Module, loaded: Loaded, batch: int | None = None) -> Trace:
        candidates = loaded.candidates if batch is None else loaded.remake(model, batch)
        with self._stages.stage("trace", "will give the tree") as details:
            traced = trace(model, tuple(candidates), self._spec.tracer, name=self._spec.model)
            self._link.send(self._facts(model, loaded, traced.inputs))
            for message in messages(traced):
                self._link.send(message)
            details.append(f"{len(traced.nodes):,} nodes, by {traced.method}")
        return traced

    def _with_batch(self, batch: int) -> Trace:
        assert self._loaded is not None
        assert self._model is not None
        return self._trace(self._model, self._loaded, batch)

    def _facts(self, model: torch.nn.Module, loaded: Loaded, inputs: Inputs) -> ModelFacts:
        return ModelFacts(
            name=self._spec.model,
            type=type(model).__name__,
            source=loaded.facts_source,
            weights=loaded.weights,
            inputs=inputs.specs,
            batch=inputs.batch,
            device=str(next((p.device for p in model.parameters()), self._spec.device)),
            training=model.training,
            published_gmacs=loaded.published_gmacs,
            published_parameters=loaded.published_parameters,
        )

    def _measure(self, traced: Trace) -> None:
        assert self._model is not None
        again: Trace | None = traced
        while again is not None:
            again = self._measure_until_changed(self._model, again)

    def _measure_until_changed(self, model: torch.nn.Module, traced: Trace) -> Trace | None:
        """Run one trace's inputs; gives the next trace when the batch size is changed."""
        self._loop = loop = Loop(self._link, self._spec, self._stages.now, model, traced)
        try:
            try:
                with self._stages.stage("first run", "will give times") as details:
                    loop.first_run()
                    details.append("not counted")
            except (Exception, SystemExit) as error:
                raise StageError(failure(error, "first run", model)) from error
            if self._spec.ceilings:
                self._ceilings()
            try:
                request = loop.run()
            except (Exception, SystemExit) as error:
                raise StageError(failure(error, "run", model)) from error
        finally:
            loop.close()
        if isinstance(request, SetBatch):
            return self._with_batch(request.batch)
        self.was_stopped = isinstance(request, Stop)
        if request is None:
            self._finish(traced, loop.why_finished)
        return None

    def _ceilings(self) -> None:
        from tui_profiler.probe.measure.ceilings import ceilings  # noqa: PLC0415

        with self._stages.stage("ceilings", "will give the bounds") as details:
            found = ceilings(self._spec.device, torch.get_num_threads())
            self._link.send(found)
            kept = f"kept from {time.strftime('%Y-%m-%d', time.localtime(found.measured_at))}"
            details.append(kept if found.seconds == 0 else "measured, kept for this host")

    def _finish(self, traced: Trace, why: str) -> None:
        self._link.send(LoopState("finished", self._stages.now(), traced.inputs.batch, why))

"""One model in the worker: loaded, traced, first run, ceilings, then the loop."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import torch
from msgspec.structs import replace

from tui_profiler.archive import Found
from tui_profiler.messages import (
    Ceilings,
    LoadSpec,
    LoopState,
    MeasureSensitivity,
    ModelFacts,
    NoDecode,
    Request,
    SetBatch,
    SetPhase,
    Stop,
    Tick,
    TrialResult,
    Wish,
)
from tui_profiler.messages.live import Stage
from tui_profiler.messages.model import Phase
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.files.inspection import told_facts
from tui_profiler.probe.load.load import load
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.parameters.model_subjects import subjects_of_model
from tui_profiler.probe.parameters.values import Subject
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.sandbox.confinement import confinement
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import Trace, TraceError, messages, real_cost, trace
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.worker.failures import StageError, failure
from tui_profiler.probe.worker.loop import Loop
from tui_profiler.probe.worker.parameter_requests import Analyst, refuse
from tui_profiler.probe.worker.sensitivity_requests import measured

_Details: TypeAlias = list[str]


class Stages(Protocol):
    """Tells the viewer where we are."""

    def now(self) -> float:
        """Return seconds since the command was started."""
        ...

    def stage(self, stage: Stage, detail: str = "") -> AbstractContextManager[_Details]:
        """Tell that a stage begins and ends."""
        ...

    @property
    def energy(self) -> EnergyWatch:
        """What counts this machine's energy."""
        ...

    def rest(self) -> None:
        """Do nothing for a while, where that tells the power of an idle machine."""
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
        self._analyst: Analyst | None = None
        self._traces: dict[Phase, Trace] = {}
        self._phase: Phase = ""
        self._has_rested = False
        self.was_stopped = False
        """The viewer said stop, as against: enough was run."""

    def forward_seconds(self) -> float:
        """Return how long the forward that is running now has taken; 0 between forwards."""
        return self._loop.forward_seconds() if self._loop is not None else 0.0

    def go(self) -> None:
        """Load, trace and run until the viewer says stop, is gone, or enough was run.

        Raises:
            StageError: a stage failed; its message says which and what to try.
            LoadError, TraceError: likewise, with a message of their own.
        """
        with self._stages.stage("load model") as details:
            self._loaded = loaded = load(self._spec, self._tell)
            self._model = loaded.model
            details.append(f"{self._spec.model}, {loaded.weights} weights")
        self._trace(loaded.model, loaded)
        if not self._why_not_run() and loaded.initialise is not None:
            with self._stages.stage("initialise", "the same model, with values"):
                self._model = loaded.initialise()
        self._run_or_tell()

    def _tell(self, found: Found) -> None:
        self._link.send(told_facts(found, self._spec))

    def retry(self, batch: int) -> None:
        """Run again with another batch size, after a failure or when enough was run."""
        if self._model is not None:
            self._with_batch(batch)
            self._run_or_tell()

    def show(self, phase: Phase) -> None:
        """Run the other phase, after a failure or when enough was run; or say that it is shown."""
        if phase in self._traces:
            self._phase = phase
            self._run_or_tell()

    def try_change(self, wish: Wish, asked: deque[Request]) -> None:
        """Try a change after enough was run; takes down what else is asked meanwhile."""
        from tui_profiler.probe.trials.trials import Trials  # noqa: PLC0415

        if self._model is None or self._phase not in self._traces or self._why_not_run():
            why = "the model was not run"
            if self._loaded is not None and self._traces:
                why = self._why_not_run() or why
            self._link.send(TrialResult(wish.kind, wish.node, "impossible", 0.0, why))
            return
        traced = self._traces[self._phase]
        Trials(self._link, self._spec, self._model, traced.nodes, traced.inputs, self._phase).run(
            wish, asked
        )

    @property
    def analyst(self) -> Analyst | None:
        """Who looks at the parameters; None where no model was loaded."""
        if self._analyst is None and self._loaded is not None:
            now, weights = self._stages.now, self._loaded.weights
            self._analyst = Analyst(self._link, now, self._subjects, weights)
        return self._analyst

    def _subjects(self) -> list[Subject]:
        """Return the tensors of the model, with their values."""
        assert self._loaded is not None
        assert self._model is not None
        if self._loaded.initialise is not None and self._model is self._loaded.model:
            with self._stages.stage("initialise", "the same model, with values"):
                self._model = self._loaded.initialise()
        return subjects_of_model(self._model)

    def measure_sensitivity(self, request: MeasureSensitivity) -> list[Request]:
        """Change one weight after another, when nothing runs; gives what else was asked."""
        traced = self._traces.get(self._phase)
        if self._model is None or traced is None:
            refuse(request, self._link, self._stages.now, "no forward is known")
            return []
        if why := self._why_not_run():
            refuse(request, self._link, self._stages.now, why)
            return []
        of = self._model, traced
        is_random = self._has_random_weights()
        return measured(request, self._link, self._stages.now, *of, is_random=is_random)

    def _has_random_weights(self) -> bool:
        return self._loaded is not None and self._loaded.weights == "random"

    def _run_or_tell(self) -> None:
        why_not = self._why_not_run()
        if why_not:
            self._finish(why_not)
        else:
            self._measure()

    def _why_not_run(self) -> str:
        assert self._loaded is not None
        if not self._spec.run:
            return "not run, as asked"
        if self._loaded.cannot_run:
            return f"not run: {self._loaded.cannot_run}"
        method = self._traces[self._phase].method
        if method == "dispatch:meta" and self._loaded.initialise is None:
            return "not run: its parameters are on meta, without values"
        return ""

    def _trace(self, model: torch.nn.Module, loaded: Loaded, batch: int | None = None) -> None:
        candidates = loaded.candidates if batch is None else loaded.remake(model, batch)
        with self._stages.stage("trace", "build the tree") as details:
            try:
                traced = trace(model, candidates, self._spec.tracer, name=self._spec.model)
            except TraceError as error:
                if error.partial is not None:
                    self._link.send(error.partial)
                raise
            decode = loaded.decode or (lambda *_: None)
            step = decode(model, traced.inputs, traced.kept)
            first: Phase = "prefill" if isinstance(step, Inputs) else ""
            self._link.send(self._facts(model, loaded, traced.inputs))
            self._take(traced, first)
            details.append(f"{traced.counted}, by {traced.method}")
            if isinstance(step, Inputs):
                details.append(self._trace_step(model, step))
            elif step is not None:
                details.append(self._without_step(step.reason))
        if self._phase not in self._traces:
            self._phase = first

    def _trace_step(self, model: torch.nn.Module, step: Inputs) -> str:
        """Trace the forward of the next token; gives what is to be told of it."""
        try:
            traced = trace(model, (step,), self._spec.tracer, name=self._spec.model)
        except TraceError as error:  # The tree of all tokens stands.
            return self._without_step(f"passed its cache and one more token, {error.failed.what}")
        self._take(traced, "decode")
        return f"and {len(traced.nodes):,} of a decode step"

    def _without_step(self, why: str) -> str:
        self._link.send(NoDecode(why))
        return f"and without a decode step: {why}"

    def _take(self, traced: Trace, phase: Phase) -> None:
        if phase != "decode":
            self._traces.clear()
        self._traces[phase] = traced
        for message in messages(traced, phase):
            self._link.send(message)

    def _with_batch(self, batch: int) -> None:
        assert self._loaded is not None
        assert self._model is not None
        self._trace(self._model, self._loaded, batch)
        self._spec = replace(self._spec, batch=batch)

    def _facts(self, model: torch.nn.Module, loaded: Loaded, inputs: Inputs) -> ModelFacts:
        return ModelFacts(
            name=self._spec.model,
            type=class_name(model),
            source=loaded.facts_source,
            weights=loaded.weights,
            inputs=inputs.specs,
            batch=inputs.batch,
            device=str(next((p.device for p in model.parameters()), self._spec.device)),
            training=model.training,
            published_gmacs=loaded.published_gmacs,
            published_parameters=loaded.published_parameters,
        )

    def _measure(self) -> None:
        assert self._model is not None
        while self._measure_until_changed(self._model, self._traces[self._phase]):
            pass

    def _measure_until_changed(self, model: torch.nn.Module, traced: Trace) -> bool:
        """Run one trace's inputs; true when the batch size or the phase was changed."""
        link, now = self._link, self._stages.now
        if (real := real_cost(model, traced)) is not None:
            link.send(real)
        if not self._has_rested:
            self._stages.rest()
            self._has_rested = True
        energy = self._stages.energy
        self._loop = loop = Loop(link, self._spec, now, model, traced, self._phase, energy)
        loop.asides.analyst = self.analyst
        loop.asides.has_random_weights = self._has_random_weights()
        try:
            try:
                with self._stages.stage("first run", "first times") as details:
                    loop.first_run()
                    details.append("not counted")
            except (Exception, SystemExit) as error:
                raise StageError(failure(error, "first run", model)) from error
            if self._spec.ceilings:
                loop.on_tick = self._checking(traced, self._ceilings())
            # What was made before lives on: to look at all of it is a pause of 0.2 s in a forward
            # that only our own objects cause.
            gc.freeze()
            try:
                request = loop.run()
            except (Exception, SystemExit) as error:
                raise StageError(failure(error, "run", model)) from error
        finally:
            gc.unfreeze()
            loop.close()
        if isinstance(request, SetBatch):
            self._with_batch(request.batch)
            return True
        if isinstance(request, SetPhase):
            self._phase = request.phase if request.phase in self._traces else self._phase
            return True
        self.was_stopped = isinstance(request, Stop)
        if request is None:
            self._finish(loop.why_finished)
        return False

    def _checking(self, traced: Trace, found: Ceilings) -> Callable[[Tick], None]:
        """Return what holds the roofs against each tick, and tells and keeps those it raised."""
        from tui_profiler.probe.measure.ceilings.ceilings import keep_raised  # noqa: PLC0415
        from tui_profiler.probe.measure.ceilings.roof_check import RoofCheck  # noqa: PLC0415

        check = RoofCheck(traced.nodes, traced.costs)

        def look(tick: Tick) -> None:
            nonlocal found
            checked = check.check(found, tick)
            if checked is not found:
                found = checked
                self._link.send(found)
                # A confined process cannot write the cache, and what it says must not be cached.
                if confinement() is None:
                    keep_raised(found)

        return look

    def _ceilings(self) -> Ceilings:
        from tui_profiler.probe.measure.ceilings.ceilings import (  # noqa: PLC0415
            are_due,
            ceilings,
            kept_ceilings,
            reasons,
        )

        with self._stages.stage("ceilings", "calibrate the roofline") as details:
            device, threads = self._spec.device, torch.get_num_threads()
            confined, is_calibrated = confinement(), False
            refused: list[str] = []
            if confined is not None and are_due(device, threads):
                # A confined process cannot write the cache, and what it says must not be cached.
                refused += filter(None, [confined.broker.calibrate(device, threads)])
                is_calibrated = not refused
            cached = None if confined is None else kept_ceilings(device, threads)
            found = cached or ceilings(device, threads, refused=refused.append)
            self._link.send(found)
            kept = f"calibrated {time.strftime('%Y-%m-%d', time.localtime(found.measured_at))}"
            if is_calibrated and cached is not None:
                kept = "measured outside the sandbox, cached for this host"
            if found.seconds > 0:
                # The first reason is the broker's: the sandbox itself may never write there.
                cached_or_why = f"not cached: {refused[0]}" if refused else "cached for this host"
                kept = f"measured, {cached_or_why}"
            if doubted := [name for name, why in reasons(found).items() if why]:
                kept += (
                    f"; not good enough: {', '.join(doubted)}; calibrated again at a later start"
                )
            details.append(kept)
        return found

    def _finish(self, why: str) -> None:
        batch = self._traces[self._phase].inputs.batch
        state = LoopState("finished", self._stages.now(), batch, why, self._phase)
        self._link.send(state)

"""One model in the worker: loaded, traced, run once, roofline calibrated, then the loop."""

import dataclasses
import gc
from collections import deque
from collections.abc import Callable, Sequence
from time import localtime, strftime

import torch
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.archive import Found
from tui_profiler.messages.model import Phase
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.files.inspection import facts_with_trust
from tui_profiler.probe.load.load import load
from tui_profiler.probe.parameters.subjects import Subject, subjects_of_model
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.sandbox.confinement import confinement
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace import trace
from tui_profiler.probe.trace.batch_axis import of_batch, with_batch
from tui_profiler.probe.trace.failure import refused
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.worker.failures import StageError, failure
from tui_profiler.probe.worker.interruptions import WHY_NOT_IN_TRAINING
from tui_profiler.probe.worker.loop import Loop
from tui_profiler.probe.worker.parameter_requests import WeightReader, measured, refuse
from tui_profiler.probe.worker.stages import Stages


class Run:
    """A model of the worker."""

    def __init__(self, stages: Stages, link: Link, spec: messages.LoadSpec) -> None:
        self._stages = stages
        self._link = link
        self._spec = spec
        self._loaded: Loaded | None = None
        self._model: torch.nn.Module | None = None
        self._loop: Loop | None = None
        self.reader: WeightReader | None = None
        """None before the model is loaded."""
        self._traces: dict[Phase, trace.Trace] = {}
        self._first_inputs: Inputs | None = None
        """As they were made, with the batch axis that was found."""
        self._phase: Phase = ""
        self._has_rested = False
        self._values_wanted = 0
        self.was_stopped = False
        """The viewer sent Stop; otherwise enough was run."""

    def forward_seconds(self) -> float:
        """Return the seconds of the running forward so far; 0 between forwards."""
        return self._loop.forward_seconds() if self._loop is not None else 0.0

    def go(self) -> None:
        """Load, trace and run until the viewer sends Stop or disconnects, or enough was run.

        Raises:
            StageError, LoadError, TraceError: a stage failed; its message says which.
        """
        with self._stages.stage("load model") as details:
            self._loaded = loaded = load(self._spec, self._tell)
            self._model = self._in_mode(loaded.model)
            now, weights = self._stages.now, loaded.weights
            self.reader = WeightReader(self._link, now, self._subjects, weights)
            details.append(f"{self._spec.model}, {loaded.weights} weights")
        self._trace(loaded.model, loaded)
        if not self._why_not_run() and loaded.initialise is not None:
            with self._stages.stage("initialise", "the same model, with values"):
                self._model = self._in_mode(loaded.initialise())
        self._run_or_tell()

    def _in_mode(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return a model in train mode if it is trained; it was loaded in eval mode."""
        return model if self._spec.train is None else model.train()

    def _tell(self, found: Found) -> None:
        self._link.send(facts_with_trust(found, self._spec))

    def retry(self, batch: int) -> None:
        """Run with another batch size, after a failure or when enough was run."""
        if self._model is not None:
            self._with_batch(batch)
            self._run_or_tell()

    def show(self, phase: Phase) -> None:
        """Run the other phase, after a failure or when enough was run."""
        if phase in self._traces:
            self._phase = phase
            self._run_or_tell()

    def try_change(self, wish: messages.Wish, asked: deque[messages.Request]) -> None:
        """Run a trial after enough was run; append other requests to ``asked``."""
        from tui_profiler.probe.trials.trials import Trials  # noqa: PLC0415

        if self._model is None or self._phase not in self._traces or self._why_not_run():
            why = "the model was not run"
            if self._loaded is not None and self._traces:
                why = self._why_not_run() or why
            self._link.send(messages.TrialResult(wish.kind, wish.node, "impossible", 0.0, why))
            return
        traced = self._traces[self._phase]
        Trials(self._link, self._spec, self._model, traced.nodes, traced.inputs, self._phase).run(
            wish, asked
        )

    def _subjects(self) -> list[Subject]:
        assert self._loaded is not None
        assert self._model is not None
        if self._loaded.initialise is not None and self._model is self._loaded.model:
            with self._stages.stage("initialise", "the same model, with values"):
                self._model = self._in_mode(self._loaded.initialise())
        return subjects_of_model(self._model)

    def measure_sensitivity(self, request: messages.MeasureSensitivity) -> list[messages.Request]:
        """Measure sensitivity when nothing runs; return other requests that came meanwhile."""
        traced = self._traces.get(self._phase)
        if self._model is None or traced is None:
            refuse(request, self._link, self._stages.now, "no forward is known")
            return []
        if why := self._why_not_run() or WHY_NOT_IN_TRAINING * (self._spec.train is not None):
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
        if self._spec.train is not None:
            self._trace_training(model, loaded, batch, self._spec.train)
            return
        with self._stages.stage("trace", "build the tree") as details:
            candidates = self._candidates(model, loaded, batch)
            try:
                traced = trace.trace(model, candidates, self._spec.tracer, name=self._spec.model)
            except trace.TraceError as error:
                if error.partial is not None:
                    self._link.send(error.partial)
                raise
            traced = self._with_batch_found(model, loaded, traced)
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

    def _candidates(
        self, model: torch.nn.Module, loaded: Loaded, batch: int | None
    ) -> Sequence[Inputs]:
        """Return what may be passed to the model, of a batch size, or of the one asked for."""
        made = loaded.candidates if batch is None else loaded.remake(model, batch)
        if loaded.knows_batch:
            return made
        wanted = loaded.batch if batch is None else batch
        return of_batch(model, made, wanted, self._first_inputs)

    def _with_batch_found(
        self, model: torch.nn.Module, loaded: Loaded, traced: trace.Trace
    ) -> trace.Trace:
        """Return a trace whose inputs tell the batch axis, or why there is none."""
        inputs = traced.inputs
        if not loaded.knows_batch and inputs.batch_axes is None:
            inputs = with_batch(model, traced)
        self._first_inputs = self._first_inputs or inputs
        return dataclasses.replace(traced, inputs=inputs)

    def _trace_training(
        self,
        model: torch.nn.Module,
        loaded: Loaded,
        batch: int | None,
        spec: messages.TrainSpec,
    ) -> None:
        """Record a training step; the tree is that of its forward."""
        from tui_profiler.probe.trace.training.record_step import trace_step  # noqa: PLC0415
        from tui_profiler.probe.trace.training.targets import WithTargets  # noqa: PLC0415

        if self._spec.tracer not in ("auto", "dispatch"):
            what = f"a training step cannot be traced with {self._spec.tracer}"
            remedy = messages.Remedy("--tracer dispatch", "records it as it runs")
            raise refused(what, remedy)
        with self._stages.stage("trace", "build the tree") as details:
            given = WithTargets(model, self._candidates(model, loaded, batch))
            found = trace_step(model, given, spec, spec.optimizer, name=self._spec.model)
            traced = self._with_batch_found(model, loaded, found.trace)
            self._link.send(self._facts(model, loaded, traced.inputs))
            self._take(traced, "")
            self._link.send(found.cost)
            self._link.send(found.memory)
            details.append(f"{traced.counted}, by {traced.method}, a training step")
        self._phase = ""

    def _trace_step(self, model: torch.nn.Module, step: Inputs) -> str:
        """Trace the decode step; return a detail of the stage."""
        try:
            traced = trace.trace(model, (step,), self._spec.tracer, name=self._spec.model)
        except trace.TraceError as error:  # The tree of the prefill stays.
            return self._without_step(f"passed its cache and one more token, {error.failed.what}")
        self._take(traced, "decode")
        return f"and {len(traced.nodes):,} of a decode step"

    def _without_step(self, why: str) -> str:
        self._link.send(messages.NoDecode(why))
        return f"and without a decode step: {why}"

    def _take(self, traced: trace.Trace, phase: Phase) -> None:
        if phase != "decode":
            self._traces.clear()
        self._traces[phase] = traced
        for message in trace.messages(traced, phase):
            self._link.send(message)

    def _with_batch(self, batch: int) -> None:
        assert self._loaded is not None
        assert self._model is not None
        self._trace(self._model, self._loaded, batch)
        self._spec = replace(self._spec, batch=batch)

    def _facts(self, model: torch.nn.Module, loaded: Loaded, inputs: Inputs) -> messages.ModelFacts:
        return messages.ModelFacts(
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
            why_no_batch=inputs.why_no_batch,
        )

    def _measure(self) -> None:
        assert self._model is not None
        while self._measure_until_changed(self._model, self._traces[self._phase]):
            pass

    def _measure_until_changed(self, model: torch.nn.Module, traced: trace.Trace) -> bool:
        """Run on one trace's inputs; return whether the batch size or the phase was changed."""
        link, now = self._link, self._stages.now
        if (real := trace.real_cost(model, traced)) is not None:
            link.send(real)
        if not self._has_rested:
            self._stages.rest()
            self._has_rested = True
        energy = self._stages.energy
        self._loop = loop = Loop(link, self._spec, now, model, traced, self._phase, energy)
        loop.reader = self.reader
        loop.prompt = self._traces.get("prefill", traced).inputs
        loop.values_wanted = self._values_wanted
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
            # The profiler's objects live on: collecting them pauses a forward for 0.2 s.
            gc.freeze()
            try:
                request = loop.run()
            except (Exception, SystemExit) as error:
                raise StageError(failure(error, "run", model)) from error
        finally:
            gc.unfreeze()
            self._values_wanted = loop.values_wanted
            loop.close()
        if isinstance(request, messages.SetBatch):
            self._with_batch(request.batch)
            return True
        if isinstance(request, messages.SetPhase):
            self._phase = request.phase if request.phase in self._traces else self._phase
            return True
        self.was_stopped = isinstance(request, messages.Stop)
        if request is None:
            self._finish(loop.why_finished)
        return False

    def _checking(
        self, traced: trace.Trace, found: messages.Ceilings
    ) -> Callable[[messages.Tick], None]:
        """Return a function that checks the roofs against each tick, and raises and caches them."""
        from tui_profiler.probe.measure.ceilings.ceilings import keep_raised  # noqa: PLC0415
        from tui_profiler.probe.measure.ceilings.roof_check import RoofCheck  # noqa: PLC0415

        check = RoofCheck(traced.nodes, traced.costs, traced.done.bounded)

        def look(tick: messages.Tick) -> None:
            nonlocal found
            checked = check.check(found, tick)
            if checked is not found:
                found = checked
                self._link.send(found)
                # A confined process cannot write the cache, and its figures must not be cached.
                if confinement() is None:
                    keep_raised(found)

        return look

    def _ceilings(self) -> messages.Ceilings:
        from tui_profiler.probe.measure.ceilings.ceilings import (  # noqa: PLC0415
            are_due,
            ceilings,
            kept_ceilings,
            reasons,
        )

        with self._stages.stage("ceilings", "calibrate the roofline") as details:
            device, threads = self._spec.device, torch.get_num_threads()
            broker, is_calibrated = confinement(), False
            refused: list[str] = []
            if broker is not None and are_due(device, threads):
                # A confined process cannot write the cache, and its figures must not be cached.
                refused += filter(None, [broker.calibrate(device, threads)])
                is_calibrated = not refused
            cached = None if broker is None else kept_ceilings(device, threads)
            found = cached or ceilings(device, threads, refused=refused.append)
            self._link.send(found)
            kept = f"calibrated {strftime('%Y-%m-%d', localtime(found.measured_at))}"
            if is_calibrated and cached is not None:
                kept = "measured outside the sandbox, cached for this host"
            if found.seconds > 0:
                # The first reason is the broker's: the sandbox itself cannot write there.
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
        state = messages.LoopState("finished", self._stages.now(), batch, why, self._phase)
        self._link.send(state)

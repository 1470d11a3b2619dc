"""The worker: load, trace, run in a loop; each step reported as soon as it is known.

Failures become ``Failed`` messages at this border, and the worker waits for the viewer. This module
imports no torch, so that the first message comes at once and the machine's counters are live while
torch is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.messages.live import WIRE_VERSION, Stage
from tui_profiler.probe.load.files.inspection import is_file
from tui_profiler.probe.measure.devices.machine import allowed_cores, caches
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.process import memory_limit
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.worker.one_request import carry_out, failed
from tui_profiler.probe.worker.parameter_requests import WeightReader, refuse
from tui_profiler.probe.worker.parameters_only import ParametersShown, open_file
from tui_profiler.system import real_time as time

if TYPE_CHECKING:
    from tui_profiler.probe.parameters.subjects import FileSubjects, Subject
    from tui_profiler.probe.worker.run import Run

ACCEPTS = (
    "Start",
    "ListModels",
    "MeasureCeilings",
    "CountWith",
    "ExportOnnx",
    "Pause",
    "Resume",
    "Step",
    "SetBatch",
    "SetPhase",
    "ReplayNode",
    "Try",
    "StopTrial",
    "ProlongTrial",
    "TryAlone",
    "TryOptimizer",
    "AnalyseParameters",
    "StopAnalysing",
    "MeasureSensitivity",
    "ReadValues",
    "Stop",
)
SAMPLE_SECONDS = 1.0
TOLD_SECONDS = 1.0
"""A stage waits at most so long until the viewer knows that it starts."""
MOST_IDLE_SECONDS = 4.0
"""Idle time before the first forward, where energy is counted."""


class Worker:
    """Serves one viewer, from the first request to the last.

    Args:
        link: to the viewer.
        sandbox: how this process is confined, or why it is not.
    """

    def __init__(self, link: Link, sandbox: messages.Sandbox | str = "") -> None:
        self._link = link
        self._sandbox = sandbox
        self._count_from(time.time())
        self._run: Run | None = None
        self._shown: ParametersShown | None = None
        self._file: FileSubjects | None = None
        self._file_reader = WeightReader(link, self.now, self._in_file, "its own")
        self._asked: deque[messages.Request] = deque()
        self._cores = allowed_cores()
        self.energy = EnergyWatch()

    def serve(self, refused: messages.Failed | None = None) -> None:
        """Serve requests until the viewer disconnects or sends Stop.

        Args:
            refused: why the first one is refused.
        """
        self._link.send(self._hello())
        if refused is not None:
            self._link.send(refused)
            self._wait_for_stop()
            return
        match self._link.next_request(timeout=None):
            case messages.Start(spec=spec):
                self._count_from(spec.started_at or self._started_at)
                self._start(spec)
            case messages.ExportOnnx(spec=spec) as errand:
                self._count_from(spec.started_at or self._started_at)
                carry_out(errand, self, self._link, self._import_torch)
            case (
                messages.ListModels()
                | messages.MeasureCeilings()
                | messages.CountWith()
                | messages.TryAlone()
                | messages.TryOptimizer() as errand
            ):
                carry_out(errand, self, self._link, self._import_torch)
            case _:
                pass  # Stopped or disconnected before the first request.

    def _hello(self) -> messages.Hello:
        """Return the first message; a gap of the sandbox is logged as well."""
        match self._sandbox:
            case messages.Sandbox(lacks=lacks) if lacks:
                print(f"tui-profiler: sandbox incomplete: {'; '.join(lacks)}", flush=True)
            case str() as why if why:
                print(f"tui-profiler: no sandbox: {why}", flush=True)
        told = messages.Hello(WIRE_VERSION, os.getpid(), ACCEPTS)
        if isinstance(self._sandbox, messages.Sandbox):
            return replace(told, sandbox=self._sandbox)
        return replace(told, why_no_sandbox=self._sandbox)

    def _count_from(self, started_at: float) -> None:
        self._started_at = started_at
        self._began = time.monotonic() - (time.time() - started_at)

    def now(self) -> float:
        """Return seconds since the start of the command."""
        return time.monotonic() - self._began

    @contextmanager
    def stage(self, stage: Stage, detail: str = "") -> Iterator[list[str]]:
        """Report the start of a stage and, unless it raises, its end.

        Yields:
            a list; what is appended to it is the detail of the stage at its end.
        """
        began = time.perf_counter()
        self._link.send(messages.StageStarted(stage, self.now(), detail))
        # A model may end the process at once: then this message shows where.
        self._link.flush(TOLD_SECONDS)
        details: list[str] = []
        yield details
        seconds = time.perf_counter() - began
        self._link.send(messages.StageDone(stage, self.now(), seconds, " ".join(details) or detail))

    def rest(self) -> None:
        """Idle for a while, if energy is counted: the idle power of the machine."""
        if isinstance(self.energy.totals(), messages.Unknown):
            return
        with self.stage("idle", "idle power of the machine") as details:
            self.energy.become("idle")
            until = time.monotonic() + MOST_IDLE_SECONDS
            while time.monotonic() < until and not self._link.is_closed:
                time.sleep(0.1)
                if self.energy.has_rested():
                    break
            self.energy.become("other")
            details.append("measure idle power")

    def _start(self, spec: messages.LoadSpec) -> None:
        self._link.send(messages.StageDone("worker", self.now(), self.now(), self._process()))
        self.energy.start()
        threading.Thread(target=self._sample, name="tui-profiler-sample", daemon=True).start()
        try:
            if not self._attempt(partial(self._load_and_run, spec)):
                self._wait_for_stop()
        finally:
            self._reader.stop()

    def _process(self) -> str:
        """Return the process ID and its limits."""
        process = ", ".join(filter(None, (f"pid {os.getpid()}", memory_limit.told())))
        match self._sandbox:
            case messages.Sandbox(kind=kind, lacks=lacks):
                return ", ".join((process, f"sandbox {kind}", *lacks))
            case "":
                return process
            case why:
                return f"{process}, no sandbox: {why}"

    def _load_and_run(self, spec: messages.LoadSpec) -> None:
        self._shown = open_file(spec, self, self._link)
        if self._shown is not None:
            return
        self._import_torch(spec)
        from tui_profiler.probe.worker.run import Run  # noqa: PLC0415

        self._run = Run(self, self._link, spec)
        self._run.go()

    def _attempt(self, run: Callable[[], None]) -> bool:
        """Run, and report a failure; return whether the viewer sent Stop."""
        try:
            run()
        # The border of the probe: every error is reported, and none ends the worker.
        except (Exception, SystemExit) as error:
            self._link.send(failed(error))
            return False
        return self._run is not None and self._run.was_stopped

    def _import_torch(self, spec: messages.LoadSpec) -> None:
        with self.stage("import torch") as details:
            with without_collector():
                torch = importlib.import_module("torch")
                if spec.model and ":" not in spec.model and not is_file(spec):
                    importlib.import_module("torchvision")
            cuda = str(torch.version.cuda or "")
            build = f"CUDA {cuda} build" if cuda else "cpu build"
            details.append(f"{torch.__version__}, {build}")
        if spec.threads is not None:
            torch.set_num_threads(spec.threads)
        from tui_profiler.probe.measure.devices.environment import environment  # noqa: PLC0415

        told = replace(
            environment(),
            caches=caches(self._cores),
            grid_grams_per_kwh=spec.grid_grams_per_kwh,
            grid_named=spec.grid_named,
        )
        self._link.send(told)

    def _sample(self) -> None:
        sampler = Sampler(self._started_at, energy=self.energy)
        wait = 0.1
        while not self._link.is_closed:
            time.sleep(wait)
            wait = SAMPLE_SECONDS
            running = self._run.forward_seconds() if self._run is not None else 0.0
            try:
                self._link.send(messages.Heartbeat(self.now(), running))
                self._link.send(sampler.sample())
            except MemoryError:  # The model used the whole limit; samples must go on.
                memory_limit.lift()
        sampler.close()
        self.energy.close()

    def _wait_for_stop(self) -> None:
        """Serve requests when nothing runs."""
        while not self._link.is_closed:
            match self._asked.popleft() if self._asked else self._reader.next_request():
                case messages.Stop() | None:
                    return
                case messages.Try(wish=wish) if self._run is not None:
                    self._run.try_change(wish, self._asked)
                case messages.Try(wish=wish):
                    why = self._why_no_model
                    self._link.send(
                        messages.TrialResult(wish.kind, wish.node, "impossible", 0.0, why)
                    )
                case messages.ReplayNode(node=node):
                    ran = "the model is no longer running"
                    why = ran if self._run is not None else self._why_no_model
                    self._link.send(messages.Replayed(node, "", "counter", (), None, 0.0, why))
                case messages.SetBatch(batch=batch) if self._run is not None:
                    if self._attempt(partial(self._run.retry, batch)):
                        return
                case messages.SetPhase(phase=phase) if self._run is not None:
                    if self._attempt(partial(self._run.show, phase)):
                        return
                case messages.MeasureSensitivity() as request:
                    self._measure_sensitivity(request)
                case messages.AnalyseParameters() as request:
                    self._reader.begin(request)
                case messages.StopAnalysing():
                    self._reader.stop()
                case _:
                    pass  # Nothing to pause, resume or step.

    @property
    def _reader(self) -> WeightReader:
        """Reader of the model's or the file's parameters."""
        reader = self._run.reader if self._run is not None else None
        return self._file_reader if reader is None else reader

    def _measure_sensitivity(self, request: messages.MeasureSensitivity) -> None:
        if self._run is None:
            refuse(request, self._link, self.now, self._why_no_model)
        else:
            self._asked.extend(self._run.measure_sensitivity(request))

    @property
    def _why_no_model(self) -> str:
        """Why nothing can run, without a ``_run``."""
        return messages.NO_FORWARD if self._shown is not None else "nothing was loaded"

    def _in_file(self) -> list[Subject]:
        if self._shown is None:
            return []
        if "torch" not in sys.modules:
            self._import_torch(self._shown.spec)
        from tui_profiler.probe.parameters.subjects import FileSubjects  # noqa: PLC0415

        if self._file is None:
            self._file = FileSubjects(self._shown.found)
        return self._file.subjects

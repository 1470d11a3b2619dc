"""The worker: load, trace, run in a loop; each step told as soon as it is known.

Failures are values: whatever goes wrong at this border becomes a ``Failed`` message, and the worker
waits for what the viewer says. Its module imports no torch, so that the first message comes at once
and the machine's counters are live while torch is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages.live import WIRE_VERSION, Stage
from tui_profiler.messages.model import Phase
from tui_profiler.probe.load.files.inspection import is_file
from tui_profiler.probe.measure.devices.machine import allowed_cores, caches
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.process import memory_limit
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.worker.one_request import carry_out, failed
from tui_profiler.probe.worker.parameter_requests import Analyst, refuse
from tui_profiler.probe.worker.parameters_only import ParametersShown, open_file

if TYPE_CHECKING:
    from tui_profiler.probe.parameters.file_subjects import FileSubjects
    from tui_profiler.probe.parameters.values import Subject
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
    "TryAlone",
    "AnalyseParameters",
    "StopAnalysing",
    "MeasureSensitivity",
    "Stop",
)
SAMPLE_SECONDS = 1.0
TOLD_SECONDS = 1.0
"""How long a stage waits, at most, until the viewer was told that it begins."""
MOST_IDLE_SECONDS = 4.0
"""How long the machine is left alone before the first forward, where its energy is counted."""


class Worker:
    """One worker's life, from the first request to the last."""

    def __init__(self, link: Link, sandbox: messages.Sandbox | str = "") -> None:
        """Begin.

        Args:
            link: to the viewer.
            sandbox: how this process is confined, or why it is not.
        """
        self._link = link
        self._sandbox = sandbox
        self._count_from(time.time())
        self._run: Run | None = None
        self._shown: ParametersShown | None = None
        self._file: FileSubjects | None = None
        self._asked: deque[messages.Request] = deque()
        self._cores = allowed_cores()
        self.energy = EnergyWatch()

    def serve(self, refused: messages.Failed | None = None) -> None:
        """Carry out the first request, then others until the viewer is gone or says stop.

        Args:
            refused: why it is not carried out.
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
                | messages.TryAlone() as errand
            ):
                carry_out(errand, self, self._link, self._import_torch)
            case _:
                pass  # Stopped, or hung up, before it was told what to do.

    def _hello(self) -> messages.Hello:
        """Introduce this worker; what is not denied to it goes to the log as well."""
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
        """Return seconds since the command was started."""
        return time.monotonic() - self._began

    @contextmanager
    def stage(self, stage: Stage, detail: str = "") -> Iterator[list[str]]:
        """Tell that a stage begins and, unless it raises, that it is done.

        Yields:
            a list: what is appended to it is the detail of the stage when it is done.
        """
        began = time.perf_counter()
        self._link.send(messages.StageStarted(stage, self.now(), detail))
        # A model may end the process at its first line: then this is what is known of where.
        self._link.flush(TOLD_SECONDS)
        details: list[str] = []
        yield details
        seconds = time.perf_counter() - began
        self._link.send(messages.StageDone(stage, self.now(), seconds, " ".join(details) or detail))

    def rest(self) -> None:
        """Do nothing for a while where energy is counted: idle power of the machine."""
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
        if not self._attempt(lambda: self._first_attempt(spec)):
            self._wait_for_stop()

    def _process(self) -> str:
        """Return the process and what it may do, in words."""
        process = ", ".join(filter(None, (f"pid {os.getpid()}", memory_limit.told())))
        match self._sandbox:
            case messages.Sandbox(kind=kind, lacks=lacks):
                return ", ".join((process, f"sandbox {kind}", *lacks))
            case "":
                return process
            case why:
                return f"{process}, no sandbox: {why}"

    def _first_attempt(self, spec: messages.LoadSpec) -> Run | ParametersShown:
        shown = open_file(spec, self, self._link)
        if shown is not None:
            self._shown = shown
            return shown
        self._import_torch(spec)
        from tui_profiler.probe.worker.run import Run  # noqa: PLC0415

        self._run = run = Run(self, self._link, spec)
        run.go()
        return run

    def _attempt(self, attempt: Callable[[], Run | ParametersShown]) -> bool:
        """Run a model, and say what failed; True when the viewer said stop."""
        try:
            return attempt().was_stopped
        # The border of the probe: nothing may go by unsaid, nor end the worker.
        except (Exception, SystemExit) as error:
            self._link.send(failed(error))
            return False

    def _import_torch(self, spec: messages.LoadSpec) -> None:
        with self.stage("import torch") as details:
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
            except MemoryError:  # The model took all that is allowed; the viewer must still hear.
                memory_limit.lift()
        sampler.close()
        self.energy.close()

    def _wait_for_stop(self) -> None:
        """Stay, so that what is known can be looked at."""
        while not self._link.is_closed:
            match self._asked.popleft() if self._asked else self._link.next_request(None):
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
                    if self._attempt(partial(self._again, self._run, batch)):
                        return
                case messages.SetPhase(phase=phase) if self._run is not None:
                    if self._attempt(partial(self._show, self._run, phase)):
                        return
                case messages.MeasureSensitivity() as request:
                    self._measure_sensitivity(request)
                case messages.AnalyseParameters() as request:
                    self._analyse(request)
                case _:
                    pass  # There is nothing to pause, resume or step.

    def _analyse(self, request: messages.AnalyseParameters) -> None:
        """Look at the parameters of what was loaded."""
        analyst = self._run.analyst if self._run is not None else None
        if analyst is None:
            analyst = Analyst(self._link, self.now, self._in_file, "its own")
        self._asked.extend(analyst.run(request))

    def _measure_sensitivity(self, request: messages.MeasureSensitivity) -> None:
        """Change weights of what was loaded, or say why there is nothing to run."""
        if self._run is None:
            refuse(request, self._link, self.now, self._why_no_model)
        else:
            self._asked.extend(self._run.measure_sensitivity(request))

    @property
    def _why_no_model(self) -> str:
        """Why nothing can run, where there is no ``_run``."""
        return messages.NO_FORWARD if self._shown is not None else "nothing was loaded"

    def _in_file(self) -> list[Subject]:
        if self._shown is None:
            return []
        if "torch" not in sys.modules:
            self._import_torch(self._shown.spec)
        from tui_profiler.probe.parameters.file_subjects import FileSubjects  # noqa: PLC0415

        if self._file is None:
            self._file = FileSubjects(self._shown.found)
        return self._file.subjects

    def _again(self, run: Run, batch: int) -> Run:
        run.retry(batch)
        return run

    def _show(self, run: Run, phase: Phase) -> Run:
        run.show(phase)
        return run

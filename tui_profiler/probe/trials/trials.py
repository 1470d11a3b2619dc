"""Trials of a live worker: one at a time, while its model is paused.

1. The worker's model is never called or changed: a separate process loads it again, from the same
   request with the same seed.
2. Other requests meanwhile either wait (pause, resume, step, reading weights) or end the trial:
   stop, another batch size or phase, a replay, a viewer that disconnects.
3. Every wish has one result, also if it never started; the same wish twice is one.
4. The time limit is for measuring only. Starting a process, importing torch, loading and compiling
   are not limited: their step is reported, and they can be stopped.
"""

import signal
from collections import deque
from collections.abc import Sequence

import torch
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.connection.wire import WireError
from tui_profiler.messages.model import Phase
from tui_profiler.messages.trials import WHOLE_MODEL, TrialOutcome
from tui_profiler.probe.process.link import Channel, drop_analyses
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds.change import ImpossibleError, spare_bytes
from tui_profiler.probe.trials.kinds.table import KINDS
from tui_profiler.probe.trials.supervisor import TrialProcess
from tui_profiler.system import real_time as time

LOOK_SECONDS = 0.05
"""Between two checks of the limits, and of the viewer's requests."""
TELL_SECONDS = 0.5
STOPPED = "stopped"
_GIB = 1 << 30


class Trials:
    """Trials of one model with one set of inputs.

    Args:
        link: to the viewer.
        spec: what the worker loaded, with its current batch size.
        model: the live one.
        nodes: its tree.
        inputs: of its forwards.
        phase: of a generating model.
    """

    def __init__(
        self,
        link: Channel,
        spec: messages.LoadSpec,
        model: torch.nn.Module,
        nodes: Sequence[messages.Node],
        inputs: Inputs,
        phase: Phase = "",
    ) -> None:
        self._link = link
        self._spec = spec
        self._model = model
        self._nodes = nodes
        self._inputs = inputs
        self._phase = phase
        self._under_way: messages.Wish | None = None
        self._waiting: deque[messages.Wish] = deque()
        self._stopped = ""
        self._prolonged = 0.0
        """Seconds beyond those of the wish under way."""

    def run(self, wish: messages.Wish, asked: deque[messages.Request]) -> None:
        """Run a trial, and those requested meanwhile; send their results.

        Args:
            wish: the first trial.
            asked: other requests that came meanwhile are appended.
        """
        self._stopped = ""
        self._waiting.append(wish)
        while self._waiting:
            self._under_way = one = self._waiting.popleft()
            self._prolonged = 0.0
            self._link.send(self._tried(one, asked))

    def _tried(self, wish: messages.Wish, asked: deque[messages.Request]) -> messages.TrialResult:
        began = time.monotonic()
        self._listen(asked)
        if self._stopped:
            return _without(wish, "stopped", self._stopped, began)
        why_not = self._why_not(wish)
        if why_not:
            return _without(wish, "impossible", why_not, began)
        if wish.most_bytes is None:
            wish = replace(wish, most_bytes=spare_bytes())
        path = "" if wish.node == WHOLE_MODEL else self._nodes[wish.node].path
        try:
            process = TrialProcess(messages.TryAlone(self._spec, wish, path, self._phase))
        except OSError as error:
            why = f"cannot start its process: {error.strerror or error}"
            return _without(wish, "failed", why, began)
        with process:
            return self._watched(process, wish, began, asked)

    def _why_not(self, wish: messages.Wish) -> str:
        """Return why a trial is impossible, as far as the live model tells without a process."""
        if wish.kind not in KINDS:
            return f"unknown kind of trial: {wish.kind}"
        trains = self._spec.train is not None
        try:
            KINDS[wish.kind].of(trains=trains)
        except ImpossibleError as error:
            return str(error)
        if trains and wish.node != WHOLE_MODEL:
            return "a training step is of the whole model"
        module: torch.nn.Module = self._model
        if wish.node != WHOLE_MODEL:
            if not 0 <= wish.node < len(self._nodes):
                return f"the tree has no node {wish.node}"
            node = self._nodes[wish.node]
            if node.kind == "op":
                return "an operator cannot be tried alone: try its module"
            try:
                module = self._model.get_submodule(node.path)
            except AttributeError:
                return "the model has no module of this name any more"
        return KINDS[wish.kind].why_not(module, self._inputs)

    def _watched(
        self,
        process: TrialProcess,
        wish: messages.Wish,
        began: float,
        asked: deque[messages.Request],
    ) -> messages.TrialResult:
        progress = messages.TrialProgress(wish.kind, wish.node, "start", 0.0)
        told_at = 0.0
        measuring_since: float | None = None
        while True:
            passed = time.monotonic() - began
            self._listen(asked, process)
            over = self._over(process, wish)
            if over is not None:
                return _without(wish, *over, began)
            limit = wish.most_seconds + self._prolonged
            if measuring_since is not None and time.monotonic() - measuring_since > limit:
                late = _without(wish, "time", _had_by_then(progress, limit), began)
                return replace(late, pairs=progress.pairs, speedup=progress.speedup)
            if passed - told_at > TELL_SECONDS or not told_at:
                told_at = max(passed, 1e-9)
                waiting = tuple(one.kind for one in self._waiting)
                self._link.send(replace(progress, seconds=passed, waiting=waiting))
            try:
                said = process.messages(LOOK_SECONDS)
            except WireError as error:
                return _without(
                    wish, "failed", f"its process sent an invalid message: {error}", began
                )
            if said is None:
                return _without(wish, "failed", _how(process.exit_code()), began)
            for message in said:
                match message:
                    case messages.TrialProgress():
                        told_at = told_at if message.step == progress.step else 0.0
                        progress = message
                        if message.left_seconds is not None and measuring_since is None:
                            measuring_since = time.monotonic()
                    case messages.TrialResult():
                        return replace(message, seconds=time.monotonic() - began)
                    case messages.Failed():
                        return _without(wish, "failed", f"{message.stage}: {message.what}", began)
                    case _:
                        pass  # The stages of its process.

    def _over(self, process: TrialProcess, wish: messages.Wish) -> tuple[TrialOutcome, str] | None:
        """Return why a trial must end, except for its time limit."""
        if self._stopped:
            return "stopped", self._stopped
        held = process.memory_bytes()
        if wish.most_bytes is not None and held > wish.most_bytes:
            held_gib, most_gib = held / _GIB, wish.most_bytes / _GIB
            why = f"stopped at {held_gib:.2f} GiB, the limit is {most_gib:.2f} GiB"
            return "memory", why
        return None

    def _listen(self, asked: deque[messages.Request], process: TrialProcess | None = None) -> None:
        """Handle the viewer's requests."""
        while (request := self._link.next_request(0.0)) is not None:
            match request:
                case messages.Try(wish=wish):
                    if wish != self._under_way and wish not in self._waiting:
                        self._waiting.append(wish)
                case messages.StopTrial():
                    self._stopped = STOPPED
                case messages.ProlongTrial(seconds=seconds):
                    if process is not None:
                        self._prolonged += seconds
                        process.ask(request)
                case (
                    messages.Pause()
                    | messages.Resume()
                    | messages.Step()
                    | messages.AnalyseParameters()
                    | messages.MeasureSensitivity()
                ):
                    asked.append(request)
                case messages.StopAnalysing():
                    drop_analyses(asked)
                    asked.append(request)
                case _:
                    asked.append(request)
                    self._stopped = self._stopped or "cancelled by another request"
        if self._link.is_closed:
            self._stopped = "the viewer disconnected"


def _without(
    wish: messages.Wish, outcome: TrialOutcome, why: str, began: float
) -> messages.TrialResult:
    return messages.TrialResult(wish.kind, wish.node, outcome, time.monotonic() - began, why)


def _had_by_then(progress: messages.TrialProgress, limit: float) -> str:
    """Return what a trial measured by the end of its time."""
    if progress.speedup is None:
        return f"no pair after {limit:g} s of measuring, at step {progress.step}"
    pairs = f"{progress.pairs} pair{'s' * (progress.pairs != 1)}"
    return f"{pairs} after {limit:g} s of measuring, speed-up {progress.speedup:.3g}× so far"


def _how(code: int | None) -> str:
    if code is None:
        return "its process closed the connection"
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        return f"its process was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was killed by signal {-code}"

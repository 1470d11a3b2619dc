"""Trials as a live worker carries them out: one at a time, while its model is held.

1. The model of the worker is looked at and never called or changed: what is tried is loaded anew,
   in a process of its own, from the same wish with the same seed.
2. Whatever else is asked meanwhile either waits (pause, resume, step, a look at weights) or ends
   the trial: stop, another batch size or phase, a replay, a viewer that has gone.
3. Every wish gets one result, also one that was never begun; the same twice is one wish.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Sequence

import torch
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.connection.wire import WireError
from tui_profiler.messages.model import Phase
from tui_profiler.messages.trials import WHOLE_MODEL, TrialOutcome, TrialStep
from tui_profiler.probe.measure.devices.machine import memory, memory_group
from tui_profiler.probe.process.link import Channel
from tui_profiler.probe.process.queued_analyses import without_looks
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds.table import KINDS
from tui_profiler.probe.trials.supervisor import TrialProcess

LOOK_SECONDS = 0.05
"""Between two looks at the limits, and at what the viewer asks."""
TELL_SECONDS = 0.5
MEMORY_SHARE = 0.8
"""Of the memory that is free when a trial begins, where no limit was asked for."""
STOPPED = "stopped"
_GIB = 1 << 30


class Trials:
    """Tries changes on one model with one set of inputs.

    Args:
        link: to the viewer.
        spec: what the worker itself loaded, with the batch size that it runs now.
        model: the live one.
        nodes: its tree.
        inputs: of its forwards.
        phase: which of them, of a model that generates.
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

    def run(self, wish: messages.Wish, asked: deque[messages.Request]) -> None:
        """Try what is wished, and what is wished meanwhile; tell how each came out.

        Args:
            wish: the first.
            asked: takes what else was asked meanwhile.
        """
        self._stopped = ""
        self._waiting.append(wish)
        while self._waiting:
            self._under_way = one = self._waiting.popleft()
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
            free = memory(memory_group())
            most = int(MEMORY_SHARE * max(free.total_bytes - free.used_bytes, 0))
            wish = replace(wish, most_bytes=most)
        path = "" if wish.node == WHOLE_MODEL else self._nodes[wish.node].path
        try:
            process = TrialProcess(messages.TryAlone(self._spec, wish, path, self._phase))
        except OSError as error:
            why = f"its process cannot be started: {error.strerror or error}"
            return _without(wish, "failed", why, began)
        with process:
            return self._watched(process, wish, began, asked)

    def _why_not(self, wish: messages.Wish) -> str:
        """Say at once what a look at the live model tells, rather than start a process."""
        if wish.kind not in KINDS:
            return "there is no such trial"
        module: torch.nn.Module = self._model
        if wish.node != WHOLE_MODEL:
            if not 0 <= wish.node < len(self._nodes):
                return "there is no such node"
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
        while True:
            passed = time.monotonic() - began
            over = self._over(process, wish, passed, progress.step, asked)
            if over is not None:
                return _without(wish, *over, began)
            if passed - told_at > TELL_SECONDS or not told_at:
                told_at = max(passed, 1e-9)
                waiting = tuple(one.kind for one in self._waiting)
                self._link.send(replace(progress, seconds=passed, waiting=waiting))
            try:
                said = process.messages(LOOK_SECONDS)
            except WireError as error:
                return _without(wish, "failed", f"it sent what is not a message: {error}", began)
            if said is None:
                return _without(wish, "failed", _how(process.exit_code()), began)
            for message in said:
                match message:
                    case messages.TrialProgress():
                        told_at = told_at if message.step == progress.step else 0.0
                        progress = message
                    case messages.TrialResult():
                        return replace(message, seconds=time.monotonic() - began)
                    case messages.Failed():
                        return _without(wish, "failed", f"{message.stage}: {message.what}", began)
                    case _:
                        pass  # The stages of its own life.

    def _over(
        self,
        process: TrialProcess,
        wish: messages.Wish,
        passed: float,
        step: TrialStep,
        asked: deque[messages.Request],
    ) -> tuple[TrialOutcome, str] | None:
        """Say whether a trial must end, and why."""
        self._listen(asked)
        if self._stopped:
            return "stopped", self._stopped
        if passed > wish.most_seconds:
            where = f"it took more than the {wish.most_seconds:g} s allowed"
            return "time", f"{where}, and was ended at: {step}"
        held = process.memory_bytes()
        if wish.most_bytes is not None and held > wish.most_bytes:
            held_gib, most_gib = held / _GIB, wish.most_bytes / _GIB
            why = f"it used {held_gib:.2f} GiB of the {most_gib:.2f} allowed, and was ended"
            return "memory", why
        return None

    def _listen(self, asked: deque[messages.Request]) -> None:
        """Take in what the viewer asks meanwhile."""
        while (request := self._link.next_request(0.0)) is not None:
            match request:
                case messages.Try(wish=wish):
                    if wish != self._under_way and wish not in self._waiting:
                        self._waiting.append(wish)
                case messages.StopTrial():
                    self._stopped = STOPPED
                case (
                    messages.Pause()
                    | messages.Resume()
                    | messages.Step()
                    | messages.AnalyseParameters()
                    | messages.MeasureSensitivity()
                ):
                    asked.append(request)
                case messages.StopAnalysing():
                    without_looks(asked)
                case _:
                    asked.append(request)
                    self._stopped = self._stopped or "cancelled by another request"
        if self._link.is_closed:
            self._stopped = "the viewer disconnected"


def _without(
    wish: messages.Wish, outcome: TrialOutcome, why: str, began: float
) -> messages.TrialResult:
    return messages.TrialResult(wish.kind, wish.node, outcome, time.monotonic() - began, why)


def _how(code: int | None) -> str:
    if code is None:
        return "its process disconnected"
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        return f"its process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was ended by signal {-code}"

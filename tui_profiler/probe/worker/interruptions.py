"""Requests that pause a live loop: replaying a node, a trial, measuring sensitivity.

They do not count in figures of the live run. Other requests meanwhile are carried out afterwards.

1. Rarely used modules are imported when requested: a worker starts without them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import nn

from tui_profiler import messages
from tui_profiler.gpus.gpus import Gpus
from tui_profiler.messages.model import Phase
from tui_profiler.probe.measure.devices.allocator import cuda_uuids
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.energy.replay import Captured, Pace, Replayer, captured, refused
from tui_profiler.probe.process.link import Channel
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import Trace
from tui_profiler.probe.worker.parameter_requests import measured, refuse


def replay(
    index: int,
    model: nn.Module,
    nodes: Sequence[messages.Node],
    energy: EnergyWatch,
    forward: Callable[[], object],
    is_over: Callable[[], bool],
    pace: Pace | None = None,
) -> messages.Replayed:
    """Replay a node of a model, for a quarter of a minute at least.

    Args:
        index: of the node.
        model: the root; restored afterwards.
        nodes: its tree.
        energy: the counters.
        forward: runs the model once.
        is_over: returns whether to stop.
        pace: the clock; None for the real one.
    """
    if not 0 <= index < len(nodes):
        return refused(index, f"the tree has no node {index}")
    node = nodes[index]
    if node.kind == "op":
        return refused(index, "an operator cannot run alone: replay its module")
    first = next(model.parameters(), None)
    device = torch.device("cpu") if first is None else first.device
    counter = _counter(energy, device)
    if isinstance(counter, messages.Unknown):
        return refused(index, counter.reason)

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    snapshot = Snapshot(model)
    try:
        found = captured(model, node.path, forward)
        if isinstance(found, messages.Unknown):
            return refused(index, found.reason)
        return Replayer(energy, counter, is_over, pace).run(index, _call_of(found), wait)
    except Exception as error:  # The user's module may raise anything when run alone.
        return refused(index, f"it fails when run alone: {type(error).__name__}: {error}")
    finally:
        snapshot.restore()


def _counter(energy: EnergyWatch, device: torch.device) -> messages.EnergyTotals | messages.Unknown:
    """Return the energy counter of a device."""
    counters = energy.totals()
    if isinstance(counters, messages.Unknown):
        return counters
    if device.type == "cpu":
        found = [one for one in counters if one.of == "package"]
    elif device.type == "cuda":
        gpu = _gpu_of(device.index or 0)
        found = [one for one in counters if one.of == "gpu" and one.gpu == gpu]
    else:
        found = []
    if not found:
        return messages.Unknown(f"no energy counter for {device}")
    return messages.Unknown(found[0].why) if found[0].why else found[0]


def _call_of(found: Captured) -> Callable[[], None]:
    module, arguments, keywords = found

    def call() -> None:
        with torch.no_grad():
            module(*arguments, **keywords)

    return call


def _gpu_of(cuda_index: int) -> int | None:
    """Return the number of ``cuda:N`` here; None where unknown, or a MIG slice."""
    drivers = Gpus(cuda_uuids=cuda_uuids)
    gpus = drivers.gpus(0.0)
    drivers.close()
    if isinstance(gpus, messages.Unknown):
        return None
    return next((gpu.index for gpu in gpus if gpu.cuda_index == cuda_index), None)


WHY_NOT_IN_TRAINING = "outputs are compared in eval mode, and training steps run"
"""Why no sensitivity is measured."""

Aside: TypeAlias = messages.ReplayNode | messages.Try | messages.MeasureSensitivity
WHY: dict[type[Aside], str] = {
    messages.ReplayNode: "replaying a node",
    messages.Try: "running a trial",
    messages.MeasureSensitivity: "measuring weight sensitivity",
}
"""Why the model is paused."""


class Interruptions:
    """Carries out such requests, on one model and the inputs of one trace.

    Args:
        link: to the viewer.
        spec: the load request.
        now: returns seconds since the start of the command.
        model: with values, and without its clock meanwhile.
        traced: its tree and inputs.
        phase: of a generating model.
        energy: the counters, for a replay.
    """

    def __init__(
        self,
        link: Channel,
        spec: messages.LoadSpec,
        now: Callable[[], float],
        model: torch.nn.Module,
        traced: Trace,
        phase: Phase,
        energy: EnergyWatch,
    ) -> None:
        self._link = link
        self._spec = spec
        self._now = now
        self._model = model
        self._traced = traced
        self._phase = phase
        self._energy = energy
        self.has_random_weights = False

    def carry_out(
        self, request: Aside, forward: Callable[[], object], asked: deque[messages.Request]
    ) -> None:
        """Carry out a request, until it is done or another request stops it.

        Args:
            request: the request.
            forward: runs the model once, without counting it.
            asked: pending requests; others that come meanwhile are appended.
        """
        match request:
            case messages.ReplayNode(node=node):
                self._replay(node, forward, asked)
            case messages.Try(wish=wish):
                from tui_profiler.probe.trials.trials import Trials  # noqa: PLC0415 # rule 1

                traced = self._traced
                of = self._spec, self._model, traced.nodes, traced.inputs, self._phase
                Trials(self._link, *of).run(wish, asked)
            case messages.MeasureSensitivity() if self._spec.train is not None:
                refuse(request, self._link, self._now, WHY_NOT_IN_TRAINING)
            case messages.MeasureSensitivity():
                of_it = request, self._link, self._now, self._model, self._traced
                asked.extend(measured(*of_it, is_random=self.has_random_weights))

    def _replay(
        self, node: int, forward: Callable[[], object], asked: deque[messages.Request]
    ) -> None:
        """Run one node alone until its energy is known, or another request comes."""

        def is_interrupted() -> bool:
            request = self._link.next_request(0.0)
            if request is not None:
                asked.append(request)
            return bool(asked) or self._link.is_closed

        of = self._model, self._traced.nodes, self._energy
        self._link.send(replay(node, *of, forward, is_interrupted))

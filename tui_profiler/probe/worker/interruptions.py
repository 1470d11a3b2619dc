"""What a live loop is held for: a node replayed, a change tried, a look at the parameters.

Nothing of it is a figure of the live run. What else is asked meanwhile is carried out afterwards.

1. What few ask for is imported when it is asked for: a worker starts without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import nn

from tui_profiler import messages
from tui_profiler.messages.model import Phase
from tui_profiler.probe.measure.devices.allocator import cuda_uuids
from tui_profiler.probe.measure.devices.nvml import Nvml
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.energy.replay import Captured, Pace, Replayer, captured, refused
from tui_profiler.probe.process.link import Channel
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import Trace
from tui_profiler.probe.worker.parameter_requests import ANALYSING, Analyst

_REPLAYING = "replaying a node"
"""What a live loop says meanwhile."""


class NodeReplay:
    """What replays of one model's nodes need.

    Args:
        model: the root; left as it is found.
        nodes: its tree.
        energy: the counters.
        pace: time; None for the real one.
    """

    def __init__(
        self,
        model: nn.Module,
        nodes: Sequence[messages.Node],
        energy: EnergyWatch,
        pace: Pace | None = None,
    ) -> None:
        self._model = model
        self._nodes = nodes
        self._energy = energy
        self._pace = pace

    def run(
        self, index: int, forward: Callable[[], object], is_over: Callable[[], bool]
    ) -> messages.Replayed:
        """Replay a node; takes a quarter of a minute at least.

        Args:
            index: of the node; one that is not in the tree is refused.
            forward: runs the model once.
            is_over: tells that something else is wanted.
        """
        if not 0 <= index < len(self._nodes):
            return refused(index, "there is no such node")
        node = self._nodes[index]
        if node.kind == "op":
            return refused(index, "an operator cannot run alone: replay its module")
        counter = self._counter()
        if isinstance(counter, messages.Unknown):
            return refused(index, counter.reason)
        snapshot = Snapshot(self._model)
        try:
            found = captured(self._model, node.path, forward)
            if isinstance(found, messages.Unknown):
                return refused(index, found.reason)
            replayer = Replayer(self._energy, counter, is_over, self._pace)
            return replayer.run(index, _call_of(found), self._wait)
        except Exception as error:  # The user's module: it may raise anything when run by itself.
            return refused(index, f"it fails when run alone: {type(error).__name__}: {error}")
        finally:
            snapshot.restore()

    @property
    def _device(self) -> torch.device:
        first = next(self._model.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    def _counter(self) -> messages.EnergyTotals | messages.Unknown:
        """Return the counter of the device that the model is on."""
        counters, device = self._energy.totals(), self._device
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

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _call_of(found: Captured) -> Callable[[], None]:
    module, arguments, keywords = found

    def call() -> None:
        with torch.no_grad():
            module(*arguments, **keywords)

    return call


def _gpu_of(cuda_index: int) -> int | None:
    """Return NVML's number of ``cuda:N``; None where it is not known, or is a slice of a GPU."""
    nvml = Nvml(cuda_uuids=cuda_uuids)
    gpus = nvml.gpus(0.0)
    nvml.close()
    if isinstance(gpus, messages.Unknown):
        return None
    return next((gpu.index for gpu in gpus if gpu.cuda_index == cuda_index), None)


Aside: TypeAlias = (
    messages.ReplayNode | messages.Try | messages.AnalyseParameters | messages.MeasureSensitivity
)
WHY: dict[type[Aside], str] = {
    messages.ReplayNode: _REPLAYING,
    messages.Try: "running a trial",
    messages.AnalyseParameters: ANALYSING,
    messages.MeasureSensitivity: "measuring weight sensitivity",
}
"""What is said while the model is held."""


class Interruptions:
    """Carries such requests out, on one model and the inputs of one trace.

    Args:
        link: where the answers go, and further requests come from.
        spec: what was asked to be loaded.
        now: gives seconds since the command was started.
        model: with values, under no clock while this works.
        traced: its tree, and the inputs that it runs on.
        phase: which of its forwards that is, of a model that generates.
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
        self.analyst: Analyst | None = None
        """Who looks at the parameters; None where they may not be looked at."""
        self.has_random_weights = False

    def carry_out(
        self, request: Aside, forward: Callable[[], object], asked: deque[messages.Request]
    ) -> None:
        """Do what is asked, until it is done or anything else is wanted.

        Args:
            request: what to do.
            forward: runs the model once, in no figure.
            asked: what is wanted besides; takes what else is asked meanwhile.
        """
        match request:
            case messages.ReplayNode(node=node):
                self._replay(node, forward, asked)
            case messages.Try(wish=wish):
                from tui_profiler.probe.trials.trials import Trials  # noqa: PLC0415 # rule 1

                traced = self._traced
                of = self._spec, self._model, traced.nodes, traced.inputs, self._phase
                Trials(self._link, *of).run(wish, asked)
            case messages.AnalyseParameters():
                asked.extend(self.analyst.run(request) if self.analyst is not None else ())
            case messages.MeasureSensitivity():
                from tui_profiler.probe.worker.sensitivity_requests import measured  # noqa: PLC0415 # rule 1

                of_it = request, self._link, self._now, self._model, self._traced
                asked.extend(measured(*of_it, is_random=self.has_random_weights))

    def _replay(
        self, node: int, forward: Callable[[], object], asked: deque[messages.Request]
    ) -> None:
        """Run one node by itself until its energy is known, or anything else is asked."""

        def is_interrupted() -> bool:
            request = self._link.next_request(0.0)
            if request is not None:
                asked.append(request)
            return bool(asked) or self._link.is_closed

        replay = NodeReplay(self._model, self._traced.nodes, self._energy)
        self._link.send(replay.run(node, forward, is_interrupted))

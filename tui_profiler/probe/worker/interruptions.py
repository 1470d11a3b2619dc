"""What a live loop is held for: a node replayed, a change tried, a look at the parameters.

Nothing of it is a figure of the live run. What else is asked meanwhile is carried out afterwards.

1. What few ask for is imported when it is asked for: a worker starts without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import torch

from tui_profiler.messages import (
    AnalyseParameters,
    LoadSpec,
    MeasureSensitivity,
    ReplayNode,
    Request,
    Try,
)
from tui_profiler.messages.model import Phase
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.process.link import Talk
from tui_profiler.probe.trace.trace import Trace
from tui_profiler.probe.worker.node_replay import REPLAYING, NodeReplay
from tui_profiler.probe.worker.parameter_requests import ANALYSING, Analyst

Aside: TypeAlias = ReplayNode | Try | AnalyseParameters | MeasureSensitivity
WHY: dict[type[Aside], str] = {
    ReplayNode: REPLAYING,
    Try: "a change is tried in a process of its own",
    AnalyseParameters: ANALYSING,
    MeasureSensitivity: "weights are changed one by one",
}
"""What is said while the model is held."""


class Asides:
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
        link: Talk,
        spec: LoadSpec,
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
        self, request: Aside, forward: Callable[[], object], asked: deque[Request]
    ) -> None:
        """Do what is asked, until it is done or anything else is wanted.

        Args:
            request: what to do.
            forward: runs the model once, in no figure.
            asked: what is wanted besides; takes what else is asked meanwhile.
        """
        match request:
            case ReplayNode(node=node):
                self._replay(node, forward, asked)
            case Try(wish=wish):
                from tui_profiler.probe.trials.trials import Trials  # noqa: PLC0415 # rule 1

                traced = self._traced
                of = self._spec, self._model, traced.nodes, traced.inputs, self._phase
                Trials(self._link, *of).run(wish, asked)
            case AnalyseParameters():
                asked.extend(self.analyst.run(request) if self.analyst is not None else ())
            case MeasureSensitivity():
                from tui_profiler.probe.worker.sensitivity_requests import measured  # noqa: PLC0415 # rule 1

                of_it = request, self._link, self._now, self._model, self._traced
                asked.extend(measured(*of_it, is_random=self.has_random_weights))

    def _replay(self, node: int, forward: Callable[[], object], asked: deque[Request]) -> None:
        """Run one node by itself until its energy is known, or anything else is asked."""

        def is_interrupted() -> bool:
            request = self._link.next_request(0.0)
            if request is not None:
                asked.append(request)
            return bool(asked) or self._link.is_closed

        replay = NodeReplay(self._model, self._traced.nodes, self._energy)
        self._link.send(replay.run(node, forward, is_interrupted))

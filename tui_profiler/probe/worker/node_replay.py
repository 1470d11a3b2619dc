"""A replay of one node of a model, from its index to the answer; or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from tui_profiler.messages import EnergyTotals, Node, Replayed, Unknown
from tui_profiler.probe.measure.devices.allocator import cuda_uuids
from tui_profiler.probe.measure.devices.nvml import Nvml
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.energy.replay import Captured, Pace, Replayer, captured, refused
from tui_profiler.probe.trace.snapshot import Snapshot

REPLAYING = "a node is replayed"
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
        nodes: Sequence[Node],
        energy: EnergyWatch,
        pace: Pace | None = None,
    ) -> None:
        self._model = model
        self._nodes = nodes
        self._energy = energy
        self._pace = pace

    def run(
        self, index: int, forward: Callable[[], object], is_over: Callable[[], bool]
    ) -> Replayed:
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
            return refused(index, "an operator does not run by itself: replay the module around it")
        counter = self._counter()
        if isinstance(counter, Unknown):
            return refused(index, counter.reason)
        snapshot = Snapshot(self._model)
        try:
            found = captured(self._model, node.path, forward)
            if isinstance(found, Unknown):
                return refused(index, found.reason)
            replayer = Replayer(self._energy, counter, is_over, self._pace)
            return replayer.run(index, _call_of(found), self._wait)
        except Exception as error:  # The user's module: it may raise anything when run by itself.
            return refused(index, f"it fails by itself: {type(error).__name__}: {error}")
        finally:
            snapshot.restore()

    @property
    def _device(self) -> torch.device:
        first = next(self._model.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    def _counter(self) -> EnergyTotals | Unknown:
        """Give the counter of the device that the model is on."""
        counters, device = self._energy.totals(), self._device
        if isinstance(counters, Unknown):
            return counters
        if device.type == "cpu":
            found = [one for one in counters if one.of == "package"]
        elif device.type == "cuda":
            gpu = _gpu_of(device.index or 0)
            found = [one for one in counters if one.of == "gpu" and one.gpu == gpu]
        else:
            found = []
        if not found:
            return Unknown(f"no energy counter for {device}")
        return Unknown(found[0].why) if found[0].why else found[0]

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
    """Give NVML's number of ``cuda:N``; None where it is not known, or is a slice of a GPU."""
    nvml = Nvml(cuda_uuids=cuda_uuids)
    gpus = nvml.gpus(0.0)
    nvml.close()
    if isinstance(gpus, Unknown):
        return None
    return next((gpu.index for gpu in gpus if gpu.cuda_index == cuda_index), None)

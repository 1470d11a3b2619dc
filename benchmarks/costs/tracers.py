"""One model with every tracer: the costs that each reports, and how long it took.

``python benchmarks/costs/tracers.py [MODEL]...`` prints a table in Markdown: whatever
``tui-profiler`` takes is a model. Run it as ``OMP_NUM_THREADS=1 python
benchmarks/costs/tracers.py``; without names it takes the demo models and a torchvision classifier
of each family, and about a minute.

1. Every tracer gets the model as it was loaded and the same inputs, in turn, in one process. The
   first export pays for what torch imports and sets up: a small model is traced by each before.
2. Parameters and MACs must be equal across tracers: where they are not the line ends in ``!``, and
   the exit code is 1.
3. ``tests/probe/trace/test_tracers.py`` is the same comparison on models without values.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.load import load
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.failure import TraceError
from tui_profiler.probe.trace.trace import Trace, trace
from tui_profiler.system.demos import PREFIX, demo_names

TRACERS = ("dispatch", "fx", "export")
CLASSIFIERS = [
    "alexnet",
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "mobilenet_v3_small",
    "resnet50",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "swin_t",
    "vit_b_16",
]
HEAD = "| model | tracer | s | GMACs | GFLOPs | MB moved | operators | MB alive at the peak |"


@dataclass(frozen=True)
class Line:
    """What one tracer said of one model."""

    model: str
    tracer: str
    seconds: float
    made: Trace | None
    error: str

    def __str__(self) -> str:
        if self.made is None:
            return f"| {self.model} | {self.tracer} | {self.seconds:.2f} | no: {self.error} |||||"
        cost, peak = self.made.costs[0], self.made.done.peak_memory
        moved = cost.input_bytes + cost.weight_bytes + cost.output_bytes
        figures = (
            f"{self.seconds:.2f}",
            f"{cost.macs / 1e9:.6f}",
            f"{cost.flops / 1e9:.6f}",
            f"{moved / 1e6:.3f}",
            str(cost.ops),
            f"{peak.activations / 1e6:.3f}" if isinstance(peak.activations, int) else "-",
        )
        return f"| {self.model} | {self.tracer} | {' | '.join(figures)} |"


def lines(name: str) -> Iterator[Line]:
    """Trace one model in every way."""
    loaded = load(LoadSpec(model=name))
    candidates = tuple(loaded.candidates)
    for tracer in TRACERS:
        began = time.perf_counter()
        try:
            made, error = trace(loaded.model, candidates, tracer), ""
        except TraceError as failed:
            made, error = None, failed.attempts[0].error.replace("|", "/")[:80]
        way = tracer
        if made is not None and (variant := made.done.attempts[-1].variant):
            way = f"{tracer}, {variant}"
        yield Line(name, way, time.perf_counter() - began, made, error)


def main() -> int:
    """Print the table and return the exit code."""
    torch.manual_seed(0)
    for tracer in TRACERS:
        trace(nn.Linear(2, 2).eval(), (Inputs((torch.zeros(1, 2),)),), tracer)
    print(HEAD)
    print("|---|---" + "|--:" * 6 + "|")
    differ = 0
    for name in sys.argv[1:] or [*(PREFIX + demo for demo in demo_names()), *CLASSIFIERS]:
        seen: set[tuple[int, int]] = set()
        for line in lines(name):
            if line.made is not None:
                seen.add((line.made.costs[0].parameters, line.made.costs[0].macs))
            print(f"{line}{'  !' if len(seen) > 1 else ''}", flush=True)
        differ += len(seen) > 1
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

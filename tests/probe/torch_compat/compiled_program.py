"""A program with one graph break and two recompilations of a function; says what is known of it."""

import json
import sys
import time

import torch
from torch import nn

import tui_profiler
from tui_profiler.probe.torch_compat.compilations import Compiled
from tui_profiler.reports.json.report import as_json

BEFORE = [Compiled().new(0.0), "torch._dynamo" in sys.modules]


class Net(nn.Module):
    """A linear layer, and a value that Python reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if y.isnan().any().item():  # The break.
            y = y + 1
        return torch.relu(y)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


model = torch.compile(Net().eval(), backend="eager")
again = torch.compile(scaled, backend="eager")
with torch.no_grad():
    model(torch.randn(2, 8))
    for dtype in (torch.float32, torch.float64, torch.float16):
        again(torch.ones(4, dtype=dtype))
seen = Compiled()
first = seen.new(0.0)
began = time.thread_time()
news = [seen.new(1.0) for _ in range(1000)]
poll_seconds = (time.thread_time() - began) / 1000
found = tui_profiler.profile(model, torch.randn(2, 8), forwards=10)
metrics = torch._dynamo.utils.get_compilation_metrics()
print(
    json.dumps(
        {
            "before": BEFORE,
            "has_first": first is not None,
            "news": sum(one is not None for one in news),
            "poll_seconds": poll_seconds,
            "metrics": [
                [one.co_name, one.recompile_reason, one.entire_frame_compile_time_s]
                for one in metrics
            ],
            "report": as_json(found.session, advises=True),
        }
    )
)

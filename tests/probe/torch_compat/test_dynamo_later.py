"""A model is traced without Dynamo being imported, and finds it where it asks for it."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, torch
from torch import nn
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.batch_axis import with_batch
from tui_profiler.probe.trace.recorder import Recorder
from tui_profiler.probe.trace.trace import trace

class Asks(nn.Module):
    def __init__(self, layer, ask=lambda: None):
        super().__init__()
        self.layer, self.ask = layer, ask
    def forward(self, x):
        self.ask()
        return torch.cat((self.layer(x), x.t()[:1].t()), 1).softmax(1)[:, :4].contiguous()

def macs(ask=lambda: None):
    layer = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU())
    model = Asks(layer, ask)
    found = trace(model, (Inputs((torch.ones(2, 8),)),))
    assert found.method == "dispatch:fake", found.method
    with_batch(model, found)
    return found.costs[0].macs

def of_dynamo():
    return sorted(name for name in sys.modules if name.startswith("torch._dynamo"))

assert macs() == 2 * 8 * 16
assert of_dynamo() == ["torch._dynamo.config"], of_dynamo()
settings = sys.modules["torch._dynamo.config"]
hidden = Recorder.__torch_dispatch__
assert "__dynamo_disable" not in vars(getattr(hidden, "__wrapped__", hidden))

def asks():
    import torch._dynamo.utils
    from torch._dynamo.source import LocalSource
    settings.cache_size_limit = 5
    assert sys.modules["torch._dynamo.utils"] is torch._dynamo.utils
    assert torch._dynamo.utils.__spec__.origin == torch._dynamo.utils.__file__
    asked.append(LocalSource)

asked = []
assert macs(asks) == 2 * 8 * 16
import torch._dynamo
from torch._dynamo import source
assert asked[0] is source.LocalSource
assert torch._dynamo.config is settings and torch._dynamo.config.cache_size_limit == 5
assert not any(type(one).__module__.startswith("tui_profiler") for one in sys.meta_path)
compiled = torch.compile(nn.Linear(8, 4), backend="eager", fullgraph=True)
compiled(torch.ones(2, 8))
assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
assert macs() == 2 * 8 * 16
print("ended")
"""


def test_dynamo_is_imported_only_where_a_model_asks_for_it() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stdout == "ended\n", done.stderr

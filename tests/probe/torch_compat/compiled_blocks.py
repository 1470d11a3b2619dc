"""Two equal blocks whose helper breaks the graph, with inputs of three sizes; prints its report."""

import json
import sys

import torch
from torch import nn

import tui_profiler
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.full import full_markdown, full_text


def guarded(x: torch.Tensor) -> torch.Tensor:
    if x.isnan().any().item():  # The break.
        x = x + 1
    return x


class Block(nn.Module):
    """A linear layer and a helper."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return guarded(self.linear(x)).relu()


class Net(nn.Module):
    """The blocks, and a factor that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()
        self.factor = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) * self.factor


net = Net().eval()
model = torch.compile(net, backend=sys.argv[1])
with torch.no_grad():
    for net.factor in (1, 2, 3):
        model(torch.randn(2, 8))
    found = tui_profiler.profile(model, torch.randn(2, 8), forwards=10)
print(
    json.dumps(
        {
            "report": as_json(found.session, advises=True),
            "text": full_text(found.session, columns=100),
            "markdown": full_markdown(found.session),
        }
    )
)

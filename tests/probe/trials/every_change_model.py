"""A small model in which every kind of change has something to do."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds.change import Subject

WIDTH, HEADS, BATCH, SIDE = 64, 4, 2, 64


class Attention(nn.Module):
    """Causal attention, written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.project_in = nn.Linear(WIDTH, 3 * WIDTH)
        self.project_out = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.project_in(x).chunk(3, dim=-1)
        q, k, v = (part.view(batch, tokens, HEADS, -1).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-2, -1) / (width // HEADS) ** 0.5
        later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        weights = self.drop(scores.masked_fill(later, float("-inf")).softmax(-1))
        return self.project_out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Attending(nn.Module):
    """Convolutions with batch norms, then attention by hand, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(32, WIDTH, 3, stride=2),
            nn.BatchNorm2d(WIDTH),
        )
        self.attention = Attention()
        self.same = nn.Identity()
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.same(x + self.attention(x)).mean(1))


def attending() -> Attending:
    torch.manual_seed(0)
    model = Attending().eval()
    for norm in (model.stem[1], model.stem[5]):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2.0)
    return model


def subject(module: nn.Module | None = None) -> Subject:
    generator = torch.Generator().manual_seed(1)
    image = torch.randn(BATCH, 3, SIDE, SIDE, generator=generator)
    return Subject(module or attending(), Inputs((image,), batch=BATCH), 4 << 30)

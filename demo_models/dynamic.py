"""A network with early exits, after Teerapittayanon et al., arXiv 1709.01686.

Note: how many stages run depends on the values that come out, so a recording of one run is
not the whole network, and its time differs from call to call.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Stage(nn.Module):
    """A linear block beside a shortcut, and an exit of its own."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.block = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.exit = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features, (batch, width), and the scores so far, (batch, classes)."""
        x = x + self.block(self.norm(x))
        return x, self.exit(x)


class EarlyExit(nn.Module):
    """Stages that run until the least confident item of the batch is confident enough."""

    def __init__(self, features: int, classes: int, width: int, stages: int, sure: float) -> None:
        super().__init__()
        self.sure = sure
        self.project = nn.Linear(features, width)
        self.stages = nn.ModuleList(Stage(width, classes) for _ in range(stages))

    def forward(self, features: Tensor) -> Tensor:
        """Score items: (batch, features) to (batch, classes)."""
        x = self.project(features)
        scores = features.new_zeros(len(features), 1)
        for stage in self.stages:
            x, scores = stage(x)
            confidence = scores.softmax(dim=-1).amax(dim=-1).min().item()
            if confidence > self.sure:
                break
        return scores


def build(
    features: int = 64, classes: int = 4, width: int = 256, stages: int = 8, sure: float = 0.38
) -> nn.Module:
    """Build one that stops once every item's best class has a probability above ``sure``."""
    return EarlyExit(features, classes, width, stages, sure)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return feature vectors: (batch, 64)."""
    return (torch.randn(batch, 64),)

"""An image classifier with lazy modules: LazyConv2d, LazyLinear.

Note: before its first run it has no parameter count, and afterwards its layers are of other
classes than those that were written down.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LazyClassifier(nn.Module):
    """Three convolutions and two linear layers, none of which was told its input size."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.LazyConv2d(width, 3, padding=1),
            nn.LazyBatchNorm2d(),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.LazyConv2d(2 * width, 3, padding=1),
            nn.LazyBatchNorm2d(),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.LazyConv2d(4 * width, 3, padding=1),
            nn.ReLU(),
        )
        self.hidden = nn.LazyLinear(8 * width)
        self.classifier = nn.LazyLinear(classes)

    def forward(self, image: Tensor) -> Tensor:
        """Score images: (batch, channels, height, width) to (batch, classes)."""
        x = self.features(image).flatten(1)
        return self.classifier(torch.relu(self.hidden(x)))


def build(classes: int = 10, width: int = 16) -> nn.Module:
    """Build one for images of any size, which is then its own for good."""
    return LazyClassifier(classes, width)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return images: (batch, 3, 48, 48)."""
    return (torch.randn(batch, 3, 48, 48),)

"""A small residual network for 32×32 images, after He et al., arXiv 1512.03385, section 4.2.

Note: time and FLOPs are in the convolutions, the norms and activations between them only
move memory.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.shortcut = (
            nn.Identity()
            if stride == 1 and channels_in == channels
            else nn.Conv2d(channels_in, channels, 1, stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResidualNetwork(nn.Module):
    """A stem, three stages of blocks, and a linear classifier."""

    def __init__(self, classes: int, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stages = nn.ModuleList()
        channels_in = width
        for stage in range(3):
            channels, stride = width * 2**stage, 1 if stage == 0 else 2
            first = Block(channels_in, channels, stride)
            others = [Block(channels, channels, 1) for _ in range(blocks - 1)]
            self.stages.append(nn.Sequential(first, *others))
            channels_in = channels
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels_in, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Score images: (batch, 3, height, width) to (batch, classes)."""
        x = self.stem(image)
        for stage in self.stages:
            x = stage(x)
        return self.classifier(self.pool(x).flatten(1))


def build(classes: int = 10, width: int = 16, blocks: int = 3) -> nn.Module:
    """Build ResNet-20; ``blocks`` is per stage."""
    return ResidualNetwork(classes, width, blocks)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return CIFAR-sized images: (batch, 3, 32, 32)."""
    return (torch.randn(batch, 3, 32, 32),)

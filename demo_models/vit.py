"""A small vision transformer, after Dosovitskiy et al., arXiv 2010.11929.

Note: in eval mode and without gradients, PyTorch runs each encoder layer as one fused
operator, so that its linear layers are never called as modules.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class VisionTransformer(nn.Module):
    """Patches as tokens, a transformer encoder over them, a classifier on one of them."""

    def __init__(self, classes: int, side: int, patch: int, width: int, layers: int) -> None:
        super().__init__()
        tokens = (side // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        layer = nn.TransformerEncoderLayer(
            width, width // 32, 4 * width, activation="gelu", batch_first=True, norm_first=False
        )
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Score images: (batch, 3, side, side) to (batch, classes)."""
        tokens = self.patches(image).flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(image), -1, -1)
        tokens = self.encoder(torch.cat((first, tokens), dim=1) + self.positions)
        return self.head(self.norm(tokens[:, 0]))


def build(
    classes: int = 100, side: int = 64, patch: int = 8, width: int = 192, layers: int = 6
) -> nn.Module:
    """Build one for square images of ``side`` pixels."""
    return VisionTransformer(classes, side, patch, width, layers)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return images: (batch, 3, 64, 64)."""
    return (torch.randn(batch, 3, 64, 64),)

"""A DETR-style detector: convolutional backbone and transformer.

After Carion et al., arXiv 2005.12872 (DETR), much smaller.

Note: the backbone is bound by arithmetic, the decoder by memory and by the number of its
small operators.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def convolution(channels_in: int, channels: int, stride: int) -> nn.Sequential:
    """Build a 3×3 convolution with norm and activation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.SiLU(),
    )


class Backbone(nn.Module):
    """Five convolutions, four of which halve the image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = convolution(3, width // 8, 2)
        self.stages = nn.Sequential(
            convolution(width // 8, width // 4, 2),
            convolution(width // 4, width // 2, 2),
            convolution(width // 2, width, 2),
            convolution(width, width, 1),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return features: (batch, width, height / 16, width / 16)."""
        return self.stages(self.stem(image))


class Detector(nn.Module):
    """Image features, a fixed number of object queries, a class and a box for each."""

    def __init__(self, classes: int, queries: int, width: int, layers: int) -> None:
        super().__init__()
        self.backbone = Backbone(width)
        self.row_positions = nn.Parameter(0.02 * torch.randn(64, 1, width))
        self.column_positions = nn.Parameter(0.02 * torch.randn(1, 64, width))
        self.queries = nn.Embedding(queries, width)
        encoder = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        decoder = nn.TransformerDecoderLayer(width, 4, 2 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(encoder, layers)
        self.decoder = nn.TransformerDecoder(decoder, layers)
        self.class_head = nn.Linear(width, classes + 1)
        self.box_head = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4), nn.Sigmoid()
        )

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Detect objects in images.

        Args:
            image: (batch, 3, height, width), each side at most 1,024 and a multiple of 16.

        Returns:
            ``scores``: (batch, queries, classes + 1), the last class is "nothing".
            ``boxes``: (batch, queries, 4), centre and size as shares of the image.
        """
        features = self.backbone(image)
        rows, columns = features.shape[-2:]
        places = self.row_positions[:rows] + self.column_positions[:, :columns]
        tokens = features.flatten(2).transpose(1, 2) + places.flatten(0, 1)
        queries = self.queries.weight.expand(len(image), -1, -1)
        found = self.decoder(queries, self.encoder(tokens))
        return {"scores": self.class_head(found), "boxes": self.box_head(found)}


def build(classes: int = 20, queries: int = 25, width: int = 128, layers: int = 2) -> nn.Module:
    """Build one that finds up to ``queries`` objects."""
    return Detector(classes, queries, width, layers)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return images: (batch, 3, 128, 160)."""
    return (torch.randn(batch, 3, 128, 160),)

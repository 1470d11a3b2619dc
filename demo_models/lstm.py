"""A bidirectional LSTM text classifier.

Note: each step waits for the one before it, so a processor with many cores is of little
help, and on a CPU the whole LSTM is a single operator.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TextClassifier(nn.Module):
    """Embedding, LSTM, the largest value over time, and a linear classifier."""

    def __init__(self, vocabulary: int, classes: int, width: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.reader = nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.classifier = nn.Sequential(
            nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, classes)
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Score texts: (batch, words) to (batch, classes)."""
        states, _ = self.reader(self.words(ids))
        return self.classifier(states.amax(dim=1))


def build(vocabulary: int = 5000, classes: int = 5, width: int = 128, layers: int = 2) -> nn.Module:
    """Build one with ``width`` values of state in each direction."""
    return TextClassifier(vocabulary, classes, width, layers)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return texts of 32 words: (batch, 32)."""
    return (torch.randint(0, 5000, (batch, 32)),)

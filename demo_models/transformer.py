"""A small encoder-decoder transformer, after Vaswani et al., arXiv 1706.03762.

Note: two inputs of different lengths. In eval mode and without gradients PyTorch runs each
encoder layer as one fused operator, and the decoder's layers, which attend twice, module by module;
the table of words is shared by both inputs and by the scores.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Translator(nn.Module):
    """Words in one language and the words so far in another, to scores for the next of each."""

    positions: Tensor

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.register_buffer("positions", waves(context, width), persistent=False)
        self.transformer = nn.Transformer(width, heads, layers, layers, 4 * width, batch_first=True)
        self.scores = nn.Linear(width, vocabulary, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Score words.

        Args:
            source: (batch, source words), ids.
            target: (batch, target words), ids.

        Returns:
            (batch, target words, vocabulary).
        """
        words = target.shape[1]
        later = torch.ones(words, words, dtype=torch.bool, device=target.device).triu(1)
        # Unless it is told that the mask is causal, it looks at the values to find out.
        mixed = self.transformer(
            self._placed(source), self._placed(target), tgt_mask=later, tgt_is_causal=True
        )
        return self.scores(mixed)

    def _placed(self, ids: Tensor) -> Tensor:
        scale = math.sqrt(self.words.embedding_dim)
        return scale * self.words(ids) + self.positions[: ids.shape[1]]


def waves(context: int, width: int) -> Tensor:
    """Return the sines and cosines that encode positions: (context, width)."""
    places = torch.arange(context).unsqueeze(1)
    speeds = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return torch.stack((torch.sin(places * speeds), torch.cos(places * speeds)), dim=2).flatten(1)


def build(
    vocabulary: int = 1_000, context: int = 128, width: int = 128, heads: int = 4, layers: int = 3
) -> nn.Module:
    """Build one that reads at most ``context`` words."""
    return Translator(vocabulary, context, width, heads, layers)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return ids of words: (batch, 24) and (batch, 20)."""
    return torch.randint(1_000, (batch, 24)), torch.randint(1_000, (batch, 20))

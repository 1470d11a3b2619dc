"""A text encoder with shared modules, after Lan et al., arXiv 1909.11942 (ALBERT).

Note: one block is called six times and counted once; one norm has two parents; the output
layer's weight is the embedding's own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Attention, then a feed-forward network, with one norm for both."""

    def __init__(self, width: int, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.grow = nn.Linear(width, 4 * width)
        self.activation = nn.GELU()
        self.shrink = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, tokens, width)."""
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.shrink(self.activation(self.grow(self.norm(x))))


class SharedEncoder(nn.Module):
    """One block, again and again, between an embedding and its transpose."""

    def __init__(self, vocabulary: int, width: int, repeats: int) -> None:
        super().__init__()
        self.repeats = repeats
        self.tokens = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.block = Block(width, self.norm)
        # The same block under a second name: a state dict lists its parameters twice.
        self.last_block = self.block
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Score tokens: (batch, tokens) to (batch, tokens, vocabulary)."""
        x = self.tokens(ids)
        for _ in range(self.repeats - 1):
            x = self.block(x)
        return self.head(self.norm(self.last_block(x)))


def build(vocabulary: int = 2000, width: int = 128, repeats: int = 6) -> nn.Module:
    """Build one that runs its block ``repeats`` times."""
    return SharedEncoder(vocabulary, width, repeats)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return 32 tokens for each sequence: (batch, 32)."""
    return (torch.randint(0, 2000, (batch, 32)),)

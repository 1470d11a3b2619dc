"""A transformer whose feed-forward networks are mixtures of experts.

After Shazeer et al., arXiv 1701.06538. Every token goes through the two experts that its router
scores highest, and through no other.

Note: which experts run, and on how many tokens, is known only once the router has run, so
their share of the time changes with the input, and some are not called at all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Mixture(nn.Module):
    """A router and its experts."""

    def __init__(self, width: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(experts)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, tokens, width)."""
        tokens = x.flatten(0, 1)
        scores, choices = self.router(tokens).topk(self.chosen, dim=-1)
        shares = scores.softmax(dim=-1)
        mixed = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            rows, ranks = torch.where(choices == index)
            if len(rows):
                part = expert(tokens[rows]) * shares[rows, ranks].unsqueeze(-1)
                mixed.index_add_(0, rows, part)
        return mixed.view_as(x)


class Layer(nn.Module):
    """Attention, then a mixture of experts, each beside a shortcut."""

    def __init__(self, width: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mixture_norm = nn.LayerNorm(width)
        self.mixture = Mixture(width, experts, chosen)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, tokens, width)."""
        y = self.attention_norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mixture(self.mixture_norm(x))


class MixtureModel(nn.Module):
    """Embedding, layers with experts, and scores for every token."""

    def __init__(self, vocabulary: int, width: int, layers: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, experts, chosen) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Score tokens: (batch, tokens) to (batch, tokens, vocabulary)."""
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def build(
    vocabulary: int = 1000, width: int = 128, layers: int = 2, experts: int = 8, chosen: int = 2
) -> nn.Module:
    """Build one in which each token runs through ``chosen`` of ``experts``."""
    return MixtureModel(vocabulary, width, layers, experts, chosen)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return 32 tokens for each sequence: (batch, 32)."""
    return (torch.randint(0, 1000, (batch, 32)),)

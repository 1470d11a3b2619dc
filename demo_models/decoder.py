"""A decoder-only language model with a KV cache.

Note: in eval mode the keys and values of every token so far stay in the module between calls, so
each call attends to a longer past and takes a little longer, until the context is full and begins
anew. A tool that runs the model to look at it must put that memory back.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class CachedAttention(nn.Module):
    """Causal attention over the tokens of this call and of all calls before it."""

    keys: Tensor
    values: Tensor

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width, bias=False)
        self.project_out = nn.Linear(width, width, bias=False)
        self.register_buffer("keys", torch.empty(0), persistent=False)
        self.register_buffer("values", torch.empty(0), persistent=False)

    def forward(self, x: Tensor, past: int) -> Tensor:
        """Attend from x, (batch, tokens, width), to itself and ``past`` earlier tokens."""
        batch, tokens, width = x.shape
        # Each (batch, heads, tokens, width / heads).
        queries, keys, values = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.project_in(x).chunk(3, dim=-1)
        )
        if past:
            keys = torch.cat((self.keys, keys), dim=2)
            values = torch.cat((self.values, values), dim=2)
        if not self.training:
            self.keys, self.values = keys, values
        # A token sees the whole past, itself, and what came before it in this call.
        seen = torch.ones(tokens, past + tokens, dtype=torch.bool, device=x.device).tril(past)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Layer(nn.Module):
    """Attention, then a feed-forward network, each beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(width)
        self.attention = CachedAttention(width, heads)
        self.feed_forward_norm = nn.RMSNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, past: int) -> Tensor:
        """Return (batch, tokens, width)."""
        x = x + self.attention(self.attention_norm(x), past)
        return x + self.feed_forward(self.feed_forward_norm(x))


class LanguageModel(nn.Module):
    """Embeddings, decoder layers, and scores for the next token."""

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.past = 0  # tokens in the caches
        self.batch = 0  # sequences in the caches
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Score the next token of each sequence.

        Args:
            ids: (batch, tokens), continuing what was read before. Another batch size, or a full
                context, begins anew.

        Returns:
            (batch, vocabulary).
        """
        batch, count = ids.shape
        if self.training or batch != self.batch or self.past + count > self.context:
            self.past, self.batch = 0, batch
        places = torch.arange(self.past, self.past + count, device=ids.device)
        x = self.tokens(ids) + self.positions(places)
        for layer in self.layers:
            x = layer(x, self.past)
        if not self.training:
            self.past += count
        return self.head(self.norm(x[:, -1]))


def build(
    vocabulary: int = 2000, context: int = 256, width: int = 128, heads: int = 4, layers: int = 4
) -> nn.Module:
    """Build one that reads up to ``context`` tokens."""
    return LanguageModel(vocabulary, context, width, heads, layers)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return the next 16 tokens of each sequence: (batch, 16)."""
    return (torch.randint(0, 2000, (batch, 16)),)

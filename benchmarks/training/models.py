"""Models and one step of their training each, with a small loss: what several benchmarks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torchvision
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention


class Trained(NamedTuple):
    """A model that is trained."""

    model: nn.Module
    x: Tensor
    optimizer: torch.optim.Optimizer

    def step(self) -> None:
        """Run one step."""
        self.optimizer.zero_grad()
        self.model(self.x).sum().backward()
        self.optimizer.step()


class Block(nn.Module):
    """Of a transformer, before which it normalises."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what has the shape of ``x``: (batch, tokens, width)."""
        batch, tokens, width = x.shape
        shape = batch, tokens, 3, self.heads, width // self.heads
        q, k, v = self.qkv(self.norm(x)).view(shape).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(attended.reshape(x.shape))
        found: Tensor = x + self.down(gelu(self.up(self.norm_after(x))))
        return found


class Gpt(nn.Module):
    """A small decoder."""

    def __init__(self, width: int = 64, layers: int = 4, tokens: int = 100) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits: (batch, tokens, vocabulary), of token ids (batch, tokens)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.head(self.norm(x))
        return found


def _built(model: nn.Module, x: Tensor) -> Trained:
    return Trained(model, x, torch.optim.SGD(model.parameters(), lr=1e-7))


def resnet18() -> Trained:
    """Return torchvision's, with one image of 64 x 64 pixels."""
    torch.manual_seed(0)
    return _built(torchvision.models.resnet18(), torch.randn(2, 3, 64, 64))


def small_gpt() -> Trained:
    """Return a decoder of four blocks, with 32 tokens."""
    torch.manual_seed(0)
    return _built(Gpt(), torch.randint(0, 100, (1, 32)))


def vit_tiny() -> Trained:
    """Return a vision transformer as wide as ViT-Ti, with four layers and 64 patches."""
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(
        image_size=64, patch_size=8, num_layers=4, num_heads=3, hidden_dim=192, mlp_dim=768
    )
    return _built(model, torch.randn(1, 3, 64, 64))


def tiny_layers() -> Trained:
    """Return 200 linear layers that take some microseconds each."""
    torch.manual_seed(0)
    return _built(nn.Sequential(*(nn.Linear(64, 64) for _ in range(200))), torch.randn(16, 64))


MODELS: dict[str, Callable[[], Trained]] = {
    "resnet18": resnet18,
    "small GPT": small_gpt,
    "ViT-tiny": vit_tiny,
    "200 tiny layers": tiny_layers,
}

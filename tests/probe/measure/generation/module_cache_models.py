"""Small decoders that keep keys and values in their modules, in the forms that programs use."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

WIDTH, HEADS, VOCABULARY, LONGEST = 16, 2, 32, 64
HEAD = WIDTH // HEADS


class BufferCache(nn.Module):
    """A module with two buffers that are written at given positions."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        shape = (rows, HEADS, LONGEST, HEAD)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def update(self, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.keys[:, :, positions] = keys
        self.values[:, :, positions] = values
        return self.keys, self.values


class Attention(nn.Module):
    """Attention over what was kept; subclasses say where."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, 3 * WIDTH)
        self.outer = nn.Linear(WIDTH, WIDTH)
        self.rows = rows

    def kept(self, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        rows, tokens, _ = x.shape
        q, k, v = (
            part.view(rows, tokens, HEADS, HEAD).transpose(1, 2)
            for part in self.inner(x).split(WIDTH, -1)
        )
        k, v = self.kept(positions, k, v)
        places = torch.arange(k.shape[2])
        mask = places[None, :] <= positions[:, None]
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.outer(y.transpose(1, 2).reshape(rows, tokens, WIDTH))


class InBuffers(Attention):
    """A cache module inside, made before the first request."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.cache: BufferCache | None = BufferCache(rows)

    def kept(self, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        assert self.cache is not None
        return self.cache.update(positions, keys, values)


class InAttributes(Attention):
    """Two plain tensors as attributes, written in slices."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.kept_k = torch.zeros(rows, HEADS, LONGEST, HEAD)
        self.kept_v = torch.zeros(rows, HEADS, LONGEST, HEAD)

    def kept(self, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        begin, end = int(positions[0]), int(positions[-1]) + 1
        self.kept_k[:, :, begin:end] = keys
        self.kept_v[:, :, begin:end] = values
        return self.kept_k[:, :, :end], self.kept_v[:, :, :end]


class Growing(Attention):
    """Two attributes that are joined anew in every forward."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.clear()

    def clear(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def kept(self, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.k = keys if self.k is None else torch.cat([self.k, keys], 2)
        self.v = values if self.v is None else torch.cat([self.v, values], 2)
        return self.k, self.v


class Decoder(nn.Module):
    """Two layers; positions are a tensor."""

    def __init__(self, attention: Callable[[int], Attention], rows: int = 1) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(attention(rows) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", torch.ones(1, 1, LONGEST, LONGEST).tril())

    def forward(self, ids: Tensor, input_pos: Tensor) -> Tensor:
        x = self.tokens(ids)
        for layer in self.layers:
            x = x + layer(x, input_pos)
        return self.head(x)


class ByNumber(Decoder):
    """The position of the first token is an int."""

    def forward(self, ids: Tensor, start_pos: int) -> Tensor:  # type: ignore[override]
        return super().forward(ids, torch.arange(start_pos, start_pos + ids.shape[1]))


def answer(model: Decoder, prompt: Tensor, new: int) -> Tensor:
    """Return the prompt with ``new`` tokens, greedily chosen."""
    for layer in model.layers:
        if isinstance(layer, Growing):
            layer.clear()
    ids, before, given = prompt, 0, prompt
    for _ in range(new):
        tokens = given.shape[1]
        position = before if isinstance(model, ByNumber) else torch.arange(before, before + tokens)
        logits = model(given, position)
        before += tokens
        given = logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, given], 1)
    return ids

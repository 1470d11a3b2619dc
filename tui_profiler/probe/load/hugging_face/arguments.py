"""One keyword of a Hugging Face model's ``forward``: described first, made when it is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch

from tui_profiler.probe.load.common.settings import Settings

Fill: TypeAlias = Literal["normal", "tokens", "ones", "zeros"]


@dataclass(frozen=True)
class Argument:
    """What is passed under one name."""

    shape: tuple[int, ...]
    """Every axis, the batch axis included."""
    why: str
    """Where the shape came from."""
    fill: Fill = "normal"
    dtype: torch.dtype | None = None
    """None: floating, in the model's dtype."""
    below: int = 2
    """Tokens are drawn from 0 to this, without it."""
    avoided: frozenset[int] = frozenset()
    """Tokens that are not drawn by chance."""
    last: int | None = None
    """The token at the end of each row, where it must be a certain one."""
    first: tuple[int, ...] = ()
    """Tokens at the beginning of each row: placeholders."""
    value: tuple[tuple[int, ...], ...] = ()
    """Whole numbers in place of ``fill``, one row for each of the first axis."""
    has_batch: bool = True
    """Its first axis counts items."""
    rows: int = 1
    """Rows of its first axis that belong to one item."""
    is_concrete: bool = False
    """It stays real where the others are fake."""

    def of_batch(self, batch: int) -> Argument:
        """Give the same for another number of items."""
        if not self.has_batch:
            return self
        if self.value:
            return replace(self, value=self.value * batch)
        return replace(self, shape=(batch * self.rows, *self.shape[1:]))


Arguments: TypeAlias = dict[str, Argument]


def tensor_of(
    argument: Argument, dtype: torch.dtype, settings: Settings, seed: int
) -> torch.Tensor:
    """Make the tensor, the same values each time.

    A model on meta is traced as if it were on the CPU, and so are its inputs.

    Args:
        argument: What is wanted.
        dtype: Of floating numbers where ``argument`` does not say.
        settings: On which device.
        seed: Of the random values.
    """
    device = torch.device("cpu") if settings.device.type == "meta" else settings.device
    dtype = argument.dtype or dtype
    if argument.value:
        rows = torch.tensor(argument.value, dtype=dtype, device=device)
        return rows.reshape(len(argument.value), *argument.shape[1:])
    if argument.fill in ("ones", "zeros"):
        number = 1 if argument.fill == "ones" else 0
        filled = torch.full(argument.shape, number, dtype=dtype)
        return _begun(filled, argument).to(device)
    generator = torch.Generator().manual_seed(seed)
    if argument.fill == "normal":
        drawn = torch.randn(argument.shape, generator=generator, dtype=torch.float32)
        return drawn.to(device, dtype)
    tokens = torch.randint(0, max(argument.below, 1), argument.shape, generator=generator)
    tokens = _begun(_without(tokens, argument), argument)
    if argument.last is not None:
        tokens[..., -1] = argument.last
    return tokens.to(device, dtype)


def _begun(tokens: torch.Tensor, argument: Argument) -> torch.Tensor:
    if argument.first:
        tokens[..., : len(argument.first)] = torch.tensor(argument.first, dtype=tokens.dtype)
    return tokens


def _without(tokens: torch.Tensor, argument: Argument) -> torch.Tensor:
    """Put the first token without a meaning in the place of those that have one."""
    plain = next((i for i in range(argument.below) if i not in argument.avoided), 0)
    for token in argument.avoided:
        tokens = tokens.masked_fill(tokens == token, plain)
    return tokens

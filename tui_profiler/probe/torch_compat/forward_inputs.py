"""What is passed to ``forward``."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from tui_profiler.messages import InputSpec

TensorMaker: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""Makes a tensor of the shape, dtype and device of another one."""


@dataclass(frozen=True)
class Inputs:
    """One call's worth of arguments, with the reason for each shape."""

    args: tuple[object, ...]
    """Positional arguments: tensors, or lists and dictionaries of tensors."""
    kwargs: dict[str, object] = field(default_factory=dict)
    specs: tuple[InputSpec, ...] = ()
    """One for each tensor, in order."""
    batch: int | None = None
    """Size of the batch axis; None where there is none."""
    batch_axes: tuple[int | None, ...] | None = None
    """Which axis of each tensor, in order, is the batch axis: of images in a list none. None where
    that was not found, or is known to the library that the model comes from."""
    why_no_batch: str = ""
    """Why no batch axis was found."""
    concrete: frozenset[str] = frozenset()
    """Keywords that steer forward by their values (masks, sizes of images): they stay real where
    the others are fake."""
    renewed: Callable[[TensorMaker], dict[str, object]] | None = None
    """Makes the keywords that a forward changes, such as a cache: anew for each call."""

    def keywords(self) -> dict[str, object]:
        """Return the keywords of one real call."""
        if self.renewed is None:
            return self.kwargs
        return {**self.kwargs, **self.renewed(_zeros)}


def _zeros(like: torch.Tensor) -> torch.Tensor:
    return torch.zeros(tuple(like.shape), dtype=like.dtype, device=like.device)

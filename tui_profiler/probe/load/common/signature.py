"""What ``forward`` takes, by its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Parameters:
    """Parameters of a ``forward``."""

    positional: tuple[str, ...]
    """Names of what can be passed in order."""
    required: tuple[str, ...]
    """Names of what must be passed, in the order of the signature."""
    keyword_only: tuple[str, ...] = ()
    more_positional: bool = False
    """It takes any number, by ``*args``."""
    more_keywords: bool = False
    """It takes any name, by ``**kwargs``."""

    def takes(self, name: str) -> bool:
        """Say whether an argument may be passed under that name."""
        return self.more_keywords or name in self.positional or name in self.keyword_only

    def name_at(self, place: int) -> str:
        """Name the argument that is passed at that place."""
        if place < len(self.positional):
            return self.positional[place]
        return "input" if place == 0 else f"input_{place + 1}"

    def __str__(self) -> str:
        parts = list(self.positional)
        if self.more_positional:
            parts.append("*")
        parts += self.keyword_only
        if self.more_keywords:
            parts.append("**")
        return f"forward({', '.join(parts)})"


def forward_parameters(model: torch.nn.Module) -> Parameters:
    """Read the signature of ``forward``; one that cannot be read takes anything in order."""
    return parameters_of(model.forward)


def parameters_of(function: Callable[..., object]) -> Parameters:
    """Read the signature of a function or method; one that cannot be read takes anything."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # scripted and built-in code has none
        return Parameters(positional=(), required=(), more_positional=True)
    in_order = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    kinds = {parameter.kind for parameter in parameters}
    return Parameters(
        positional=tuple(p.name for p in parameters if p.kind in in_order),
        required=tuple(
            p.name for p in parameters if p.default is p.empty and p.kind not in variable
        ),
        keyword_only=tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
        more_positional=inspect.Parameter.VAR_POSITIONAL in kinds,
        more_keywords=inspect.Parameter.VAR_KEYWORD in kinds,
    )

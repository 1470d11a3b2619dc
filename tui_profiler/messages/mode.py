"""How a program runs its model: its mode, autograd, threads, backward passes."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tui_profiler.messages.base import OnWire, Part
from tui_profiler.messages.figures import Figure, Unknown

Autograd: TypeAlias = Literal["grad", "no_grad", "inference_mode"]
"""``grad``: operators are recorded for a backward pass."""


ENOUGH_FORWARDS = 8
"""Forwards that autograd recorded without a backward pass, from which on none is expected."""


class Setting(Part, frozen=True):
    """How some of the last forwards ran."""

    training: bool
    """The root's ``training`` flag."""
    autograd: Autograd
    threads: int
    """Intra-operator threads of torch, on the thread of those forwards."""
    as_traced: bool
    """As in ``Tick``: they are like the forward that the tree is made of."""
    forwards: int


class ModeSeen(OnWire, frozen=True):
    """How forwards ran, and which backward passes there were, as observed in the program."""

    at: float
    """Seconds since the command was started."""
    settings: tuple[Setting, ...]
    """Of the last forwards that were recorded, most frequent first."""
    forwards: int
    """Recorded since the model is watched."""
    passes: int | Unknown
    """Backward passes of the program since then, whichever model they are of."""
    reached: int = 0
    """Of those, passes that computed gradients of this model's parameters."""
    pass_seconds: Figure = Unknown("no backward pass was observed")
    """Median of the last passes."""

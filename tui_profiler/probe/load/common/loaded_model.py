"""A model that is ready to be traced and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from tui_profiler.messages import Unknown
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kv_cache import Kept


@dataclass(frozen=True)
class Loaded:
    """A model, and what may be passed to it."""

    model: torch.nn.Module
    """In eval mode, on its device and in its dtype.

    Where ``initialise`` is not None its parameters hold no values yet: trace it on fake tensors,
    call ``initialise`` before anything is computed.
    """
    facts_source: str
    """``torchvision``, ``demo``, or the file or module of the user's code, as typed."""
    weights: str
    """Goes before the word "weights": ``random``, ``its own`` (the user's factory made them), or
    the name of the published ones or of the file they came from."""
    candidates: Sequence[Inputs]
    """What to pass, likeliest first: the first that runs is right. Each is made when it is asked
    for. There is exactly one where the user, the model or its weights said what it takes."""
    initialise: Callable[[], torch.nn.Module] | None
    """Builds the same model with its proper random values, the same at each call."""
    published_gmacs: float | None
    """Billions of multiply-accumulates of one item, where ``candidates`` have the published
    size."""
    published_parameters: int | None
    remake: Callable[[torch.nn.Module, int], Sequence[Inputs]]
    """Gives the same candidates for another batch size."""
    cannot_run: str = ""
    """Why it can only be traced, as a clause after "not run: "; empty where it can be run."""
    decode: Callable[[torch.nn.Module, Inputs, Kept | None], Inputs | Unknown | None] | None = None
    """Gives the call that follows, from the model, the call before and the cache that it returned,
    if any: one more token. None where the model generates nothing, ``Unknown`` where it does and
    there is no such call."""

"""Parameters that are trained and those that are frozen, by ``requires_grad``."""

from __future__ import annotations

from tui_profiler.messages import Cost, Unknown

NOT_TOLD = Unknown("neither files nor recordings of earlier versions have requires_grad")


def trainable(cost: Cost) -> int | Unknown:
    """Return the scalars with ``requires_grad``; one that is shared inside counts once."""
    return NOT_TOLD if cost.trainable is None else cost.trainable


def frozen(cost: Cost) -> int | Unknown:
    """Return the scalars without ``requires_grad``, counted likewise."""
    return NOT_TOLD if cost.trainable is None else cost.parameters - cost.trainable

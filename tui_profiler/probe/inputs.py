"""What is passed to ``forward``."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui_profiler.messages import InputSpec


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

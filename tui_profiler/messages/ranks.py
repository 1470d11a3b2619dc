"""What one rank of a distributed run spends its steps on."""

from __future__ import annotations

from tui_profiler.messages.base import Moment, OnWire
from tui_profiler.messages.figures import Figure


class StepTimes(OnWire, frozen=True):
    """Where the time of a rank's steps goes: from one forward's begin to the next one's.

    Each figure is the mean over those of the last ``window`` steps whose length is in their middle
    half, so that ``compute``, ``wait`` and ``host`` add up to ``step``, and a pause to save or to
    validate is in none of them.
    """

    at: Moment
    """Seconds since the command was started."""
    steps: int
    """Steps so far."""
    window: int
    step: Figure
    """Seconds."""
    compute: Figure
    """Seconds in the watched model's forward and in backward passes, without ``wait``."""
    wait: Figure
    """Seconds in which the thread that runs the model waits for a collective, transfer included."""
    host: Figure
    """Seconds of neither: the optimizer, loading of data, Python."""
    forward: Figure
    """Seconds of ``compute`` in the forward."""
    backward: Figure
    """Seconds of ``compute`` in backward passes."""
    dropped: int = 0
    """Steps that were not counted, because what was recorded of them did not fit."""

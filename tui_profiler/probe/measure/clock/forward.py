"""One forward as the module clock recorded it."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler.messages.program import Autograd
from tui_profiler.probe.measure.clock.thread_usage import ThreadUsage

_SECONDS = Struct("d")


class Setting(NamedTuple):
    """How a forward ran, as read on its own thread."""

    training: bool
    """The root's flag, before it."""
    autograd: Autograd
    """Of the thread, before it."""
    threads: int
    """Intra-operator threads of torch, after it: OpenMP counts them for each thread apart, and
    before a thread's first operator asking would fix the number."""


class Forward(NamedTuple):
    """Every module call of one call of the root, on the thread that ran it."""

    modules: list[nn.Module]
    """Of each call, in the order in which the calls ended: the root is last. Two forwards with the
    same calls mostly share one list."""
    times: bytes
    """float64: seconds of ``time.perf_counter`` at which each call began, then at which each
    ended."""
    since: float | None
    """Second at which the forward before it ended; None after a gap, in which others may have run
    unseen. It stands here, so that a forward is left out of a figure with the time before it."""
    as_traced: bool = True
    """Whether it had such inputs, and ran in such a mode, as the one that the tree is made of."""
    setting: Setting | None = None
    """None where it was not recorded by a clock."""
    usage: ThreadUsage | None = None
    """Of its thread meanwhile; None likewise."""

    @property
    def calls(self) -> int:
        """How many calls there were, the root's included."""
        return len(self.modules)

    @property
    def began(self) -> float:
        """Second at which the root was called."""
        (start,) = _SECONDS.unpack_from(self.times, (self.calls - 1) * _SECONDS.size)
        return float(start)

    @property
    def seconds(self) -> float:
        """What the root took."""
        (end,) = _SECONDS.unpack_from(self.times, (2 * self.calls - 1) * _SECONDS.size)
        return float(end) - self.began


def autograd_now() -> Autograd:
    """Return what autograd does with operators that this thread runs now."""
    if torch.is_inference_mode_enabled():
        return "inference_mode"
    return "grad" if torch.is_grad_enabled() else "no_grad"

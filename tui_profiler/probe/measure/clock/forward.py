"""One forward as the module clock recorded it."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tui_profiler.messages.program import Autograd
from tui_profiler.probe.measure.clock.graph_marks import CallValues
from tui_profiler.probe.measure.clock.thread_usage import ThreadUsage
from tui_profiler.probe.torch_compat.forward_kind import FirstTensor, Kind, first_tensor
from tui_profiler.probe.torch_compat.forward_tokens import ForwardTokens

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
    numbers: array[int] | None = None
    """Sequence numbers of autograd's next node at entry and exit of each call, in the order of
    ``modules``; None where its backward is not recorded."""
    thread: int = 0
    """That ran it."""
    used: bytes = b""
    """float64, three for each call: seconds on a core, waiting for one, and of wall time, without
    what reading them took; empty where calls did not read them."""
    values: CallValues | None = None
    """Who read the values in it: it was slower than others, and is in no mean. None: nobody did."""
    tokens: ForwardTokens | None = None
    """Of a language model that is not trained; None for all others, and where nobody asked."""
    kind: Kind | None = None
    """Its inputs and mode, where these are not as traced; None also where they are not known."""

    @property
    def given(self) -> FirstTensor | None:
        """First tensor that it was passed, where that was not as traced; None if not known."""
        return None if self.kind is None else first_tensor(self.kind)

    @property
    def reading_seconds(self) -> float:
        """What its calls took to read what its thread uses."""
        if not self.used:
            return 0.0
        (wall,) = _SECONDS.unpack_from(self.used, len(self.used) - _SECONDS.size)
        return max(self.seconds - float(wall), 0.0)

    @property
    def calls(self) -> int:
        """How many calls there were, the root's included."""
        return len(self.modules)

    def call_times(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return when each call began and ended; (calls,) each."""
        began, ended = np.frombuffer(self.times, np.float64).reshape(2, -1)
        return began, ended

    @property
    def began(self) -> float:
        """Second at which the root was called."""
        (start,) = _SECONDS.unpack_from(self.times, (self.calls - 1) * _SECONDS.size)
        return float(start)

    @property
    def ended(self) -> float:
        """Second at which the root returned, or raised."""
        (end,) = _SECONDS.unpack_from(self.times, (2 * self.calls - 1) * _SECONDS.size)
        return float(end)

    @property
    def seconds(self) -> float:
        """What the root took."""
        return self.ended - self.began


def autograd_now() -> Autograd:
    """Return what autograd does with operators that this thread runs now."""
    if torch.is_inference_mode_enabled():
        return "inference_mode"
    return "grad" if torch.is_grad_enabled() else "no_grad"

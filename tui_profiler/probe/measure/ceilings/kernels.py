"""What kernels that advice speaks of cost on this machine, in CPU time of one thread.

The roofs say how fast work can be; advice to use another kernel needs to know what that one costs:

1. Autograd: a small operator that it records, and one under ``no_grad``, less the same one in
   inference mode.
2. int8: a linear layer with dynamic quantisation less one in float32 on next to no data, which is
   what the additional operators cost; and how many times as fast large products are.
3. Layout: how many times as fast a convolution is in channels-last as in NCHW, on images that stay
   in the caches and in memory that is used again: depthwise, and dense.

The two sides of a comparison are timed in turn (``core_timing.py``), in ``ROUNDS`` rounds of which
the median counts: each is a ratio or a difference, which no single odd round may set.
"""

import mmap
import threading
import warnings
from collections.abc import Callable
from statistics import median

import torch

from tui_profiler.messages import Figure, KernelCosts, Unknown
from tui_profiler.probe.measure.ceilings.core_timing import WaitClock, timed_in_turn

ROUNDS = 3
SECONDS = 0.02
"""What one comparison may take in a round, about."""
_CALLS = 50
"""Of a small operator in one piece."""
_SMALL, _LARGE, _ROWS = 16, 1024, 64
_CHANNELS, _IMAGE = 64, 28
_Work = Callable[[], object]


def kernel_costs(device: str) -> KernelCosts | None:
    """Return what kernels cost on a processor; None of another device."""
    if torch.device(device).type != "cpu":
        return None
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return KernelCosts(
                page_bytes=mmap.PAGESIZE,
                autograd_seconds=_or_why(lambda: _autograd_seconds(torch.enable_grad())),
                no_grad_seconds=_or_why(lambda: _autograd_seconds(torch.no_grad())),
                int8_call_seconds=_or_why(_int8_call_seconds),
                int8_speedup=_or_why(lambda: _int8(_ROWS, _LARGE, 1).ratio),
                depthwise_speedup=_or_why(lambda: _layouts(_CHANNELS)),
                convolution_speedup=_or_why(lambda: _layouts(1)),
            )
    finally:
        torch.set_num_threads(threads)


class _Compared:
    """Seconds of two pieces of work, of each round."""

    def __init__(self, before: _Work, after: _Work) -> None:
        clock = WaitClock([threading.get_native_id()])
        try:
            rounds = [timed_in_turn([before, after], clock, SECONDS) for _ in range(ROUNDS)]
        finally:
            clock.close()
        self.rounds = [(one.seconds, other.seconds) for one, other in rounds]

    @property
    def ratio(self) -> float:
        """How many times as fast the second one is."""
        return median(one / other for one, other in self.rounds)

    @property
    def difference(self) -> float:
        """What the second one takes longer."""
        return median(other - one for one, other in self.rounds)


def _autograd_seconds(mode: torch.enable_grad | torch.no_grad) -> float:
    with mode:
        recorded = torch.ones(1, requires_grad=True)

        def run() -> None:
            relu = torch.relu
            for _ in range(_CALLS):
                relu(recorded)

        def infer() -> None:
            with torch.inference_mode():
                run()

        return max(_Compared(infer, run).difference / _CALLS, 0.0)


def _int8(rows: int, width: int, calls: int) -> _Compared:
    generator = torch.Generator().manual_seed(0)
    values, weights = (torch.rand(size, width, generator=generator) for size in (rows, width))
    narrow = torch.quantize_per_tensor(weights, 1 / 127, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(narrow, None)
    linear, dynamic = torch.nn.functional.linear, torch.ops.quantized.linear_dynamic

    def wide() -> None:
        for _ in range(calls):
            linear(values, weights)

    def quantised() -> None:
        for _ in range(calls):
            dynamic(values, packed)

    return _Compared(wide, quantised)


def _int8_call_seconds() -> float:
    return max(_int8(1, _SMALL, _CALLS).difference / _CALLS, 0.0)


def _layouts(groups: int) -> float:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(1, _CHANNELS, _IMAGE, _IMAGE, generator=generator)
    weights = torch.rand(_CHANNELS, _CHANNELS // groups, 3, 3, generator=generator)
    last = torch.channels_last
    images, kernels = image.to(memory_format=last), weights.to(memory_format=last)
    return _Compared(
        lambda: torch.conv2d(image, weights, padding=1, groups=groups),
        lambda: torch.conv2d(images, kernels, padding=1, groups=groups),
    ).ratio


def _or_why(measure: Callable[[], float]) -> Figure:
    try:
        return measure()
    except (RuntimeError, NotImplementedError, AttributeError, OSError) as error:
        return Unknown(str(error).partition("\n")[0] or type(error).__name__)

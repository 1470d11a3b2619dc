"""Figures of another counter, to cross-check those of tui-profiler."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import OnWire, Part, Unknown

Counter: TypeAlias = Literal["flop_counter", "fvcore", "measured"]
"""``torch.utils.flop_counter``, fvcore, or what a real forward allocates."""

Count: TypeAlias = int | Unknown


class Counted(Part, frozen=True):
    """One kind of operator in one forward, as a counter saw it."""

    name: str
    """In the counter's own words: ``aten.addmm``, ``aten::layer_norm``."""
    calls: int | None = None
    """None where the counter does not report it."""
    amount: int = 0
    """What it counted for all calls, in the unit that the field above it names."""


class SecondOpinion(OnWire, frozen=True):
    """Figures of one counter for one forward, in the units of tui-profiler."""

    counter: Counter
    version: str
    """Of the counter: ``torch 2.15.0``, ``fvcore 0.1.5``; empty where it is not installed."""
    seconds: float
    """Duration of counting, without loading the model."""
    error: str = ""
    """What it raised, in one line: then it has no figures."""
    parameters: Count = Unknown("it does not count them")
    macs: Count = Unknown("it does not count them")
    """Multiply-accumulates, converted from what it counts."""
    flops: Count = Unknown("it does not count them")
    """As it counts them, where two are one multiply-accumulate."""
    peak_bytes: Count = Unknown("it does not measure memory")
    """Parameters, buffers, inputs, activations and workspace at the peak."""
    operators: tuple[Counted, ...] = ()
    """Those with multiply-accumulates; the amounts add up to ``macs``."""
    others: tuple[Counted, ...] = ()
    """Those that it counts although they are no multiply-accumulates; not in ``macs``."""
    skipped: tuple[Counted, ...] = ()
    """Those that it counts 0 for."""

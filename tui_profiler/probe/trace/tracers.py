"""Which ways of tracing there are, and in which order they are tried."""

from __future__ import annotations

from tui_profiler.probe.trace.graphs.export import exported_non_strict, exported_strict
from tui_profiler.probe.trace.graphs.fx import symbolic
from tui_profiler.probe.trace.graphs.traced_programs import Way, own_forward

TRACERS = ("auto", "dispatch", "fx", "export")
"""What can be asked for; ``auto`` is ``dispatch``, which loses to no model."""

DISPATCH_FAKE = Way("dispatch:fake", "", own_forward, makes_graph=False)
DISPATCH_REAL = Way("dispatch:real", "", own_forward, makes_graph=False)
_DISPATCH_META = Way("dispatch:meta", "", own_forward, makes_graph=False)
_FX = Way("fx", "", symbolic, makes_graph=True)
_NON_STRICT = Way("export", "non-strict", exported_non_strict, makes_graph=True)
_STRICT = Way("export", "strict", exported_strict, makes_graph=True)


def ways(tracer: str, is_on_meta: bool) -> tuple[Way, ...]:
    """Give the ways of one tracer, the first to try first.

    Args:
        tracer: one of ``TRACERS``.
        is_on_meta: the model has no values: it cannot be run for real.
    """
    match tracer:
        case "fx":
            return (_FX,)
        case "export":
            return _NON_STRICT, _STRICT
        case _:
            return (_DISPATCH_META,) if is_on_meta else (DISPATCH_FAKE, DISPATCH_REAL)

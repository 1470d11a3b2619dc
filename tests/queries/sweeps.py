"""Sweeps whose every figure is known by a law."""

from __future__ import annotations

from collections.abc import Mapping

from tests.small_model import FACTS
from tui_profiler.messages import Environment, Unknown
from tui_profiler.queries.sweep import Axis, NodeFigures, Sweep, Visit

BATCHES = (1, 2, 4, 8, 16)
AT = {batch: place for place, batch in enumerate(BATCHES)}
ENVIRONMENT = Environment("3.11.7", "2.15.0+cpu", "", "", "Some CPU", 2, 2, 2**33)


def swept(
    *,
    fixed: float = 1e-3,
    each: float = 1e-4,
    failed: Mapping[int, str] = {},
    rounds: int = 2,
    reached: int = len(BATCHES),
) -> Sweep:
    """Return a sweep of batches in which a forward takes ``fixed + each * batch`` seconds.

    Its one layer takes ``each * batch``, 100 FLOPs an item, and moves 4 bytes of weights and 8 an
    item; the root is the same with ``fixed`` beside.
    """
    visits = []
    for turn in range(rounds):
        for batch in BATCHES[:reached]:
            place = AT[batch]
            if place in failed:
                if turn == 0:
                    visits.append(Visit(place, turn, failed[place], "--batch 1: less"))
                continue
            visits.append(_visit(place, turn, batch, fixed, each))
    return Sweep(
        "net.py:build",
        (Axis("batch", BATCHES),),
        rounds,
        4.0,
        True,
        tuple(visits),
        FACTS,
        ENVIRONMENT,
    )


def _visit(place: int, turn: int, batch: int, fixed: float, each: float) -> Visit:
    # The rounds lie 2 % apart: what is measured is never equal twice.
    seconds = (fixed + each * batch) * (1.01 if turn % 2 else 0.99)
    layer = each * batch * (1.01 if turn % 2 else 0.99)
    return Visit(
        place=place,
        round=turn,
        took_seconds=6.0,
        latency_p50=seconds,
        latency_p95=seconds * 1.2,
        items_per_second=batch / seconds,
        forwards=100,
        paper_bytes=1000.0 * batch,
        process_bytes=2.0**29,
        allocator_bytes=Unknown("torch keeps no running total of its CPU allocator"),
        joules=Unknown("RAPL counters need root"),
        items=batch,
        inputs=FACTS.inputs,
        nodes=(
            NodeFigures("", "module", "Net", 100 * batch, 4 + 8 * batch, seconds),
            NodeFigures("fc", "module", "Linear", 100 * batch, 4 + 8 * batch, layer),
            NodeFigures("fc/0", "op", "aten.addmm.default", 100 * batch, 4 + 8 * batch, None),
        ),
    )

"""``bf16-autocast`` and ``fp16-autocast``: matrix products in half the bits.

What a roof explains of a product's time shrinks by what the roofs say; the rest of its time stays
(Amdahl's law). Autocast converts the weights anew in every forward, which costs a copy.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.affected_operators import (
    compute_roof,
    in_dtype,
    matrix_parts,
    memory_roof,
    moved,
    roof_seconds,
)
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, forward, share_of, slowest_first
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.queries.time.modes import is_training
from tui_profiler.session import Session, Tree

_WIDE = "float32"
_NARROW_BYTES = 2
_WIDE_BYTES = 4
_SHORT = {"bfloat16": "bf16", "float16": "f16"}
_SCALE = " Small gradients become 0 in float16: scale the loss (torch.amp.GradScaler)."


class _Saved(Struct, frozen=True):
    nodes: tuple[int, ...]
    before: float
    """Seconds that the roofs explain, of products in 32 bits."""
    after: float
    """Of the same in 16."""
    casts: float
    """Seconds of converting weights."""


@check("bf16-autocast", holds_in="both")
def bf16_autocast(session: Session) -> Finding | None:
    """Find products in float32 that bfloat16 would speed up on this machine."""
    return _autocast(session, "bfloat16", "bf16-autocast")


@check("fp16-autocast", holds_in="both")
def fp16_autocast(session: Session) -> Finding | None:
    """Find products in float32 that float16 would speed up on this machine."""
    return _autocast(session, "float16", "fp16-autocast")


def _autocast(
    session: Session, dtype: str, kind: Literal["bf16-autocast", "fp16-autocast"]
) -> Finding | None:
    tree, ceilings = session.tree, session.ceilings
    wide, narrow = compute_roof(ceilings, _WIDE), compute_roof(ceilings, dtype)
    memory, whole = memory_roof(ceilings), forward(session)
    if tree is None or isinstance(whole, Unknown) or not (wide and narrow and memory):
        return None
    saved = _saved(session, tree, (wide, narrow, memory))
    seconds = saved.before - saved.after - saved.casts
    share = share_of(seconds, whole.whole)
    if not saved.nodes or share < LEAST_SHARE:
        return None
    formula = (
        f"the roofs explain {duration(saved.before)} of {whole.whole_text} in f32 and"
        f" {duration(saved.after)} in {dtype}; converting weights takes {duration(saved.casts)}"
    )
    return Finding(
        kind=kind,
        title=f"{_SHORT[dtype]} autocast ({len(saved.nodes):,} matmul/conv layers)",
        why=(
            f"This machine has higher matmul throughput in {dtype}, and it halves memory traffic."
            " Autocast keeps the weights in float32 and casts them; outputs lose precision."
            + (_SCALE * (dtype == "float16" and is_training(session)))
        ),
        nodes=slowest_first(session, saved.nodes),
        evidence=(
            Evidence(f"{dtype} vs float32 matmul throughput", narrow / wide, "times", "measured"),
            Evidence("explained by the roofs, per forward", saved.before, "s", "derived"),
            Evidence("converting weights, per forward", saved.casts, "s", "estimated"),
        ),
        gains=(Gain("time", share, formula, "estimated"), *_memory(tree)),
        trial=kind,
    )


def _saved(session: Session, tree: Tree, roofs: tuple[float, float, float]) -> _Saved:
    wide, narrow, memory = roofs
    nodes, before, after, casts = [], 0.0, 0.0, 0.0
    for part in matrix_parts(session, tree):
        costs = [tree.costs[node] for node in in_dtype(tree, part.operators, _WIDE)]
        now = sum(roof_seconds(cost.flops, moved(cost), wide, memory) for cost in costs)
        then = sum(roof_seconds(cost.flops, moved(cost) / 2, narrow, memory) for cost in costs)
        if now <= 0:
            continue
        explained = now if part.seconds is None else min(now, part.seconds)
        nodes.append(part.node)
        before += explained
        after += explained * then / now
        weights = sum(cost.weight_bytes for cost in costs)
        casts += weights * (1 + _NARROW_BYTES / _WIDE_BYTES) / memory
    return _Saved(tuple(nodes), before, after, casts)


def _memory(tree: Tree) -> tuple[Gain, ...]:
    """Return what half as large activations save beyond the copies of the weights."""
    if tree.done is None:
        return ()
    peak = tree.done.peak_memory
    activations, weights = known(peak.activations), known(peak.parameters)
    whole = known(peak_bytes(peak))
    if activations is None or weights is None or not whole:
        return ()
    saved = activations / 2 - weights * _NARROW_BYTES / _WIDE_BYTES
    if saved <= 0:
        return ()
    formula = "half of the activations, less the copies of the weights"
    return (Gain("memory", share_of(saved, whole), formula, "estimated"),)

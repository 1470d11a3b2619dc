"""``bf16-autocast`` and ``fp16-autocast``: matmuls and convolutions in half the bits.

The part of a layer's time that the roofs explain shrinks as the roofs say; the rest stays (Amdahl's
law). Autocast casts the weights in every forward, which costs a copy. Where training steps were
recorded, the gain is that of a step: a layer's backward has twice the arithmetic and the traffic of
its forward, for the gradients of its input and of its weight, and the weight's is cast back.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.affected_operators import (
    compute_roof,
    in_dtype,
    matrix_parts,
    memory_roof,
    roof_seconds,
)
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.memory import peak_of
from tui_profiler.findings.evidence.time_share import (
    TimeSpent,
    forward,
    ranged,
    share_of,
    slowest_first,
)
from tui_profiler.findings.evidence.training_step import (
    of_step,
    share_of_step,
    step_seconds,
    usable_step,
    why_no_step,
)
from tui_profiler.messages import Cost, TrainingStep, Unknown, known
from tui_profiler.queries.cost.bound import bytes_moved, own_dependence
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.queries.time.modes import is_training, runs_own_steps
from tui_profiler.queries.training import step_quantities
from tui_profiler.session import Session, Tree
from tui_profiler.session.training import StepColumns

_WIDE = "float32"
_BACKWARD = 2
"""Of the forward's arithmetic and traffic."""
_NARROW_BYTES = 2
_WIDE_BYTES = 4
_SHORT = {"bfloat16": "bf16", "float16": "fp16"}
_SCALE = " Small gradients become 0 in float16: scale the loss (torch.amp.GradScaler)."


class _Saved(Struct, frozen=True):
    nodes: tuple[int, ...]
    layers: float
    """Seconds in these layers, of which the roofs explain ``before``."""
    shrunk: float
    """Seconds in these layers where all of their time shrinks as the roofs do."""
    before: float
    """Seconds that the roofs explain, in float32."""
    after: float
    """The same in 16 bits."""
    casts: float
    """Seconds of casting the weights."""
    activations: float
    """Seconds of casting inputs and outputs, where no neighbour is in 16 bits."""
    seconds: float
    """Of a step, in these layers, forward and backward: measured; 0 of a forward."""
    is_bound: bool
    """The work of some layers is an upper bound: it depends on the data."""


@check(
    "bf16-autocast",
    holds_in="both",
    reads=(quantities.TREE, quantities.COMPUTE_ROOF, quantities.MEMORY_ROOF),
    uses=(*quantities.TIME_OF_NODES, quantities.PEAK, *step_quantities.STEP),
)
def bf16_autocast(session: Session) -> Finding | Unknown | None:
    """Find float32 matmuls that run faster in bfloat16 on this machine."""
    return _autocast(session, "bfloat16", "bf16-autocast")


@check(
    "fp16-autocast",
    holds_in="both",
    reads=(quantities.TREE, quantities.COMPUTE_ROOF, quantities.MEMORY_ROOF),
    uses=(*quantities.TIME_OF_NODES, quantities.PEAK, *step_quantities.STEP),
)
def fp16_autocast(session: Session) -> Finding | Unknown | None:
    """Find float32 matmuls that run faster in float16 on this machine."""
    return _autocast(session, "float16", "fp16-autocast")


def _autocast(
    session: Session, dtype: str, kind: Literal["bf16-autocast", "fp16-autocast"]
) -> Finding | Unknown | None:
    tree, ceilings = session.tree, session.ceilings
    wide, narrow = compute_roof(ceilings, _WIDE), compute_roof(ceilings, dtype)
    memory, whole = memory_roof(ceilings), forward(session)
    if tree is None or ceilings is None or not memory:
        return None
    if not wide or not narrow:
        return Unknown(usable_roofs(ceilings).sentence(dtype if wide else _WIDE))
    step = usable_step(session)
    if step is not None and session.training is not None and is_training(session):
        saved = _saved(session, tree, session.training, (wide, narrow, memory))
        return _of_step(session, step, saved, dtype, kind, narrow / wide)
    if runs_own_steps(session):  # Its trial is of a step.
        return Unknown(f"its trial is of a training step: {why_no_step(session)}")
    if isinstance(whole, Unknown):
        return whole
    saved = _saved(session, tree, None, (wide, narrow, memory))
    gain = _gain(saved, whole)
    if not saved.nodes or gain.may_lose or gain.most <= 0:
        return None
    formula = (
        f"the roofs explain {duration(saved.before)} of {whole.whole_text} in f32 and"
        f" {duration(saved.after)} in {dtype}; casting weights takes {duration(saved.casts)}"
    )
    return Finding(
        kind=kind,
        title=f"{_SHORT[dtype]} autocast ({len(saved.nodes):,} matmul/conv layers)",
        why=_why(dtype, is_training=is_training(session)),
        nodes=slowest_first(session, saved.nodes),
        evidence=(
            Evidence(f"{dtype} vs float32 matmul throughput", narrow / wide, "times", "measured"),
            Evidence("time explained by the roofs, per forward", saved.before, "s", "derived"),
            Evidence("casting weights, per forward", saved.casts, "s", "estimated"),
        ),
        gains=(replace(gain, formula=formula), *_memory(tree)),
    )


def _gain(saved: _Saved, whole: TimeSpent) -> Gain:
    """Return the gain where what the roofs explain shrinks, at most all of the layers' time."""
    likely = saved.before - saved.after - saved.casts
    high = max(saved.layers - saved.shrunk - saved.casts, likely)
    seconds = (likely - saved.activations, (likely + high) / 2, high)
    return ranged(whole, seconds, "", is_bound=saved.is_bound)


def _why(dtype: str, *, is_training: bool) -> str:
    return (
        f"This machine has higher matmul throughput in {dtype}, and it halves memory traffic."
        " Autocast keeps the weights in float32 and casts them; outputs lose precision."
        + (_SCALE * (dtype == "float16" and is_training))
    )


def _of_step(
    session: Session,
    step: TrainingStep,
    saved: _Saved,
    dtype: str,
    kind: Literal["bf16-autocast", "fp16-autocast"],
    faster: float,
) -> Finding | None:
    gain = _gain(saved, TimeSpent(saved.seconds, step_seconds(step), True))
    if not saved.nodes or gain.may_lose or gain.most <= 0:
        return None
    is_own, whole = runs_own_steps(session), duration(step_seconds(step))
    formula = (
        f"of {duration(saved.seconds)} in these layers, of {whole} per step, the roofs explain"
        f" {duration(saved.before)} in f32 and {duration(saved.after)} in {dtype}; casts take"
        f" {duration(saved.casts)}"
    )
    return Finding(
        kind=kind,
        title=f"{_SHORT[dtype]} autocast ({len(saved.nodes):,} matmul/conv layers)",
        why=_why(dtype, is_training=True),
        nodes=slowest_first(session, saved.nodes),
        evidence=(
            Evidence(f"{dtype} vs float32 matmul throughput", faster, "times", "measured"),
            *of_step(step, saved.seconds, "these layers, forward and backward"),
            Evidence(
                "their share of the step",
                share_of_step(step, saved.seconds),
                "share",
                "measured",
            ),
            Evidence("casting weights and their gradients", saved.casts, "s", "estimated"),
        ),
        gains=(replace(gain, formula=formula),),
        why_no_trial="" if is_own else "a trial does not run the program's steps",
        is_of_step=True,
    )


def _by_roofs(
    costs: Sequence[Cost], wide: float, narrow: float, memory: float
) -> tuple[float, float]:
    """Return the minimum seconds of one forward in float32, and in 16 bits."""
    return (
        sum(roof_seconds(cost.flops, bytes_moved(cost), wide, memory) for cost in costs),
        sum(roof_seconds(cost.flops, bytes_moved(cost) / 2, narrow, memory) for cost in costs),
    )


def _saved(
    session: Session, tree: Tree, training: StepColumns | None, roofs: tuple[float, float, float]
) -> _Saved:
    """Return what the layers would save of a forward; of a training step, where it is given.

    Of a step only the layers count whose forward and backward were measured.
    """
    wide, narrow, memory = roofs
    nodes, before, after, casts, seconds = [], 0.0, 0.0, 0.0, 0.0
    layers = shrunk = activations = 0.0
    copies = 1.0 if training is None else 2 * training.step.passes
    for part in matrix_parts(session, tree):
        costs = [tree.costs[node] for node in in_dtype(tree, part.operators, _WIDE)]
        now, then = _by_roofs(costs, wide, narrow, memory)
        if now <= 0:
            continue
        if training is None:
            took = now if part.seconds is None else part.seconds
            explained = min(now, took)
        elif (times := training.of(part.node)) is not None:
            explained = min(now * training.step.passes, times.forward)
            explained += min(_BACKWARD * now * training.step.passes, times.backward)
            took = times.forward + times.backward
            seconds += took
        else:
            continue
        nodes.append(part.node)
        before += explained
        after += explained * then / now
        layers += took
        shrunk += took * min(then / now, 1.0)
        weights = sum(cost.weight_bytes for cost in costs)
        moved = sum(cost.input_bytes + cost.output_bytes for cost in costs)
        activations += copies * moved * (1 + _NARROW_BYTES / _WIDE_BYTES) / memory
        casts += copies * weights * (1 + _NARROW_BYTES / _WIDE_BYTES) / memory
    is_bound = any(own_dependence(tree, node) == "at most" for node in nodes)
    return _Saved(
        tuple(nodes), layers, shrunk, before, after, casts, activations, seconds, is_bound
    )


def _memory(tree: Tree) -> tuple[Gain, ...]:
    """Return the gain of activations half as large, less the copies of the weights."""
    if tree.done is None:
        return ()
    peak = tree.done.peak_memory
    activations, weights = known(peak.activations), known(peak.parameters)
    whole = peak_of(tree)
    if activations is None or weights is None or not whole:
        return ()
    saved = activations / 2 - weights * _NARROW_BYTES / _WIDE_BYTES
    if saved <= 0:
        return ()
    formula = "half of the activations, less 16-bit copies of the weights"
    return (Gain("memory", share_of(saved, whole), formula, "estimated"),)

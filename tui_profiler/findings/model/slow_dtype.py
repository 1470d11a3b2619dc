"""``slow-dtype``: matmuls and convolutions in a dtype that is slower than float32 on this machine.

float64 has at most half of the rate of float32, and a processor without instructions for bfloat16
or float16 computes them many times slower. Both roofs are measured.

1. At least: the part of the time that the roof of the dtype explains shrinks to that of float32.
2. At most: in float32 the layers reach their roof, and need no casts.
"""

from collections.abc import Iterator

from msgspec import Struct

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.affected_operators import (
    ROOF_DOUBT,
    Part,
    compute_roof,
    in_dtype,
    matrix_parts,
    memory_roof,
    roof_seconds,
)
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.findings.evidence.training_step import of_step, step_seconds, usable_step
from tui_profiler.messages import Ceilings, TrainingStep, Unknown
from tui_profiler.queries.cost.bound import bytes_moved
from tui_profiler.queries.cost.breakdown import OpType, op_type
from tui_profiler.queries.time.modes import is_training
from tui_profiler.queries.training import step_quantities
from tui_profiler.session import Session, Tree

_WIDE = "float32"
_WIDE_BYTES = 4
_BYTES = {"float64": 8, "bfloat16": 2, "float16": 2}
_CASTS = frozenset({"aten::_to_copy", "aten::to"})
_BACKWARD = 2
"""Of the forward's arithmetic and traffic."""
_NAMES: dict[OpType, str] = {
    "Conv1d": "convolution",
    "Conv2d": "convolution",
    "Conv3d": "convolution",
    "Linear": "linear layer",
    "matmul": "matmul",
    "attention": "attention",
    "transformer layer": "transformer layer",
    "recurrent": "recurrent layer",
}


class _Slow(Struct, frozen=True):
    """A leaf with operators in a slow dtype; seconds of a forward, or of a step."""

    node: int
    operators: tuple[int, ...]
    dtype: str
    seconds: float
    now: float
    """Of ``seconds``, what the roofs explain."""
    then: float
    """The same work at the roofs of float32."""


@check(
    "slow-dtype",
    holds_in="both",
    reads=(quantities.TREE, quantities.COMPUTE_ROOF, quantities.MEMORY_ROOF),
    uses=(
        quantities.TIMES,
        quantities.OPERATORS,
        quantities.OPERATOR_ROOF,
        *step_quantities.STEP,
    ),
)
def slow_dtype(session: Session) -> Finding | None:
    """Find matmuls and convolutions in a dtype that is slower than float32 here."""
    tree, whole = session.tree, time_share.forward(session)
    if tree is None or isinstance(whole, Unknown):
        return None
    step = usable_step(session) if is_training(session) else None
    slow = _slow_parts(session, tree, step)
    if not slow:
        return None
    seconds = step_seconds(step) if step is not None else whole.whole
    low = sum(max(one.now - one.then, 0.0) for one in slow)
    high = sum(max(one.seconds - one.then / ROOF_DOUBT, 0.0) for one in slow)
    likely = sum(one.seconds * max(1 - one.then / one.now, 0.0) for one in slow)
    high += _casts_seconds(session, tree, {one.dtype for one in slow})
    total = whole if step is None else time_share.TimeSpent(0.0, seconds, True)
    first = max(slow, key=lambda one: one.seconds)
    spent = sum(one.seconds for one in slow)
    formula = (
        f"these layers take {duration(spent)} of {duration(seconds)}, of which the roofs explain"
        f" {duration(sum(one.now for one in slow))}; in {_WIDE} they allow"
        f" {duration(sum(one.then for one in slow))}"
    )
    dtypes = sorted({one.dtype for one in slow})
    return Finding(
        kind="slow-dtype",
        title=_title(tree, slow, first),
        why=(
            f"{' and '.join(dtypes)} {'is' if len(dtypes) == 1 else 'are'} slower than {_WIDE} on"
            f" this machine: convert these layers and their inputs to {_WIDE}. Outputs change in"
            " precision."
        ),
        nodes=tuple(one.node for one in sorted(slow, key=lambda one: -one.seconds)),
        evidence=(
            *(
                Evidence(f"{_WIDE} vs {dtype}, measured roofs", times, "times", "measured")
                for dtype in dtypes
                if (times := _times(session.ceilings, dtype)) is not None
            ),
            Evidence("layers in a slow dtype", float(len(slow)), "count", "derived"),
            *(of_step(step, spent, "in these layers, forward and backward") if step else ()),
        ),
        gains=(time_share.ranged(total, (low, likely, high), formula),),
        why_no_trial="only the model's author knows whether the dtype is needed",
        is_of_step=step is not None,
    )


def _casts_seconds(session: Session, tree: Tree, dtypes: set[str]) -> float:
    """Return the seconds of casts to or from these dtypes, which may not be needed then."""
    casts = [
        index
        for index, node in enumerate(tree.nodes)
        if node.kind == "op"
        and node.name in _CASTS
        and not dtypes.isdisjoint(one.dtype for one in (*node.inputs[:1], *node.outputs[:1]))
    ]
    spent = time_share.spent(session, casts)
    return 0.0 if isinstance(spent, Unknown) or not spent.is_measured else spent.seconds


def slow_operators(session: Session, tree: Tree) -> frozenset[int]:
    """Return the operators in a dtype that is slower than float32 here."""
    return frozenset(node for _, operators, _ in _slow_leaves(session, tree) for node in operators)


def _slow_leaves(session: Session, tree: Tree) -> Iterator[tuple[Part, tuple[int, ...], str]]:
    """Yield leaves, their operators in a slow dtype, and the dtype."""
    dtypes = [one for one in _BYTES if (_times(session.ceilings, one) or 0.0) > 1.0]
    for part in matrix_parts(session, tree) if dtypes else ():
        for dtype in dtypes:
            operators = in_dtype(tree, part.operators, dtype)
            if operators:
                yield part, operators, dtype


def _slow_parts(session: Session, tree: Tree, step: TrainingStep | None) -> list[_Slow]:
    ceilings, training = session.ceilings, session.training
    memory, wide = memory_roof(ceilings), compute_roof(ceilings, _WIDE)
    found: list[_Slow] = []
    if memory is None or wide is None:
        return found
    for part, operators, dtype in _slow_leaves(session, tree):
        roof = compute_roof(ceilings, dtype)
        assert roof is not None
        costs = [tree.costs[each] for each in operators]
        now = sum(roof_seconds(one.flops, bytes_moved(one), roof, memory) for one in costs)
        size = _WIDE_BYTES / _BYTES[dtype]
        then = sum(roof_seconds(one.flops, bytes_moved(one) * size, wide, memory) for one in costs)
        took = now if part.seconds is None else part.seconds
        if step is not None:
            times = training.of(part.node) if training is not None else None
            if times is None:
                continue
            took, passes = times.forward + times.backward, (1 + _BACKWARD) * step.passes
            now, then = now * passes, then * passes
        if now > then:
            found.append(_Slow(part.node, operators, dtype, took, min(now, took), min(then, took)))
    return found


def _times(ceilings: Ceilings | None, dtype: str) -> float | None:
    wide, narrow = compute_roof(ceilings, _WIDE), compute_roof(ceilings, dtype)
    return wide / narrow if wide and narrow else None


def _title(tree: Tree, slow: list[_Slow], first: _Slow) -> str:
    """Return ``float64 convolution in precise (net.py:60)``; of several layers how many."""
    name = _NAMES[op_type(tree.nodes[first.operators[0]])]
    node, operator = tree.nodes[first.node], tree.nodes[first.operators[0]]
    source = operator.source or node.source
    module = node if node.kind == "module" else tree.nodes[node.parent]
    where = f" in {module.path}" if module.path else ""
    at = f" ({source})" if source else ""
    if len(slow) == 1:
        return f"{first.dtype} {name}{where}{at}"
    return f"{first.dtype} in {counted(len(slow), 'layer')}, most time{where}{at}"

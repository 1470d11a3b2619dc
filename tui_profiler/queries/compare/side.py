"""One side of a comparison: the compared figures of a session, a recording or a report.

1. A side is plain figures, whatever their source.
2. Costs are computed once per tree; times are looked up node by node.
3. Nodes are in preorder. A side without nodes has a reason.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import hypot, sqrt
from statistics import median, stdev
from typing import TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import dtype, shape
from tui_profiler.messages import Figure, InputSpec, Tick, Unknown
from tui_profiler.messages.model import Kind
from tui_profiler.queries.cost import bound, exactness
from tui_profiler.queries.cost.energy import forward_energy
from tui_profiler.queries.cost.totals import counted_rate, peak_bytes, why_no_times
from tui_profiler.queries.time.standard_error import (
    LEAST_BLOCKS,
    MEDIAN_ERROR,
    WholeRun,
    call_error,
)
from tui_profiler.queries.training import step_costs
from tui_profiler.queries.training.step import PARTS, why_no_step
from tui_profiler.session import Bounded, Session, Tree

NOT_TRACED = "not traced"
NOTHING_MOVED = "no bytes moved"
RATE_SECONDS = 5.0
"""Window of a throughput (``Tick.per_second``)."""

OfNode: TypeAlias = Callable[[int], float | None]
"""Returns a figure of a node by its index."""


def _none(node: int) -> None:
    return None


class SideNode(Struct, frozen=True, gc=False):
    """A node with its costs; None where a figure is not known."""

    parent: int
    """Index of the parent; -1 for the root."""
    kind: Kind
    name: str
    path: str
    type: str
    calls: int | None
    shape: tuple[int, ...] | None
    """Of its first output."""
    parameters: int
    macs: int | None
    flops: int | None
    memory: int | None
    """Bytes moved by its operators."""
    bounded: Bounded | None = None
    """Whether its costs depend on the data."""
    uncosted: int = 0
    """Operators in it without a formula."""


class SideTree(Struct, frozen=True, eq=False):
    """The nodes of a side, in preorder; compared by identity."""

    nodes: tuple[SideNode, ...]


class Side(Struct, frozen=True, eq=False):
    """One of two compared models."""

    label: str
    """As typed."""
    settings: tuple[tuple[str, str], ...] = ()
    """Facts and settings by name; not safe yet."""
    totals: Mapping[str, Figure] = {}
    """By path in the JSON report; seconds, bytes, counts."""
    readings: Mapping[str, exactness.Reading] = {}
    """Of those that are not exact, by the same paths."""
    tree: SideTree | None = None
    why_no_tree: str = NOT_TRACED
    """Empty where there is one."""
    is_timed: bool = False
    """Whether it has measured times."""
    seconds: OfNode = _none
    """Seconds of a forward in a node, over the whole run."""
    own_seconds: OfNode = _none
    """Self time of a module."""
    error: OfNode = _none
    """Standard error of these."""
    statistic: str = ""
    """Which times: ``mean of 12 segments``, ``p50 of 214 forwards``."""
    total_errors: Mapping[str, float] = {}
    """Standard errors of measured totals, by path."""


def side_of(label: str, session: Session) -> Side:
    """Return the side of a session."""
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        return Side(label, _settings(session))
    run = WholeRun(session)
    measured, errors = _measured_totals(session, run)
    return Side(
        label=label,
        settings=_settings(session),
        totals={**_totals(session, tree), **measured},
        readings=total_readings(
            tree.bounded.get(0),
            is_at_least=bound.is_at_least(tree.costs[0]),
            is_backward_at_least=_lacks_backward_formulas(session),
        ),
        tree=_side_tree(tree),
        why_no_tree="",
        is_timed=session.timings is not None,
        seconds=run.seconds,
        own_seconds=run.own_seconds,
        error=run.error,
        statistic=run.statistic,
        total_errors=errors,
    )


@lru_cache(maxsize=4)
def _side_tree(tree: Tree) -> SideTree:
    has_forward = tree.has_forward
    nodes = (
        SideNode(
            node.parent,
            node.kind,
            node.name,
            node.path,
            node.type,
            node.calls if has_forward else None,
            node.outputs[0].shape if node.outputs else None,
            cost.parameters,
            bound.known_macs(cost) if has_forward else None,
            bound.known_flops(cost) if has_forward else None,
            bound.known_bytes(cost) if has_forward else None,
            tree.bounded.get(index),
            cost.uncosted,
        )
        for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True))
    )
    return SideTree(tuple(nodes))


def _totals(session: Session, tree: Tree) -> dict[str, Figure]:
    assert tree.done is not None
    cost, peak = tree.costs[0], tree.done.peak_memory
    is_counted = bound.known_flops(cost) is not None
    no_ratio = NOTHING_MOVED if is_counted else bound.why_not_counted(tree)
    found: dict[str, Figure] = {
        "total_parameters": cost.parameters,
        "total_parameter_bytes": cost.parameter_bytes,
        "total_macs": _or_unknown(bound.known_macs(cost), bound.why_not_counted(tree)),
        "total_flops": _or_unknown(bound.known_flops(cost), bound.why_not_counted(tree)),
        "total_memory": _or_unknown(bound.known_bytes(cost), bound.why_not_counted(tree)),
        "arithmetic_intensity": _or_unknown(bound.intensity(cost), no_ratio),
        "coverage.ops": cost.ops,
        "peak_memory.activations": peak.activations,
        "peak_memory.total": peak_bytes(peak),
    }
    if session.training_cost is not None:
        found |= _of_training(session)
    found |= _of_step(session)
    if not tree.has_forward:
        reason = Unknown(why_no_times(session))
        kept = ("total_parameters", "total_parameter_bytes")
        found = {name: value if name in kept else reason for name, value in found.items()}
    return found


def total_readings(
    bounded: Bounded | None, *, is_at_least: bool, is_backward_at_least: bool
) -> dict[str, exactness.Reading]:
    """Return how the totals that are not exact are to be read, by path in the JSON report.

    Args:
        bounded: how the forward depends on the data.
        is_at_least: its FLOPs lack operators without a formula.
        is_backward_at_least: and so do those of its backward.
    """
    count = exactness.of_count(bounded)
    found: dict[str, exactness.Reading] = dict.fromkeys(_COUNTED, count)
    found["total_flops"] = exactness.of_flops(bounded, is_at_least=is_at_least)
    found["arithmetic_intensity"] = exactness.of_intensity(bounded, is_at_least=is_at_least)
    found["train.backward_flops"] = exactness.of_flops(bounded, is_at_least=is_backward_at_least)
    return {path: reading for path, reading in found.items() if reading}


_COUNTED = (
    "total_macs",
    "total_memory",
    "coverage.ops",
    "peak_memory.activations",
    "peak_memory.total",
    "train.memory.saved_activations",
    "train.memory.peak",
)
"""Paths of totals that depend on the data where the forward does, and on nothing else."""


def _lacks_backward_formulas(session: Session) -> bool:
    cost = session.training_cost
    return cost is not None and cost.cost.backward.uncosted > 0


def _of_training(session: Session) -> dict[str, Figure]:
    """Return the figures of a training step."""
    assert session.training_cost is not None
    cost, memory = session.training_cost.cost, session.training_memory
    why = Unknown(cost.why) if cost.why else None
    return {
        "train.backward_flops": why or cost.backward.flops,
        "train.memory.saved_activations": step_costs.NOT_RECORDED
        if memory is None
        else memory.memory.saved,
        "train.memory.peak": step_costs.peak_bytes(session),
        "train.step_s": step_costs.step_seconds(session),
        "train.mfu": step_costs.utilisation(session).mfu,
    }


def _of_step(session: Session) -> dict[str, Figure]:
    """Return the mean seconds of a measured step, and of its parts."""
    names = {name: f"step.parts.{name}.mean_s" for name in PARTS}
    if session.training is None:
        why = Unknown(why_no_step(session))
        return dict.fromkeys(("step.mean_s", "step.p50_s", *names.values()), why)
    step = session.training.step
    parts: dict[str, Figure] = {
        path: step.seconds if isinstance(step.seconds, Unknown) else getattr(step.parts, name)
        for name, path in names.items()
    }
    return {"step.mean_s": step.seconds, "step.p50_s": step.p50, **parts}


def _measured_totals(session: Session, run: WholeRun) -> tuple[dict[str, Figure], dict[str, float]]:
    """Return the measured totals, and their standard errors where known.

    Percentiles are medians over windows that do not overlap: of the whole run, as the times of
    nodes are. The last window of a fast model is only its last turn.
    """
    energy, rate = forward_energy(session), counted_rate(session)
    found: dict[str, Figure] = {"throughput.per_s": rate}
    found["energy.forward.joules"] = energy if isinstance(energy, Unknown) else energy.joules
    windows = _windows(session)
    if not windows:
        reason = Unknown(why_no_times(session))
        return {**found, "latency.p50_s": reason, "latency.p95_s": reason}, {}
    p50s, p95s = [one.latency_p50 for one in windows], [one.latency_p95 for one in windows]
    p50, p95 = median(p50s), median(p95s)
    errors: dict[str, float] = {}
    found |= {"latency.p50_s": p50, "latency.p95_s": p95}
    # Drift from segment to segment does not show in the spread of single calls.
    seconds, error = run.seconds(0), run.error(0)
    drift = error / seconds if error is not None and seconds else None
    calls = sum(min(one.forwards, one.window) for one in windows)
    of_calls = call_error(p50, p95, calls)
    if of_calls is not None:
        errors["latency.p50_s"] = max(of_calls, p50 * (drift or 0.0))
    if len(windows) >= LEAST_BLOCKS:
        errors["latency.p95_s"] = MEDIAN_ERROR * stdev(p95s) / sqrt(len(windows))
    if drift is not None and not isinstance(rate, Unknown):
        part = min(RATE_SECONDS / (windows[0].forwards * p50), 1.0) if p50 else 1.0
        errors["throughput.per_s"] = rate * drift / sqrt(part)
    if drift is not None and not isinstance(energy, Unknown):
        errors["energy.forward.joules"] = energy.joules * hypot(1 / energy.steps, drift)
    return found, errors


def _windows(session: Session) -> list[Tick]:
    """Return the ticks whose last forwards do not overlap, newest first."""
    found: list[Tick] = []
    for one in (session.tick, *(timed.tick for timed in reversed(session.history.ticks))):
        if one is None or (
            found and (one.cold, one.as_traced) != (found[0].cold, found[0].as_traced)
        ):
            continue
        if not found or 0 < one.forwards <= found[-1].forwards - found[-1].window:
            found.append(one)
    return found


def _or_unknown(value: float | None, reason: str) -> Figure:
    return Unknown(reason) if value is None else value


def _settings(session: Session) -> tuple[tuple[str, str], ...]:
    """Return the facts that could explain a difference."""
    model, machine, tree = session.model, session.environment, session.tree
    found: list[tuple[str, str]] = []
    if model is not None:
        found = [
            ("model", model.name),
            ("class", model.type),
            ("weights", model.weights),
            ("inputs", inputs_text(model.inputs)),
            ("batch", "" if model.batch is None else str(model.batch)),
            ("device", model.device),
            ("mode", "train" if model.training else "eval"),
        ]
    if tree is not None:
        found.append(("traced by", tree.method))
    if machine is not None:
        found += [
            ("threads", str(machine.threads)),
            ("torch", machine.torch),
            ("processor", machine.cpu),
        ]
    return tuple(found)


def inputs_text(inputs: tuple[InputSpec, ...]) -> str:
    """Return all inputs in one line."""
    return ", ".join(f"{shape(one.shape)} {dtype(one.dtype)}" for one in inputs)

"""One side of a comparison: what is compared of a session, or of a report that was written of one.

1. A side is plain figures: whether they came from a session, a recording or a file makes no
   difference to what is done with them.
2. What it costs on paper is made once for each tree; its times are asked for node by node.
3. Nodes lie in preorder, as in a tree. A side without nodes says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import dtype, shape
from tui_profiler.messages import Figure, InputSpec, Unknown
from tui_profiler.messages.model import Kind
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.totals import counted_rate, peak_bytes, why_no_times
from tui_profiler.queries.time.standard_error import WholeRun
from tui_profiler.session import Session, Tree

NOT_TRACED = "it was not traced"
NOTHING_MOVED = "no bytes moved"


OfNode: TypeAlias = Callable[[int], float | None]
"""Returns a figure of a node by its index; asked for those alone that are looked at."""


def _none(node: int) -> None:
    return None


class SideNode(Struct, frozen=True, gc=False):
    """A node with what it costs on paper; None where there is no such figure."""

    parent: int
    """Index of the parent; -1 for the root."""
    kind: Kind
    name: str
    path: str
    type: str
    calls: int | None
    shape: tuple[int, ...] | None
    """Of its first output, every axis."""
    parameters: int
    macs: int | None
    flops: int | None
    memory: int | None
    """Bytes moved by its operators."""


class SideTree(Struct, frozen=True, eq=False):
    """The nodes of a side; compared by identity, as a tree is."""

    nodes: tuple[SideNode, ...]
    """In preorder."""


class Side(Struct, frozen=True, eq=False):
    """One of the two that are compared."""

    label: str
    """As typed."""
    settings: tuple[tuple[str, str], ...] = ()
    """What it is and how it is run, by name; not safe yet."""
    totals: Mapping[str, Figure] = {}
    """By the path of the figure in the JSON report; seconds, bytes, counts."""
    tree: SideTree | None = None
    why_no_tree: str = NOT_TRACED
    """Empty where there is one."""
    is_timed: bool = False
    """Whether anything was measured."""
    seconds: OfNode = _none
    """Seconds of a forward in a node, over the whole run."""
    own_seconds: OfNode = _none
    """The same without modules called inside, of modules."""
    error: OfNode = _none
    """Standard error of these, where it is known."""
    statistic: str = ""
    """What they are: ``median of 12 stretches``, ``p50 of 214 forwards``; empty without any."""


def side_of(label: str, session: Session) -> Side:
    """Return the side that a session is, as far as it is known now."""
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        return Side(label, _settings(session))
    run = WholeRun(session)
    return Side(
        label=label,
        settings=_settings(session),
        totals=_totals(session, tree),
        tree=_side_tree(tree),
        why_no_tree="",
        is_timed=session.timings is not None,
        seconds=run.seconds,
        own_seconds=run.own_seconds,
        error=run.error,
        statistic=run.statistic,
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
        )
        for node, cost in zip(tree.nodes, tree.costs, strict=True)
    )
    return SideTree(tuple(nodes))


def _totals(session: Session, tree: Tree) -> dict[str, Figure]:
    assert tree.done is not None
    cost, peak = tree.costs[0], tree.done.peak_memory
    found: dict[str, Figure] = {
        "total_parameters": cost.parameters,
        "total_parameter_bytes": cost.parameter_bytes,
        "total_macs": _or_unknown(bound.known_macs(cost), bound.why_not_counted(tree)),
        "total_flops": _or_unknown(bound.known_flops(cost), bound.why_not_counted(tree)),
        "total_memory": _or_unknown(bound.known_bytes(cost), bound.why_not_counted(tree)),
        "arithmetic_intensity": _or_unknown(bound.intensity(cost), NOTHING_MOVED),
        "coverage.ops": cost.ops,
        "peak_memory.activations": peak.activations,
        "peak_memory.total": peak_bytes(peak),
    }
    if not tree.has_forward:
        reason = Unknown(why_no_times(session))
        kept = ("total_parameters", "total_parameter_bytes")
        found = {name: value if name in kept else reason for name, value in found.items()}
    tick, reason = session.tick, Unknown(why_no_times(session))
    found["latency.p50_s"] = reason if tick is None else tick.latency_p50
    found["latency.p95_s"] = reason if tick is None else tick.latency_p95
    found["throughput.per_s"] = counted_rate(session)
    return found


def _or_unknown(value: float | None, reason: str) -> Figure:
    return Unknown(reason) if value is None else value


def _settings(session: Session) -> tuple[tuple[str, str], ...]:
    """Return what could explain a difference."""
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

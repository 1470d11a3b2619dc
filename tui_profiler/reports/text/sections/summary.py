"""Executive summary: the figures that one would put on a slide, and what follows from them."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE, duration, share, size
from tui_profiler.figures.units import intensity as intensity_text
from tui_profiler.messages import NO_FORWARD, Unknown
from tui_profiler.queries.cost.bound import bytes_moved, intensity
from tui_profiler.queries.cost.breakdown import architecture_of
from tui_profiler.queries.cost.totals import (
    Column,
    known_peak_bytes,
    peak_bytes,
    throughput,
    top_modules,
)
from tui_profiler.queries.time.node_seconds import part_of, root_seconds
from tui_profiler.reports.conclusions import told_on_paper, wants
from tui_profiler.reports.document import Part, Section
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree


def summary(session: Session, tree: Tree) -> Section:
    """Return the model, what it costs, what it takes where it was run, and what holds it back."""
    model = session.model
    named = f"{model.type} from {model.source}, {model.weights} weights" if model else "unknown"
    parts: tuple[Part, ...] = (
        figure_text.facts(
            ("model", named),
            ("architecture", f"{architecture_of(tree)} by its FLOPs" * tree.has_forward),
            ("parameters", figure_text.parameters(tree)),
            ("trainable", figure_text.trained(tree)),
            *_costs(tree),
            *_times(session),
            ("most expensive", _most_expensive(session, tree)),
            ("conclusion", wants(session)),
            ("on paper", told_on_paper(session)),
            ("not complete", _stopped(session)),
        ),
    )
    measured = root_seconds(session) is not None
    says = "measured and on paper" if measured else "on paper" if tree.has_forward else "as stored"
    return Section("executive summary", says, parts)


def _costs(tree: Tree) -> list[tuple[str, str]]:
    if not tree.has_forward:
        return [("work", f"{UNAVAILABLE} ({NO_FORWARD})")]
    cost = tree.costs[0]
    ratio = intensity(cost)
    per_byte = UNAVAILABLE if ratio is None else f"{intensity_text(ratio)} FLOP/B"
    return [
        ("work", f"{figure_text.work(tree)} per forward"),
        ("bytes moved", f"{size(bytes_moved(cost))} per forward, {per_byte}"),
        ("peak memory", _peak(tree)),
    ]


def _peak(tree: Tree) -> str:
    if tree.done is None:
        return ""
    peak = tree.done.peak_memory
    least = "at least " if isinstance(peak_bytes(peak), Unknown) else ""
    return f"{least}{size(known_peak_bytes(peak))}, predicted"


def _times(session: Session) -> list[tuple[str, str]]:
    tick = session.tick
    if tick is None:
        return []
    return [
        ("latency", f"{duration(tick.latency_p50)} (p50), {duration(tick.latency_p95)} (p95)"),
        ("throughput", throughput(session)),
    ]


def _most_expensive(session: Session, tree: Tree) -> str:
    """Name the module that takes the most by itself: of the time, the FLOPs or the parameters."""
    whole = root_seconds(session)
    paper: Column = "flops" if tree.has_forward else "parameters"
    found = top_modules(session, "seconds" if whole else paper, 1)
    if not found:
        return ""
    node = found[0]
    if whole:
        own = session.timings.own_per_forward(node) if session.timings is not None else None
        part, of = part_of(own, whole) or 0.0, "the time"
    else:
        part = _own(tree, node, paper) / getattr(tree.costs[0], paper)
        of = "the FLOPs" if tree.has_forward else "the parameters"
    name, kind = tree.nodes[node].path or "the model itself", tree.nodes[node].type
    named = f"{name} ({kind})" if kind else name
    return f"{named}: {share(part)} of {of}, self time"


def _own(tree: Tree, node: int, column: Column) -> int:
    inside = [child for child in tree.children(node) if tree.nodes[child].kind == "module"]
    of_inside = sum(getattr(tree.costs[child], column) for child in inside)
    return int(getattr(tree.costs[node], column) - of_inside)


def _stopped(session: Session) -> str:
    failure = session.failure
    return "" if failure is None else f"stopped early. {failure.stage}: {failure.what}"

"""Executive summary: the figures that one would put on a slide, and what follows from them."""

from tui_profiler.figures.units import UNAVAILABLE, duration, share
from tui_profiler.findings.evidence.memory import has_items
from tui_profiler.formatting.text import safe
from tui_profiler.messages import NO_FORWARD
from tui_profiler.queries.cost import bound, totals
from tui_profiler.queries.cost.bound_classes import CLASSES, KINDS
from tui_profiler.queries.cost.breakdown import architecture_of
from tui_profiler.queries.cost.ceilings import MEMORY
from tui_profiler.queries.panel import out_of_memory
from tui_profiler.queries.panel.provenance import bound_provenance
from tui_profiler.queries.time.base import base, own_share
from tui_profiler.queries.time.node_seconds import root_seconds
from tui_profiler.reports.document import Part, Section
from tui_profiler.reports.text.sections import figure_text, training
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import CONTENDED_FROM

_WANTS_WITHOUT_BATCH = "torch.compile helps most"


def summary(session: Session, tree: Tree) -> Section:
    """Return the model, its costs, its times if it was run, and the bottleneck."""
    model = session.model
    named = f"{model.type} from {model.source}, {model.weights} weights" if model else "unknown"
    parts: tuple[Part, ...] = (
        figure_text.facts(
            ("model", named),
            ("architecture", f"{architecture_of(tree)} by FLOPs" * tree.has_forward),
            ("parameters", figure_text.parameters(tree)),
            ("trainable", figure_text.trained(tree)),
            *_costs(tree),
            *_times(session),
            *training.step_facts(session),
            ("most expensive", _most_expensive(session, tree)),
            ("conclusion", wants(session)),
            ("on paper", modules_on_paper(session)),
            ("incomplete", _stopped(session)),
        ),
    )
    measured = root_seconds(session) is not None
    says = "measured and on paper" if measured else "on paper" if tree.has_forward else "as stored"
    return Section("executive summary", says, parts)


def wants(session: Session) -> str:
    """Return what limits the whole model and what that asks of hardware; empty where unknown."""
    found = bound.bound(session, 0) if session.tree is not None and len(session.tree) else None
    if found is None:
        return ""
    if found.measured:
        part = share(found.mix[KINDS.index(found.kind)])
        level = bound.memory_level(session)
        faster = "faster memory" if level == MEMORY else f"a faster {level} cache"
        asks = CLASSES[found.kind].wants.format(level=faster)
        if found.kind == "overhead" and not has_items(session):
            asks = _WANTS_WITHOUT_BATCH
        return f"{bound.phrase(found.kind)} overall, {part} of the time: {asks}{_contention(found)}"
    asks = CLASSES[found.kind].wants_on_paper
    return f"{bound.phrase(found.kind)} on paper, {found.reason.partition(':')[0]}: {asks}"


def _contention(found: bound.Bound) -> str:
    """Say how much of a forward waits for a core, where that is a state of the host to mend."""
    if found.waiting < CONTENDED_FROM:
        return ""
    return f"; host contended: forwards wait for a core {share(found.waiting)} of the time"


def modules_on_paper(session: Session) -> str:
    """Return how many modules' classes are on paper in spite of times, and why; empty for none."""
    return safe(bound_provenance(session)) if bound.not_decided_modules(session)[0] else ""


def _costs(tree: Tree) -> list[tuple[str, str]]:
    if not tree.has_forward:
        return [("work", f"{UNAVAILABLE} ({NO_FORWARD})")]
    per_byte = figure_text.per_byte(tree)
    return [
        ("work", f"{figure_text.work(tree)} per forward"),
        ("bytes moved", f"{figure_text.bytes_of(tree)} per forward, {per_byte}"),
        ("peak memory", _peak(tree)),
    ]


def _peak(tree: Tree) -> str:
    if tree.done is None:
        return ""
    return f"{figure_text.peak_size(tree, tree.done.peak_memory)}, predicted"


def _times(session: Session) -> list[tuple[str, str]]:
    tick = session.tick
    if tick is None:
        return []
    return [
        (
            "latency",
            f"{duration(tick.latency_p50)} (p50), {duration(tick.latency_p95)} (p95)"
            f"{' on the GPU' if session.is_timed_on_gpu else ''}",
        ),
        ("throughput", totals.throughput(session)),
    ]


def _most_expensive(session: Session, tree: Tree) -> str:
    """Name the module with the largest self share of the time, the FLOPs or the parameters."""
    whole = root_seconds(session)
    paper: totals.Column = "flops" if tree.has_forward else "parameters"
    found = totals.top_modules(session, "seconds" if whole else paper, 1)
    if not found:
        return ""
    node = found[0]
    if whole:
        whole_of = base(session)
        of = "the time" if whole_of.name == "forward" else whole_of.words.removeprefix("of ")
        part = own_share(session, node) or 0.0
    else:
        part = _own(tree, node, paper) / getattr(tree.costs[0], paper)
        of = "the FLOPs" if tree.has_forward else "the parameters"
    name, kind = tree.nodes[node].path or "the model itself", tree.nodes[node].type
    named = f"{name} ({kind})" if kind else name
    return f"{named}: {share(part)} of {of}, self time"


def _own(tree: Tree, node: int, column: totals.Column) -> int:
    of_inside = sum(getattr(tree.costs[child], column) for child in tree.modules_in(node))
    return int(getattr(tree.costs[node], column) - of_inside)


def _stopped(session: Session) -> str:
    failure, found = session.failure, out_of_memory.uncaught(session)
    if found is not None:
        where = " ".join(filter(None, out_of_memory.where(session, found)))
        return f"stopped early. {out_of_memory.what(session, found)}" + f", in {where}" * bool(
            where
        )
    return "" if failure is None else f"stopped early. {failure.stage}: {failure.what}"

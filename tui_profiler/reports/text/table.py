"""A session as text for reading: summary, bottlenecks, layers; plain lines without colour.

1. No line is wider than ``columns`` cells, and none holds anything but safe text.
2. Names are cut first; figures never: what has a label goes on in further lines.
3. What was measured and what is on paper stand under headings that say which.
"""

from __future__ import annotations

from tui_profiler.figures.units import (
    UNAVAILABLE,
    count,
    dtype,
    duration,
    intensity,
    quantity,
    shape,
    size,
    thousands,
)
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Failed, ModelFacts, PeakMemory, RealCost, TraceDone, Unknown
from tui_profiler.queries.cost.bound import KINDS, is_counted, why_not_counted
from tui_profiler.queries.cost.breakdown import architecture_of, bound_shares, breakdown
from tui_profiler.queries.cost.totals import (
    Totals,
    has_ended,
    known_peak_bytes,
    throughput,
    totals,
    was_run,
    why_no_times,
)
from tui_profiler.queries.panel.phrases import overhead_words
from tui_profiler.queries.time.forward_kinds import (
    HOW_TO_CHOOSE,
    children_words,
    forwards_words,
    models_words,
)
from tui_profiler.queries.time.modes import mode_words
from tui_profiler.reports.conclusions import told_on_paper, wants
from tui_profiler.reports.text import table_file
from tui_profiler.reports.text.layer_lines import layer_lines
from tui_profiler.reports.text.table_machine import energy_lines, machine_lines
from tui_profiler.reports.text.table_paper import alive_lines, intensity_lines, layer_type_lines
from tui_profiler.reports.text.table_parameters import parameter_lines
from tui_profiler.reports.text.table_phases import phase_lines
from tui_profiler.reports.text_parts import field, figure, folded, heading, in_cells
from tui_profiler.session import Session, Tree

LEAST_COLUMNS = 76
"""A narrower terminal wraps the lines: better than losing figures."""


def table(session: Session, *, columns: int, top: int | None = None) -> tuple[str, ...]:
    """Give the report as lines.

    Args:
        session: as it was left.
        columns: cells of the widest line; at least 76 are taken.
        top: show only the layers that cost most by themselves, by time or else by FLOPs.
    """
    cells = max(columns, LEAST_COLUMNS)
    tree = session.tree
    found = totals(tree) if tree is not None else None
    if tree is None or found is None or tree.done is None:
        return ("the model was not traced: there is nothing to report",)
    if not tree.has_forward:
        lines = [
            *_identity(session.model),
            *table_file.summary(session.file, tree),
            *table_file.part_lines(tree, cells, top),
            *parameter_lines(session, cells, top),
            *_stopped(session.failure, cells),
        ]
        return tuple(part for line in lines for part in folded(line, cells))
    lines = [
        *_identity(session.model),
        *_others(session),
        *table_file.file_lines(session.file),
        *_summary(found, tree, tree.done, session.real),
        *phase_lines(session),
        *_measured(session),
        *_types(tree, cells),
        *layer_type_lines(tree, cells),
        *intensity_lines(tree, cells),
        *_bounds(session, cells),
        *layer_lines(session, tree, cells, top),
        *parameter_lines(session, cells, top),
        *_uncosted(tree.done, cells),
        *_stopped(session.failure, cells),
    ]
    return tuple(part for line in lines for part in folded(line, cells))


def _identity(model: ModelFacts | None) -> list[str]:
    if model is None:
        return ["unknown model"]
    inputs = [
        f"{safe(part.name)} {shape(part.shape)} {dtype(safe(part.dtype))} ({safe(part.why)})"
        for part in model.inputs
    ]
    return [
        f"{safe(model.name)}  {safe(model.type)}  from {safe(model.source)}",
        field("weights", safe(model.weights)),
        field("device", safe(model.device)),
        *(field("input" if first else "", text) for text, first in _with_first(inputs)),
        *_published(model),
    ]


def _others(session: Session) -> list[str]:
    words, children = models_words(session), children_words(session)
    return [
        *([field("other models", f"{words}; {HOW_TO_CHOOSE}")] if words else []),
        *(field("children", said) for said in children[:1]),
    ]


def _published(model: ModelFacts) -> list[str]:
    """Give what torchvision says of the same model, for its own input size and one item."""
    parts = []
    if model.published_parameters is not None:
        parts.append(f"{thousands(model.published_parameters)} parameters")
    if model.published_gmacs is not None:
        parts.append(f"{model.published_gmacs:.3f} GMAC an item")
    return [field("published", ", ".join(parts))] if parts else []


def _with_first(items: list[str]) -> list[tuple[str, bool]]:
    return [(item, index == 0) for index, item in enumerate(items)]


def _summary(found: Totals, tree: Tree, done: TraceDone, real: RealCost | None) -> list[str]:
    at_least = "at least " if found.uncosted else ""
    bounded = {"at most": "at most ", "about": "about ", None: ""}[tree.bounded.get(0)]
    seconds = sum(attempt.seconds for attempt in done.attempts)
    moved = (
        f"{size(found.memory_bytes)}: inputs {size(found.input_bytes)}, "
        f"weights {size(found.weight_bytes)}, outputs {size(found.output_bytes)}"
    )
    macs, flops = quantity(found.macs, "MAC"), quantity(found.flops, "FLOP")
    work = f"{bounded}{macs}  {at_least or bounded}{flops}"
    if not found.is_counted:
        work = f"{UNAVAILABLE} {why_not_counted(tree)}"
        moved = work
    ratio = UNAVAILABLE if found.intensity is None else f"{intensity(found.intensity)} FLOP/B"
    return [
        "",
        heading("on paper", "one forward; a multiply-add is one MAC and two FLOP"),
        field("parameters", f"{thousands(found.parameters)}  {size(found.parameter_bytes)}"),
        field("work", work),
        *_real_run(real),
        field("bytes moved", moved),
        field("intensity", ratio),
        *_peak(done.peak_memory),
        *alive_lines(tree, done.peak_memory),
        field("operators", f"{thousands(found.ops)}, {thousands(found.uncosted)} not costed"),
        field("traced by", f"{tree.method}, {duration(seconds)}"),
        *(
            field("", f"{attempt.method} failed: {safe(attempt.error)}")
            for attempt in done.attempts
            if attempt.error
        ),
    ]


def _real_run(real: RealCost | None) -> list[str]:
    if real is None:
        return []
    if real.cost is None:
        return [field("", f"a real run failed: {safe(real.why)}")]
    macs, flops = quantity(real.cost.macs, "MAC"), quantity(real.cost.flops, "FLOP")
    return [field("", f"{macs}  {flops} in one real run on these inputs")]


def _peak(peak: PeakMemory) -> list[str]:
    parts = (
        ("parameters", peak.parameters),
        ("buffers", peak.buffers),
        ("activations", peak.activations),
        ("workspace", peak.workspace),
        *((("kv cache", peak.kv_cache),) if peak.kv_cache is not None else ()),
    )
    named = [f"{name} {size(part)}" for name, part in parts if not isinstance(part, Unknown)]
    why = [f"{name} {figure(part, size)}" for name, part in parts if isinstance(part, Unknown)]
    at_least = "at least " if why else ""
    whole = f"{at_least}{size(known_peak_bytes(peak))}: {', '.join(named)}"
    return [
        field("peak memory", whole),
        *(field("", reason) for reason in why),
        field("", "predicted from the lifetimes of tensors"),
    ]


def _measured(session: Session) -> list[str]:
    tick = session.tick
    why = why_no_times(session)
    if tick is None or why:
        nothing = ["", heading("measured", "nothing"), f"{UNAVAILABLE} {why}"]
        return nothing if was_run(session) or has_ended(session) else []
    latency = f"p50 {duration(tick.latency_p50)}  p95 {duration(tick.latency_p95)}"
    counted = thousands(tick.forwards)
    if not tick.cold:
        counted += f", and {thousands(tick.warmup_forwards)} to warm up"
    return [
        "",
        heading("measured", "on this machine"),
        *(field("of", words) for words in forwards_words(session)[:1]),
        *(field("" if at else "mode", words) for at, words in enumerate(mode_words(session))),
        field("latency", latency),
        field("throughput", throughput(session)),
        field("forwards", counted),
        field("profiling costs", overhead_words(session.overhead)),
        *machine_lines(session),
        *energy_lines(session),
    ]


def _types(tree: Tree, cells: int) -> list[str]:
    parts = breakdown(tree)
    named = f"{architecture_of(tree)} by its FLOPs"
    lines = [
        "",
        heading("operators by type", named),
        f"{'type':<20}{'count':>8}{'FLOP':>9}{'%':>6}",
    ]
    for part in parts:
        percent = UNAVAILABLE if part.share is None else f"{part.share * 100:.1f}"
        lines.append(f"{part.type:<20}{thousands(part.count):>8}{count(part.flops):>9}{percent:>6}")
    return [in_cells(line, cells) for line in lines]


def _bounds(session: Session, cells: int) -> list[str]:
    shares, tree = bound_shares(session), session.tree
    is_unseen = tree is not None and not is_counted(tree.costs[0])
    was_timed = any(part.time_share is not None for part in shares.values())
    says = "operators on paper, time against this machine" if was_timed else "on paper, by FLOP/B"
    lines = ["", heading("bottlenecks", says), f"{'class':<20}{'count':>8}{'%FLOP':>9}{'%time':>8}"]
    for kind in KINDS:
        part = shares[kind]
        ops = UNAVAILABLE if part.ops is None or is_unseen else thousands(part.ops)
        lines.append(
            f"{kind:<20}{ops:>8}{_percent(part.flops_share):>9}{_percent(part.time_share):>8}"
        )
    lines += [wants(session)] if wants(session) else []
    lines += [f"bounds: {told_on_paper(session)}"] if told_on_paper(session) else []
    return [in_cells(line, cells) for line in lines]


def _percent(value: float | None) -> str:
    return UNAVAILABLE if value is None else f"{value * 100:.1f}"


def _uncosted(done: TraceDone, cells: int) -> list[str]:
    lines: list[str] = []
    if done.uncosted:
        lines += ["", heading("not costed", "no formula: FLOP above are a lower bound")]
        lines += [in_cells(safe(name), cells) for name in done.uncosted]
    if done.bounded:
        lines += ["", heading("upper bounds", "outputs whose size depends on the data")]
        lines += [in_cells(safe(name), cells) for name in done.bounded]
    return lines


def _stopped(failure: Failed | None, cells: int) -> list[str]:
    if failure is None:
        return []
    what = f"{safe(failure.stage)}: {safe(failure.what)}"
    if failure.why:
        what = f"{what}: {safe(failure.why)}"
    return [
        "",
        heading("stopped early", "what was known until then is above"),
        in_cells(what, cells),
    ]

"""The sections of the table: what of a model is worth a line, in a terminal of 76 cells.

Where the full report has the same part, it is the same one: operators, layers by class, bounds.
"""

from collections.abc import Callable

from tui_profiler import messages
from tui_profiler.figures import units
from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost import machine, totals
from tui_profiler.queries.cost.bound import bytes_moved, is_counted, known_macs, why_not_counted
from tui_profiler.queries.cost.breakdown import architecture_of, bound_shares
from tui_profiler.queries.cost.energy import (
    ForwardEnergy,
    PaperEnergy,
    energy_on_paper,
    forward_energy,
)
from tui_profiler.queries.hardware.gpu_facts import ecc_errors_text
from tui_profiler.queries.panel import out_of_memory
from tui_profiler.queries.parameters.rollup import rolled_up
from tui_profiler.queries.time.forward_kinds import HOW_TO_CHOOSE, children_words, models_words
from tui_profiler.queries.tree.depth import to_depth
from tui_profiler.reports.ceilings import ceilings_words
from tui_profiler.reports.document import Column, Facts, Grid, Note, Part, Section, names, short
from tui_profiler.reports.text.sections import figure_text, parameters
from tui_profiler.reports.text.sections.architecture import classes_grid
from tui_profiler.reports.text.sections.computation import bands_grid, types_grid
from tui_profiler.reports.text.sections.figure_text import figure, labelled, trained
from tui_profiler.reports.text.sections.generation import generation_sections
from tui_profiler.reports.text.sections.layers import layers_section
from tui_profiler.reports.text.sections.profile import bounds_grid, times
from tui_profiler.reports.text.sections.serving import serving_sections
from tui_profiler.reports.text.sections.step import step_sections
from tui_profiler.reports.text.sections.summary import modules_on_paper, wants
from tui_profiler.reports.text.sections.training import training_sections
from tui_profiler.session import Session, Tree
from tui_profiler.session.parameters import Parameters

_MOST_CLASSES = 12
_MOST_ALIVE = 3
_MOST_NAMES = 4

Rows = list[tuple[str, str]]


def short_sections(
    session: Session, tree: Tree, top: int | None, depth: int | None = None
) -> list[Section]:
    """Return the sections in their order; the first has no title.

    Args:
        session: As it was left.
        tree: Its tree, which is whole.
        top: Only the layers and tensors that cost most by themselves.
        depth: Or only layers at most so deep.
    """
    done = tree.done
    assert done is not None
    if not tree.has_forward:
        return [
            _identity(session.model),
            _stored(session.file, tree, done),
            _parts_of_file(tree, top, depth),
            *_parameters(session, top),
            *_stopped(session),
        ]
    return [
        _identity(session.model, (*_others(session), *_file(session.file))),
        _on_paper(session, tree, done),
        *_training(session, tree),
        *_measured(session),
        *step_sections(session, tree, top or _MOST_CLASSES),
        *generation_sections(session),
        *serving_sections(session),
        Section("operators by type", f"{architecture_of(tree)} by its FLOPs", (types_grid(tree),)),
        Section(
            "layers by class",
            "their own operators and parameters",
            (classes_grid(tree, _MOST_CLASSES),),
        ),
        Section("operators by intensity", "FLOP/byte, on paper", (bands_grid(tree),)),
        _bounds(session),
        layers_section(session, tree, top, depth),
        *_parameters(session, top),
        *_without_formula(done),
        *_stopped(session),
    ]


def _training(session: Session, tree: Tree) -> list[Section]:
    """Return the facts of a training step, without its tables."""
    return [
        Section(one.title, one.provenance, tuple(p for p in one.parts if not isinstance(p, Grid)))
        for one in training_sections(session, tree)
    ]


def _identity(model: messages.ModelFacts | None, more: tuple[tuple[str, str], ...] = ()) -> Section:
    if model is None:
        return Section("", "", (Note("unknown model"), Facts(more)))
    rows = (
        ("weights", model.weights),
        ("device", model.device),
        *labelled("input", figure_text.inputs(model.inputs)),
        *figure_text.no_batch(model),
        *figure_text.published(model),
        *more,
    )
    return Section("", "", (Note(f"{model.name}  {model.type}  from {model.source}"), Facts(rows)))


def _others(session: Session) -> Rows:
    words, children = models_words(session), children_words(session)
    return [
        *([("other models", f"{words}; {HOW_TO_CHOOSE}")] if words else []),
        *(("children", said) for said in children[:1]),
    ]


def _stored(file: messages.FileFacts | None, tree: Tree, done: messages.TraceDone) -> Section:
    """Return the size of parameters alone and what was found in their file."""
    buffers = done.peak_memory.buffers
    rows = [
        ("parameters", figure_text.parameters(tree, "  ")),
        *([] if isinstance(buffers, messages.Unknown) else [("buffers", units.size(buffers))]),
        ("work", f"{units.UNAVAILABLE} ({messages.NO_FORWARD})"),
        *_file(file),
    ]
    return Section("parameters only", "no forward pass: no work, no times", (Facts(tuple(rows)),))


def _file(file: messages.FileFacts | None) -> Rows:
    """Return the contents of the file; nothing where the model is not a file."""
    if file is None:
        return []
    harmless = [name for name in file.globals if name not in file.untrusted_globals]
    listed = [*file.untrusted_globals, *harmless]
    imports = ", ".join(listed[:_MOST_NAMES]) or "nothing"
    more = len(listed) - _MOST_NAMES
    rows = [
        ("file", f"{file.kind}, {units.thousands(file.tensors)} tensors, {units.size(file.bytes)}"),
        ("checksum", file.checksum),
        ("imports", f"{imports} and {more} more" if more > 0 else imports),
    ]
    rows += [("problem", said) for said in figure_text.problems(file)]
    return [*rows, ("to run it", file.hint)] if file.hint else rows


def _parts_of_file(tree: Tree, top: int | None, depth: int | None) -> Section:
    """Return the parameters of each part of the file, or of the largest ones."""
    chosen = list(to_depth(tree, depth))
    if top is not None:
        held = {
            at: sum(weight.bytes for weight in node.weights if not weight.is_buffer)
            for at, node in enumerate(tree.nodes)
        }
        chosen = sorted(chosen, key=lambda at: -held[at])[:top]
    nodes, costs, whole = tree.nodes, tree.costs, tree.costs[0].parameters
    grid = Grid(
        (
            names("part"),
            short(Column("parameters"), "params", 8),
            short(Column("bytes"), "bytes", 12),
            short(Column("%"), "%", 6),
        ),
        tuple(
            (
                nodes[at].name if top is None else nodes[at].path or nodes[at].name,
                units.count(costs[at].parameters),
                units.size(costs[at].parameter_bytes),
                units.share_cell(costs[at].parameters / whole) if whole else units.UNAVAILABLE,
            )
            for at in chosen
        ),
        depths=tuple(tree.depths[at] for at in chosen) if top is None else (0,) * len(chosen),
        asides=tuple(nodes[at].type for at in chosen),
    )
    told = "including submodules" if top is None else f"the {len(chosen)} largest"
    return Section("layers", told, (grid,))


def _on_paper(session: Session, tree: Tree, done: messages.TraceDone) -> Section:
    cost, unknown = tree.costs[0], f"{units.UNAVAILABLE} {why_not_counted(tree)}"
    seconds = sum(attempt.seconds for attempt in done.attempts)
    rows = (
        ("parameters", figure_text.parameters(tree, "  ")),
        ("trainable", trained(tree)),
        ("work", figure_text.work(tree, "  ")),
        *_real_run(session.real),
        ("bytes moved", figure_text.moved(tree) if is_counted(cost) else unknown),
        ("intensity", figure_text.per_byte(tree)),
        *_peak(tree, done.peak_memory),
        *_alive(tree, done.peak_memory),
        (
            "operators",
            f"{units.thousands(cost.ops)}, {units.thousands(cost.uncosted)} without a formula",
        ),
        ("traced by", f"{tree.method}, {units.duration(seconds)}"),
        *figure_text.failed_attempts(done),
        *labelled("phases", _phases(session)),
    )
    says_what = "one forward; a multiply-add is 1 MAC, 2 FLOP"
    return Section("on paper", says_what, (Facts(rows),))


def _real_run(real: messages.RealCost | None) -> Rows:
    if real is None:
        return []
    if real.cost is None:
        return [("", f"a real run failed: {real.why}")]
    macs, flops = units.quantity(real.cost.macs, "MAC"), units.quantity(real.cost.flops, "FLOP")
    return [("", f"{macs}  {flops} in one real run with these inputs")]


def _peak(tree: Tree, peak: messages.PeakMemory) -> Rows:
    parts = (
        ("parameters", peak.parameters),
        ("buffers", peak.buffers),
        ("activations", peak.activations),
        ("workspace", peak.workspace),
        *((("kv cache", peak.kv_cache),) if peak.kv_cache is not None else ()),
    )
    named = [
        f"{name} {units.size(part)}"
        for name, part in parts
        if not isinstance(part, messages.Unknown)
    ]
    why = [
        f"{name} {figure(part, units.size)}"
        for name, part in parts
        if isinstance(part, messages.Unknown)
    ]
    return [
        ("peak memory", f"{figure_text.peak_size(tree, peak)}: {', '.join(named)}"),
        *(("", reason) for reason in why),
        ("", "predicted from tensor lifetimes"),
    ]


def _alive(tree: Tree, peak: messages.PeakMemory) -> Rows:
    """Return the largest tensors alive at the peak, and what the prediction covers."""
    named = [
        f"{units.size(taken)} {tree.nodes[node].path if node >= 0 else 'the inputs'}"
        for node, taken in peak.alive[:_MOST_ALIVE]
    ]
    covered = figure_text.peak_covers(peak)
    return [*([("alive at peak", ", ".join(named))] if named else []), ("", covered)]


def _phases(session: Session) -> list[str]:
    """Return a line for each forward of a model that generates; none where it has only one."""
    lines = [_phase(tree) for tree in session.phases if len(tree)]
    if session.no_decode is not None:
        lines.append(f"decode unavailable: {session.no_decode.why}")
    return lines


def _phase(tree: Tree) -> str:
    cost = tree.costs[0]
    peak = totals.known_peak_bytes(tree.done.peak_memory) if tree.done is not None else 0.0
    macs = known_macs(cost)
    given = units.shape(tree.inputs[0].shape) if tree.inputs else ""
    parts = (
        f"{tree.phase} {given}".strip(),
        "MAC not counted" if macs is None else units.quantity(macs, "MAC"),
        f"{units.size(bytes_moved(cost))} moved",
        figure_text.per_byte(tree),
        f"peak {units.size(peak)}",
    )
    return "  ".join(parts)


def _measured(session: Session) -> list[Section]:
    tick = session.tick
    why = totals.why_no_times(session)
    if tick is None or why:
        nothing = Section("measured", "nothing", (Note(f"{units.UNAVAILABLE} {why}"),))
        return [nothing] if totals.was_run(session) or totals.has_ended(session) else []
    rows = (*times(session, tick, between="  "), *_machine(session), *_energy(session))
    return [Section("measured", "on this machine", (Facts(rows),))]


def _machine(session: Session) -> Rows:
    """Return how the model uses the machine: threads, memory, ceilings, caches, GPUs."""
    sample = session.sample
    roofs = ceilings_words(session.ceilings) if session.ceilings is not None else ()
    if sample is None:
        return labelled("roofline", roofs)
    used, peak = machine.parallel_efficiency(session), sample.process_peak_bytes
    threads = session.environment.threads if session.environment is not None else 0
    return [
        ("threads", _told(used, lambda v: f"{units.share(v)} of {threads} busy")),
        ("peak RSS", _told(peak, lambda v: f"{units.size(v)} of the process")),
        *labelled("roofline", roofs),
        ("cache misses", _misses(sample)),
        *labelled("temperature", _temperatures(sample)),
        *_allocators(sample),
        *_gpus(sample),
    ]


def _told(value: messages.Figure, written: Callable[[float], str]) -> str:
    return (
        f"{units.UNAVAILABLE} {value.reason}"
        if isinstance(value, messages.Unknown)
        else written(value)
    )


def _misses(sample: messages.Sample) -> str:
    loads = machine.last_level_miss_share(sample.counters)
    last = (
        "" if isinstance(loads, messages.Unknown) else f", {units.share(loads)} of last-level loads"
    )
    return _told(
        machine.miss_share(sample.counters), lambda v: f"{units.share(v)} of references{last}"
    )


def _temperatures(sample: messages.Sample) -> list[str]:
    found = () if isinstance(sample.temperatures, messages.Unknown) else sample.temperatures
    return [
        f"{one.name} {units.degrees(one.celsius)}"
        for one in found
        if not isinstance(one.celsius, messages.Unknown)
    ]


def _allocators(sample: messages.Sample) -> Rows:
    rows = []
    for one in () if isinstance(sample.allocators, messages.Unknown) else sample.allocators:
        if isinstance(one.allocated_bytes, messages.Unknown) or isinstance(
            one.reserved_bytes, messages.Unknown
        ):
            continue  # The CPU's has nothing to tell but the resident memory.
        split = machine.fragmentation(one)
        pieces = "" if isinstance(split, messages.Unknown) else f", {units.share(split)} fragmented"
        reserved = f"{units.size(one.reserved_bytes)} reserved"
        taken = f"{units.size(one.allocated_bytes)} allocated, {reserved}{pieces}"
        rows.append((one.device, taken))
    return rows


def _gpus(sample: messages.Sample) -> Rows:
    if isinstance(sample.gpus, messages.Unknown):
        return [("gpu", f"{units.UNAVAILABLE} {sample.gpus.reason}")]
    rows = []
    for gpu in sample.gpus:
        parts = [
            f"cuda:{gpu.cuda_index}" if gpu.cuda_index is not None else "",
            ""
            if isinstance(gpu.utilisation, messages.Unknown)
            else f"{units.share(gpu.utilisation)} busy",
            "" if isinstance(gpu.power_watts, messages.Unknown) else f"{gpu.power_watts:.0f} W",
            ""
            if isinstance(gpu.throttled_by, messages.Unknown) or not gpu.throttled_by
            else f"throttled by {gpu.throttled_by}",
            ecc_errors_text(errors)
            if (errors := messages.known(gpu.ecc.volatile_uncorrected))
            else "",
        ]
        rows.append(("gpu", f"{gpu.name}  {', '.join(filter(None, parts))}"))
    return rows


def _energy(session: Session) -> Rows:
    """Return the joules of a forward: measured, or why not and then on paper."""
    found = forward_energy(session)
    if not isinstance(found, messages.Unknown):
        return labelled("energy", _joules(found))
    rows = [("energy", f"{units.UNAVAILABLE} {found.reason}")]
    paper = energy_on_paper(session, 0)
    if isinstance(paper, PaperEnergy):
        low, high = units.rough_energy(paper.low), units.rough_energy(paper.high)
        rows.append(("", f"~{low} to ~{high} on paper, by {paper.source}"))
    return rows


def _joules(found: ForwardEnergy) -> list[str]:
    by = "from the counter" if found.source == "counter" else "from the integral of power"
    over = f"{units.three_digits(found.seconds)} s"
    lines = [f"{units.energy(found.joules)} per forward, {by} over {over}: {found.name}"]
    if isinstance(found.above_idle_joules, messages.Unknown) or isinstance(
        found.idle_watts, messages.Unknown
    ):
        why = found.idle_watts.reason if isinstance(found.idle_watts, messages.Unknown) else ""
        lines.append(f"{units.UNAVAILABLE} above idle: {why}")
    else:
        above = units.energy(max(found.above_idle_joules, 0.0))
        lines.append(f"{above} above idle ({units.three_digits(found.idle_watts)} W)")
    if not isinstance(found.flops_per_joule, messages.Unknown):
        lines.append(f"{units.quantity(found.flops_per_joule, 'FLOP')}/J")
    if not isinstance(found.grams, messages.Unknown):
        lines.append(f"{found.grams:.3g} g CO₂ {found.grid}")
    return lines


def _bounds(session: Session) -> Section:
    was_timed = any(part.time_share is not None for part in bound_shares(session).values())
    says_what = (
        "operators by FLOP/B, time against the roofline" if was_timed else "on paper, by FLOP/B"
    )
    told = modules_on_paper(session)
    notes = (wants(session), f"bounds: {told}" if told else "")
    parts: tuple[Part, ...] = (bounds_grid(session), *map(Note, filter(None, notes)))
    return Section("bottlenecks", says_what, parts)


def _parameters(session: Session, top: int | None) -> list[Section]:
    """Return what the values of parameters are like; nothing where nobody asked."""
    found = session.parameters
    if found is None:
        return []
    whole = rolled_up(session).get(0)
    rows = (
        *(parameters.whole_rows(whole) if whole is not None else ()),
        *parameters.reading_rows(found),
    )
    tensors = parameters.tensors_told(session, found, top)
    odd = tuple(Note(line) for line in map(_odd, tensors) if line)
    return [
        Section("parameter values", parameters.says(found), (Facts(rows),)),
        _tensors(found, tensors, top),
        *([Section("notable", "", odd)] if odd else []),
    ]


def _tensors(
    found: Parameters, tensors: list[messages.TensorStatistics], top: int | None
) -> Section:
    columns = (
        names("tensor"),
        *(short(Column(head), head, cells) for head, cells in parameters.HEADS),
    )
    grid = Grid(columns, tuple((one.name, *_cells(one)) for one in tensors))
    told = "all values"
    if top is not None:
        told = f"the {len(tensors)} largest of {units.thousands(len(found.tensors))} tensors"
    return Section("tensors", told, (grid, *map(Note, parameters.LEGEND)))


def _cells(one: messages.TensorStatistics) -> tuple[str, ...]:
    why = f"{units.UNAVAILABLE} {parameters.why_no_cells(one)}"
    return parameters.tensor_cells(one) or (parameters.type_cell(one.dtype), why)


def _odd(one: messages.TensorStatistics) -> str:
    """Return what is notable: values that are not finite, dead and near-duplicate channels."""
    told = []
    if one.moments is not None and one.moments.nans:
        told.append(f"{units.thousands(one.moments.nans)} NaN")
    if one.moments is not None and one.moments.infinities:
        told.append(f"{units.thousands(one.moments.infinities)} infinite")
    if one.channels is not None:
        rows = one.channels
        alike = messages.known(rows.near_duplicates)
        told += [f"{units.thousands(rows.dead)} of {units.thousands(rows.count)} channels dead"] * (
            rows.dead > 0
        )
        told += [f"{units.thousands(rows.outliers)} outlier channels"] * (rows.outliers > 0)
        if alike:
            told.append(f"{units.thousands(int(alike))} near-duplicate rows")
    return f"{one.name}: {', '.join(told)}" if told else ""


def _without_formula(done: messages.TraceDone) -> list[Section]:
    lists = (
        ("without a formula", "FLOP above are a lower bound", done.uncosted),
        ("depends on the data", "figures are at most (≤) or about (~)", done.bounded),
    )
    return [Section(title, why, tuple(map(Note, found))) for title, why, found in lists if found]


def _stopped(session: Session) -> list[Section]:
    failure, found = session.failure, session.out_of_memory
    sections = []
    if failure is not None:
        what = f"{failure.stage}: {failure.what}"
        if failure.why:
            what = f"{what}: {failure.why}"
        stopped = Section("stopped early", "results until then are above", (Note(what),))
        sections.append(stopped)
    if found is not None:
        sections.append(_out_of_memory(session, found))
    return sections


def _out_of_memory(session: Session, found: messages.OutOfMemory) -> Section:
    where = " ".join(filter(None, out_of_memory.where(session, found)))
    rows = (
        ("what", out_of_memory.what(session, found).removeprefix("out of memory: ")),
        ("where", where or out_of_memory.why_no_where(found)),
        ("line", safe(found.line)),
        ("", out_of_memory.alive_words(session, found)),
    )
    told = "the program ended with this error" if found.is_uncaught else "the program continued"
    facts = tuple((name, text) for name, text in rows if text)
    return Section("out of memory", told, (Facts(facts),))

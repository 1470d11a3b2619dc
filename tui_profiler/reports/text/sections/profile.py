"""Profile: times of a forward by layer, the use of the machine, and its energy.

Energy is either measured or estimated on paper, and labelled so.
"""

from collections import Counter
from functools import partial

from tui_profiler.figures import units
from tui_profiler.findings.evidence.attention import attention, words
from tui_profiler.messages import NO_FORWARD, Sample, Tick, Unknown
from tui_profiler.queries.cost.bound import Bound, bound, is_counted, kinds_seen
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.queries.cost.energy import (
    ForwardEnergy,
    PaperEnergy,
    energy_on_paper,
    forward_energy,
)
from tui_profiler.queries.cost.machine import miss_share, parallel_efficiency
from tui_profiler.queries.cost.totals import slowest_modules, throughput, was_run, why_no_times
from tui_profiler.queries.hardware.gpu_facts import gpu_facts
from tui_profiler.queries.panel.phrases import overhead_words
from tui_profiler.queries.panel.provenance import left_out_words
from tui_profiler.queries.time.base import base, base_seconds, own_base_seconds, own_share
from tui_profiler.queries.time.cores import thread_words
from tui_profiler.queries.time.forward_kinds import forwards_words
from tui_profiler.queries.time.gpu_times import gpu_words
from tui_profiler.queries.time.modes import mode_words
from tui_profiler.queries.time.slow_forwards import is_slow, slow_words
from tui_profiler.queries.time.standard_error import DOUBT, NOT_RANKED, why_doubtful
from tui_profiler.reports.ceilings import ceilings_words
from tui_profiler.reports.document import Column, Grid, Note, Part, Section, figures, names, short
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree

_MOST_ATTENTION = 4
"""Kinds of attention listed."""


def profile(session: Session, tree: Tree, top: int | None) -> Section:
    """Return times by layer and the use of the machine; without times, the classes on paper."""
    if not tree.has_forward:
        return Section("profile", "", figure_text.nothing(NO_FORWARD))
    tick, why = session.tick, why_no_times(session)
    if tick is None or why:
        parts: tuple[Part, ...] = (
            *figure_text.nothing(why or "no times"),
            bounds_grid(session),
        )
        return Section("profile", "on paper, by FLOP per byte", parts)
    parts = (
        figure_text.facts(*times(session, tick), *_stages(session), *_attention(session)),
        *_slowest(session, tree, top or figure_text.MOST_ROWS),
        bounds_grid(session),
        figure_text.facts(*_machine(session)),
    )
    return Section("profile", "measured on this machine", parts)


def _attention(session: Session) -> list[tuple[str, str]]:
    """Return how many modules ran which attention kernel."""
    counts = Counter(words(one) for one in attention(session).values())
    texts = [
        f"{said} ({units.thousands(count)} module{'s' * (count > 1)})"
        for said, count in counts.most_common(_MOST_ATTENTION)
    ]
    return figure_text.labelled("attention", texts)


def times(session: Session, tick: Tick, between: str = ", ") -> list[tuple[str, str]]:
    """Return latency, throughput and what measuring cost; ``between`` parts the figures."""
    counted = units.thousands(tick.forwards)
    if not tick.cold:
        counted += f", after {units.thousands(tick.warmup_forwards)} warm-up forwards"
    return [
        *(("times of", said) for said in forwards_words(session)[:1]),
        *(("" if at else "mode", said) for at, said in enumerate(mode_words(session))),
        (
            "latency",
            f"p50 {units.duration(tick.latency_p50)}{between}"
            f"p95 {units.duration(tick.latency_p95)}",
        ),
        *figure_text.labelled("left out", left_out_words(tick)),
        *figure_text.labelled("on the GPU", gpu_words(session)),
        ("throughput", throughput(session)),
        ("forwards", counted),
        *figure_text.labelled("thread", thread_words(session)),
        *figure_text.labelled("slowest", _slowest_forward(session)),
        ("overhead", overhead_words(session.overhead)),
    ]


def _slowest_forward(session: Session) -> list[str]:
    return [slow_words(session, one) for one in session.slow[:1] if is_slow(session, one)]


def _stages(session: Session) -> list[tuple[str, str]]:
    told = [
        f"{record.stage} {units.duration(record.seconds)}"
        for record in session.stages
        if record.seconds is not None
    ]
    return [("stages", ", ".join(told))]


def _slowest(session: Session, tree: Tree, most: int) -> tuple[Part, ...]:
    whole = base(session)
    times = units.fitted_times(base_seconds(session, 0) or 0.0)
    seconds = partial(units.in_column, column=times)
    rows, is_doubtful = [], False
    has_cpu_time = session.tick is not None and session.tick.cpu_forwards > 0
    for at in slowest_modules(session, most):
        timing = session.timings.of(at) if session.timings is not None else None
        if timing is None:
            continue
        found, own = bound(session, at), own_base_seconds(session, at)
        mark = DOUBT if why_doubtful(session, at) else ""
        is_doubtful = is_doubtful or bool(mark)
        rows.append(
            (
                tree.nodes[at].path or tree.nodes[at].name,
                tree.nodes[at].type,
                mark + units.written(own, seconds),
                units.written(base_seconds(session, at), seconds),
                figure_text.percent(own_share(session, at)),
                *([_cpu_cell(timing.own_cpu_per_forward, times)] if has_cpu_time else []),
                *(units.in_column(one, times) for one in (timing.p50, timing.p95)),
                _class(found),
            )
        )
    unit = times.unit
    own_columns = (
        *figures(f"self {unit}", f"total {unit}", "% self"),
        *(figures(f"cpu {unit}") if has_cpu_time else ()),
        *figures(f"call p50 {unit}", "p95"),
    )
    of = "" if whole.name == "forward" else f" {whole.words}"
    columns = (names(f"slowest by self time{of}"), names("class"), *own_columns, names("bound"))
    said: tuple[Part, ...] = (Note(NOT_RANKED),) if is_doubtful else ()
    return (Grid(columns, tuple(rows)), *said)


def _cpu_cell(seconds: float | None, times: units.TimeColumn) -> str:
    return units.UNAVAILABLE if seconds is None else units.in_column(seconds, times)


def _class(found: Bound | None) -> str:
    if found is None:
        return units.UNAVAILABLE
    return found.kind if found.measured else f"{found.kind}, on paper"


def bounds_grid(session: Session) -> Grid:
    """Return calls, FLOP and time by what bounds them."""
    shares, tree = bound_shares(session), session.tree
    is_unseen = tree is not None and not is_counted(tree.costs[0])
    rows = tuple(
        (
            kind,
            units.UNAVAILABLE
            if (ops := shares[kind].ops) is None or is_unseen
            else units.thousands(ops),
            figure_text.percent(shares[kind].flops_share),
            figure_text.percent(shares[kind].time_share),
        )
        for kind in kinds_seen(session)
    )
    columns = (
        short(names("class"), "class", 20),
        short(Column("calls"), "count", 8),
        short(Column("% FLOP"), "%FLOP", 9),
        short(Column("% time"), "%time", 8),
    )
    return Grid(columns, rows)


def _machine(session: Session) -> list[tuple[str, str]]:
    ceilings, sample = session.ceilings, session.sample
    rows: list[tuple[str, str]] = []
    if ceilings is not None:
        rows += figure_text.labelled("roofline", ceilings_words(ceilings))
    return rows if sample is None else [*rows, *_sample(session, sample)]


def _sample(session: Session, sample: Sample) -> list[tuple[str, str]]:
    rows = [
        (
            "threads",
            figure_text.figure(parallel_efficiency(session), lambda v: f"{units.share(v)} busy"),
        ),
        (
            "peak RSS",
            figure_text.figure(sample.process_peak_bytes, units.size),
        ),
        ("cache misses", figure_text.figure(miss_share(sample.counters), units.share)),
        ("package power", figure_text.figure(sample.package_watts, lambda v: f"{v:.1f} W")),
        *figure_text.labelled("temperature", _temperatures(sample)),
        *_heat(sample),
    ]
    if isinstance(sample.gpus, Unknown):
        return [*rows, ("gpu", f"{units.UNAVAILABLE} ({sample.gpus.reason})")]
    for gpu in sample.gpus:
        busy = figure_text.figure(gpu.utilisation, lambda v: f"{units.share(v)} busy")
        power = figure_text.figure(gpu.power_watts, lambda v: f"{v:.0f} W")
        hot = figure_text.figure(gpu.temperature_celsius, units.degrees)
        memory = figure_text.figure(gpu.memory_bytes, units.size)
        fan = figure_text.figure(gpu.fan_share, units.share)
        rows.append(("gpu", f"{gpu.name}: {busy}, {power}, {memory}, {hot}"))
        rows.append(("", f"fan: {fan}"))
        rows += [
            ("", f"{label}: {figure_text.figure(value, written)}")
            for label, value, written in gpu_facts(gpu)
        ]
    return rows


def _temperatures(sample: Sample) -> list[str]:
    if isinstance(sample.temperatures, Unknown):
        return [figure_text.figure(sample.temperatures, units.degrees)]
    return [
        f"{one.name}: {figure_text.figure(one.celsius, units.degrees)}"
        for one in sample.temperatures
    ]


def _heat(sample: Sample) -> list[tuple[str, str]]:
    """Return how often heat throttled the cores, where that is counted at all."""
    if sample.throttle is None:
        return []
    often = figure_text.figure(sample.throttle.heat_events, lambda v: f"{v:.0f}× since boot")
    return [("thermal throttling", often)]


def energy_section(session: Session, tree: Tree) -> Section:
    """Return the energy of a forward and, where it is not measured, why."""
    if not tree.has_forward:
        return Section("energy", "", figure_text.nothing(NO_FORWARD))
    # The counters run before the model does: only what ran has an energy of its own.
    found = forward_energy(session) if was_run(session) else Unknown(why_no_times(session))
    if isinstance(found, ForwardEnergy):
        return Section(
            "energy", "measured on this machine", (figure_text.facts(*_energy_facts(found)),)
        )
    paper = energy_on_paper(session, 0)
    if isinstance(paper, PaperEnergy):
        least, most = units.rough_energy(paper.low), units.rough_energy(paper.high)
        on_paper = f"~{least} to ~{most}, by {paper.source}"
    else:
        on_paper = figure_text.figure(paper, units.energy)
    rows = (("measured", figure_text.figure(found, units.energy)), ("on paper", on_paper))
    return Section("energy", "estimated from published coefficients", (figure_text.facts(*rows),))


def _energy_facts(found: ForwardEnergy) -> list[tuple[str, str]]:
    how = "from the counter" if found.source == "counter" else "from the integral of power"
    over = (
        f"{units.three_digits(found.seconds)} s and {units.three_digits(found.forwards)} forwards"
    )
    return [
        ("per forward", f"{units.energy(found.joules)}, {how} over {over}"),
        ("counter", found.name),
        ("power", f"{units.three_digits(found.watts)} W while running"),
        (
            "idle power",
            figure_text.figure(found.idle_watts, lambda v: f"{units.three_digits(v)} W"),
        ),
        (
            "above idle",
            figure_text.figure(found.above_idle_joules, lambda v: units.energy(max(v, 0.0))),
        ),
        (
            "FLOP per joule",
            figure_text.figure(found.flops_per_joule, lambda v: units.quantity(v, "FLOP")),
        ),
        ("CO₂", figure_text.figure(found.grams, lambda v: f"{v:.3g} g {found.grid}")),
    ]

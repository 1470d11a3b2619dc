"""Profile: how long a forward takes, where, and what the machine does meanwhile."""

from __future__ import annotations

from tui_profiler.messages import NO_FORWARD, Sample, Tick, Unknown
from tui_profiler.queries.bound import KINDS, bound
from tui_profiler.queries.breakdown import bound_shares
from tui_profiler.queries.machine import miss_share, parallel_efficiency
from tui_profiler.queries.seconds import root_seconds
from tui_profiler.queries.sorts import forwards_words
from tui_profiler.queries.totals import throughput, top_modules, why_no_times
from tui_profiler.reports.document import Grid, Part, Section, figures, names
from tui_profiler.reports.sections import words
from tui_profiler.session import Session, Tree
from tui_profiler.units import (
    UNAVAILABLE,
    column_time,
    duration,
    quantity,
    rate,
    share,
    size,
    thousands,
    time_unit,
)


def profile(session: Session, tree: Tree, top: int | None) -> Section:
    """Give times by layer and the use of the machine; without times, the classes on paper."""
    if not tree.has_forward:
        return Section("profile", "", words.nothing(NO_FORWARD))
    tick, why = session.tick, why_no_times(session)
    if tick is None or why:
        parts: tuple[Part, ...] = (*words.nothing(why or "no times have come"), _bounds(session))
        return Section("profile", "on paper, by FLOP a byte", parts)
    parts = (
        words.facts(*_times(session, tick), *_stages(session)),
        _slowest(session, tree, top or words.MOST_ROWS),
        _bounds(session),
        words.facts(*_machine(session)),
    )
    return Section("profile", "measured on this machine", parts)


def _times(session: Session, tick: Tick) -> list[tuple[str, str]]:
    overhead = session.overhead
    cost = f"{UNAVAILABLE} (too short to tell)"
    if overhead is not None:
        spread = f" ({share(overhead.low)} to {share(overhead.high)})" if overhead.pairs else ""
        cost = f"{'' if overhead.pairs else '~'}{share(overhead.ratio)}{spread}"
    counted = f"{thousands(tick.forwards)}, and {thousands(tick.warmup_forwards)} to warm up"
    return [
        *(("of", said) for said in forwards_words(session)[:1]),
        ("latency", f"p50 {duration(tick.latency_p50)}, p95 {duration(tick.latency_p95)}"),
        ("throughput", throughput(session)),
        ("forwards", counted),
        ("watching costs", cost),
    ]


def _stages(session: Session) -> list[tuple[str, str]]:
    told = [
        f"{record.stage} {duration(record.seconds)}"
        for record in session.stages
        if record.seconds is not None
    ]
    return [("on the way", ", ".join(told))]


def _slowest(session: Session, tree: Tree, most: int) -> Grid:
    whole = root_seconds(session)
    unit = time_unit(whole or 0.0)
    rows = []
    for at in top_modules(session, "seconds", most):
        timing = session.timings.of(at) if session.timings is not None else None
        if timing is None:
            continue
        found, own = bound(session, at), timing.own_per_forward
        rows.append(
            (
                tree.nodes[at].path or tree.nodes[at].name,
                tree.nodes[at].type,
                *(column_time(one, unit) for one in (own, timing.per_forward)),
                words.percent(own / whole if whole else None),
                *(column_time(one, unit) for one in (timing.p50, timing.p95)),
                UNAVAILABLE if found is None else found.kind,
            )
        )
    own_columns = figures(f"own {unit}", f"with parts {unit}", "% own", f"call p50 {unit}", "p95")
    columns = (names("slowest by themselves"), names("class"), *own_columns, names("bound"))
    return Grid(columns, tuple(rows))


def _bounds(session: Session) -> Grid:
    shares = bound_shares(session)
    rows = tuple(
        (
            kind,
            UNAVAILABLE if shares[kind].ops is None else thousands(shares[kind].ops or 0),
            words.percent(shares[kind].flops_share),
            words.percent(shares[kind].time_share),
        )
        for kind in KINDS
    )
    return Grid((names("class"), *figures("calls", "% FLOP", "% time")), rows)


def _machine(session: Session) -> list[tuple[str, str]]:
    ceilings, sample = session.ceilings, session.sample
    rows = []
    if ceilings is not None:
        roofs = [
            f"{one.dtype} {rate(one.flops_per_second, 'FLOP/s')}"
            for one in ceilings.compute
            if not isinstance(one.flops_per_second, Unknown)
        ]
        moved = words.figure(ceilings.bytes_per_second, lambda value: quantity(value, "B/s"))
        rows.append(("ceilings", ", ".join([*roofs, f"memory {moved}"])))
    return rows if sample is None else [*rows, *_sample(session, sample)]


def _sample(session: Session, sample: Sample) -> list[tuple[str, str]]:
    rows = [
        ("threads", words.figure(parallel_efficiency(session), lambda v: f"{share(v)} kept busy")),
        ("resident", words.figure(sample.process_peak_bytes, lambda v: f"at most {size(v)}")),
        ("cache misses", words.figure(miss_share(sample.counters), share)),
        ("package power", words.figure(sample.package_watts, lambda v: f"{v:.1f} W")),
    ]
    if isinstance(sample.gpus, Unknown):
        return [*rows, ("gpu", f"{UNAVAILABLE} ({sample.gpus.reason})")]
    for gpu in sample.gpus:
        busy = words.figure(gpu.utilisation, lambda v: f"{share(v)} busy")
        power = words.figure(gpu.power_watts, lambda v: f"{v:.0f} W")
        rows.append(("gpu", f"{gpu.name}: {busy}, {power}, {words.figure(gpu.memory_bytes, size)}"))
    return rows

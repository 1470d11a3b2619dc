"""The machine and the energy of a forward, as lines of the text report."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE, energy, quantity, share, size, three_digits
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Sample, Unknown
from tui_profiler.queries.cost.energy import ForwardEnergy, forward_energy
from tui_profiler.queries.cost.energy_on_paper import PaperEnergy, energy_on_paper
from tui_profiler.queries.cost.machine import (
    fragmentation,
    last_level_miss_share,
    miss_share,
    parallel_efficiency,
)
from tui_profiler.reports.ceilings import ceilings_lines
from tui_profiler.reports.text_parts import field
from tui_profiler.session import Session


def machine_lines(session: Session) -> list[str]:
    """Give how the model uses the machine: threads, memory, ceilings, caches, GPUs."""
    sample = session.sample
    roofs = ceilings_lines(session.ceilings) if session.ceilings is not None else []
    if sample is None:
        return roofs
    used = parallel_efficiency(session)
    threads = session.environment.threads if session.environment is not None else 0
    return [
        field("threads", f"{UNAVAILABLE} {used.reason}")
        if isinstance(used, Unknown)
        else field("threads", f"{share(used)} of {threads} kept busy"),
        *_memory(sample),
        *roofs,
        field("cache misses", _misses(sample)),
        *_allocators(sample),
        *_gpus(sample),
    ]


def energy_lines(session: Session) -> list[str]:
    """Give the joules of a forward: measured, or why not and then on paper."""
    found = forward_energy(session)
    if not isinstance(found, Unknown):
        return [field("energy", _measured(found)), *(field("", line) for line in _more(found))]
    lines = [field("energy", f"{UNAVAILABLE} {safe(found.reason)}")]
    paper = energy_on_paper(session, 0)
    if isinstance(paper, PaperEnergy):
        says = f"~{energy(paper.low)} to ~{energy(paper.high)} on paper, by {paper.source}"
        lines.append(field("", says))
    return lines


def _measured(found: ForwardEnergy) -> str:
    by = "counted" if found.source == "counter" else "by the integral of power"
    return (
        f"{energy(found.joules)} a forward, {by} over {three_digits(found.seconds)} s:"
        f" {safe(found.name)}"
    )


def _more(found: ForwardEnergy) -> list[str]:
    lines = []
    if isinstance(found.above_idle_joules, Unknown) or isinstance(found.idle_watts, Unknown):
        lines.append(f"{UNAVAILABLE} idle apart: {_reason(found.idle_watts)}")
    else:
        above = energy(max(found.above_idle_joules, 0.0))
        lines.append(f"{above} above the {three_digits(found.idle_watts)} W of the idle machine")
    if not isinstance(found.flops_per_joule, Unknown):
        lines.append(f"{quantity(found.flops_per_joule, 'FLOP')} a joule")
    if not isinstance(found.grams, Unknown):
        lines.append(f"{found.grams:.3g} g of CO₂ {found.grid}")
    return lines


def _reason(value: float | Unknown) -> str:
    return safe(value.reason) if isinstance(value, Unknown) else ""


def _memory(sample: Sample) -> list[str]:
    peak = sample.process_peak_bytes
    if isinstance(peak, Unknown):
        return [field("resident", f"{UNAVAILABLE} {safe(peak.reason)}")]
    return [field("resident", f"at most {size(peak)} so far, all of the process")]


def _misses(sample: Sample) -> str:
    references, loads = miss_share(sample.counters), last_level_miss_share(sample.counters)
    if isinstance(references, Unknown):
        return f"{UNAVAILABLE} {safe(references.reason)}"
    last = "" if isinstance(loads, Unknown) else f", {share(loads)} of loads from the last level"
    return f"{share(references)} of references{last}"


def _allocators(sample: Sample) -> list[str]:
    lines = []
    for one in () if isinstance(sample.allocators, Unknown) else sample.allocators:
        if isinstance(one.allocated_bytes, Unknown) or isinstance(one.reserved_bytes, Unknown):
            continue  # The CPU's has nothing to tell but the resident memory.
        split = fragmentation(one)
        pieces = "" if isinstance(split, Unknown) else f", {share(split)} of it fragmented"
        held = f"{size(one.allocated_bytes)} allocated, {size(one.reserved_bytes)} reserved{pieces}"
        lines.append(field(safe(one.device), held))
    return lines


def _gpus(sample: Sample) -> list[str]:
    if isinstance(sample.gpus, Unknown):
        return [field("gpu", f"{UNAVAILABLE} {safe(sample.gpus.reason)}")]
    lines = []
    for gpu in sample.gpus:
        parts = [
            f"cuda:{gpu.cuda_index}" if gpu.cuda_index is not None else "",
            "" if isinstance(gpu.utilisation, Unknown) else f"{share(gpu.utilisation)} busy",
            "" if isinstance(gpu.power_watts, Unknown) else f"{gpu.power_watts:.0f} W",
            f"held down by {gpu.throttled_by}" if gpu.throttled_by else "",
        ]
        figures = ", ".join(safe(part) for part in parts if part)
        lines.append(field("gpu", f"{safe(gpu.name)}  {figures}"))
    return lines

"""Energy in words: of a forward, of one node, and what counts it; an estimate wears a ``~``."""

from functools import partial

from tui_profiler.figures.units import energy, quantity, rough_energy, share, size, three_digits
from tui_profiler.formatting.text import safe
from tui_profiler.messages import EnergyTotals, Sample, Unknown
from tui_profiler.queries.cost.energy import (
    ForwardEnergy,
    PaperEnergy,
    closure,
    energy_on_paper,
    forward_energy,
    idle_watts,
    node_energy,
    replay_of,
    too_short,
)
from tui_profiler.queries.cost.machine import working_set

from ...widgets.lines import Line
from ...widgets.rows import Look, absent, fact, figure, section, words

LABEL = 24
said = partial(fact, cells=LABEL)
missing = partial(absent, cells=LABEL)
figure_lines = partial(figure, cells=LABEL)


def machine_energy_lines(look: Look, sample: Sample) -> tuple[Line, ...]:
    """Return the energy of a forward and every counter, with its title."""
    found = forward_energy(look.session)
    measured = isinstance(found, ForwardEnergy)
    head = section("energy", "measured" if measured else "not measured", look)
    lines = [head, *_forward(look, found)]
    for one in () if isinstance(sample.energy, Unknown) else sample.energy:
        lines += _counter(look, one)
    return tuple(lines)


def node_energy_lines(look: Look) -> tuple[Line, ...]:
    """Return the energy of the look's node, and which cache holds what a call of it touches."""
    if look.tree is None or not look.tree.has_forward:
        return ()
    found = node_energy(look.session, look.node)
    if isinstance(found, Unknown):
        provenance = "not measured"
        lines = [*missing("per forward", safe(found.reason), look), *_on_paper(look)]
    elif found.counts:
        provenance = f"measured, {found.counts} replays"
        between = f"{energy(found.low)} to {energy(found.high)}"
        lines = [said("per forward", energy(found.joules), look), said("replays", between, look)]
        missed = closure(look.session, look.node)
        if not isinstance(missed, Unknown):
            lines.append(said("sum of children", f"{share(1 + missed)} of it", look))
    else:
        provenance = "estimated from its share of the time"
        between = f"{energy(found.low)} to {energy(found.high)}"
        lines = [
            said("per forward", f"~{energy(found.joules)}", look),
            said("bounds", between, look),
        ]
    replay = replay_of(look.session, look.node)
    if replay is not None and replay.why_none:
        lines += missing("replay", safe(replay.why_none), look)
    return (section("energy", provenance, look), *lines, *_working_set(look))


def _forward(look: Look, found: ForwardEnergy | Unknown) -> list[Line]:
    if isinstance(found, Unknown):
        return [*missing("per forward", safe(found.reason), look), *_on_paper(look)]
    by = "counted" if found.source == "counter" else "integrated power"
    lines = [
        said("per forward", f"{energy(found.joules)}  {by} over {found.seconds:.0f} s", look),
        *figure_lines(
            "above idle", found.above_idle_joules, lambda value: energy(max(value, 0)), look
        ),
        *figure_lines(
            "FLOP per joule", found.flops_per_joule, lambda x: quantity(x, "FLOP/J"), look
        ),
    ]
    if not isinstance(found.grams, Unknown):
        lines.append(said("CO₂ per forward", f"{found.grams:.3g} g  {found.grid}", look))
    return lines


def _counter(look: Look, one: EnergyTotals) -> tuple[Line, ...]:
    name = safe(one.name)
    short = too_short(one.running)
    if one.why:
        return missing(name, safe(one.why), look)
    if short is not None:
        return missing(name, safe(short.reason), look)
    idle = idle_watts(one)
    text = f"{three_digits(one.running.joules / one.running.seconds)} W"
    if not isinstance(idle, Unknown):
        text += f", idle {three_digits(idle)} W"
    return (said(name, text, look),)


def _on_paper(look: Look) -> tuple[Line, ...]:
    found = energy_on_paper(look.session, look.node if look.tree is not None else 0)
    if not isinstance(found, PaperEnergy):
        return ()
    between = f"~{rough_energy(found.low)} to ~{rough_energy(found.high)}"
    return (said("on paper", between, look), *words(found.source, look, indent=LABEL))


def _working_set(look: Look) -> tuple[Line, ...]:
    found = working_set(look.session, look.node)
    if isinstance(found, Unknown):
        return missing("working set", safe(found.reason), look)
    held = (
        f"fits in L{found.fits.level}, {size(found.fits.bytes)}"
        if found.fits
        else "fits in no cache"
    )
    return (said("working set", f"{size(found.bytes)}, {held}", look),)

"""Energy in words: of a forward, of one node, and what counts it; an estimate wears a ``~``."""

from collections.abc import Callable

from tui_profiler.figures.units import energy, quantity, share, size, three_digits
from tui_profiler.formatting.text import safe
from tui_profiler.messages import EnergyTotals, Figure, Sample, Unknown
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

from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, absent, row, section, words

_LABEL = 24


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
        lines = [*absent("per forward", safe(found.reason), look, _LABEL), *_on_paper(look)]
    elif found.counts:
        provenance = f"measured, {found.counts} replays"
        between = f"{energy(found.low)} to {energy(found.high)}"
        lines = [_said("per forward", energy(found.joules), look), _said("replays", between, look)]
        missed = closure(look.session, look.node)
        if not isinstance(missed, Unknown):
            lines.append(_said("sum of children", f"{share(1 + missed)} of it", look))
    else:
        provenance = "estimated from its share of the time"
        between = f"{energy(found.low)} to {energy(found.high)}"
        lines = [
            _said("per forward", f"~{energy(found.joules)}", look),
            _said("bounds", between, look),
        ]
    replay = replay_of(look.session, look.node)
    if replay is not None and replay.why_none:
        lines += absent("replay", safe(replay.why_none), look, _LABEL)
    return (section("energy", provenance, look), *lines, *_working_set(look))


def _forward(look: Look, found: ForwardEnergy | Unknown) -> list[Line]:
    if isinstance(found, Unknown):
        return [*absent("per forward", safe(found.reason), look, _LABEL), *_on_paper(look)]
    by = "counted" if found.source == "counter" else "integrated power"
    lines = [
        _said("per forward", f"{energy(found.joules)}  {by} over {found.seconds:.0f} s", look),
        *_figure("above idle", found.above_idle_joules, lambda value: energy(max(value, 0)), look),
        *_figure("FLOP per joule", found.flops_per_joule, lambda x: quantity(x, "FLOP/J"), look),
    ]
    if not isinstance(found.grams, Unknown):
        lines.append(_said("CO₂ per forward", f"{found.grams:.3g} g  {found.grid}", look))
    return lines


def _figure(
    label: str, value: Figure, written: Callable[[float], str], look: Look
) -> tuple[Line, ...]:
    if isinstance(value, Unknown):
        return absent(label, safe(value.reason), look, _LABEL)
    return (_said(label, written(value), look),)


def _counter(look: Look, one: EnergyTotals) -> tuple[Line, ...]:
    name = safe(one.name)
    short = too_short(one.running)
    if one.why:
        return absent(name, safe(one.why), look, _LABEL)
    if short is not None:
        return absent(name, safe(short.reason), look, _LABEL)
    idle = idle_watts(one)
    text = f"{three_digits(one.running.joules / one.running.seconds)} W"
    if not isinstance(idle, Unknown):
        text += f", idle {three_digits(idle)} W"
    return (_said(name, text, look),)


def _on_paper(look: Look) -> tuple[Line, ...]:
    found = energy_on_paper(look.session, look.node if look.tree is not None else 0)
    if not isinstance(found, PaperEnergy):
        return ()
    between = f"~{energy(found.low)} to ~{energy(found.high)}"
    return (_said("on paper", between, look), *words(found.source, look, indent=_LABEL))


def _working_set(look: Look) -> tuple[Line, ...]:
    found = working_set(look.session, look.node)
    if isinstance(found, Unknown):
        return absent("working set", safe(found.reason), look, _LABEL)
    held = (
        f"fits in L{found.fits.level}, {size(found.fits.bytes)}"
        if found.fits
        else "fits in no cache"
    )
    return (_said("working set", f"{size(found.bytes)}, {held}", look),)


def _said(label: str, text: str, look: Look) -> Line:
    return row(((label.ljust(_LABEL), "muted"), (text, "ink")), EMPTY, look)

"""Energy: the joules of a forward, measured or on paper, and never one for the other."""

from tui_profiler.figures.units import energy, quantity, rough_energy, three_digits
from tui_profiler.messages import NO_FORWARD, Unknown
from tui_profiler.queries.cost.energy import (
    ForwardEnergy,
    PaperEnergy,
    energy_on_paper,
    forward_energy,
)
from tui_profiler.queries.cost.totals import was_run, why_no_times
from tui_profiler.reports.document import Section
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree


def energy_section(session: Session, tree: Tree) -> Section:
    """Return the energy of a forward and, where it is not measured, why."""
    if not tree.has_forward:
        return Section("energy", "", figure_text.nothing(NO_FORWARD))
    # The counters run before the model does: only what ran has an energy of its own.
    found = forward_energy(session) if was_run(session) else Unknown(why_no_times(session))
    if isinstance(found, ForwardEnergy):
        return Section(
            "energy", "measured on this machine", (figure_text.facts(*_measured(found)),)
        )
    paper = energy_on_paper(session, 0)
    if isinstance(paper, PaperEnergy):
        on_paper = f"~{rough_energy(paper.low)} to ~{rough_energy(paper.high)}, by {paper.source}"
    else:
        on_paper = figure_text.figure(paper, energy)
    rows = (("measured", figure_text.figure(found, energy)), ("on paper", on_paper))
    return Section("energy", "estimated from published coefficients", (figure_text.facts(*rows),))


def _measured(found: ForwardEnergy) -> list[tuple[str, str]]:
    how = "from the counter" if found.source == "counter" else "from the integral of power"
    over = f"{three_digits(found.seconds)} s and {three_digits(found.forwards)} forwards"
    return [
        ("per forward", f"{energy(found.joules)}, {how} over {over}"),
        ("counter", found.name),
        ("power", f"{three_digits(found.watts)} W while running"),
        ("idle power", figure_text.figure(found.idle_watts, lambda v: f"{three_digits(v)} W")),
        ("above idle", figure_text.figure(found.above_idle_joules, lambda v: energy(max(v, 0.0)))),
        (
            "FLOP per joule",
            figure_text.figure(found.flops_per_joule, lambda v: quantity(v, "FLOP")),
        ),
        ("CO₂", figure_text.figure(found.grams, lambda v: f"{v:.3g} g {found.grid}")),
    ]

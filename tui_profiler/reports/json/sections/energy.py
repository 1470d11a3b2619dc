"""Energy in the JSON report: what was measured, what is estimated, and which is which."""

from typing import Literal, TypeAlias

from msgspec import field

from tui_profiler.messages import EnergyOf, EnergySource, EnergyTotals, Unknown
from tui_profiler.queries.cost.energy import (
    ForwardEnergy,
    PaperEnergy,
    closure,
    energy_on_paper,
    forward_energy,
    grams,
    idle_watts,
    node_energy,
    too_short,
)
from tui_profiler.queries.cost.totals import batch_axis
from tui_profiler.reports.json_values import Count, Known, Number, OfSome, Part, fill, or_why
from tui_profiler.session import Session

Counted: TypeAlias = Literal["counter", "integral of power"]


class EnergyOfForward(Part, frozen=True):
    """Energy of the model's device; null without a counter, or if it was counted too briefly."""

    name: str = field(name="counter")
    provenance: Counted
    seconds: Number
    """Seconds of running that were counted."""
    steps: Count
    """Steps of the counter."""
    forwards: Number
    joules: Number
    """Measured, per forward, idle power included."""
    joules_per_item: Known[float]
    watts: Number
    idle_watts: Known[float]
    """Idle power: while nothing ran."""
    above_idle_joules: Known[float]
    """Per forward."""
    flops_per_joule: Known[float]
    grams: Known[float] = field(name="co2_g")
    """Grams of CO2 per forward, at grid_g_per_kwh."""


class EnergyOnPaper(Part, frozen=True):
    """Energy per forward, from published coefficients: not a measurement of this machine."""

    provenance: Literal["estimated"]
    low_joules: Number
    high_joules: Number
    low_co2_g: Known[float]
    high_co2_g: Known[float]
    coefficients: str
    """Source of the joules per operation and per byte."""


class EnergyAccount(Part, frozen=True):
    """Between two steps of the counter."""

    seconds: Number
    joules: Number
    steps: Count
    """Steps of the counter."""
    work: Number = field(name="forwards")
    """Forwards; a partial one counts as a fraction."""


class EnergyCounter(Part, frozen=True):
    """One energy counter."""

    of: EnergyOf
    name: str
    provenance: Counted
    running: EnergyAccount
    idle: EnergyAccount
    watts: Known[float]
    """While forwards ran."""
    idle_watts: Known[float]
    limit_w: Known[float]
    """Sustained power limit."""
    why: str | None = field(name="stopped")
    """Why counting stopped."""


class Energy(Part, frozen=True):
    """Only with --measure."""

    forward: Known[EnergyOfForward]
    on_paper: Known[EnergyOnPaper]
    counters: Known[list[EnergyCounter]]
    """Every energy counter that could be read."""
    grid_g_per_kwh: Known[float]
    """Grams of CO2 per kilowatt-hour, as given by the user."""
    grid_named: Known[str]
    """Country and year of that figure, if a country was given."""


class LayerEnergy(Part, frozen=True):
    """Only with --measure: joules per forward spent in it."""

    provenance: Literal["replay", "time share", "coefficients"]
    """replay is measured, with the node run alone; time share and coefficients are estimated."""
    joules: Known[float]
    """Per forward; null for coefficients, which have an interval only."""
    low: Number
    """Minimum of the replays, or a lower bound."""
    high: Number
    replays: Count
    closure: Known[float]
    """Replays of all child modules / its own replay, minus 1."""


def energy(session: Session) -> Energy:
    """Return the energy of a forward, and every counter that could be read."""
    known = session.environment
    in_grams = known.grid_grams_per_kwh if known is not None else None
    not_given = "no --grid-intensity was given"
    was_typed = "grams were given, not a place" if in_grams is not None else not_given
    return Energy(
        forward=_forward(session, forward_energy(session)),
        on_paper=_on_paper(session),
        counters=_counters(session),
        grid_g_per_kwh=or_why(in_grams, not_given),
        grid_named=(known.grid_named if known is not None else "") or Unknown(was_typed),
    )


def layer_energy(session: Session, node: int) -> LayerEnergy | Unknown:
    """Return what a forward spends in one layer; ``provenance`` says how that is known."""
    found = node_energy(session, node)
    if not isinstance(found, Unknown):
        return LayerEnergy(
            provenance=found.tier,
            joules=found.joules,
            low=found.low,
            high=found.high,
            replays=found.counts,
            closure=closure(session, node) if found.counts else Unknown("not replayed"),
        )
    paper = energy_on_paper(session, node)
    if isinstance(paper, Unknown):
        return Unknown(f"{found.reason}; {paper.reason}")
    return LayerEnergy(
        provenance="coefficients",
        joules=OfSome(found.reason, "provenance=coefficients"),
        low=paper.low,
        high=paper.high,
        replays=0,
        closure=Unknown("not replayed"),
    )


def _forward(session: Session, found: ForwardEnergy | Unknown) -> EnergyOfForward | Unknown:
    if isinstance(found, Unknown):
        return found
    items = batch_axis(session.model)
    per_item = items if isinstance(items, Unknown) else found.joules / items
    return fill(EnergyOfForward, found, provenance=_counted(found.source), joules_per_item=per_item)


def _counted(source: EnergySource) -> Counted:
    return "counter" if source == "counter" else "integral of power"


def _on_paper(session: Session) -> EnergyOnPaper | Unknown:
    found = energy_on_paper(session, 0)
    if not isinstance(found, PaperEnergy):
        return found
    return EnergyOnPaper(
        provenance="estimated",
        low_joules=found.low,
        high_joules=found.high,
        low_co2_g=grams(session, found.low),
        high_co2_g=grams(session, found.high),
        coefficients=found.source,
    )


def _counters(session: Session) -> list[EnergyCounter] | Unknown:
    if session.sample is None:
        return Unknown("no sample of the counters has come")
    found = session.sample.energy
    return found if isinstance(found, Unknown) else [_counter(one) for one in found]


def _counter(totals: EnergyTotals) -> EnergyCounter:
    short, running = too_short(totals.running), totals.running
    return fill(
        EnergyCounter,
        totals,
        provenance=_counted(totals.source),
        watts=short if short is not None else running.joules / running.seconds,
        idle_watts=idle_watts(totals),
        limit_w=or_why(totals.limit_watts, "not reported"),
    )

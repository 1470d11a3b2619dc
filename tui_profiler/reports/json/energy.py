"""Energy in the JSON report: what was measured, what is estimated, and which is which."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tui_profiler.messages import Account, EnergyTotals, Unknown
from tui_profiler.messages.hardware import EnergyOf, EnergySource
from tui_profiler.queries.cost.energy import (
    ForwardEnergy,
    closure,
    forward_energy,
    grams,
    idle_watts,
    node_energy,
    too_short,
)
from tui_profiler.queries.cost.energy_on_paper import PaperEnergy, energy_on_paper
from tui_profiler.reports.json_values import Count, Known, Number, OfSome, Part, or_why, taken
from tui_profiler.session import Session

Counted: TypeAlias = Literal["counter", "integral of power"]


class EnergyOfForward(Part, frozen=True):
    """Energy of the device that the model is on; null where nothing counts it, or too briefly."""

    counter: str
    provenance: Counted
    seconds: Number
    """Of running that was counted."""
    steps: Count
    """Of the counter."""
    forwards: Number
    joules: Number
    """Measured, of one forward, idle power included."""
    joules_per_item: Known[float]
    watts: Number
    idle_watts: Known[float]
    """Of the machine while nothing ran."""
    above_idle_joules: Known[float]
    """Of one forward."""
    flops_per_joule: Known[float]
    co2_g: Known[float]
    """Grams for one forward, at grid_g_per_kwh."""


class EnergyOnPaper(Part, frozen=True):
    """Energy of one forward, from published coefficients: not a measurement of this machine."""

    provenance: Literal["estimated"]
    low_joules: Number
    high_joules: Number
    low_co2_g: Known[float]
    high_co2_g: Known[float]
    coefficients: str
    """Where the joules of an operation and of a byte are from."""


class EnergyAccount(Part, frozen=True):
    """From a step of the counter to another."""

    seconds: Number
    joules: Number
    steps: Count
    """Of the counter."""
    forwards: Number
    """One under way counts for its part."""


class EnergyCounter(Part, frozen=True):
    """One counter of energy."""

    of: EnergyOf
    name: str
    provenance: Counted
    running: EnergyAccount
    idle: EnergyAccount
    watts: Known[float]
    """While forwards ran."""
    idle_watts: Known[float]
    limit_w: Known[float]
    """The most it may draw for long."""
    stopped: str | None
    """Why it is not counted any more."""


class Energy(Part, frozen=True):
    """Only with --measure."""

    forward: Known[EnergyOfForward]
    on_paper: Known[EnergyOnPaper]
    counters: Known[list[EnergyCounter]]
    """Every counter of energy that could be read."""
    grid_g_per_kwh: Known[float]
    """Grams of CO2 for a kilowatt-hour, as the user named it."""
    grid_named: Known[str]
    """Whose grid that is, and of which year, where a place was named."""


class LayerEnergy(Part, frozen=True):
    """Only with --measure; joules of one forward spent in it."""

    provenance: Literal["replay", "time share", "coefficients"]
    """replay is measured, on the node alone; time share and coefficients are estimated."""
    joules: Known[float]
    """Of one forward; null for coefficients, which give an interval only."""
    low: Number
    """Least of the replays, or a lower bound."""
    high: Number
    replays: Count
    closure: Known[float]
    """Replays of all modules inside over its own, less one."""


def energy(session: Session) -> Energy:
    """Return the energy of a forward, and every counter that could be read."""
    known = session.environment
    in_grams = known.grid_grams_per_kwh if known is not None else None
    not_given = "no --grid-intensity was given"
    was_typed = "its grams were typed, no place" if in_grams is not None else not_given
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
    items = session.model.batch if session.model is not None else None
    per_item = found.joules / items if items else Unknown("its inputs have no batch axis")
    return EnergyOfForward(
        counter=found.name,
        provenance=_counted(found.source),
        seconds=found.seconds,
        steps=found.steps,
        forwards=found.forwards,
        joules=found.joules,
        joules_per_item=per_item,
        watts=found.watts,
        idle_watts=found.idle_watts,
        above_idle_joules=found.above_idle_joules,
        flops_per_joule=found.flops_per_joule,
        co2_g=found.grams,
    )


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
    return EnergyCounter(
        of=totals.of,
        name=totals.name,
        provenance=_counted(totals.source),
        running=_account(running),
        idle=_account(totals.idle),
        watts=short if short is not None else running.joules / running.seconds,
        idle_watts=idle_watts(totals),
        limit_w=or_why(totals.limit_watts, "not reported"),
        stopped=totals.why or None,
    )


def _account(account: Account) -> EnergyAccount:
    return taken(EnergyAccount, account, forwards=account.work)

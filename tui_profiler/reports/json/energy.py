"""Energy in the JSON report: what was measured, what is estimated, and which is which."""

from __future__ import annotations

from tui_profiler.messages import Account, EnergyTotals, Unknown
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
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session


def energy(session: Session, unavailable: Unavailable) -> Json:
    """Give the energy of a forward, and every counter that could be read."""
    return {
        "forward": _forward(session, forward_energy(session), unavailable),
        "on_paper": _on_paper(session, unavailable),
        "counters": _counters(session, unavailable),
        "grid_g_per_kwh": unavailable.figure(
            "energy.grid_g_per_kwh",
            session.environment.grid_grams_per_kwh if session.environment is not None else None,
            "no --grid-intensity was given",
        ),
        "grid_named": _grid_named(session, unavailable),
    }


def _grid_named(session: Session, unavailable: Unavailable) -> Json:
    known = session.environment
    if known is not None and known.grid_named:
        return known.grid_named
    was_typed = known is not None and known.grid_grams_per_kwh is not None
    why = "its grams were typed, no place" if was_typed else "no --grid-intensity was given"
    return unavailable.missing("energy.grid_named", why)


def layer_energy(session: Session, node: int, unavailable: Unavailable) -> Json:
    """Give what a forward spends in one layer; ``provenance`` says how that is known."""
    found = node_energy(session, node)
    if not isinstance(found, Unknown):
        missed = closure(session, node) if found.counts else Unknown("not replayed")
        return {
            "provenance": found.tier,
            "joules": found.joules,
            "low": found.low,
            "high": found.high,
            "replays": found.counts,
            "closure": unavailable.figure("layers[].energy.closure", missed),
        }
    paper = energy_on_paper(session, node)
    if isinstance(paper, Unknown):
        return unavailable.missing("layers[].energy", f"{found.reason}; {paper.reason}")
    unavailable.missing("layers[provenance=coefficients].energy.joules", found.reason)
    return {
        "provenance": "coefficients",
        "joules": None,
        "low": paper.low,
        "high": paper.high,
        "replays": 0,
        "closure": unavailable.missing("layers[].energy.closure", "not replayed"),
    }


def _forward(session: Session, found: ForwardEnergy | Unknown, unavailable: Unavailable) -> Json:
    path = "energy.forward"
    if isinstance(found, Unknown):
        return unavailable.missing(path, found.reason)
    figure = unavailable.figure
    items = session.model.batch if session.model is not None else None
    return {
        "counter": found.name,
        "provenance": "counter" if found.source == "counter" else "integral of power",
        "seconds": found.seconds,
        "steps": found.steps,
        "forwards": found.forwards,
        "joules": found.joules,
        "joules_per_item": figure(
            f"{path}.joules_per_item",
            found.joules / items if items else None,
            "its inputs have no batch axis",
        ),
        "watts": found.watts,
        "idle_watts": figure(f"{path}.idle_watts", found.idle_watts),
        "above_idle_joules": figure(f"{path}.above_idle_joules", found.above_idle_joules),
        "flops_per_joule": figure(f"{path}.flops_per_joule", found.flops_per_joule),
        "co2_g": figure(f"{path}.co2_g", found.grams),
    }


def _on_paper(session: Session, unavailable: Unavailable) -> Json:
    found = energy_on_paper(session, 0)
    if not isinstance(found, PaperEnergy):
        return unavailable.missing("energy.on_paper", found.reason)
    return {
        "provenance": "estimated",
        "low_joules": found.low,
        "high_joules": found.high,
        "low_co2_g": unavailable.figure("energy.on_paper.low_co2_g", grams(session, found.low)),
        "high_co2_g": unavailable.figure("energy.on_paper.high_co2_g", grams(session, found.high)),
        "coefficients": found.source,
    }


def _counters(session: Session, unavailable: Unavailable) -> Json:
    path = "energy.counters"
    if session.sample is None:
        return unavailable.missing(path, "no sample of the counters has come")
    found = session.sample.energy
    if isinstance(found, Unknown):
        return unavailable.missing(path, found.reason)
    return [_counter(one, f"{path}[{index}]", unavailable) for index, one in enumerate(found)]


def _counter(totals: EnergyTotals, path: str, unavailable: Unavailable) -> Json:
    short = too_short(totals.running)
    running = totals.running
    return {
        "of": totals.of,
        "name": totals.name,
        "provenance": "counter" if totals.source == "counter" else "integral of power",
        "running": _account(running),
        "idle": _account(totals.idle),
        "watts": unavailable.figure(
            f"{path}.watts", short if short is not None else running.joules / running.seconds
        ),
        "idle_watts": unavailable.figure(f"{path}.idle_watts", idle_watts(totals)),
        "limit_w": unavailable.figure(f"{path}.limit_w", totals.limit_watts, "not reported"),
        "stopped": totals.why or None,
    }


def _account(account: Account) -> Json:
    return {
        "seconds": account.seconds,
        "joules": account.joules,
        "steps": account.steps,
        "forwards": account.work,
    }

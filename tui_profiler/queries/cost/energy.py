"""Energy of a forward and of its nodes, in tiers that never look alike.

- A whole forward is **measured**: the counter's joules over a time of at least 5 s and ten of its
  steps, by the forwards in it; the power of the idle machine stands apart.
- A node that was **replayed** by itself is measured too, with the spread of its replays.
- Any other node is **estimated**: its share of a forward's time, with bounds. They hold as long as
  the power is never below that of the idle machine nor above what it may draw for long.
- Where nothing counts energy, it is **on paper**: an interval from published coefficients, which
  ranks layers and is not a measure of this machine. Work that is an upper bound is in its upper end
  alone; behind a value that Python read there is none. A multiply-add is one multiplication and one
  addition, every other FLOP an addition. The lower end takes each byte from a cache of 1 MB (100 pJ
  for 64 bits), the upper one from DRAM (2.6 nJ for 64 bits). Instructions, leakage, power supply
  and cooling are not in it. Source: M. Horowitz, "1.1 Computing's energy problem (and what we can
  do about it)", ISSCC 2014, pages 10-14, figure 1.1.9: a 45 nm process at 0.9 V.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import three_digits
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Account, Cost, EnergyTotals, Figure, Replayed, Sample, Unknown
from tui_profiler.messages.hardware import LEAST_SECONDS, LEAST_STEPS, EnergySource
from tui_profiler.queries.cost import bound
from tui_profiler.queries.time.forward_kinds import MIXED, is_mixed
from tui_profiler.queries.time.modes import runs_backward
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.session import Session, Tree

JOULES_PER_KWH = 3.6e6
Tier: TypeAlias = Literal["replay", "time share"]

WITH_BACKWARD = Unknown("backward passes run between the forwards, and are in the energy as well")
NOT_RESTED = Unknown("idle power was not measured: pause the model for some seconds")
NO_SAMPLE = Unknown("no sample of the counters has come")
PAPER_SOURCE = "Horowitz, ISSCC 2014, 45 nm at 0.9 V"
_PICO = 1e-12
_MULTIPLY_ADD: dict[str, tuple[float, float]] = {
    "float32": (3.7, 0.9),
    "float16": (1.1, 0.4),
}
"""Picojoules of a multiplication and of an addition."""
CACHE_BYTE_PICOJOULES = 100 / 8
DRAM_BYTE_PICOJOULES = 2600 / 8
NO_REGION = Unknown("no --grid-intensity was given")


class ForwardEnergy(Struct, frozen=True):
    """What one forward takes, measured."""

    name: str
    """Of the counter."""
    source: EnergySource
    seconds: float
    """Of running that was counted."""
    steps: int
    forwards: float
    joules: float
    """Of a forward, idle power included."""
    watts: float
    """While it runs."""
    idle_watts: Figure
    above_idle_joules: Figure
    """Of a forward, without what the idle machine would have drawn meanwhile."""
    flops_per_joule: Figure
    """FLOP on paper by measured joules, idle power included."""
    grams: Figure
    """Grams of CO₂ of a forward, for the grid that the user named."""
    grid: str
    """Its intensity and, where a place was named, whose: ``at 381 g/kWh, Germany 2023``."""
    limit_watts: float | None


class NodeEnergy(Struct, frozen=True):
    """What a forward spends in one node."""

    tier: Tier
    joules: float
    low: float
    """Least of the replays, or the lower bound."""
    high: float
    counts: int
    """Replays; 0 for an estimate."""


def forward_energy(session: Session) -> ForwardEnergy | Unknown:
    """Return the energy of a forward, of the device that the model is on."""
    totals = device_totals(session)
    if isinstance(totals, Unknown):
        return totals
    if runs_backward(session):
        return WITH_BACKWARD
    account = totals.running
    if (why := too_short(account)) is not None:
        return Unknown(f"{totals.why}; {why.reason}") if totals.why else why
    if account.work <= 0:
        return Unknown("no forward was counted beside the energy")
    watts = account.joules / account.seconds
    joules = account.joules / account.work
    idle = idle_watts(totals)
    above: Figure = idle
    if not isinstance(idle, Unknown):
        above = joules - idle * account.seconds / account.work
    return ForwardEnergy(
        name=totals.name,
        source=totals.source,
        seconds=account.seconds,
        steps=account.steps,
        forwards=account.work,
        joules=joules,
        watts=watts,
        idle_watts=idle,
        above_idle_joules=above,
        flops_per_joule=_flops_per_joule(session, joules),
        grams=grams(session, joules),
        grid=grid_words(session),
        limit_watts=totals.limit_watts,
    )


def device_totals(session: Session) -> EnergyTotals | Unknown:
    """Return the counter of the device that the model is on."""
    sample = session.sample
    if sample is None:
        return NO_SAMPLE
    if isinstance(sample.energy, Unknown):
        return sample.energy
    device = session.model.device if session.model is not None else "cpu"
    kind, _, number = device.partition(":")
    if kind == "cpu":
        found = next((one for one in sample.energy if one.of == "package"), None)
        return found or Unknown("the energy of the processor is not counted on this machine")
    if kind != "cuda":
        return Unknown(f"no counter of energy for a device named {kind}")
    return _of_gpu(sample, sample.energy, int(number or 0))


def too_short(account: Account) -> Unknown | None:
    """Say why an account decides nothing yet; None where it does."""
    if account.steps < LEAST_STEPS:
        return Unknown(f"window too short: {account.steps} counter steps, {LEAST_STEPS} needed")
    if account.seconds < LEAST_SECONDS:
        return Unknown(f"window too short: {account.seconds:.1f} s, {LEAST_SECONDS:.0f} needed")
    return None


def idle_watts(totals: EnergyTotals) -> Figure:
    """Return the power while nothing ran."""
    if totals.idle.steps < LEAST_STEPS or totals.idle.seconds <= 0:
        return NOT_RESTED
    return totals.idle.joules / totals.idle.seconds


def grams(session: Session, joules: float) -> Figure:
    """Return grams of CO₂ for some energy, from the grid's intensity that the user named."""
    intensity = session.environment.grid_grams_per_kwh if session.environment is not None else None
    return NO_REGION if intensity is None else joules / JOULES_PER_KWH * intensity


def grid_words(session: Session) -> str:
    """Return what grams are told for: ``at 381 g/kWh, Germany 2023``; empty where none are."""
    known = session.environment
    if known is None or known.grid_grams_per_kwh is None:
        return ""
    place = f", {safe(known.grid_named)}" if known.grid_named else ""
    return f"at {three_digits(known.grid_grams_per_kwh)} g/kWh{place}"


def node_energy(session: Session, node: int) -> NodeEnergy | Unknown:
    """Return the energy that a forward spends in a node: of its replays, or else estimated."""
    replayed = replay_of(session, node)
    if replayed is not None and replayed.replays and session.tree is not None:
        calls = session.tree.nodes[node].calls
        each = [one.joules_per_call * calls for one in replayed.replays]
        return NodeEnergy("replay", sum(each) / len(each), min(each), max(each), len(each))
    whole = forward_energy(session)
    if isinstance(whole, Unknown):
        return whole
    if is_mixed(session):
        return Unknown(f"it is that of an average forward: {MIXED}")
    seconds, all_seconds = node_seconds(session, node), root_seconds(session)
    if seconds is None or all_seconds is None:
        return Unknown("this node is not timed separately")
    low, high = _bounds(whole, seconds / all_seconds)
    joules = whole.joules * min(seconds / all_seconds, 1.0)
    return NodeEnergy("time share", joules, min(low, joules), max(high, joules), 0)


def replay_of(session: Session, node: int) -> Replayed | None:
    """Return the last replay of a node, None where it was not replayed."""
    return next((one for one in session.replays if one.node == node), None)


def closure(session: Session, node: int) -> Figure:
    """Return how much replays miss: those of a node's modules added up, over its own, less one."""
    tree = session.tree
    if tree is None:
        return Unknown("there is no tree")
    inside = tree.modules_in(node)
    parts = [node_energy(session, child) for child in (node, *inside)]
    replays = [one.joules for one in parts if isinstance(one, NodeEnergy) and one.counts]
    if not inside or len(replays) < len(parts):
        return Unknown("it and every module in it must be replayed")
    return sum(replays[1:]) / replays[0] - 1


def _bounds(whole: ForwardEnergy, share: float) -> tuple[float, float]:
    """Return the least and the most of a forward's joules that a share of its time can hold."""
    share = min(share, 1.0)
    seconds = whole.seconds / whole.forwards
    idle = 0.0 if isinstance(whole.idle_watts, Unknown) else whole.idle_watts
    low, high = idle * seconds * share, whole.joules - idle * seconds * (1 - share)
    if whole.limit_watts is not None:
        low = max(low, whole.joules - whole.limit_watts * seconds * (1 - share))
        high = min(high, whole.limit_watts * seconds * share)
    return max(low, 0.0), min(high, whole.joules)


def _of_gpu(
    sample: Sample, counters: tuple[EnergyTotals, ...], number: int
) -> EnergyTotals | Unknown:
    of_gpus = [one for one in counters if one.of == "gpu"]
    if not of_gpus:
        return Unknown("the energy of the GPU is not counted on this machine")
    gpus = () if isinstance(sample.gpus, Unknown) else sample.gpus
    places = [
        gpu.index
        for gpu in gpus
        if gpu.cuda_index == number or any(part.cuda_index == number for part in gpu.mig)
    ]
    if any(part.cuda_index == number for gpu in gpus for part in gpu.mig):
        return Unknown("it is a slice of a GPU, and energy is counted for all of it")
    found = next((one for one in of_gpus if one.gpu in places), None)
    return found or Unknown(f"which of the GPUs is cuda:{number} is not known")


def _flops_per_joule(session: Session, joules: float) -> Figure:
    tree = session.tree
    if tree is None or not len(tree) or not tree.has_forward:
        return Unknown("its FLOPs are not known")
    if is_mixed(session):
        return Unknown(f"the joules are those of an average forward: {MIXED}")
    if joules <= 0:
        return Unknown("the counter did not move")
    cost = tree.costs[0]
    if (depends := tree.depends(0)) is not None:
        if session.real is None or session.real.cost is None:
            return Unknown(bound.WHY_OPEN[depends])
        cost = session.real.cost
    flops = bound.known_flops(cost)
    return Unknown(bound.why_not_counted(tree)) if flops is None else flops / joules


class PaperEnergy(Struct, frozen=True):
    """Joules of one forward in a node, estimated."""

    low: float
    high: float
    source: str = PAPER_SOURCE


def energy_on_paper(session: Session, node: int) -> PaperEnergy | Unknown:
    """Return the joules of a node and of all modules inside it."""
    tree = session.tree
    if tree is None or not tree.has_forward:
        return Unknown("there is no forward to estimate")
    if bound.known_flops(tree.costs[node]) is None:
        return Unknown(bound.why_not_counted(tree))
    low = high = 0.0
    for inside in range(node, tree.ends[node]):
        is_own = tree.nodes[inside].kind == "module" or inside == node
        if not is_own:
            continue
        found = _own_on_paper(tree, inside)
        if isinstance(found, Unknown):
            return found
        low, high = low + found[0], high + found[1]
    return PaperEnergy(low, high)


def _own_on_paper(tree: Tree, node: int) -> tuple[float, float] | Unknown:
    cost = bound.own_cost(tree, node)
    if not cost.ops:
        return 0.0, 0.0
    depends = bound.own_dependence(tree, node)
    if depends == "about":
        return Unknown(bound.BY_VALUE)
    name = bound.node_dtype(tree, node)
    coefficients = _MULTIPLY_ADD.get(name)
    if coefficients is None:
        return Unknown(f"no published coefficient for {name}")
    arithmetic = _arithmetic(cost, *coefficients)
    moved = bound.bytes_moved(cost)
    return (
        (arithmetic + moved * CACHE_BYTE_PICOJOULES) * _PICO if depends is None else 0.0,
        (arithmetic + moved * DRAM_BYTE_PICOJOULES) * _PICO,
    )


def _arithmetic(cost: Cost, multiply: float, add: float) -> float:
    others = max(cost.flops - 2 * cost.macs, 0)
    return cost.macs * (multiply + add) + others * add

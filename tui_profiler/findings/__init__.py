"""Advice: pure questions of a session, one file for each kind of finding."""

from __future__ import annotations

from msgspec.structs import replace

from tui_profiler.figures.units import energy
from tui_profiler.findings.evidence.finding import Check, Evidence, Finding, Gain, HoldsIn, Kind
from tui_profiler.findings.execution.autocast import bf16_autocast, fp16_autocast
from tui_profiler.findings.execution.compile import compile_model
from tui_profiler.findings.execution.host_overhead import host_overhead
from tui_profiler.findings.execution.inference_mode import inference_mode
from tui_profiler.findings.execution.input_idle import input_idle
from tui_profiler.findings.execution.larger_batch import larger_batch
from tui_profiler.findings.execution.synchronise import synchronise
from tui_profiler.findings.execution.threads import threads
from tui_profiler.findings.model.alignment import alignment
from tui_profiler.findings.model.channels_last import channels_last
from tui_profiler.findings.model.fold_conv_bn import fold_conv_bn
from tui_profiler.findings.model.fuse_activation import fuse_activation
from tui_profiler.findings.model.int8_dynamic import int8_dynamic
from tui_profiler.findings.model.peak_activations import peak_activations
from tui_profiler.findings.model.pruning import pruning
from tui_profiler.findings.model.quantise_weights import quantise_weights
from tui_profiler.findings.model.remove_dropout_identity import remove_dropout_identity
from tui_profiler.findings.model.sdpa import sdpa
from tui_profiler.findings.model.static_kv_cache import static_kv_cache
from tui_profiler.findings.model.unused_parameters import unused_parameters
from tui_profiler.findings.model.upcast import upcast
from tui_profiler.findings.verdict import Advice, advice
from tui_profiler.messages import Unknown
from tui_profiler.messages.trials import TrialKind
from tui_profiler.queries.cost.energy import forward_energy
from tui_profiler.queries.time.forward_kinds import is_mixed, times_fit_costs
from tui_profiler.queries.time.modes import mode
from tui_profiler.session import Session

CHECKS: dict[Kind, Check] = {
    one.kind: one
    for one in (
        fold_conv_bn,
        channels_last,
        bf16_autocast,
        fp16_autocast,
        int8_dynamic,
        compile_model,
        sdpa,
        larger_batch,
        inference_mode,
        threads,
        static_kv_cache,
        remove_dropout_identity,
        synchronise,
        host_overhead,
        input_idle,
        unused_parameters,
        fuse_activation,
        peak_activations,
        upcast,
        alignment,
        pruning,
        quantise_weights,
    )
}
"""Every kind of advice and the question that finds it."""
_OTHER_POWER = ("threads", "input-idle")
"""More cores draw more power, and an idle machine less: time says nothing of their energy."""


def findings(session: Session) -> tuple[Finding, ...]:
    """Return every finding that applies: predicted gains of time first, the largest before others.

    After them bounds, then gains of memory, then what is not known.
    """
    asked = session
    if not times_fit_costs(session):  # What is found then is on paper.
        asked = replace(session, timings=None, operators=None, windows=None, device=None)
    found = [finding for check in CHECKS.values() if (finding := check(asked)) is not None]
    return tuple(sorted(_with_energy(session, found), key=_rank))


def withheld(session: Session) -> tuple[Kind, ...]:
    """Return the kinds that do not hold in the mode that the program runs the model in."""
    return tuple(kind for kind, check in CHECKS.items() if not check.holds(session))


def checks_words(session: Session) -> str:
    """Say how many kinds were looked for: ``9 checks``."""
    count = len(CHECKS) - len(withheld(session))
    return f"{count} check{'s' * (count != 1)}"


def withheld_words(session: Session) -> str:
    """Say how many kinds are withheld and why; empty where none is."""
    count = len(withheld(session))
    if not count:
        return ""
    found = mode(session)
    known = found.name or "mode unknown"
    return f"{count} more hold in inference only; {known}: {found.why}"


def _rank(finding: Finding) -> tuple[int, float]:
    gain = finding.gain
    if isinstance(gain.share, Unknown):
        return 3, 0.0
    return (2 if gain.of == "memory" else 1 if gain.is_bound else 0), -gain.share


def _with_energy(session: Session, found: list[Finding]) -> list[Finding]:
    """Return the findings; those that save time with what it is of a forward's measured energy."""
    measured = forward_energy(session)
    if isinstance(measured, Unknown) or is_mixed(session):
        return found
    formula = (
        f"that share of {energy(measured.joules)} per forward, if {measured.name} draws"
        f" {measured.watts:.0f} W as now"
    )
    return [_with_energy_gain(finding, formula) for finding in found]


def _with_energy_gain(finding: Finding, formula: str) -> Finding:
    time = finding.gain
    is_known = time.of == "time" and not isinstance(time.share, Unknown)
    if not is_known or finding.kind in _OTHER_POWER:
        return finding
    gain = Gain("energy", time.share, formula, "estimated", time.is_bound)
    return replace(finding, gains=(*finding.gains, gain))


__all__ = [
    "CHECKS",
    "Advice",
    "Check",
    "Evidence",
    "Finding",
    "Gain",
    "HoldsIn",
    "Kind",
    "TrialKind",
    "advice",
    "checks_words",
    "findings",
    "withheld",
    "withheld_words",
]

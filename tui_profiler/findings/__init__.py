"""Findings of a session: a function per kind, none with state."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures import units
from tui_profiler.figures.units import energy
from tui_profiler.findings.evidence.finding import Check, Finding, Gain, Kind, Per, Withheld
from tui_profiler.findings.evidence.memory import LEAST_OF_DEVICE, device_bytes, peak_of
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, NO_TIME, NO_TIMES
from tui_profiler.findings.evidence.training_step import share_of_step, usable_step, why_no_advice
from tui_profiler.findings.execution.autocast import bf16_autocast, fp16_autocast
from tui_profiler.findings.execution.compile import compile_model
from tui_profiler.findings.execution.compiled import graph_breaks, recompiles
from tui_profiler.findings.execution.host import host_overhead, input_idle
from tui_profiler.findings.execution.inference_mode import inference_mode
from tui_profiler.findings.execution.larger_batch import larger_batch
from tui_profiler.findings.execution.reuse_memory import reuse_memory
from tui_profiler.findings.execution.synchronise import synchronise
from tui_profiler.findings.execution.threads import threads
from tui_profiler.findings.execution.training import (
    accumulate,
    checkpoint,
    first_nan,
    loader_workers,
    optimizer_loop,
    pin_memory,
    recompute,
    slow_line,
    zero_grad,
)
from tui_profiler.findings.model.attention import sdpa, static_kv_cache
from tui_profiler.findings.model.int8_dynamic import int8_dynamic
from tui_profiler.findings.model.no_ops import fold_conv_bn, remove_dropout_identity
from tui_profiler.findings.model.operators import alignment, channels_last, fuse_activation, upcast
from tui_profiler.findings.model.peak_activations import peak_activations
from tui_profiler.findings.model.slow_dtype import slow_dtype
from tui_profiler.findings.model.weights import pruning, quantise_weights, unused_parameters
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.energy import forward_energy
from tui_profiler.queries.forward.generation import phase_shares
from tui_profiler.queries.time.forward_kinds import is_mixed
from tui_profiler.queries.time.modes import is_training, runs_own_steps
from tui_profiler.queries.training import step_costs
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
        graph_breaks,
        recompiles,
        host_overhead,
        input_idle,
        loader_workers,
        pin_memory,
        optimizer_loop,
        zero_grad,
        slow_line,
        checkpoint,
        recompute,
        accumulate,
        first_nan,
        unused_parameters,
        fuse_activation,
        peak_activations,
        upcast,
        slow_dtype,
        reuse_memory,
        alignment,
        pruning,
        quantise_weights,
    )
}
"""Every kind of finding, in the order in which they run."""
_NO_TIMES = (NO_TIMES, NO_TIME)
_OTHER_POWER = ("threads", "input-idle")
"""More cores draw more power, an idle machine less: their energy does not follow from the time."""


class Conclusions(Struct, frozen=True):
    """Everything that the kinds of findings conclude from a session."""

    findings: tuple[Finding, ...] = ()
    """Those that apply, by ``Gain.rank``."""
    withheld: tuple[Withheld, ...] = ()
    """Those that are not concluded, in the order of ``CHECKS``."""

    @property
    def checks(self) -> str:
        """How many kinds were concluded, whether they apply or not: ``9 checks``."""
        count = len(CHECKS) - len(self.withheld)
        return f"{count} check{'s' * (count != 1)}"

    @property
    def reasons(self) -> Mapping[str, tuple[Kind, ...]]:
        """Kinds by the reason why they are withheld, most kinds first.

        Without kinds that hold in training only beside a program that infers, and without figures
        that are there only if requested.
        """
        found: dict[str, tuple[Kind, ...]] = {}
        for one in self.withheld:
            is_named = one.is_usual
            if one.because == "mode":
                is_named = CHECKS[one.kind].holds_in == "inference"
            if is_named:
                found[one.reason] = (*found.get(one.reason, ()), one.kind)
        return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))

    @property
    def in_short(self) -> str:
        """Contention, else the program's mode: ``11 withheld: training``; empty where neither is.

        The reason most kinds are withheld for.
        """
        by = {one.reason: one for one in self.withheld}
        found = [(by[why].because, why, kinds) for why, kinds in self.reasons.items()]
        for because in ("contention", "mode"):
            for why, kinds in (pair[1:] for pair in found if pair[0] == because):
                words = why if because == "contention" else why.partition(":")[0]
                return f"{len(kinds)} withheld: {words}"
        return ""

    @property
    def words(self) -> tuple[str, ...]:
        """Why kinds are withheld: a sentence for each of ``reasons``."""
        return tuple(
            f"{len(kinds)} withheld, {why}: {', '.join(kinds)}"
            for why, kinds in self.reasons.items()
        )


def conclusions(session: Session) -> Conclusions:
    """Return every finding that applies, and why others are withheld."""
    answers = [check.answer(session) for check in CHECKS.values()]
    found = [_with_reason(one) for one in answers if isinstance(one, Finding)]
    found = _of_what_is_waited_for(session, _with_energy(session, found))
    kept = filter(None, (_worth_trying(session, finding) for finding in found))
    return Conclusions(
        tuple(sorted(kept, key=lambda one: one.gain.rank)),
        tuple(one for one in answers if isinstance(one, Withheld)),
    )


def findings(session: Session) -> tuple[Finding, ...]:
    """Return every finding that applies, by ``Gain.rank``."""
    return conclusions(session).findings


def withheld(session: Session) -> tuple[Kind, ...]:
    """Return the kinds that do not hold in the program's mode."""
    return tuple(kind for kind, check in CHECKS.items() if not check.holds(session))


def _with_reason(finding: Finding) -> Finding:
    """Return the finding; where wall times were taken out of it as contended, its gain says so."""
    if not finding.contended:
        return finding
    gains = (
        replace(gain, share=Unknown(finding.contended)) if gain.share in _NO_TIMES else gain
        for gain in finding.gains
    )
    return replace(finding, gains=tuple(gains))


def _of_what_is_waited_for(session: Session, findings: list[Finding]) -> list[Finding]:
    """Return the findings with time as a share of what the user of the program waits for.

    In training it is the step, in generation the request, else the forward.
    """
    of_step = [_of_step(one) for one in findings if one.is_of_step]
    others = [one for one in findings if not one.is_of_step]
    if is_training(session):
        return of_step + _of_steps(session, others)
    return of_step + _of_requests(session, others)


def _of_step(finding: Finding) -> Finding:
    gains = (replace(one, per="step") if one.of == "time" else one for one in finding.gains)
    return replace(finding, gains=tuple(gains))


def _of_steps(session: Session, findings: list[Finding]) -> list[Finding]:
    """Return findings of a forward with their share of the step that it is a part of.

    Before steps were recorded their share is not known. Of steps on paper a gain stays that of a
    forward, and says so.
    """
    step, training = usable_step(session), session.training
    root = training.of(0) if training is not None else None
    if step is not None and root is not None:
        part = share_of_step(step, root.forward)
        words = (
            f"forwards are {units.share(part)} of the step; what it saves in the backward is not"
            " known"
        )
        return [_scaled(one, part, "step", words) for one in findings]
    if training is None and runs_own_steps(session):
        return findings
    why = why_no_advice(session) or "no training step was recorded"
    unknown = Unknown(f"its share of the step is not known: {why}")
    return [_with_time(one, lambda gain: gain.without_share(unknown, "step")) for one in findings]


def _of_requests(session: Session, findings: list[Finding]) -> list[Finding]:
    """Return findings of a forward with their share of the request that it is a part of."""
    seen, tree = session.generation, session.tree
    parts = dict(phase_shares(seen)) if seen is not None and tree is not None else {}
    part = parts.get(tree.phase) if tree is not None else None
    if tree is None or part is None:
        return findings
    words = f"{tree.phase} is {units.share(part)} of a request"
    return [_scaled(one, part, "request", words) for one in findings]


def _scaled(finding: Finding, part: float, per: Per, words: str) -> Finding:
    def scaled(gain: Gain) -> Gain:
        return gain.scaled(part, per, f"{gain.formula}; {words}")

    return _with_time(finding, scaled)


def _with_time(finding: Finding, change: Callable[[Gain], Gain]) -> Finding:
    """Return a finding with its known gains of time per forward changed."""
    gains = (
        change(one)
        if one.of == "time" and one.per == "forward" and not isinstance(one.share, Unknown)
        else one
        for one in finding.gains
    )
    return replace(finding, gains=tuple(gains))


def _worth_trying(session: Session, finding: Finding) -> Finding | None:
    """Return a finding without the gains that are negligible; None where none is left."""
    peak = peak_of(session.tree) if session.tree is not None else None
    if finding.is_of_step:
        peak = known(step_costs.peak_bytes(session))
    gains = tuple(one for one in finding.gains if not _is_negligible(session, one, peak))
    return replace(finding, gains=gains) if gains else None


def _is_negligible(session: Session, gain: Gain, peak: float | None) -> bool:
    if isinstance(gain.share, Unknown):
        return False
    if gain.most < LEAST_SHARE:
        return True
    whole = device_bytes(session)
    if gain.of != "memory" or whole is None or peak is None:
        return False
    return gain.most * peak < LEAST_OF_DEVICE * whole


def _with_energy(session: Session, found: list[Finding]) -> list[Finding]:
    """Return the findings; those that save time also with the energy that it saves."""
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
    if not is_known or finding.is_of_step or finding.kind in _OTHER_POWER:
        return finding
    gain = replace(time, of="energy", formula=formula, provenance="estimated")
    return replace(finding, gains=(*finding.gains, gain))

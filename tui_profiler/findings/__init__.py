"""Advice: pure questions of a session, one file for each kind of finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from tui_profiler.findings.alignment import alignment
from tui_profiler.findings.autocast import bf16_autocast, fp16_autocast
from tui_profiler.findings.channels_last import channels_last
from tui_profiler.findings.compile import compile_model
from tui_profiler.findings.energy_gain import with_energy
from tui_profiler.findings.finding import Evidence, Finding, Gain, Kind
from tui_profiler.findings.fold_conv_bn import fold_conv_bn
from tui_profiler.findings.fuse_activation import fuse_activation
from tui_profiler.findings.host_overhead import host_overhead
from tui_profiler.findings.inference_mode import inference_mode
from tui_profiler.findings.input_idle import input_idle
from tui_profiler.findings.int8_dynamic import int8_dynamic
from tui_profiler.findings.larger_batch import larger_batch
from tui_profiler.findings.peak_activations import peak_activations
from tui_profiler.findings.pruning import pruning
from tui_profiler.findings.quantise_weights import quantise_weights
from tui_profiler.findings.remove_dropout_identity import remove_dropout_identity
from tui_profiler.findings.sdpa import sdpa
from tui_profiler.findings.static_kv_cache import static_kv_cache
from tui_profiler.findings.synchronise import synchronise
from tui_profiler.findings.threads import threads
from tui_profiler.findings.unused_parameters import unused_parameters
from tui_profiler.findings.upcast import upcast
from tui_profiler.findings.verdict import Advice, advice
from tui_profiler.messages import Unknown
from tui_profiler.messages.trials import TrialKind
from tui_profiler.queries.sorts import times_fit_costs
from tui_profiler.session import Session

Check: TypeAlias = Callable[[Session], Finding | None]
CHECKS: dict[Kind, Check] = {
    "fold-conv-bn": fold_conv_bn,
    "channels-last": channels_last,
    "bf16-autocast": bf16_autocast,
    "fp16-autocast": fp16_autocast,
    "int8-dynamic": int8_dynamic,
    "compile": compile_model,
    "sdpa": sdpa,
    "larger-batch": larger_batch,
    "inference-mode": inference_mode,
    "threads": threads,
    "static-kv-cache": static_kv_cache,
    "remove-dropout-identity": remove_dropout_identity,
    "synchronise": synchronise,
    "host-overhead": host_overhead,
    "input-idle": input_idle,
    "unused-parameters": unused_parameters,
    "fuse-activation": fuse_activation,
    "peak-activations": peak_activations,
    "upcast": upcast,
    "alignment": alignment,
    "pruning": pruning,
    "quantise-weights": quantise_weights,
}
"""Every kind of advice and the question that finds it."""


def findings(session: Session) -> tuple[Finding, ...]:
    """Give every finding that applies: predicted gains of time first, the largest before others.

    After them bounds, then gains of memory, then what is not known.
    """
    asked = session
    if not times_fit_costs(session):  # What is found then is on paper.
        asked = replace(session, timings=None, operators=None, windows=None, device=None)
    found = [finding for check in CHECKS.values() if (finding := check(asked)) is not None]
    return tuple(sorted(with_energy(session, found), key=_rank))


def _rank(finding: Finding) -> tuple[int, float]:
    gain = finding.gain
    if isinstance(gain.share, Unknown):
        return 3, 0.0
    return (2 if gain.of == "memory" else 1 if gain.is_bound else 0), -gain.share


__all__ = [
    "CHECKS",
    "Advice",
    "Evidence",
    "Finding",
    "Gain",
    "Kind",
    "TrialKind",
    "advice",
    "findings",
]

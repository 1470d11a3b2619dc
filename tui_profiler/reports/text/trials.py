"""What was tried on a model, beside what was predicted, as text for reading.

No line is wider than ``columns`` cells, and none holds anything but safe text.
"""

from tui_profiler.figures.units import UNAVAILABLE, ZERO, dtype, duration, shape, share, size
from tui_profiler.findings import findings
from tui_profiler.findings.evidence.finding import Finding, gain_text
from tui_profiler.findings.trial_verdict import Word, measured, of_result, verdict
from tui_profiler.formatting.text import safe, wrap
from tui_profiler.messages import ModelFacts, OutputError, TrialResult, Unknown, known
from tui_profiler.reports.text.text import heading, in_cells
from tui_profiler.session import Session

LEAST_COLUMNS = 80
"""A narrower terminal wraps the lines: better than losing figures."""
_INDENT = "      "
_WORDS: dict[Word, str] = {
    "held": "as predicted",
    "less": "less than predicted",
    "more": "more than predicted",
    "refuted": "prediction refuted",
    "no gain": "no gain",
    "gained": "gain",
    "undecided": "undecided",
}


def trials_table(session: Session, *, columns: int) -> tuple[str, ...]:
    """Return every trial of a session as lines, in the order in which they were made.

    Args:
        session: whose model was measured.
        columns: cells of the widest line; at least 80 are taken.
    """
    cells = max(columns, LEAST_COLUMNS)
    found = {one.trial: one for one in findings(session) if one.trial is not None}
    lines = [
        *_identity(session.model),
        "",
        heading("trials", "each in a separate process, in turns with the unchanged model"),
        _row("change", "predicted", "measured", "interval", "error", "memory"),
    ]
    for result in session.trials:
        lines += _trial(result, found.get(result.kind), cells)
    lines += ["", *_legend(has_steps=any(one.is_step for one in session.trials))]
    return tuple(in_cells(line, cells) for line in lines)


def predicted(finding: Finding | None) -> str:
    """Return how many times as fast a finding says that a change makes it: ``1.12×``, ``≤1.30×``.

    A dot where nothing speaks for the change, a dash where no figure can be said.
    """
    if finding is None:
        return ZERO
    gain = finding.gain
    if isinstance(gain.share, Unknown):
        return UNAVAILABLE
    if gain.of == "memory":
        return UNAVAILABLE
    bound = "≤" if gain.is_bound else ""
    return f"{bound}{1 / (1 - gain.share):.2f}×" if gain.share < 1 else UNAVAILABLE


def times(speedup: float) -> str:
    """Return how many times as fast: ``1.12``, ``0.013``."""
    return f"{speedup:.2f}" if speedup >= 0.095 else f"{speedup:.2g}"


def _verdict(result: TrialResult, finding: Finding | None) -> str:
    """Say what became of the prediction; where there was none, whether it gained."""
    saved = measured(result)
    if saved is None:
        return ""
    gain = (finding or of_result(result)).gain
    word = _WORDS.get(verdict(gain, saved), "")
    if saved.of == "time":
        return word
    said = f" ({gain_text(finding.gain)} predicted)" if finding else ""
    return "; ".join(filter(None, (word, f"saves {share(saved.share)} of the peak{said}")))


def _identity(model: ModelFacts | None) -> list[str]:
    if model is None:
        return ["unknown model"]
    weights = f"{safe(model.weights)} weights"
    batch = f", batch {model.batch}" if model.batch else ""
    where = f"from {safe(model.source)}, {safe(model.device)}, {weights}{batch}"
    return [
        f"{safe(model.name)}  {safe(model.type)}  {where}",
        *(
            f"  {safe(part.name)} {shape(part.shape)} {dtype(safe(part.dtype))}"
            for part in model.inputs
        ),
    ]


def _row(change: str, said: str, measured: str, interval: str, error: str, memory: str) -> str:
    return f"  {change:<24}{said:>10}{measured:>10}{interval:>14}{error:>10}{memory:>9}"


def _trial(result: TrialResult, finding: Finding | None, cells: int) -> list[str]:
    said = predicted(finding)
    if result.speedup is None:
        row = _row(result.kind, said, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE)
        why = f"{result.outcome}: {safe(result.why)}"
        return [row, *(_INDENT + line for line in wrap(why, cells - len(_INDENT)))]
    interval = UNAVAILABLE
    if result.low is not None and result.high is not None:
        interval = f"{times(result.low)}–{times(result.high)}"
    found = f"{times(result.speedup)}×"
    row = _row(result.kind, said, found, interval, _error(result.error), _memory_change(result))
    said = _verdict(result, finding)
    text = "; ".join(filter(None, (said, safe(result.detail), _times(result), _remarks(result))))
    return [row, *(_INDENT + line for line in wrap(text, cells - len(_INDENT)))]


def _error(error: OutputError | None) -> str:
    if error is None:
        return UNAVAILABLE
    if error.values == 0:
        return ZERO if error.others_differ == 0 else f"{error.others_differ} ≠"
    return ZERO if error.relative == 0 else f"{error.relative:.1e}"


def _memory_change(result: TrialResult) -> str:
    """Return the change of weights and what a call allocates, for one item."""
    before, after = _memory(result, changed=False), _memory(result, changed=True)
    if before is None or after is None or before <= 0:
        return UNAVAILABLE
    percent = round(100 * (after / before - 1))
    return f"{percent:+d} %".replace("-", "−") if percent else ZERO


def _memory(result: TrialResult, *, changed: bool) -> float | None:
    side = result.changed if changed else result.baseline
    if side is None:
        return None
    peak, weights = known(side.peak_bytes), known(side.weight_bytes)
    return peak + weights if peak is not None and weights is not None else None


def _times(result: TrialResult) -> str:
    before, after = result.baseline, result.changed
    if before is None or after is None:
        return ""
    text = f"{duration(before.seconds)} to {duration(after.seconds)} per call"
    return text if after.items == before.items else f"{text} with {after.items} times the items"


def _remarks(result: TrialResult) -> str:
    remarks = [f"{result.pairs} pairs"]
    if result.change_seconds > 1:
        remarks.append(f"{duration(result.change_seconds)} one-time cost")
    memory = _memory(result, changed=True)
    if memory is not None:
        remarks.append(f"memory {size(memory)}")
    if result.error is not None and result.error.again > 0:
        remarks.append(f"the unchanged model varies by {result.error.again:.1e}")
    remarks += filter(None, (safe(result.why_no_error), safe(result.why)))
    return ", ".join(remarks)


def _legend(*, has_steps: bool) -> list[str]:
    return [
        "  predicted and measured: speed-up per item; · no finding predicts one",
        "  interval: 95 % CI of the median; error: relative, of the output, · none",
        "  memory: weights and peak allocation of one call",
        *(["  each call is a training step; error: of its gradients"] if has_steps else []),
    ]

"""Details of a finding: why, evidence, prediction, trial, nodes."""

from tui_profiler.figures.units import duration, share, size, thousands, three_digits
from tui_profiler.findings.evidence.finding import (
    Evidence,
    Finding,
    counted,
    figure_text,
    gain_text,
    whole_text,
)
from tui_profiler.findings.trial_verdict import Advice, Word, step_words
from tui_profiler.formatting.text import middle, printable, safe, width, wrap
from tui_profiler.messages import TrialProgress, TrialResult, Unknown, known
from tui_profiler.session import Tree

from ...widgets.identity_lines import title_of
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row, section, words
from .lines import error_text

_PROVENANCE = 11
_FIGURE = 12
_JUDGED: dict[Word, str] = {
    "held": "the prediction held",
    "less": "smaller gain than predicted",
    "more": "larger gain than predicted",
    "refuted": "prediction refuted: no evidence of a gain",
    "no gain": "no evidence of a gain",
    "undecided": "inconclusive, the 95 % CI is too wide (+ during a trial measures longer)",
    "gained": "a gain that was not predicted",
}


def finding_lines(look: Look, one: Advice, refused: str) -> tuple[Line, ...]:
    """Return all about a finding.

    Args:
        look: the drawing context; its node is one of the finding's.
        one: the finding and its trial.
        refused: why no trial can run here; empty where it can.
    """
    finding = one.finding
    kind = f"kind {finding.kind}"
    room = look.inner - width(kind) - 4
    title = section(middle(safe(finding.title), room, look.glyphs.ellipsis), kind, look)
    about = (
        *words(safe(finding.why), look, "ink"),
        EMPTY,
        section("evidence", "", look),
        *(line for evidence in finding.evidence for line in _evidence(evidence, look)),
        EMPTY,
        *_predictions(finding, look),
    )
    trial = _trial(one, refused, look)
    # A running trial is visible however few rows there are.
    parts = (trial, about) if one.progress is not None else (about, trial)
    return (title, *parts[0], EMPTY, *parts[1], EMPTY, *_nodes(finding, look))


def _evidence(one: Evidence, look: Look) -> tuple[Line, ...]:
    wide = look.inner >= 60
    right: Line = ((figure_text(one).rjust(_FIGURE), "ink"),)
    if wide:
        right = (*right, (one.provenance.rjust(_PROVENANCE), "faint"))
    room = look.inner - sum(width(part) for part, _ in right) - 1
    what = printable(one.what)  # The name of a line of the program is in it whole.
    if isinstance(one.figure, Unknown):
        what = f"{what}: {safe(one.figure.reason)}"
    parts = wrap(what, max(room, 1)) or ("",)
    first = row(((parts[0], "muted"),), right, look)
    return (first, *(row(((part, "muted"),), EMPTY, look) for part in parts[1:]))


def _predictions(finding: Finding, look: Look) -> tuple[Line, ...]:
    lines = [section("prediction", finding.gain.provenance, look)]
    for gain in finding.gains:
        if isinstance(gain.share, Unknown):
            said = (
                f"{whole_text(gain)}: unavailable, {safe(gain.share.reason)} ({safe(gain.formula)})"
            )
        else:
            said = f"{gain_text(gain)} of {whole_text(gain)}: {safe(gain.formula)}"
        lines += words(said, look, "ink")
    return tuple(lines)


def _trial(one: Advice, refused: str, look: Look) -> tuple[Line, ...]:
    title = section("trial", "in a separate process" if one.finding.trial else "", look)
    if one.finding.trial is None:
        return (title, *words(f"none: {safe(one.finding.why_no_trial)}", look))
    lines: list[Line] = [title]
    if one.progress is not None:
        lines += words(_progress(one.progress), look, "ink")
    elif one.word == "waits":
        lines += words("waiting for the previous trial", look)
    if one.result is not None:
        for said in _result(one, one.result):
            lines += words(said, look, "ink")
    if refused:
        lines += words(f"no trial here: {safe(refused)}", look, "faint")
    elif one.progress is None and one.word != "waits":
        again = "again " if one.result is not None else ""
        said = f"x runs the trial {again}against the current model, which is paused meanwhile"
        if one.finding.is_beside:
            said = f"x runs the trial {again}on tensors of the same shapes, beside the program"
        lines += words(said, look)
    return tuple(lines)


def _progress(progress: TrialProgress) -> str:
    pairs = f", {counted(progress.pairs, 'pair')}" if progress.pairs else ""
    speed = f", {three_digits(progress.speedup)}× so far" if progress.speedup else ""
    left, keys = progress.left_seconds, "x stops it"
    time = f", {duration(progress.seconds)}"
    if left is not None:
        time, keys = f", at most {left:.0f} s left", "+ measures 30 s longer, x stops it"
    return f"{step_words(progress.step)}{time}{pairs}{speed}; {keys}"


def _result(one: Advice, result: TrialResult) -> tuple[str, ...]:
    if result.outcome == "time":
        return (f"time limit: {safe(result.why)}",)
    if one.measured is None or result.speedup is None:
        # Most reasons name the kind of failure.
        kind = f" ({result.outcome})" if result.outcome not in result.why else ""
        return (f"not measured{kind}: {safe(result.why)}",)
    low, high = result.low or 0.0, result.high or 0.0
    saved = f"saves {share(one.measured.share)} of the peak, " * (one.measured.of == "memory")
    of_update = " of the update" * (result.of_step < 1)
    interval = f", 95 % CI {three_digits(low)} to {three_digits(high)}" if low and high else ""
    fast = (
        f"{_JUDGED.get(one.word, one.word)}: {saved}speed-up{of_update}"
        f" {three_digits(result.speedup)}×{interval}, {counted(result.pairs, 'pair')} in"
        f" {duration(result.seconds)}"
    )
    found = [fast]
    if result.baseline is not None and result.changed is not None:
        before, after = (
            duration(side.seconds / max(side.items, 1))
            for side in (result.baseline, result.changed)
        )
        per = "step" if result.is_step else "update" if result.of_step < 1 else "item"
        found.append(f"per {per} {after} instead of {before}{_memory(result)}")
    if result.error is not None:
        error = result.error
        noise = f"; two runs of the model differ by {error.again:.1e}" if error.again else ""
        found.append(
            f"{_compared(result)} error: {error_text(one)} relative, {error.largest:.1e} largest,"
            f" over {counted(error.values, 'value')}{noise}"
        )
    elif result.why_no_error:
        found.append(f"{_compared(result)} error: {safe(result.why_no_error)}")
    if result.detail:
        found.append(f"changed: {safe(result.detail)}")
    if result.change_seconds:
        found.append(f"applying the change took {duration(result.change_seconds)}, once")
    return tuple(found)


def _compared(result: TrialResult) -> str:
    """Return what was compared."""
    if result.kind == "optimizer-loop":
        return "update"
    return "gradient" if result.is_step else "output"


def _memory(result: TrialResult) -> str:
    """Return the change of memory, where both sides were measured."""
    assert result.baseline is not None
    assert result.changed is not None
    said = ""
    for what, before, after in (
        ("peak", result.baseline.peak_bytes, result.changed.peak_bytes),
        ("weights", result.baseline.weight_bytes, result.changed.weight_bytes),
    ):
        old, new = known(before), known(after)
        if old is not None and new is not None and size(old) != size(new):
            said += f"; {what} {size(new)} instead of {size(old)}"
    return said


def _nodes(finding: Finding, look: Look) -> tuple[Line, ...]:
    tree = look.session.tree
    if tree is None:
        return ()
    at = finding.nodes.index(look.node) if look.node in finding.nodes else -1
    place = f"{thousands(at + 1)} of " if at >= 0 else ""
    lines = [section("nodes", f"{place}{thousands(len(finding.nodes))}", look)]
    first = max(at, 0)
    for node in finding.nodes[first : first + 8]:
        is_here = node == look.node
        name = middle(_name(tree, node), look.inner - 2, look.glyphs.ellipsis)
        mark = look.glyphs.cursor if is_here else " "
        lines.append(row(((f"{mark} ", "accent"), (name, "ink" if is_here else "muted")), (), look))
    return tuple(lines)


def _name(tree: Tree, node: int) -> str:
    if not 0 <= node < len(tree):
        return ""
    found = tree.nodes[node]
    if found.kind == "module":
        return title_of(tree, node)
    where = title_of(tree, max(found.parent, 0))
    return f"{where} {safe(found.name).removeprefix('aten::')}"

"""One finding in full: why, its evidence, its prediction, its trial, its nodes."""

from __future__ import annotations

from tui_profiler.figures.units import duration, size, thousands, three_digits
from tui_profiler.findings import Advice, Finding
from tui_profiler.findings.evidence.figure_text import counted, figure_text, gain_text
from tui_profiler.findings.evidence.finding import Evidence
from tui_profiler.findings.verdict import Word
from tui_profiler.formatting.text import middle, safe, width, wrap
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
    "less": "there was less to gain than predicted",
    "more": "there was more to gain than predicted",
    "refuted": "the prediction is refuted: no evidence of a gain",
    "no gain": "no evidence of a gain",
    "undecided": "inconclusive: the interval is too wide",
    "gained": "there is a gain, which was not predicted",
}
_STEPS = {"start": "starts a process", "load": "loads the model", "change": "makes the change"}


def finding_lines(look: Look, one: Advice, refused: str) -> tuple[Line, ...]:
    """Return everything about a finding.

    Args:
        look: what is looked at; its node is one of the finding's.
        one: the finding and its trial.
        refused: why nothing can be tried here; empty where it can.
    """
    finding = one.finding
    return (
        section(at_title(finding), f"kind {finding.kind}", look),
        *words(safe(finding.why), look, "ink"),
        EMPTY,
        section("evidence", "", look),
        *(line for evidence in finding.evidence for line in _evidence(evidence, look)),
        EMPTY,
        *_predictions(finding, look),
        EMPTY,
        *_trial(one, refused, look),
        EMPTY,
        *_nodes(finding, look),
    )


def at_title(finding: Finding) -> str:
    """Return the title of the section."""
    return safe(finding.title)


def _evidence(one: Evidence, look: Look) -> tuple[Line, ...]:
    wide = look.inner >= 60
    right: Line = ((figure_text(one).rjust(_FIGURE), "ink"),)
    if wide:
        right = (*right, (one.provenance.rjust(_PROVENANCE), "faint"))
    room = look.inner - sum(width(part) for part, _ in right) - 1
    what = safe(one.what)
    if isinstance(one.figure, Unknown):
        what = f"{what}: {safe(one.figure.reason)}"
    parts = wrap(what, max(room, 1), look.glyphs.ellipsis) or ("",)
    first = row(((parts[0], "muted"),), right, look)
    return (first, *(row(((part, "muted"),), EMPTY, look) for part in parts[1:]))


def _predictions(finding: Finding, look: Look) -> tuple[Line, ...]:
    lines = [section("prediction", finding.gain.provenance, look)]
    for gain in finding.gains:
        if isinstance(gain.share, Unknown):
            said = f"of {gain.of}: {safe(gain.share.reason)}; it would be {safe(gain.formula)}"
        else:
            said = f"{gain_text(gain)} of {gain.of}: {safe(gain.formula)}"
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
        lines += words(f"cannot be tried here: {safe(refused)}", look, "faint")
    elif one.progress is None and one.word != "waits":
        again = "again " if one.result is not None else ""
        said = f"x tries it {again}against the current model, which is paused meanwhile"
        lines += words(said, look)
    return tuple(lines)


def _progress(progress: TrialProgress) -> str:
    step = _STEPS.get(progress.step, progress.step)
    said = f"it {step}" if progress.step in _STEPS else f"step: {step}"
    pairs = f", {counted(progress.pairs, 'pair')}" if progress.pairs else ""
    speed = f", {three_digits(progress.speedup)}× so far" if progress.speedup else ""
    return f"{said}, {duration(progress.seconds)}{pairs}{speed}; x stops it"


def _result(one: Advice, result: TrialResult) -> tuple[str, ...]:
    if one.measured is None or result.speedup is None:
        # Most reasons say by themselves what kind of end it was.
        kind = f" ({result.outcome})" if result.outcome not in result.why else ""
        return (f"nothing was measured{kind}: {safe(result.why)}",)
    low, high = result.low or 0.0, result.high or 0.0
    fast = (
        f"{_JUDGED.get(one.word, one.word)}: {three_digits(result.speedup)}× as fast, with 95 %"
        f" {three_digits(low)} to {three_digits(high)}, {counted(result.pairs, 'pair')} in"
        f" {duration(result.seconds)}"
    )
    found = [fast]
    if result.baseline is not None and result.changed is not None:
        before, after = result.baseline, result.changed
        found.append(
            f"an item takes {duration(after.seconds / max(after.items, 1))} instead of"
            f" {duration(before.seconds / max(before.items, 1))}{_memory(result)}"
        )
    if result.error is not None:
        error = result.error
        noise = f"; the model differs from itself by {error.again:.1e}" if error.again else ""
        found.append(
            f"output error: {error_text(one)} relative, {error.largest:.1e} at most, of"
            f" {counted(error.values, 'value')}{noise}"
        )
    elif result.why_no_error:
        found.append(f"output error: {safe(result.why_no_error)}")
    if result.detail:
        found.append(f"changed: {safe(result.detail)}")
    if result.change_seconds:
        found.append(f"making the change took {duration(result.change_seconds)}, once")
    return tuple(found)


def _memory(result: TrialResult) -> str:
    """Say what became of memory, where both sides were measured."""
    assert result.baseline is not None
    assert result.changed is not None
    said = ""
    for what, before, after in (
        ("a call", result.baseline.peak_bytes, result.changed.peak_bytes),
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

"""Findings by group, each with its evidence."""

from tui_profiler.figures.units import share
from tui_profiler.findings import conclusions
from tui_profiler.findings.evidence.finding import (
    Evidence,
    Finding,
    Gain,
    Group,
    figure_text,
    gain_text,
    whole_text,
)
from tui_profiler.findings.trial_verdict import GROUP_WORDS, Advice, grouped
from tui_profiler.messages import Unknown
from tui_profiler.reports.document import Facts, Note, Part, Section
from tui_profiler.session import Session

PROVENANCE = "by gain; ~ estimated, ≤ upper bound, – unavailable"


def findings_section(session: Session) -> Section:
    """Return the findings by group and gain; a note where none applies."""
    parts: tuple[Part, ...] = ()
    concluded = conclusions(session)
    for group, members in grouped(session, concluded.findings).items():
        parts = (*parts, Note(group_text(group)), *map(_facts, members))
    if not parts:
        parts = (Note(f"no findings: {concluded.checks} ran, none applies"),)
    parts = (*parts, *map(Note, concluded.words))
    return Section("findings", PROVENANCE, parts)


def group_text(group: Group) -> str:
    """Return the title of a group, with its note."""
    title, said = GROUP_WORDS[group]
    return f"{title}: {said}" if said else title


def _facts(advised: Advice) -> Facts:
    one, measured = advised.finding, measured_text(advised)
    return Facts(
        (
            ("finding", f"{one.title} [{one.kind}]"),
            ("", f"{gain_text(one.gain)} of {whole_text(one.gain)}: {one.why}"),
            ("evidence", "; ".join(map(evidence_text, one.evidence))),
            *(("predicted", gain_line(gain)) for gain in one.gains),
            *((("measured", measured),) if measured else ()),
            ("trial", trial_text(one)),
        )
    )


def measured_text(one: Advice) -> str:
    """Return what a trial measured, with its CI and verdict; empty without a trial."""
    saved = one.measured
    if saved is None:
        return ""
    if saved.of == "memory":
        return f"{share(saved.share)} of the peak{_cost(one)}: {one.word}"
    interval = f"{share(saved.low)} to {share(saved.high)}"
    return f"{share(saved.share)} of time, 95 % CI {interval}: {one.word}"


def _cost(one: Advice) -> str:
    """Return what a change that saves memory costs in time."""
    result = one.result
    if result is None or not result.speedup:
        return ""
    return f", a step takes {1 / result.speedup:.2f} times as long"


def evidence_text(part: Evidence) -> str:
    """Return a figure with its provenance, or the reason why it is unavailable."""
    if isinstance(part.figure, Unknown):
        return f"{part.what}: {figure_text(part)} ({part.figure.reason})"
    return f"{part.what}: {figure_text(part)} {part.provenance}"


def gain_line(gain: Gain) -> str:
    """Return a gain with its formula."""
    if isinstance(gain.share, Unknown):
        return f"– of {whole_text(gain)} ({gain.share.reason}): {gain.formula}"
    return f"{gain_text(gain)} of {whole_text(gain)}: {gain.formula}"


def trial_text(one: Finding) -> str:
    """Return the command of its trial, or why there is none."""
    if not one.trial:
        return f"none: {one.why_no_trial}"
    if one.is_beside:
        return "x in the explorer (tui-profiler run, attach)"
    return f"tui-profiler try{' --train' * one.is_of_step} --kind {one.trial}"

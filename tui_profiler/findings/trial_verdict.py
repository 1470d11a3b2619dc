"""The verdict of a trial on a prediction.

A trial measures a 95 % CI of the median. A prediction inside it held, unless the CI also contains
no gain. A prediction above it was too high: refuted where the CI contains no gain. Memory is
counted, and has no CI: a prediction held if it is within ``CLOSE`` of the peak.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.findings.evidence.finding import GROUPS, Evidence, Finding, Gain, Group, Saves
from tui_profiler.messages import (
    TRIAL_STEPS,
    WHOLE_MODEL,
    LoadSpec,
    TrialKind,
    TrialProgress,
    TrialResult,
    TrialStep,
    Try,
    TryOptimizer,
    Unknown,
    Wish,
    known,
)
from tui_profiler.queries.time.modes import shown_settings
from tui_profiler.session import Session, Tree

Word: TypeAlias = Literal[
    "held",
    "less",
    "more",
    "refuted",
    "no gain",
    "gained",
    "undecided",
    "untested",
    "running",
    "waits",
    "can be tried",
    "no trial",
    "not here",
]
"""``less``, ``more``: a smaller or larger gain than predicted. ``no gain``, ``gained``: without a
prediction, or with an upper bound. ``undecided``: the CI contains no gain and the prediction.
``untested``: the trial measured nothing. ``not here``: no worker can run the trial."""
REFUTED: tuple[Word, ...] = ("refuted", "no gain")


CLOSE = 0.02
"""Of the peak of a step: what its memory on paper was tested to (``docs/accuracy.md``)."""
SAVE_MEMORY: tuple[TrialKind, ...] = ("checkpoint",)
"""Trials of changes that save memory, not time."""


class Measured(Struct, frozen=True):
    """The share of a call's time, or of its peak, that a trial saved; negative where it was more.

    A call is a forward, or a training step.
    """

    share: float
    low: float
    """Lower end of the 95 % CI; memory is counted, and has none."""
    high: float
    of: Saves = "time"


class Advice(Struct, frozen=True):
    """A finding and its trial."""

    finding: Finding
    word: Word
    result: TrialResult | None = None
    """None before its trial."""
    progress: TrialProgress | None = None
    """None unless its trial is running."""
    measured: Measured | None = None

    @property
    def group(self) -> Group:
        """The group of its gain."""
        return "measured" if self.measured is not None else self.finding.gain.group

    @property
    def rank(self) -> tuple[int, bool, float]:
        """Sort key: measured before predicted, the largest gain first."""
        if self.measured is not None:
            return GROUPS.index("measured"), False, -self.measured.share
        return self.finding.gain.rank


def by_rank(found: Iterable[Advice]) -> tuple[Advice, ...]:
    """Return advice group by group, each ordered by gain."""
    return tuple(sorted(found, key=lambda one: one.rank))


def grouped(session: Session, found: tuple[Finding, ...]) -> dict[Group, tuple[Advice, ...]]:
    """Return findings with their trials by group, without empty ones, each ordered by gain."""
    ranked = [one for one in by_rank(advice(session, found)) if one.finding in found]
    return {group: tuple(members) for group, members in groupby(ranked, lambda one: one.group)}


GROUP_WORDS: dict[Group, tuple[str, str]] = {
    "measured": ("measured", "by a trial"),
    "predicted": ("predicted", "~ estimated"),
    "at most": ("at most", "an upper bound"),
    "unknown": ("gain unavailable", ""),
}
"""Title of a group, and its note."""


Column: TypeAlias = Literal["rank", "title", "saves", "predicted", "measured", "verdict", "error"]
"""What advice can be sorted by; ``rank``: as given."""


def in_order(found: Iterable[Advice], column: Column, *, descending: bool) -> tuple[Advice, ...]:
    """Return advice sorted by a column, stably; what has no figure there goes last either way."""
    every = tuple(found)
    match column:
        case "rank":
            return every
        case "title" | "saves" | "verdict":
            return tuple(sorted(every, key=lambda one: _text(one, column), reverse=descending))
        case _:
            figures = [(_figure(one, column), one) for one in every]
    with_figure = [(value, one) for value, one in figures if value is not None]
    with_figure.sort(key=lambda pair: pair[0], reverse=descending)
    return (*(one for _, one in with_figure), *(one for value, one in figures if value is None))


def _text(one: Advice, column: Column) -> str:
    if column == "title":
        return one.finding.title.casefold()
    return one.finding.gain.of if column == "saves" else one.word


def _figure(one: Advice, column: Column) -> float | None:
    if column == "predicted":
        return known(one.finding.gain.share)
    if column == "measured":
        return one.measured.share if one.measured is not None else None
    error = one.result.error if one.result is not None else None
    return error.relative if error is not None else None


def advice(session: Session, found: tuple[Finding, ...]) -> tuple[Advice, ...]:
    """Return findings with their trials, in the order given; then trials without a finding."""
    known_kinds = {finding.kind for finding in found}
    others = (of_result(one) for one in session.trials if one.kind not in known_kinds)
    every = (*found, *{one.kind: one for one in others}.values())
    return tuple(_advice(session, finding) for finding in every)


def _advice(session: Session, finding: Finding) -> Advice:
    if finding.trial is None:
        return Advice(finding, "no trial")
    running = session.trial
    result = next((one for one in reversed(session.trials) if one.kind == finding.trial), None)
    saved = measured(result) if result is not None else None
    if running is not None and running.kind == finding.trial:
        return Advice(finding, "running", result, running, saved)
    if running is not None and finding.trial in running.waiting:
        return Advice(finding, "waits", result, None, saved)
    if result is None:
        return Advice(finding, "can be tried")
    word: Word = verdict(finding.gain, saved) if saved is not None else "untested"
    return Advice(finding, word, result, None, saved)


def trial_request(finding: Finding, session: Session) -> Try | TryOptimizer | None:
    """Return what asks for a finding's trial; None where it has none.

    An optimizer of a program is tried beside it, on tensors of the same shapes.
    """
    if finding.trial is None:
        return None
    usual, tree = Wish(finding.trial), session.tree
    if not finding.is_beside or tree is None or session.training is None:
        return Try(wish(finding, tree, usual))
    tensors = tuple(
        (one.shape, one.dtype)
        for node in tree.nodes
        for one in node.weights
        if not one.is_buffer and not one.shared_with and one.requires_grad is not False
    )
    settings = shown_settings(session)
    spec = LoadSpec(
        "",
        device=session.model.device if session.model is not None else "cpu",
        threads=settings[0].threads if settings else None,
    )
    (optimizer,) = session.training.step.optimizer_settings
    share = known(finding.gain.share)
    if share is None:  # Of a step that is not known to gain by it nothing would follow.
        return None
    return TryOptimizer(spec, usual, optimizer.name, tensors, share)


def wish(finding: Finding, tree: Tree | None, usual: Wish) -> Wish:
    """Return the wish for a finding's trial: of the modules that it speaks of, where they matter.

    Args:
        finding: it.
        tree: that its nodes are of.
        usual: with the limits of the trial.
    """
    if finding.trial != "checkpoint" or tree is None:
        return usual
    return replace(usual, paths=tuple(tree.nodes[node].path for node in finding.nodes))


def measured(result: TrialResult) -> Measured | None:
    """Return the share that a trial saved; None where it measured nothing."""
    speedup, low, high = result.speedup, result.low, result.high
    if result.outcome != "measured":
        return None
    if result.kind in SAVE_MEMORY:
        return _memory(result)
    if not speedup or not low or not high:
        return None
    share, least, most = ((1 - 1 / one) * result.of_step for one in (speedup, low, high))
    return Measured(share, least, most)


def _memory(result: TrialResult) -> Measured | None:
    """Return the share of the peak that was saved: weights, state and inputs are in the peak."""
    if result.baseline is None or result.changed is None:
        return None
    before, after = known(result.baseline.peak_bytes), known(result.changed.peak_bytes)
    weights, kept = known(result.baseline.weight_bytes), known(result.baseline.kept_bytes)
    if not before or after is None or weights is None or kept is None:
        return None
    share = (before - after) / (before + weights + kept)
    return Measured(share, share, share, "memory")


def verdict(gain: Gain, saved: Measured) -> Word:
    """Return the verdict on a prediction."""
    if saved.of == "memory":
        return _memory_verdict(gain, saved.share)
    is_gain, may_gain = saved.low > 0, saved.high > 0
    predicted = gain.share
    if isinstance(predicted, Unknown) or gain.of != "time":
        return "gained" if is_gain else "undecided" if may_gain else "no gain"
    if gain.is_bound:
        if not is_gain:
            return "undecided" if may_gain and saved.high > predicted / 2 else "no gain"
        return "more" if saved.low > predicted else "held"
    if not is_gain and saved.high >= gain.least:
        return "undecided"
    if gain.least > saved.high:
        return "less" if is_gain else "refuted"
    return "more" if gain.most < saved.low else "held"


def _memory_verdict(gain: Gain, saved: float) -> Word:
    predicted = gain.share
    if isinstance(predicted, Unknown) or gain.of != "memory":
        return "gained" if saved > 0 else "no gain"
    if saved <= 0:
        return "refuted"
    if abs(saved - predicted) <= CLOSE:
        return "held"
    return "more" if saved > predicted else "less"


_STEP_WORDS: dict[TrialStep, str] = {
    "start": "starting a process, importing torch",
    "load": "loading the model",
    "change": "applying the change",
    "warm up": "warming up, compiling",
    "compare": "comparing outputs",
    "memory": "measuring memory",
    "measure": "measuring",
}


def step_words(step: TrialStep) -> str:
    """Return ``step 3 of 7: applying the change``."""
    return f"step {TRIAL_STEPS.index(step) + 1} of {len(TRIAL_STEPS)}: {_STEP_WORDS[step]}"


NOTHING = Unknown("no finding of this session predicts it")


def of_result(result: TrialResult) -> Finding:
    """Return a finding without a prediction, for a trial that no finding led to."""
    return Finding(
        kind=result.kind,
        title=f"{result.kind} (no finding predicts a gain)",
        why="No finding of this session suggests this change.",
        nodes=(max(result.node, 0) if result.node != WHOLE_MODEL else 0,),
        evidence=(Evidence("pairs of calls compared", result.pairs, "count", "measured"),),
        gains=(
            Gain("memory", NOTHING, "the share of the peak")
            if result.kind in SAVE_MEMORY
            else Gain("time", NOTHING, f"the share of a {'step' if result.is_step else 'forward'}"),
        ),
    )

"""A finding: advice about a model with its evidence, what it is predicted to gain, and its trial.

1. A finding is computed from a session alone, so that a recording gives the same ones.
2. No evidence, no finding. Every figure says where it comes from.
3. A prediction is arithmetic on figures of the session, never a fixed number, and a range: what is
   certain of the saving to what is possible. Where a figure is missing it is ``Unknown``, or the
   gain is an upper bound and says so.
4. A kind says in its definition whether it holds in inference, in training, or in both. It is
   withheld in the other mode, and where the mode is not known.
5. A kind declares its quantities (``queries/cost/rules.py``). It is withheld where one that it
   reads is unknown, and where its wall times are contended: of a training step, unless it would be
   found even if all of the waiting were in the parts that it reads.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures import units
from tui_profiler.findings.evidence.quantities import EVERY
from tui_profiler.findings.evidence.uncontended_step import least_parts
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.messages.trials import TrialKind
from tui_profiler.queries.cost.rules import (
    Quantity,
    Rule,
    contention,
    granted,
    why_contended,
    why_withheld,
)
from tui_profiler.queries.time.modes import ModeName, mode
from tui_profiler.session import Session

Kind: TypeAlias = (
    TrialKind
    | Literal[
        "synchronise",
        "graph-breaks",
        "recompiles",
        "host-overhead",
        "input-idle",
        "loader-workers",
        "pin-memory",
        "zero-grad",
        "slow-line",
        "recompute",
        "accumulate",
        "first-nan",
        "unused-parameters",
        "fuse-activation",
        "peak-activations",
        "upcast",
        "slow-dtype",
        "reuse-memory",
        "alignment",
        "pruning",
        "quantise-weights",
    ]
)
Provenance: TypeAlias = Literal["measured", "derived", "estimated"]
"""``derived``: arithmetic on measured figures or on the tree; ``estimated``: on paper."""
Unit: TypeAlias = Literal["count", "s", "B", "share", "FLOP/s", "B/s", "FLOP/B", "times"]
Saves: TypeAlias = Literal["time", "memory", "energy"]
Per: TypeAlias = Literal["forward", "step", "request", "item"]
"""Whole that a saving of time is a share of: what the user of the program waits for."""


class Evidence(Struct, frozen=True):
    """One figure behind a finding."""

    what: str
    """A noun phrase: ``batch norms right after a convolution``."""
    figure: Figure
    unit: Unit
    provenance: Provenance


Group: TypeAlias = Literal["measured", "predicted", "at most", "unknown"]
"""What is known of a gain: measured by a trial, predicted, an upper bound, or nothing."""
GROUPS: tuple[Group, ...] = get_args(Group)


class Gain(Struct, frozen=True):
    """What a change is predicted to save."""

    of: Saves
    """``time``: of ``per``; ``memory``: peak of a forward; ``energy``: per forward."""
    share: Figure
    """Likely part of it that is saved, 0 to 1; the speed-up is ``1 / (1 - share)``."""
    formula: str
    """How it was computed, with its figures; where it is unknown, from what it would be."""
    provenance: Provenance = "derived"
    is_bound: bool = False
    """The share is an upper bound."""
    low: float | None = None
    """Lower end of the predicted range; None without a range."""
    high: float | None = None
    """Upper end of the predicted range; None without a range."""
    per: Per = "forward"
    """What a saving of time is a share of."""

    @property
    def least(self) -> float:
        """Smallest share that is predicted; 0 of an upper bound, or where it is unknown."""
        share = 0.0 if self.is_bound else known(self.share) or 0.0
        return share if self.low is None else self.low

    @property
    def most(self) -> float:
        """Largest share that is predicted; 0 where it is unknown."""
        return known(self.share) or 0.0 if self.high is None else self.high

    @property
    def may_lose(self) -> bool:
        """Whether the predicted range begins at 0 or below: the change may save nothing."""
        return self.low is not None and self.low <= 0

    @property
    def likely(self) -> float:
        """Share that findings are ordered by; of an upper bound half of it."""
        return (self.least + self.most) / 2 if self.is_bound else known(self.share) or 0.0

    def scaled(self, part: float, per: Per, formula: str) -> "Gain":
        """Return the gain as a share of a whole of which this one's whole is a part, 0 to 1."""
        if isinstance(self.share, Unknown):
            return replace(self, per=per)
        low, high = (None if one is None else one * part for one in (self.low, self.high))
        return replace(self, share=self.share * part, low=low, high=high, per=per, formula=formula)

    def without_share(self, why: Unknown, per: Per) -> "Gain":
        """Return the gain as an unknown share of another whole: without a range, too."""
        return replace(self, share=why, low=None, high=None, per=per)

    @property
    def group(self) -> Group:
        """What is known of it before a trial."""
        if isinstance(self.share, Unknown):
            return "unknown"
        return "at most" if self.is_bound else "predicted"

    @property
    def rank(self) -> tuple[int, bool, float]:
        """Sort key: by group, time before memory, the likely largest first."""
        return GROUPS.index(self.group), self.of != "time", -self.likely


class Finding(Struct, frozen=True):
    """One piece of advice."""

    kind: Kind
    title: str
    """What to do, in a few words: ``fold 19 batch norms into their convolutions``."""
    why: str
    """One sentence or two: why it helps, and what it changes."""
    nodes: tuple[int, ...]
    """Nodes concerned, the one with the most to gain first; never empty."""
    evidence: tuple[Evidence, ...]
    """Never empty."""
    gains: tuple[Gain, ...]
    """Never empty; the first one is what findings are ordered by."""
    why_no_trial: str = ""
    """Empty where a trial of its kind measures it."""
    is_of_step: bool = False
    """What is saved is of a training step, not of a forward; its trial runs steps."""
    is_beside: bool = False
    """Its trial runs beside a program, on tensors like its own."""
    contended: str = ""
    """How long threads waited for a core, where that is much: it holds all the same."""

    @property
    def gain(self) -> Gain:
        """The gain that findings are ordered by."""
        return self.gains[0]

    @property
    def trial(self) -> TrialKind | None:
        """The trial that measures it."""
        return None if self.why_no_trial else _TRIALS.get(self.kind)


_TRIALS: dict[str, TrialKind] = {kind: kind for kind in get_args(TrialKind)}


HoldsIn: TypeAlias = ModeName | Literal["both"]


Because: TypeAlias = Literal["mode", "figure", "contention"]


class Withheld(Struct, frozen=True):
    """A kind that is not concluded, and why."""

    kind: Kind
    because: Because
    """The program's mode, a figure that is unknown, or waiting for a core."""
    reason: str
    """Safe."""
    is_usual: bool = True
    """False: of figures that are there only if requested, or of things the program does not
    have."""


class Check(Struct, frozen=True):
    """One kind of finding, the mode in which it holds, and the quantities that it declares."""

    kind: Kind
    holds_in: HoldsIn
    rule: Rule
    find: Callable[[Session], Finding | Unknown | None]
    """Return the finding, None where it does not apply, or why that cannot be known."""

    def holds(self, session: Session) -> bool:
        """Return whether this kind holds in the program's mode."""
        return self.holds_in in ("both", mode(session).name)

    def __call__(self, session: Session) -> Finding | None:
        """Return the finding; None where there is none or the kind is withheld."""
        found = self.answer(session)
        return found if isinstance(found, Finding) else None

    def answer(self, session: Session) -> Finding | Withheld | None:
        """Return the finding, why it is withheld, or None where it does not apply."""
        if self.holds(session):
            return self.conclude(session)
        found = mode(session)
        return Withheld(self.kind, "mode", f"{found.name or 'mode unknown'}: {found.why}")

    def conclude(self, session: Session) -> Finding | Withheld | None:
        """Return the same in whichever mode the program runs."""
        rule = self.rule
        if missing := why_withheld(session, rule):
            usual = missing.quantity.is_usual
            return Withheld(self.kind, "figure", safe(missing.reason), usual)
        clocks = {one.clock for one in rule.reads}
        if "forward" in clocks and (why := why_contended(session, "forward")):
            return Withheld(self.kind, "contention", why)
        contended = contention(session, (one.clock for one in rule.uses))
        found = self._found(session)
        if isinstance(found, Unknown):
            if contended:
                return Withheld(self.kind, "contention", contended)
            return Withheld(self.kind, "figure", safe(found.reason))
        of_step = why_contended(session, "step") if "step" in clocks else ""
        if found is not None and of_step and self._found(least_parts(session)) is None:
            return Withheld(self.kind, "contention", of_step)
        contended = of_step or contended
        return replace(found, contended=contended) if found is not None and contended else found

    def _found(self, session: Session) -> Finding | Unknown | None:
        """Return what follows from the declared quantities alone."""
        return self.find(granted(session, self.rule, EVERY))


def check(
    kind: Kind,
    *,
    holds_in: HoldsIn,
    reads: tuple[Quantity, ...],
    uses: tuple[Quantity, ...] = (),
) -> Callable[[Callable[[Session], Finding | Unknown | None]], Check]:
    """Define a kind of finding by the function that finds it.

    Args:
        kind: the kind.
        holds_in: the mode in which it holds.
        reads: quantities without any of which it is withheld.
        uses: quantities without which it stays, or says itself why it cannot be concluded.
    """

    def defined(find: Callable[[Session], Finding | Unknown | None]) -> Check:
        return Check(kind, holds_in, Rule(kind, reads, uses), find)

    return defined


def counted(number: int, noun: str) -> str:
    """Return ``1 batch norm``, ``19 batch norms``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def figure_text(evidence: Evidence) -> str:
    """Return a figure with its unit; one that is not measured begins with ``~``."""
    if isinstance(evidence.figure, Unknown):
        return units.UNAVAILABLE
    about = "~" if evidence.provenance == "estimated" else ""
    return about + _with_unit(evidence.figure, evidence.unit)


def gain_text(gain: Gain) -> str:
    """Return a predicted share: ``5.0 to 12 %``, ``14 %``, ``~3.0 %``, ``≤ 21 %``, ``–``."""
    if isinstance(gain.share, Unknown):
        return units.UNAVAILABLE
    low, high = units.share(gain.least), units.share(gain.most)
    if gain.low is not None and low != high:
        return f"{low.removesuffix(' %')} to {high}"
    sign = "≤" if gain.is_bound else "~" if gain.provenance == "estimated" else ""
    return sign + units.share(gain.share)


def whole_text(gain: Gain) -> str:
    """Return what a gain is a share of: ``time per step``, ``peak memory``."""
    return "peak memory" if gain.of == "memory" else f"{gain.of} per {gain.per}"


def _with_unit(value: float, unit: Unit) -> str:
    match unit:
        case "s":
            return units.duration(value)
        case "B":
            return units.size(value)
        case "share":
            return units.share(value)
        case "times":
            return f"{units.three_digits(value)}×" if value < 1000 else f"{value:.0f}×"
        case "FLOP/s" | "B/s":
            return units.rate(value, unit)
        case "FLOP/B":
            return f"{units.intensity(value)} FLOP/B"
        case "count":
            return units.count(value) if value else "0"

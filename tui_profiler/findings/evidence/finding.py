"""A finding: advice about a model with its evidence, what it is predicted to gain, and its trial.

1. A finding is computed from a session alone, so that a recording gives the same ones.
2. No evidence, no finding. Every figure says where it comes from.
3. A prediction is arithmetic on figures of the session; what the session does not hold is
   ``Unknown``, or the gain is a bound and says so. It never is a constant out of the air.
4. A kind says in its definition whether it holds for a model that infers, trains, or both. Outside
   of that, and where the mode is not known, it is withheld.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Figure
from tui_profiler.messages.trials import TrialKind
from tui_profiler.queries.time.modes import ModeName, mode
from tui_profiler.session import Session

Kind: TypeAlias = (
    TrialKind
    | Literal[
        "synchronise",
        "host-overhead",
        "input-idle",
        "unused-parameters",
        "fuse-activation",
        "peak-activations",
        "upcast",
        "alignment",
        "pruning",
        "quantise-weights",
    ]
)
Provenance: TypeAlias = Literal["measured", "derived", "estimated"]
"""``derived``: arithmetic on measured figures or on the tree; ``estimated``: on paper."""
Unit: TypeAlias = Literal["count", "s", "B", "share", "FLOP/s", "B/s", "FLOP/B", "times"]
Saves: TypeAlias = Literal["time", "memory", "energy"]


class Evidence(Struct, frozen=True):
    """One figure that a finding stands on."""

    what: str
    """A noun phrase: ``batch norms right after a convolution``."""
    figure: Figure
    unit: Unit
    provenance: Provenance


class Gain(Struct, frozen=True):
    """What a change is predicted to save."""

    of: Saves
    """``time``: of one forward, or of one item of it where the batch changes; ``memory``: of the
    peak of one forward; ``energy``: of what one forward takes."""
    share: Figure
    """Part of it that is saved, 0 to 1: a time ``1 - share`` as long, so that it is
    ``1 / (1 - share)`` times as fast."""
    formula: str
    """How it was computed, with its figures; where it is unknown, what it would be made of."""
    provenance: Provenance = "derived"
    is_bound: bool = False
    """The share is the most that there is to gain."""


class Finding(Struct, frozen=True):
    """One piece of advice."""

    kind: Kind
    title: str
    """What to do, in a few words: ``fold 19 batch norms into their convolutions``."""
    why: str
    """One sentence or two: why it helps, and what it changes."""
    nodes: tuple[int, ...]
    """Nodes that it speaks of, the one with the most to gain first; never empty."""
    evidence: tuple[Evidence, ...]
    """Never empty."""
    gains: tuple[Gain, ...]
    """Never empty; the first one is what findings are ordered by."""
    trial: TrialKind | None = None
    """The trial that tests it; None where there is none."""
    why_no_trial: str = ""
    """Why there is none; empty where there is one."""

    @property
    def gain(self) -> Gain:
        """The gain that findings are ordered by."""
        return self.gains[0]


HoldsIn: TypeAlias = ModeName | Literal["both"]


class Check(Struct, frozen=True):
    """One kind of finding: what finds it, and in which mode of the program it holds."""

    kind: Kind
    holds_in: HoldsIn
    find: Callable[[Session], Finding | None]

    def holds(self, session: Session) -> bool:
        """Return whether the program runs in a mode that this kind is made for."""
        return self.holds_in in ("both", mode(session).name)

    def __call__(self, session: Session) -> Finding | None:
        """Return the finding, None where there is none or it does not hold in this mode."""
        return self.find(session) if self.holds(session) else None


def check(
    kind: Kind, *, holds_in: HoldsIn
) -> Callable[[Callable[[Session], Finding | None]], Check]:
    """Define a kind of finding by the function that finds it."""

    def defined(find: Callable[[Session], Finding | None]) -> Check:
        return Check(kind, holds_in, find)

    return defined

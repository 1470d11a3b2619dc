"""Rules: the figures that a conclusion reads, and why it is withheld.

1. Every conclusion is drawn by a rule, which declares its quantities: those that it ``reads``,
   without any of which it is withheld, and those that it ``uses``, without which the conclusion
   stays and what they would have given is unavailable.
2. A rule sees nothing that it did not declare: ``granted`` takes every other quantity out of the
   session first.
3. Wall time of a thread that waits for a core is longer than the work. From ``CONTENDED_FROM`` on
   it is unknown (*contended*) for all rules; counts, CPU time and figures on paper are not.
   Nor is that of forwards where waiting was read in every call: times are then without it
   (``unwaited_seconds``).
4. Where it is not known how long the thread waited, it did so for at most the time in which it was
   not on a core. Where that can be ``CONTENDED_FROM`` or more, its wall time is unknown as well.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import share as share_text
from tui_profiler.messages import Figure, ThreadTime, Unknown, known
from tui_profiler.session import Session
from tui_profiler.session.columns import CONTENDED_FROM
from tui_profiler.session.training import StepColumns

Clock: TypeAlias = Literal["", "forward", "step"]
"""Thread whose wall time a quantity is: the one that runs forwards, or training steps. Empty: a
count, CPU time, time on a GPU, or a figure on paper, which other programs do not change."""


class Absent(Enum):
    """Sentinel in place of a value."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Absent.UNKNOWN
"""Replaced by ``Unknown`` with the reason."""
NOT_DECLARED = "not among the figures of this rule"
NO_THREAD = "what the thread waited for a core was not recorded"


class Quantity(Struct, frozen=True, eq=False):
    """A figure of a session, or a few that are known or unknown together."""

    name: str
    """Noun phrase: ``time of a forward``."""
    fields: Mapping[str, object]
    """Where it is, by path (``training.step.seconds``), and the value of such a field without
    it."""
    missing: Callable[[Session], str]
    """Return why it is not known; empty where it is."""
    clock: Clock = ""
    is_usual: bool = True
    """Whether every session of its kind has it sooner or later: it is then named where it is
    missing. False: only if requested, or if the program has such a thing at all."""

    @property
    def is_in_tree(self) -> bool:
        """Whether it is a part of the tree, of which no copy is made for each rule."""
        return any(path.startswith("tree.") for path in self.fields)


class Rule(Struct, frozen=True, eq=False):
    """Figures of one conclusion."""

    name: str
    reads: tuple[Quantity, ...]
    """Without any of them the rule is withheld."""
    uses: tuple[Quantity, ...] = ()
    """Without one of them the conclusion stays, or the rule itself says why it cannot."""

    @property
    def declared(self) -> tuple[Quantity, ...]:
        """Both."""
        return (*self.reads, *self.uses)


class Missing(NamedTuple):
    """The quantity for which a rule is withheld."""

    quantity: Quantity
    why: str
    """Why it is not known."""

    @property
    def reason(self) -> str:
        """``time of a forward: not measured``."""
        return f"{self.quantity.name}: {self.why}"


def why_withheld(session: Session, rule: Rule) -> Missing | None:
    """Return why a rule is withheld, apart from contention; None where it is not."""
    for quantity in rule.reads:
        if why := quantity.missing(session):
            return Missing(quantity, why)
    return None


def why_contended(session: Session, clock: Clock) -> str:
    """Return why wall times of a thread are unknown by rules 3 and 4; empty where they are known.

    ``host contended: forwards wait for a core 40 % of the time``.
    """
    timings = session.timings
    if not clock or (clock == "forward" and timings is not None and timings.waits_by_node):
        return ""
    waiting = waited(session, clock)
    if waiting is None:
        return ""
    if isinstance(waiting, Unknown):
        return f"waiting for a core of {clock}s: {waiting.reason}"
    if waiting.share < CONTENDED_FROM:
        return ""
    if waiting.why_bound:
        most = f"{clock}s wait for a core at most {share_text(waiting.share)} of the time"
        return f"{most}: {waiting.why_bound}"
    return f"host contended: {clock}s wait for a core {share_text(waiting.share)} of the time"


class Waited(NamedTuple):
    """Waiting for a core, of the time of a forward or a step."""

    share: float
    """0 to 1."""
    why_bound: str
    """Why it is only known that it is not more; empty where it was read."""


def waited(session: Session, clock: Clock) -> Waited | Unknown | None:
    """Return how much of its wall time a thread waited for a core; None where nothing was timed.

    Of forwards all count, those far longer too, which are in no mean: what waits in them is the
    time that the user waits. Times on a GPU do not contain what a thread waits.
    """
    if clock == "step":
        step = session.training.step if session.training is not None else None
        return None if step is None else _waited(step.thread)
    timings = session.timings
    if timings is None:
        return None
    if timings.device is not None:
        return Waited(0.0, "")
    return _waited(timings.tick.thread_of_all or timings.tick.thread)


def contention(session: Session, clocks: Iterable[Clock]) -> str:
    """Return how long threads waited for a core, the first of these that did so for long.

    Empty where none did, and where that is not known.
    """
    found = (
        why_contended(session, clock)
        for clock in clocks
        if clock and isinstance(waited(session, clock), Waited)
    )
    return next(filter(None, found), "")


def _waited(thread: ThreadTime | None) -> Waited | Unknown:
    if thread is None or thread.seconds <= 0:
        return Unknown(NO_THREAD)
    waiting, on_core = known(thread.waiting), known(thread.on_core)
    if isinstance(thread.waiting, Unknown):
        if on_core is None:
            return thread.waiting
        most = max(1.0 - on_core / thread.seconds, 0.0)
        return Waited(most, thread.waiting.reason)
    return Waited(min((waiting or 0.0) / thread.seconds, 1.0), "")


def why_unusable(session: Session, quantity: Quantity) -> str:
    """Return why a quantity is missing or contended; empty where it can be used."""
    return quantity.missing(session) or why_contended(session, quantity.clock)


def granted(session: Session, rule: Rule, every: Iterable[Quantity]) -> Session:
    """Return the session with what a rule declares, and without all other quantities. Rule 2.

    Quantities that it uses are taken out as well where they are missing or contended.

    Args:
        session: the session.
        rule: what is declared.
        every: all quantities that there are.
    """
    absent = {one: NOT_DECLARED for one in every if one not in rule.declared}
    absent |= {one: why for one in rule.uses if (why := why_unusable(session, one))}
    return without(session, {one: why for one, why in absent.items() if not one.is_in_tree})


def without(session: Session, absent: Mapping[Quantity, str]) -> Session:
    """Return the session without some quantities.

    Args:
        session: the session.
        absent: the quantities, each with the reason why it is unknown.
    """
    changes: _Changes = {}
    for quantity, why in absent.items():
        for path, value in quantity.fields.items():
            _put(changes, path.split("."), _Value(Unknown(why) if value is UNKNOWN else value))
    changed = _changed(session, changes)
    assert isinstance(changed, Session)
    return changed


class _Value(NamedTuple):
    value: object


_Changes: TypeAlias = "dict[str, _Changes | _Value]"


def _put(changes: _Changes, path: list[str], value: _Value) -> None:
    """Add the value of a field, unless all around it is absent."""
    *above, name = path
    for each in above:
        below = changes.setdefault(each, {})
        if isinstance(below, _Value):
            return
        changes = below
    changes[name] = value


def _changed(value: object, changes: _Changes) -> object:
    """Return a struct with other values in some of its fields, and of fields of these."""
    if isinstance(value, StepColumns):
        inside = changes["step"]
        assert isinstance(inside, dict)
        return value.with_step(_changed(value.step, inside))  # type: ignore[arg-type]  # a step
    if not isinstance(value, Struct):
        return value
    fields = {
        name: change.value if isinstance(change, _Value) else _changed(getattr(value, name), change)
        for name, change in changes.items()
    }
    return replace(value, **fields)


def reason_of(figure: Figure | None, otherwise: str) -> str:
    """Return why a figure is not known; empty where it is.

    Args:
        figure: the figure.
        otherwise: the reason where there is none.
    """
    if isinstance(figure, Unknown):
        return figure.reason
    return otherwise if figure is None else ""

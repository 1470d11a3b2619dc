"""The bound section: how near a node comes to each roof of this machine, and what decided it."""

from tui_profiler.figures.units import duration, quantity, rate, share, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound_classes import KINDS, OF_THREAD, BoundKind
from tui_profiler.queries.panel.provenance import no_class, no_roof
from tui_profiler.queries.time.forward_kinds import why_times_do_not_fit
from tui_profiler.session import Session
from tui_profiler.session.columns import LEAST_WAITING

from .lines import EMPTY, Line, line_width
from .rows import LABEL, Look, absent, mark_of, meter, pending, row, section, words

_AGAINST = "against this machine"
MIX_LABEL = 12
"""Cells of a class and the blank behind it: ``unexplained``."""
MOST_CLASSES = 3
_RATE = 7
"""Cells of the unit of a rate, so that figures end at one cell: ``GFLOP/s``."""


def bound_lines(look: Look) -> tuple[Line, ...]:
    """Return the section with its title."""
    if look.tree is None:
        return (section("bound", "", look), *pending("compute", "after the trace", look))
    found = bound.bound(look.session, look.node)
    if found is None:
        nothing = absent("class", no_class(look.session, look.node), look)
        return (section("bound", "", look), *nothing)
    if not found.measured:
        return (section("bound", "on paper", look), *_on_paper(found, look))
    is_mixed = found.is_container or found.kind in OF_THREAD
    return (
        section("bound", "share of its time" if is_mixed else _AGAINST, look),
        *(_mix(found, look) if is_mixed else _roofs(found, look)),
        *_waiting(found, look),
    )


def _waiting(found: bound.Bound, look: Look) -> tuple[Line, ...]:
    """Return how long a node waits for a core, which is in no class; nothing where it is little."""
    if found.waiting < LEAST_WAITING:
        return ()
    return words(f"waits for a core {share(found.waiting)} of its time, not in these", look)


def verdict(found: bound.Bound | None, look: Look) -> Line:
    """Return the class in two words: coloured where it was measured, grey on paper."""
    if found is None:
        return EMPTY
    sign = mark_of(found.kind, look.glyphs)
    if found.measured:
        return ((f"{sign} {bound.phrase(found.kind)}", found.kind),)
    return ((f"{sign} {found.kind}, on paper", "faint"),)


def why_on_paper(session: Session, node: int) -> tuple[bool, str]:
    """Say if the measured class is still to come, and why there is none now."""
    if session.timings is None:
        over = session.is_over
        finished = session.loop is not None and session.loop.state == "finished"
        return not over and not finished, "needs times"
    if why := why_times_do_not_fit(session):
        return False, why
    if session.ceilings is None:
        return True, "the roofline is not calibrated yet"
    if why := bound.why_not_decided(session, node):
        return False, safe(why)
    if not session.timings.per_forward(node):
        return False, "this node is not timed"
    return False, no_roof(session.ceilings)


def _on_paper(found: bound.Bound, look: Look) -> tuple[Line, ...]:
    waits, reason = why_on_paper(look.session, look.node)
    mark = pending if waits else absent
    return (*words(found.reason, look, "ink"), *mark("measured", reason, look))


def _mix(found: bound.Bound, look: Look) -> tuple[Line, ...]:
    """Return the part of the time in each class, of four classes the three largest."""
    rates = _rates(found)
    least = sorted(found.mix)[-MOST_CLASSES]
    lines = [
        _metered(kind, part, rates.get(kind, EMPTY), look, MIX_LABEL)
        for kind, part in zip(KINDS, found.mix, strict=True)
        if part and part >= least
    ]
    if found.not_decided:
        why = safe(bound.why_not_decided(look.session, look.node))
        lines += absent("undecided", f"{share(found.not_decided)}: {why}", look)
    return tuple(lines)


def _roofs(found: bound.Bound, look: Look) -> tuple[Line, ...]:
    rates = _rates(found)
    why = {kind: safe(reason) for kind, reason in found.no_roof}
    lines = [
        *_roof("compute", found.compute_share, (rates["compute"], why), look),
        *_roof("memory", found.memory_share, (rates["memory"], why), look),
    ]
    if found.kind == "overhead" and found.overhead_share is not None:
        lines += _roof("overhead", found.overhead_share, (_calling(look), why), look)
    return (*lines, *words(found.reason, look))


def _roof(
    kind: BoundKind,
    reached: float | None,
    said: tuple[Line, dict[BoundKind, str]],
    look: Look,
) -> tuple[Line, ...]:
    right, why = said
    if reached is None:
        return absent(kind, why.get(kind, f"no work at the {kind} roof"), look)
    return (_metered(kind, reached, right, look, LABEL),)


def _metered(kind: BoundKind, part: float, right: Line, look: Look, cells: int) -> Line:
    """Return a share as a meter behind a label of ``cells``; ``right`` where it fits."""
    length = max(look.inner - 30, 4) - (cells - LABEL)
    left: Line = (
        (kind.ljust(cells), "muted"),
        *meter(part, length, kind, look),
        (share(part).rjust(6), "ink"),
    )
    fits = line_width(left) + 1 + line_width(right) <= look.inner
    return row(left, right if fits else EMPTY, look)


def _rates(found: bound.Bound) -> dict[BoundKind, Line]:
    return {
        "compute": _rate(found.flops_per_second, "FLOP/s"),
        "memory": _rate(found.bytes_per_second, "B/s"),
    }


def _rate(per_second: float | None, unit: str) -> Line:
    if per_second is None:
        return EMPTY
    figure, _, prefixed = rate(per_second, unit).partition(" ")
    return ((figure, "ink"), (f" {prefixed.ljust(_RATE)}", "muted"))


def _calling(look: Look) -> Line:
    """Return what calling a node's operators takes at least, as one product."""
    ceilings = look.session.ceilings
    tree = look.tree
    if tree is None or ceilings is None or isinstance(ceilings.op_seconds, Unknown):
        return EMPTY
    ops = tree.costs[look.node].ops
    number = thousands(ops) if ops < 10_000 else quantity(ops, "").strip()
    return ((f"{number} × {duration(ceilings.op_seconds)}", "muted"),)

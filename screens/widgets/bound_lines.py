"""The bound section: how near a node comes to each roof of this machine, and what decided it."""

from __future__ import annotations

from tui_profiler.messages import Ceilings, Unknown
from tui_profiler.queries.bound import PAPER_RIDGE, Bound, BoundKind, bound
from tui_profiler.queries.panel_state import has_failed
from tui_profiler.queries.sorts import OTHER_TIMES, times_fit_costs
from tui_profiler.session import Session
from tui_profiler.text import safe
from tui_profiler.units import duration, intensity, quantity, rate, share, thousands

from .lines import EMPTY, Line, line_width
from .parts import LABEL, Look, absent, mark_of, meter, pending, row, section, words

_RATE = 7
"""Cells of the unit of a rate, so that figures end at one cell: ``GFLOP/s``."""


def bound_lines(look: Look) -> tuple[Line, ...]:
    """Give the section with its title."""
    if look.tree is None:
        return (section("bound", "", look), *pending("compute", "after the trace", look))
    found = bound(look.session, look.node)
    if found is None:
        nothing = absent("compute", "it moves nothing and takes no time of its own", look)
        return (section("bound", "", look), *nothing)
    if not found.measured:
        return (section("bound", "on paper", look), *_on_paper(found, look))
    return (
        section("bound", "against this machine", look),
        *_roofs(found, look),
        *words(found.reason, look),
    )


def verdict(found: Bound | None, look: Look) -> Line:
    """Give the class in two words: coloured where it was measured, grey on paper."""
    if found is None:
        return EMPTY
    sign = mark_of(found.kind, look.glyphs)
    if found.measured:
        return ((f"{sign} {found.kind}-bound", found.kind),)
    return ((f"{sign} {found.kind}, on paper", "faint"),)


def why_on_paper(session: Session, node: int) -> tuple[bool, str]:
    """Say if the measured class is still to come, and why there is none now."""
    if session.timings is None:
        over = has_failed(session) or session.ended is not None
        finished = session.loop is not None and session.loop.state == "finished"
        return not over and not finished, "needs times"
    if not times_fit_costs(session):
        return False, OTHER_TIMES
    if session.ceilings is None:
        return True, "this machine's roofs are not measured yet"
    if not session.timings.per_forward(node):
        return False, "this node is not timed by itself"
    return False, _no_roof(session.ceilings)


def _no_roof(ceilings: Ceilings) -> str:
    figures = (ceilings.bytes_per_second, ceilings.op_seconds)
    reasons = [figure.reason for figure in figures if isinstance(figure, Unknown)]
    return safe(reasons[0]) if reasons else "no roof was measured"


def _on_paper(found: Bound, look: Look) -> tuple[Line, ...]:
    waits, reason = why_on_paper(look.session, look.node)
    sentence = "it moves no bytes"
    if found.intensity is not None:
        side = "at most" if found.intensity <= PAPER_RIDGE else "above"
        class_name = f"{found.kind}-bound"
        sentence = f"{intensity(found.intensity)} FLOP/B, {side} {PAPER_RIDGE:.0f}: {class_name}"
    mark = pending if waits else absent
    return (*words(sentence, look, "ink"), *mark("measured", reason, look))


def _roofs(found: Bound, look: Look) -> tuple[Line, ...]:
    lines = [
        *_roof("compute", found.compute_share, _rate(found.flops_per_second, "FLOP/s"), look),
        *_roof("memory", found.memory_share, _rate(found.bytes_per_second, "B/s"), look),
    ]
    if found.kind == "overhead" and found.overhead_share is not None:
        lines += _roof("overhead", found.overhead_share, _calling(look), look)
    return tuple(lines)


def _roof(kind: BoundKind, reached: float | None, right: Line, look: Look) -> tuple[Line, ...]:
    if reached is None:
        return absent(kind, f"no {kind} roof for this type of number", look)
    length = max(look.inner - 30, 4)
    left: Line = (
        (kind.ljust(LABEL), "muted"),
        *meter(reached, length, kind, look),
        (share(reached).rjust(6), "ink"),
    )
    fits = line_width(left) + 1 + line_width(right) <= look.inner
    return (row(left, right if fits else EMPTY, look),)


def _rate(per_second: float | None, unit: str) -> Line:
    if per_second is None:
        return EMPTY
    figure, _, prefixed = rate(per_second, unit).partition(" ")
    return ((figure, "ink"), (f" {prefixed.ljust(_RATE)}", "muted"))


def _calling(look: Look) -> Line:
    """Give what calling a node's operators takes at least, as one product."""
    ceilings = look.session.ceilings
    tree = look.tree
    if tree is None or ceilings is None or isinstance(ceilings.op_seconds, Unknown):
        return EMPTY
    ops = tree.costs[look.node].ops
    number = thousands(ops) if ops < 10_000 else quantity(ops, "").strip()
    return ((f"{number} × {duration(ceilings.op_seconds)}", "muted"),)

"""The timing section: the last calls as a sparkline, and what they add up to."""

from tui_profiler.figures.units import count, duration, thousands, three_digits
from tui_profiler.figures.units import share as share_text
from tui_profiler.formatting.canvas import nice_ceiling, sparkline
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Node
from tui_profiler.queries.panel.provenance import operator_time_words
from tui_profiler.queries.panel.state import running_stage, stage_name
from tui_profiler.queries.time.base import base, share
from tui_profiler.queries.time.forward_kinds import COLD_TIMES, why_times_do_not_fit
from tui_profiler.queries.time.node_seconds import UNEVEN, node_seconds, parts_share
from tui_profiler.queries.time.series import last_calls
from tui_profiler.session import Session, Timing

from .lines import EMPTY, Line
from .rows import Look, absent, columns, pending, row, section

VALUE = 11
"""Cells of the last value, right of the sparkline."""
_PER_UNIT = {"µs": 1e6, "ms": 1e3, "s": 1.0}


def timing_lines(look: Look, rows: int = 3) -> tuple[Line, ...]:
    """Return the section with its title; the sparkline takes ``rows`` rows."""
    session, node = look.session, look.node
    timing = session.timings.of(node) if session.timings is not None else None
    tree = look.tree
    if timing is None or tree is None:
        return (section("timing", "", look), *_not_measured(look))
    return (
        section("timing", _title(look, timing), look),
        *_sparkline(look, timing, rows),
        _quantiles(look, timing),
        _per_forward(look, tree.nodes[node], timing),
    )


def _title(look: Look, timing: Timing) -> str:
    made = parts_share(look.session, look.node)
    if made is None or made >= UNEVEN:
        return provenance(look.session, timing)
    return f"children account for {share_text(made)} of the time"


def provenance(session: Session, timing: Timing) -> str:
    """Say what the figures speak of: at most the last calls in the window."""
    window = session.tick.window if session.tick is not None else 0
    calls = min(window, timing.calls) if window else timing.calls
    why = why_times_do_not_fit(session)
    of = "cold" if why == COLD_TIMES else "other inputs" if why else "measured"
    return f"{of}, 1 call" if calls == 1 else f"{of}, last {thousands(calls)} calls"


def unit_of(timing: Timing) -> str:
    """Choose the one unit of a node's times: that of its median."""
    return duration(timing.p50).rpartition(" ")[2] if timing.p50 < 999 else "s"


def in_unit(seconds: float, unit: str) -> str:
    """Return seconds as a figure in ``unit``, at most 5 cells; far above it, with its own unit."""
    value = seconds * _PER_UNIT[unit]
    if value < 999.5:
        return three_digits(value)
    return thousands(round(value)) if value < 9999.5 else duration(seconds).replace(" ", "")


def counted(session: Session, timing: Timing) -> Line:
    """Return the number of calls so far, in full up to a million, and whether times are cold."""
    tick, calls = session.tick, timing.calls
    said = "cold  n  " if tick is not None and tick.cold else "n  "
    return ((said, "muted"), (thousands(calls) if calls < 1_000_000 else count(calls), "ink"))


def why_not_measured(session: Session, node: int) -> tuple[bool, str]:
    """Say if times are still to come, and what they wait for or why there are none."""
    tree = session.tree
    if session.timings is not None and tree is not None and node < len(tree):
        found = tree.nodes[node]
        if found.kind == "op":
            is_coming = session.host_operators is None and _is_running(session)
            is_coming = is_coming and not session.is_timed_on_gpu
            return is_coming, operator_time_words(session, node)
        if node_seconds(session, node) is not None:
            return False, "not called itself: sum of its children"
        return False, safe(found.note) or "not called in any forward so far"
    if session.is_over:
        return False, "no forward finished"
    if session.loop is not None and session.loop.state == "finished":
        return False, safe(session.loop.detail) or "no forward was run"
    stage = running_stage(session)
    return (
        True,
        f"after the first run; now: {stage_name(stage.stage)}" if stage else "after the first run",
    )


def _is_running(session: Session) -> bool:
    return session.loop is not None and session.loop.state in ("running", "waiting")


def _not_measured(look: Look) -> tuple[Line, ...]:
    is_coming, reason = why_not_measured(look.session, look.node)
    if is_coming or look.tree is None:
        return pending("times", reason, look)
    seconds = node_seconds(look.session, look.node)
    if seconds is None:
        return absent("times", reason, look)
    whole = share(look.session, look.node)
    value: Line = (("per forward  ", "muted"), (duration(seconds), "ink"))
    end: Line = ((_share_label(look), "muted"), (f"  {share_text(whole or 0.0)}", "ink"))
    return (row(value, end, look), row(((reason, "muted"),), EMPTY, look))


def _sparkline(look: Look, timing: Timing, rows: int) -> tuple[Line, ...]:
    values = last_calls(look.session, look.node, max(look.inner - VALUE, 1))
    top = nice_ceiling(max((value for value in values if value is not None), default=0.0))
    drawn = sparkline(values, top, rows, look.glyphs)
    figure, _, unit = duration(timing.last).rpartition(" ")
    value: Line = ((figure, "strong ink"), (f" {unit}", "muted"))
    return (
        *(row(((part, "faint"),), EMPTY, look) for part in drawn[:-1]),
        row(((drawn[-1], "faint"),), value, look),
    )


def _quantiles(look: Look, timing: Timing) -> Line:
    unit = unit_of(timing)
    named = (("p50", timing.p50), ("   p95", timing.p95), ("   max", timing.maximum))
    parts: list[Line] = [
        ((label, "muted"), (" " + in_unit(seconds, unit).rjust(5), "ink"))
        for label, seconds in named
    ]
    return columns(parts, counted(look.session, timing), look)


def _share_label(look: Look) -> str:
    """Return ``share``, of the forward; where shares are of something else, of what."""
    name = base(look.session).name
    return f"of {name}" if name in ("step", "request") else "share"


def _per_forward(look: Look, node: Node, timing: Timing) -> Line:
    whole = share(look.session, look.node)
    own = in_unit(timing.own_per_forward, unit_of(timing))
    part = share_text(whole) if whole is not None else look.glyphs.dash
    left: tuple[Line, ...] = (
        (("self", "muted"), (" " + own.rjust(4), "ink")),
        ((f"   {_share_label(look)}", "muted"), (f"  {part}", "ink")),
    )
    calls = "1 call" if node.calls == 1 else f"{thousands(node.calls)} calls"
    return columns(left, ((f"{calls} per forward", "muted"),), look)

"""The measured half of the JSON report: times, machine, energy."""

from __future__ import annotations

from tui_profiler.messages import Tick
from tui_profiler.queries.cost.memory_compared import why_no_window
from tui_profiler.queries.cost.totals import any_rate, is_estimated_rate, why_no_times
from tui_profiler.queries.panel.provenance import operator_time_words
from tui_profiler.queries.time.node_seconds import node_seconds, part_of, root_seconds
from tui_profiler.reports.json.energy import energy
from tui_profiler.reports.json.hardware import hardware
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session

OPS_PER_FORWARD = "operators are timed per forward, all calls together"
NO_WHOLE = "no whole forward was measured"
NOT_CALLED = "this module was not called while it was measured"
LEFT_OUT = "not called, or one of the modules with the least time, left out of too many"


def measured(session: Session, unavailable: Unavailable) -> dict[str, Json]:
    """Give latency, throughput, overhead, hardware and energy of a session that was measured."""
    tick = session.tick
    reason = why_no_times(session)
    if tick is None or reason:
        latency, throughput = (unavailable.missing(p, reason) for p in ("latency", "throughput"))
    else:
        latency = _latency(session, tick, unavailable)
        throughput = {
            "per_s": unavailable.figure("throughput.per_s", any_rate(session)),
            "provenance": "estimated" if is_estimated_rate(session) else "counted",
        }
    return {
        "latency": latency,
        "throughput": throughput,
        "overhead": _overhead(session, unavailable),
        "hardware": hardware(session, unavailable),
        "energy": energy(session, unavailable),
    }


def measured_memory(session: Session, unavailable: Unavailable) -> Json:
    """Return what a forward held at its worst moment, where allocations were seen."""
    found = session.memory_window
    if found is None:
        reason = why_no_times(session) or why_no_window(session).reason
        return unavailable.missing("measured_memory", reason)
    return {
        "peak_bytes": found.peak_bytes,
        "weights_bytes": found.window.weights_bytes,
        "inputs_bytes": found.window.inputs_bytes,
        "allocated_bytes": found.window.allocated_bytes,
        "allocations": found.window.allocations,
    }


def layer_memory(session: Session, node: int, unavailable: Unavailable) -> Json:
    """Return what one module allocated, null where that was not seen."""
    found = session.memory_window
    if found is None:
        reason = why_no_times(session) or why_no_window(session).reason
        return unavailable.missing("layers[].measured_memory", reason)
    peak = found.peak(node)
    if peak is not None:
        return {"allocated_bytes": found.allocated(node), "peak_bytes": peak}
    tree = session.tree
    if tree is not None and tree.nodes[node].kind == "op":
        return unavailable.missing("layers[kind=op].measured_memory", "measured by module")
    return unavailable.missing("layers[kind=module].measured_memory", "not called in the window")


def timing(session: Session, node: int, unavailable: Unavailable) -> Json:
    """Give what was measured of one layer, null where it was not called."""
    tree = session.tree
    if tree is not None and tree.nodes[node].kind == "op":
        return _operator(session, node, unavailable)
    found = session.timings.of(node) if session.timings is not None else None
    if found is None and (reason := why_no_times(session)):
        return unavailable.missing("layers[].timing", reason)
    if found is None:
        tick = session.tick
        without = LEFT_OUT if tick is not None and tick.left_out else NOT_CALLED
        return unavailable.missing("layers[kind=module].timing", without)
    whole = root_seconds(session)
    share = part_of(found.per_forward, whole)
    figure = unavailable.figure
    return {
        "calls": found.calls,
        "mean_s": figure("layers[].timing.mean_s", found.mean),
        "p50_s": figure("layers[].timing.p50_s", found.p50),
        "p95_s": figure("layers[].timing.p95_s", found.p95),
        "max_s": figure("layers[].timing.max_s", found.maximum),
        "self_s": figure("layers[].timing.self_s", found.own_per_forward),
        "per_forward_s": figure("layers[].timing.per_forward_s", found.per_forward),
        "self_mean_s": figure("layers[].timing.self_mean_s", _mean(session, found.own_total)),
        "total_mean_s": figure("layers[].timing.total_mean_s", _mean(session, found.total)),
        "share": figure("layers[].timing.share", share, NO_WHOLE),
    }


def _mean(session: Session, seconds: float) -> float | None:
    """Return the mean per forward, over all forwards of the tick: these add up, medians do not."""
    tick = session.tick
    return seconds / tick.forwards if tick is not None and tick.forwards else None


def _operator(session: Session, node: int, unavailable: Unavailable) -> Json:
    operators = session.operators
    seconds = node_seconds(session, node)
    if operators is None or seconds is None:
        reason = why_no_times(session) or operator_time_words(session, node)
        return unavailable.missing("layers[kind=op].timing", reason)
    whole = root_seconds(session)
    figure = unavailable.figure
    calls = operators.calls(node)
    for name in ("mean_s", "p50_s", "p95_s", "max_s", "self_mean_s", "total_mean_s"):
        unavailable.missing(f"layers[kind=op].timing.{name}", OPS_PER_FORWARD)
    return {
        "calls": calls,
        "mean_s": None,
        "p50_s": None,
        "p95_s": None,
        "max_s": None,
        "self_s": figure("layers[].timing.self_s", seconds),
        "per_forward_s": figure("layers[].timing.per_forward_s", seconds),
        "self_mean_s": None,
        "total_mean_s": None,
        "share": figure("layers[].timing.share", part_of(seconds, whole), NO_WHOLE),
    }


def _latency(session: Session, tick: Tick, unavailable: Unavailable) -> Json:
    root = session.timings.of(0) if session.timings is not None else None
    figure = unavailable.figure
    return {
        "p50_s": figure("latency.p50_s", tick.latency_p50),
        "p95_s": figure("latency.p95_s", tick.latency_p95),
        "mean_s": figure("latency.mean_s", root.mean if root is not None else None),
        "forwards": tick.forwards,
        "warmup_forwards": tick.warmup_forwards,
        "cold": tick.cold,
        "as_traced": tick.as_traced,
        "other_forwards": tick.others,
        "other_time_share": figure("latency.other_time_share", tick.others_share),
    }


def _overhead(session: Session, unavailable: Unavailable) -> Json:
    found = session.overhead
    if found is None:
        reason = "too short to compare watched and bare forwards; measure for longer"
        return unavailable.missing("overhead", reason)
    figure = unavailable.figure
    return {
        "ratio": figure("overhead.ratio", found.ratio),
        "interval": [
            figure("overhead.interval[0]", found.low),
            figure("overhead.interval[1]", found.high),
        ],
        "pairs": found.pairs,
    }

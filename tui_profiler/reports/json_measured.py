"""The measured half of the JSON report: times, machine, energy."""

from __future__ import annotations

from tui_profiler.messages import Ceilings, Gpu, Sample, Tick, Unknown
from tui_profiler.queries.seconds import root_seconds
from tui_profiler.queries.totals import why_no_times
from tui_profiler.queries.why import operator_time_words
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session

NO_ENERGY = "no energy counter is read in this version"
OPS_PER_FORWARD = "operators are timed a forward, all calls together"
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
        throughput = {"per_s": unavailable.figure("throughput.per_s", tick.per_second)}
    return {
        "latency": latency,
        "throughput": throughput,
        "overhead": _overhead(session, unavailable),
        "hardware": _hardware(session, unavailable),
        "energy": unavailable.missing("energy", NO_ENERGY),
    }


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
    share = found.per_forward / whole if whole else None
    figure = unavailable.figure
    return {
        "calls": found.calls,
        "mean_s": figure("layers[].timing.mean_s", found.mean),
        "p50_s": figure("layers[].timing.p50_s", found.p50),
        "p95_s": figure("layers[].timing.p95_s", found.p95),
        "max_s": figure("layers[].timing.max_s", found.maximum),
        "self_s": figure("layers[].timing.self_s", found.own_per_forward),
        "per_forward_s": figure("layers[].timing.per_forward_s", found.per_forward),
        "share": figure("layers[].timing.share", share, NO_WHOLE),
    }


def _operator(session: Session, node: int, unavailable: Unavailable) -> Json:
    operators = session.operators
    seconds = operators.per_forward(node) if operators is not None else None
    if operators is None or seconds is None:
        reason = why_no_times(session) or operator_time_words(session, node)
        return unavailable.missing("layers[kind=op].timing", reason)
    whole = root_seconds(session)
    figure = unavailable.figure
    calls = operators.calls(node)
    for name in ("mean_s", "p50_s", "p95_s", "max_s"):
        unavailable.missing(f"layers[kind=op].timing.{name}", OPS_PER_FORWARD)
    return {
        "calls": calls,
        "mean_s": None,
        "p50_s": None,
        "p95_s": None,
        "max_s": None,
        "self_s": figure("layers[].timing.self_s", seconds),
        "per_forward_s": figure("layers[].timing.per_forward_s", seconds),
        "share": figure("layers[].timing.share", seconds / whole if whole else None, NO_WHOLE),
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


def _hardware(session: Session, unavailable: Unavailable) -> Json:
    return {
        "ceilings": _ceilings(session.ceilings, unavailable),
        "sample": _sample(session.sample, unavailable),
    }


def _ceilings(ceilings: Ceilings | None, unavailable: Unavailable) -> Json:
    path = "hardware.ceilings"
    if ceilings is None:
        return unavailable.missing(path, "this machine's ceilings were not measured")
    return {
        "device": ceilings.device,
        "threads": ceilings.threads,
        "compute": [
            {
                "dtype": ceiling.dtype,
                "flops_per_s": unavailable.figure(
                    f"{path}.compute[{index}].flops_per_s", ceiling.flops_per_second
                ),
            }
            for index, ceiling in enumerate(ceilings.compute)
        ],
        "bytes_per_s": unavailable.figure(f"{path}.bytes_per_s", ceilings.bytes_per_second),
        "op_s": unavailable.figure(f"{path}.op_s", ceilings.op_seconds),
        "measured_at": unavailable.figure(f"{path}.measured_at", ceilings.measured_at),
    }


def _sample(sample: Sample | None, unavailable: Unavailable) -> Json:
    path = "hardware.sample"
    if sample is None:
        return unavailable.missing(path, "no sample of the counters has come")
    figure = unavailable.figure
    return {
        "core_utilisation": [
            figure(f"{path}.core_utilisation[{index}]", core.utilisation)
            for index, core in enumerate(sample.cores)
        ],
        "frequency_hz": figure(f"{path}.frequency_hz", sample.frequency_hertz),
        "memory_bytes": sample.memory_bytes,
        "memory_total_bytes": sample.memory_total_bytes,
        "process_bytes": figure(f"{path}.process_bytes", sample.process_bytes),
        "process_cores": figure(f"{path}.process_cores", sample.process_cpu),
        "process_threads": figure(f"{path}.process_threads", sample.process_threads),
        "package_w": figure(f"{path}.package_w", sample.package_watts),
        "gpus": _gpus(sample.gpus, unavailable),
    }


def _gpus(gpus: tuple[Gpu, ...] | Unknown, unavailable: Unavailable) -> Json:
    path = "hardware.sample.gpus"
    if isinstance(gpus, Unknown):
        return unavailable.missing(path, gpus.reason)
    return [_gpu(gpu, f"{path}[{index}]", unavailable) for index, gpu in enumerate(gpus)]


def _gpu(gpu: Gpu, path: str, unavailable: Unavailable) -> Json:
    figure = unavailable.figure
    return {
        "name": gpu.name,
        "utilisation": figure(f"{path}.utilisation", gpu.utilisation),
        "memory_bytes": figure(f"{path}.memory_bytes", gpu.memory_bytes),
        "memory_total_bytes": figure(f"{path}.memory_total_bytes", gpu.memory_total_bytes),
        "temperature_celsius": figure(f"{path}.temperature_celsius", gpu.temperature_celsius),
        "power_w": figure(f"{path}.power_w", gpu.power_watts),
        "power_limit_w": figure(f"{path}.power_limit_w", gpu.power_limit_watts),
        "clock_hz": figure(f"{path}.clock_hz", gpu.clock_hertz),
        "throttled_by": gpu.throttled_by,
    }

"""A session as metrics: the figures of the JSON report under stable names, in base units.

1. Names follow Prometheus's conventions: ``tui_profiler_``, the subject, the unit. They never
   change; ``docs/export.md`` lists them.
2. What is not known is no sample: a figure that is missing is never 0.
3. Times are seconds, sizes bytes, shares ratios of 0 to 1. A counter only grows, until the program
   or its input is another.
4. Times are of the last forwards and steps, whenever they were. Rates and the machine are of this
   moment: a rate is 0 while nothing runs, and none of them has a sample once nothing is heard.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.cost.totals import has_stopped, seconds_without_step
from tui_profiler.reports.json.report import Bottlenecks, Report, report_of
from tui_profiler.reports.json.sections.energy import Energy, EnergyOfForward
from tui_profiler.reports.json.sections.generation import Cache, Generation
from tui_profiler.reports.json.sections.hardware import GpuSample, Hardware, MachineSample
from tui_profiler.reports.json.sections.measured import Latency, Overhead, Throughput, Timing
from tui_profiler.reports.json.sections.step import Step, StepPart, StepParts
from tui_profiler.session import Session

PREFIX = "tui_profiler_"
Labels: TypeAlias = tuple[tuple[str, str], ...]
_Found: TypeAlias = Iterator[tuple[str, Labels, object]]
"""Name without the prefix, labels, and the value where it is a number."""


class Metric(Struct, frozen=True):
    """What figures of one name are."""

    name: str
    """Without ``_total`` of a counter."""
    help: str
    unit: str = ""
    """The end of the name; empty where it counts."""
    kind: Literal["gauge", "counter"] = "gauge"
    labels: tuple[str, ...] = ()


class Sample(Struct, frozen=True):
    """One figure."""

    labels: Labels
    value: float


def _metric(
    name: str, said: str, *labels: str, kind: Literal["gauge", "counter"] = "gauge"
) -> Metric:
    unit = next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")
    return Metric(f"{PREFIX}{name}", said, unit, kind, labels)


_UNITS = ("seconds", "bytes", "ratio", "watts", "joules", "celsius")
METRICS: tuple[Metric, ...] = (
    _metric("up", "1 while the program runs, 0 after it has ended."),
    _metric(
        "model_info",
        "The profiled model; always 1.",
        *("model", "type", "device", "mode", "torch"),
    ),
    _metric("forward_mean_seconds", "Time of one forward, mean."),
    _metric("forward_p50_seconds", "Time of one forward, median."),
    _metric("forward_p95_seconds", "Time of one forward, p95."),
    _metric("forward_waiting_seconds", "Time per forward spent waiting for a core, mean."),
    _metric(
        "forward_energy_joules", "Energy of one forward by a hardware counter, mean.", "counter"
    ),
    _metric("forwards", "Recorded forwards.", kind="counter"),
    _metric("forwards_per_second", "Forwards per second; 0 while there is none."),
    _metric("step_mean_seconds", "Time of one training step, mean."),
    _metric("step_p50_seconds", "Time of one training step, median."),
    _metric("step_p95_seconds", "Time of one training step, p95."),
    _metric("step_part_seconds", "Time of one training step by part, mean.", "part"),
    _metric("steps", "Finished training steps.", kind="counter"),
    _metric(
        "steps_per_second",
        "Training steps per second, those far longer included; 0 while there is none.",
    ),
    _metric(
        "step_between_time_ratio", "Share of the time between steps, by what was done.", "kind"
    ),
    _metric("step_longer_time_ratio", "Share of the time in steps far longer, as one that saves."),
    _metric("step_items_per_second", "Items trained per second; an estimate if inputs change."),
    _metric("step_tokens_per_second", "Tokens trained per second; an estimate if inputs change."),
    _metric("first_token_p50_seconds", "Time to the first token of a request, median."),
    _metric("first_token_p95_seconds", "Time to the first token of a request, p95."),
    _metric("between_tokens_p50_seconds", "Time between two tokens of a request, median."),
    _metric("between_tokens_p95_seconds", "Time between two tokens of a request, p95."),
    _metric("requests", "Finished requests of a language model.", kind="counter"),
    _metric("request_tokens_per_second", "Tokens generated per second of requests, all rows."),
    _metric("token_cache_bytes", "KV cache or state of a language model, all rows."),
    _metric(
        "module_self_seconds",
        "Self time of a module per forward, mean; modules with the most self time.",
        *("path", "type"),
    ),
    _metric(
        "module_seconds",
        "Total time of a module per forward, mean; modules with the most self time.",
        *("path", "type"),
    ),
    _metric(
        "module_backward_seconds",
        "Backward time of a module per training step, mean; modules with the most self time.",
        *("path", "type"),
    ),
    _metric("bound_time_ratio", "Share of a forward's time by what limits it.", "bound"),
    _metric("process_resident_bytes", "Resident memory of the program."),
    _metric("process_cores", "CPU seconds per second of the program."),
    _metric("allocated_bytes", "Memory allocated for torch tensors.", "device"),
    _metric("machine_memory_bytes", "Memory used on the machine."),
    _metric("package_watts", "Power of the processor packages."),
    _metric("cpu_temperature_celsius", "Temperature of a package of the processor.", "sensor"),
    _metric("gpu_utilisation_ratio", "Share of time with a kernel running.", "gpu", "name"),
    _metric("gpu_memory_bytes", "Memory used on the GPU.", "gpu", "name"),
    _metric("gpu_power_watts", "Power of the GPU.", "gpu", "name"),
    _metric("gpu_temperature_celsius", "Temperature of the GPU.", "gpu", "name"),
    _metric("gpu_fan_ratio", "Speed of the fastest fan of the GPU / its maximum.", "gpu", "name"),
    _metric(
        "gpu_ecc_errors",
        "ECC errors since the driver was loaded: corrected, uncorrected.",
        *("gpu", "name", "kind"),
        kind="counter",
    ),
    _metric("overhead_ratio", "Profiling overhead: profiled time / plain time - 1."),
    _metric("dropped_events", "Events that the profiler dropped.", kind="counter"),
)
"""All that there are."""


def session_metrics(
    session: Session, *, top: int, is_silent: bool = False
) -> dict[Metric, tuple[Sample, ...]]:
    """Return the figures of a session that are known.

    Args:
        session: as it is now.
        top: modules with figures of their own: those with the most self time.
        is_silent: nothing was heard of the program for so long that rates and the machine are old.
    """
    of_names: dict[str, list[Sample]] = {}
    for name, labels, value in _figures(session, top, is_silent=is_silent):
        if isinstance(value, int | float):
            of_names.setdefault(f"{PREFIX}{name}", []).append(Sample(labels, float(value)))
    return {one: tuple(of_names[one.name]) for one in METRICS if one.name in of_names}


def _figures(session: Session, top: int, *, is_silent: bool) -> _Found:
    yield "up", (), int(not session.is_over)
    if session.tick is not None:
        yield "dropped_events", (), session.tick.dropped
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        return
    report = report_of(session, top=top)
    yield "model_info", _info(report), 1
    yield from _of_forward(report)
    yield from _of_step(report)
    yield from _of_requests(report)
    yield from _of_modules(report)
    if not (is_silent or session.is_over):
        yield from _rates(session, report)
        yield from _of_machine(report)


def _info(report: Report) -> Labels:
    mode, environment = report.mode.name, report.environment
    return (
        ("model", safe(report.model or "")),
        ("type", safe(report.type or "")),
        ("device", safe(report.device or "")),
        ("mode", mode if isinstance(mode, str) else ""),
        ("torch", safe(environment.torch) if not isinstance(environment, Unknown | None) else ""),
    )


def _of_forward(report: Report) -> _Found:
    latency, overhead = report.latency, report.overhead
    if isinstance(latency, Latency):
        yield "forward_mean_seconds", (), latency.mean_s
        yield "forward_p50_seconds", (), latency.latency_p50
        yield "forward_p95_seconds", (), latency.latency_p95
        yield "forwards", (), latency.forwards
        if latency.thread is not None:
            yield "forward_waiting_seconds", (), latency.thread.waiting
    if isinstance(overhead, Overhead):
        yield "overhead_ratio", (), overhead.ratio
    if isinstance(report.bottlenecks, Bottlenecks):
        for name in (*KINDS, "waiting"):
            time_share = getattr(report.bottlenecks, name).time_share
            yield "bound_time_ratio", (("bound", name),), time_share
    energy = report.energy.forward if isinstance(report.energy, Energy) else None
    if isinstance(energy, EnergyOfForward) and energy.forwards and energy.joules is not None:
        joules = energy.joules / energy.forwards
        yield "forward_energy_joules", (("counter", safe(energy.name)),), joules


def _of_step(report: Report) -> _Found:
    step = report.step
    if not isinstance(step, Step):
        return
    yield "step_mean_seconds", (), step.seconds
    yield "step_p50_seconds", (), step.p50
    yield "step_p95_seconds", (), step.p95
    yield "steps", (), step.steps
    yield "step_longer_time_ratio", (), step.longer_share
    for between in step.between:
        yield "step_between_time_ratio", (("kind", between.kind),), between.share
    for name in StepParts.__struct_fields__:
        part = getattr(step.parts, name)
        if isinstance(part, StepPart):
            yield "step_part_seconds", (("part", name),), part.mean_s


def _rates(session: Session, report: Report) -> _Found:
    loop = session.loop
    if loop is not None and loop.state == "finished":  # The model is gone, the program is not.
        return
    per_s = report.throughput.per_s if isinstance(report.throughput, Throughput) else None
    if isinstance(per_s, float):
        forwards = per_s / (report.batch if isinstance(report.batch, int) else 1)
        idle = 0.0
        if loop is not None and loop.state == "waiting":
            idle = session.heard_at - loop.at
        yield "forwards_per_second", (), 0.0 if has_stopped(idle, forwards) else forwards
    step = report.step
    if isinstance(step, Step) and isinstance(step.per_second, float):
        share = 0.0 if seconds_without_step(session) else 1.0
        yield "steps_per_second", (), step.per_second * share
        for name, rate in (("items", step.items_per_s), ("tokens", step.tokens_per_s)):
            if isinstance(rate, float):
                yield f"step_{name}_per_second", (), rate * share


def _of_requests(report: Report) -> _Found:
    seen = report.generation
    if not isinstance(seen, Generation):
        return
    yield "first_token_p50_seconds", (), seen.first_p50
    yield "first_token_p95_seconds", (), seen.first_p95
    yield "between_tokens_p50_seconds", (), seen.gap_p50
    yield "between_tokens_p95_seconds", (), seen.gap_p95
    yield "requests", (), seen.requests
    yield "request_tokens_per_second", (), seen.per_second
    if isinstance(seen.cache, Cache):
        yield "token_cache_bytes", (), seen.cache.bytes


def _of_modules(report: Report) -> _Found:
    for layer in report.layers:
        timing = layer.timing
        if layer.kind == "module" and isinstance(timing, Timing):
            labels = (("path", safe(layer.path)), ("type", safe(layer.type)))
            yield "module_self_seconds", labels, timing.self_mean_s
            yield "module_seconds", labels, timing.mean_per_forward_s
            yield "module_backward_seconds", labels, timing.backward_mean_s


def _of_machine(report: Report) -> _Found:
    hardware = report.hardware
    sample = hardware.sample if isinstance(hardware, Hardware) else None
    if not isinstance(sample, MachineSample):
        return
    yield "process_resident_bytes", (), sample.process_bytes
    yield "process_cores", (), sample.process_cpu
    yield "machine_memory_bytes", (), sample.memory_bytes
    yield "package_watts", (), sample.package_watts
    for sensor in sample.temperatures if isinstance(sample.temperatures, list) else ():
        yield "cpu_temperature_celsius", (("sensor", safe(sensor.name)),), sensor.celsius
    for one in sample.allocators if isinstance(sample.allocators, list) else ():
        yield "allocated_bytes", (("device", safe(one.device)),), one.allocated_bytes
    for gpu in sample.gpus if isinstance(sample.gpus, list) else ():
        labels = (("gpu", _gpu(gpu)), ("name", safe(gpu.name)))
        yield "gpu_utilisation_ratio", labels, gpu.utilisation
        yield "gpu_memory_bytes", labels, gpu.memory_bytes
        yield "gpu_power_watts", labels, gpu.power_watts
        yield "gpu_temperature_celsius", labels, gpu.temperature_celsius
        yield "gpu_fan_ratio", labels, gpu.fan_share
        errors = (
            ("corrected", gpu.ecc.volatile_corrected),
            ("uncorrected", gpu.ecc.volatile_uncorrected),
        )
        for kind, count in errors:
            yield "gpu_ecc_errors", (*labels, ("kind", kind)), count


def _gpu(gpu: GpuSample) -> str:
    return "" if gpu.index is None else str(gpu.index)

"""A JSON report read back: the side of a comparison that it is.

1. A report comes from outside: it is checked, bounded, and refused with a sentence. No figure is
   negative, or larger than any model's or machine's; times of a node's own may be, by rounding.
2. Only the format that this version writes is read; another one could mean other things.
3. A report that was written with ``--top`` has no tree; its totals stand.
"""

from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tui_profiler.figures.units import dtype, shape
from tui_profiler.messages import Figure, Kind, Unknown
from tui_profiler.queries.compare.comparison import TOTALS
from tui_profiler.queries.compare.side import Side, SideNode, SideTree, total_readings
from tui_profiler.queries.cost.exactness import Reading
from tui_profiler.queries.cost.totals import ESTIMATED_RATE
from tui_profiler.queries.time.standard_error import ONE_FORWARD, call_error
from tui_profiler.reports.json.report import SCHEMA
from tui_profiler.reports.json.report_file import MOST_NUMBER, WRITE_AGAIN, ReportError, parsed
from tui_profiler.reports.json_values import Count
from tui_profiler.session.data_dependence import Bounded, of_whole

_MOST_CALLS = 256
"""That a median speaks of: the report does not tell how many, and it is never more."""
_MOST_SECONDS = 1e7
"""Four months."""
_NOT_TOLD = "not in the report"
_OF_SOME = "the report was written with --top or --depth: it has no whole tree"


_Figure: TypeAlias = Count | Annotated[float, Meta(ge=0, le=MOST_NUMBER)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=_MOST_SECONDS)]
_SelfSeconds: TypeAlias = Annotated[float, Meta(ge=-_MOST_SECONDS, le=_MOST_SECONDS)]


class _Timing(Struct):
    calls: Count | None = None
    p50_s: _Seconds | None = None
    p95_s: _Seconds | None = None
    self_s: _SelfSeconds | None = None
    per_forward_s: _Seconds | None = None
    self_mean_s: _SelfSeconds | None = None
    mean_per_forward_s: _Seconds | None = None


class _Layer(Struct):
    name: str
    path: str
    kind: Kind
    type: str
    depth: Count
    parameters: Count
    calls: Count | None = None
    macs: Count | None = None
    flops: Count | None = None
    uncosted: Count | None = None
    bounded: Bounded | None = None
    memory: Count | None = None
    output_shape: tuple[Count, ...] | None = None
    timing: _Timing | None = None


class _Input(Struct):
    shape: tuple[Count, ...]
    dtype: str


class _Environment(Struct):
    torch: str = ""
    threads: Count | None = None
    cpu: str = ""


class _Tracer(Struct):
    method: str = ""


class _Coverage(Struct):
    ops: Count = 0
    costed: Count = 0
    bounded: tuple[str, ...] = ()


class _TrainingWork(Struct):
    uncosted: Count | None = None


class _Training(Struct):
    backward: _TrainingWork | None = None


class _Latency(Struct):
    forwards: Count | None = None
    cold: bool = False


class ReportParts(Struct):
    """The parts of ``Report`` that a comparison reads, within bounds.

    What a report of an earlier version may lack has a default; a test compares names and types.
    """

    layers: list[_Layer]
    layers_to_depth: Count | None = None
    unavailable: dict[str, str] = {}
    model: str | None = None
    type: str | None = None
    weights: str | None = None
    device: str | None = None
    training: bool | None = None
    batch: Count | None = None
    inputs: list[_Input] | None = None
    environment: _Environment | None = None
    tracer: _Tracer | None = None
    latency: _Latency | None = None
    coverage: _Coverage | None = None
    train: _Training | None = None


def read_report(path: str | Path, label: str) -> Side:
    """Return the side that a report is.

    Raises:
        ReportError: it cannot be read, is of another version, or is no report of ours.
    """
    whole = parsed(path)
    schema = whole.get("schema")
    if schema != SCHEMA:
        raise ReportError(
            f"{path} has the format {schema!r}; this version reads {SCHEMA!r}",
            "a report of this version: tui-profiler report MODEL --format json",
        )
    failure = whole.get("failure")
    if whole.get("layers") is None and isinstance(failure, dict):
        raise ReportError(
            f"{path} is of a model that failed: {failure.get('what')}",
            "the report of a model that was traced",
        )
    try:
        report = msgspec.convert(whole, ReportParts)
        totals = {name: _total(whole, report.unavailable, name) for name, *_ in TOTALS}
    except msgspec.ValidationError as error:
        raise ReportError(f"{path} is not a complete report: {error}", WRITE_AGAIN) from error
    is_cut = report.layers_to_depth is not None
    nodes = None if is_cut else _nodes(report.layers, whole)
    seconds, own, errors = _times(report)
    return Side(
        label=label,
        settings=_settings(report),
        totals=totals,
        readings=_readings(report),
        tree=None if nodes is None else SideTree(nodes),
        why_no_tree=_OF_SOME if nodes is None else "",
        is_timed=nodes is not None and bool(seconds),
        seconds=seconds.get,
        own_seconds=own.get,
        error=errors.get,
        statistic=_statistic(report) if seconds else "",
    )


def _nodes(layers: list[_Layer], whole: dict[str, object]) -> tuple[SideNode, ...] | None:
    """Return the layers as a tree; None where they are only some of one."""
    if not layers or layers[0].depth != 0 or layers[0].path:
        return None
    above: list[int] = []
    """The last node of each depth."""
    nodes: list[SideNode] = []
    for index, layer in enumerate(layers):
        if layer.depth > len(above) or (index and layer.depth == 0):
            return None
        del above[layer.depth :]
        above.append(index)
        nodes.append(
            SideNode(
                above[-2] if len(above) > 1 else -1,
                layer.kind,
                layer.name,
                layer.path,
                layer.type,
                layer.calls,
                layer.output_shape,
                layer.parameters,
                # Reports of older versions have 0 where nothing was counted.
                layer.macs or (None if layer.uncosted else layer.macs),
                layer.flops or (None if layer.uncosted else layer.flops),
                layer.memory,
                layer.bounded,
                layer.uncosted or 0,
            )
        )
    ops = _at(whole, "coverage.ops")
    has_lost_ops = isinstance(ops, int) and ops > 0 and all(one.kind != "op" for one in nodes)
    return None if has_lost_ops else tuple(nodes)


def _readings(report: ReportParts) -> dict[str, Reading]:
    """Return how totals are to be read; where the whole is no layer, by the names of operators."""
    coverage = report.coverage or _Coverage()
    backward = report.train.backward if report.train is not None else None
    root = next((one for one in report.layers if not one.path and one.kind == "module"), None)
    return total_readings(
        of_whole(coverage.bounded) if root is None else root.bounded,
        is_at_least=coverage.costed < coverage.ops,
        is_backward_at_least=backward is not None and bool(backward.uncosted),
    )


def _times(report: ReportParts) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """Return seconds of a forward, own ones, and their standard errors, by node.

    Means, which add up; medians of operators are left out beside them.
    """
    seconds: dict[int, float] = {}
    own: dict[int, float] = {}
    errors: dict[int, float] = {}
    forwards = report.latency.forwards if report.latency is not None else None
    has_means = _has_means(report)
    for index, layer in enumerate(report.layers):
        timing = layer.timing
        if timing is None:
            continue
        total = timing.mean_per_forward_s if has_means else timing.per_forward_s
        self_time = timing.self_mean_s if has_means else timing.self_s
        if total is None:
            continue
        seconds[index] = total
        if self_time is not None and layer.kind == "module":
            own[index] = self_time
        if None not in (timing.calls, timing.p50_s, timing.p95_s) and forwards:
            assert timing.calls is not None
            assert timing.p50_s is not None
            assert timing.p95_s is not None
            one = call_error(timing.p50_s, timing.p95_s, min(timing.calls, _MOST_CALLS))
            if one is not None:
                errors[index] = one * timing.calls / forwards
    return seconds, own, errors


def _has_means(report: ReportParts) -> bool:
    """Return whether modules have mean times, as in all but the oldest reports."""
    timings = (layer.timing for layer in report.layers if layer.kind == "module")
    return any(one is not None and one.mean_per_forward_s is not None for one in timings)


def _statistic(report: ReportParts) -> str:
    """Return what the times are; of how many forwards, a report does not tell."""
    forwards = report.latency.forwards if report.latency is not None else None
    of = "mean" if _has_means(report) else "p50"
    if report.latency is not None and report.latency.cold:
        return f"cold, {of} of warm-up forwards"
    return ONE_FORWARD if forwards == 1 else f"{of} of its last forwards"


def _at(whole: dict[str, object], path: str) -> object:
    found: object = whole
    for part in path.split("."):
        if found is None:
            return None
        if not isinstance(found, dict):
            raise msgspec.ValidationError(f"Expected `object` - on the way to `$.{path}`")
        found = found.get(part)
    return found


def _total(whole: dict[str, object], unavailable: dict[str, str], path: str) -> Figure:
    """Return a figure of the whole.

    Raises:
        ValidationError: what stands there is none.
    """
    found = _at(whole, path)
    if found is None:
        parts = path.split(".")
        above = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        return Unknown(next(filter(None, map(unavailable.get, above)), _NOT_TOLD))
    if path == "throughput.per_s" and _at(whole, "throughput.provenance") == "estimated":
        return Unknown(ESTIMATED_RATE)
    try:
        return msgspec.convert(found, _Seconds if path.endswith("_s") else _Figure)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.{path}`") from error


def _settings(report: ReportParts) -> tuple[tuple[str, str], ...]:
    inputs = ", ".join(f"{shape(one.shape)} {dtype(one.dtype)}" for one in report.inputs or ())
    found = [
        ("model", report.model or ""),
        ("class", report.type or ""),
        ("weights", report.weights or ""),
        ("inputs", inputs),
        ("batch", "" if report.batch is None else str(report.batch)),
        ("device", report.device or ""),
        ("mode", "" if report.training is None else "train" if report.training else "eval"),
        ("traced by", report.tracer.method if report.tracer is not None else ""),
    ]
    machine = report.environment
    if machine is not None:
        found += [
            ("threads", "" if machine.threads is None else str(machine.threads)),
            ("torch", machine.torch),
            ("processor", machine.cpu),
        ]
    return tuple(found)

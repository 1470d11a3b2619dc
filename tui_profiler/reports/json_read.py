"""A JSON report read back: the side of a comparison that it is.

1. A report comes from outside: it is checked, bounded, and refused with a sentence.
2. Only the format that this version writes is read; another one could mean other things.
3. A report that was written with ``--top`` has no tree; its totals stand.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
from msgspec import Struct

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.model import Kind
from tui_profiler.queries.compare import TOTALS
from tui_profiler.queries.noise import ONE_FORWARD, call_error
from tui_profiler.queries.sides import Side, SideNode, SideTree
from tui_profiler.reports.json_report import SCHEMA
from tui_profiler.units import dtype, shape

MOST_BYTES = 512 * 1024 * 1024
_HEAD_BYTES = 65536
_MOST_CALLS = 256
"""That a median speaks of: the report does not tell how many, and it is never more."""
_MOST_NUMBER = 2**80
"""Products of sizes can be beyond 64 bits."""
_MARK = b"tui-profiler/"
_NOT_TOLD = "the report does not tell it"
_OF_SOME = "the report was written with --top: it has no tree"


class ReportError(Exception):
    """A file that is no report that can be read; a sentence, and what to try."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


class _Timing(Struct):
    calls: int | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    self_s: float | None = None
    per_forward_s: float | None = None


class _Layer(Struct):
    name: str
    path: str
    kind: Kind
    type: str
    depth: int
    parameters: int
    calls: int | None = None
    macs: int | None = None
    flops: int | None = None
    memory: int | None = None
    output_shape: tuple[int, ...] | None = None
    timing: _Timing | None = None


class _Input(Struct):
    shape: tuple[int, ...]
    dtype: str


class _Environment(Struct):
    torch: str = ""
    threads: int | None = None
    cpu: str = ""


class _Tracer(Struct):
    method: str = ""


class _Latency(Struct):
    forwards: int | None = None


class _Report(Struct):
    """The parts of the contract that a comparison reads."""

    layers: list[_Layer]
    unavailable: dict[str, str] = {}
    model: str | None = None
    type: str | None = None
    weights: str | None = None
    device: str | None = None
    training: bool | None = None
    batch: int | None = None
    inputs: list[_Input] | None = None
    environment: _Environment | None = None
    tracer: _Tracer | None = None
    latency: _Latency | None = None


def is_report(path: str | Path) -> bool:
    """Tell whether a file is a JSON report of ours, of any version, by what it holds."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if not head.lstrip().startswith(b"{"):
                return False
            return _MARK in head or _MARK in file.read(MOST_BYTES)
    except (OSError, ValueError):
        return False


def read_report(path: str | Path, label: str) -> Side:
    """Give the side that a report is.

    Raises:
        ReportError: it cannot be read, is of another version, or is no report of ours.
    """
    whole = _parsed(path)
    schema = whole.get("schema")
    if schema != SCHEMA:
        raise ReportError(
            f"{path} is written in the format {schema!r}, and this version reads {SCHEMA!r}",
            "a report of this version: tui-profiler report MODEL --format json",
        )
    try:
        report = msgspec.convert(whole, _Report)
    except msgspec.ValidationError as error:
        raise ReportError(f"{path} is no whole report: {error}", _WRITE_AGAIN) from error
    nodes = _nodes(report.layers, whole)
    seconds, own, errors = _times(report)
    return Side(
        label=label,
        settings=_settings(report),
        totals={name: _total(whole, report.unavailable, name) for name, _, _ in TOTALS},
        tree=None if nodes is None else SideTree(nodes),
        why_no_tree=_OF_SOME if nodes is None else "",
        is_timed=nodes is not None and bool(seconds),
        seconds=seconds.get,
        own_seconds=own.get,
        error=errors.get,
        statistic=_statistic(report) if seconds else "",
    )


_WRITE_AGAIN = "writing it again: tui-profiler report MODEL --format json --output FILE"


def _parsed(path: str | Path) -> dict[str, object]:
    try:
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}", _WRITE_AGAIN) from error
    if len(text) > MOST_BYTES:
        raise ReportError(f"{path} is larger than {MOST_BYTES >> 20} MiB", "--top N writes less")
    try:
        whole = json.loads(text, parse_int=_integer, parse_float=_real, parse_constant=_real)
    except (ValueError, RecursionError) as error:
        if _is_lines(text):
            what = f"{path} holds several reports, and one is compared"
            raise ReportError(what, "a file for each: report MODEL --format json") from None
        raise ReportError(
            f"{path} is no JSON that a report could be: {error}", _WRITE_AGAIN
        ) from error
    if not isinstance(whole, dict):
        raise ReportError(f"{path} holds no object", _WRITE_AGAIN)
    return whole


def _integer(text: str) -> int:
    """Give a whole number that any figure can be.

    Raises:
        ValueError: it is larger; adding it to a float could fail.
    """
    found = int(text)
    if abs(found) > _MOST_NUMBER:
        raise ValueError(f"{text[:20]}… is no figure of a report")
    return found


def _real(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:20]} is no figure of a report")
    return found


def _is_lines(text: bytes) -> bool:
    first, _, rest = text.strip().partition(b"\n")
    try:
        return isinstance(json.loads(first), dict) and rest.lstrip().startswith(b"{")
    except (ValueError, RecursionError):
        return False


def _nodes(layers: list[_Layer], whole: dict[str, object]) -> tuple[SideNode, ...] | None:
    """Give the layers as a tree; None where they are only some of one."""
    if not layers or layers[0].depth != 0 or layers[0].path:
        return None
    above: list[int] = []
    """The last node of each depth."""
    nodes: list[SideNode] = []
    for index, layer in enumerate(layers):
        if layer.depth > len(above) or layer.depth < 0 or (index and layer.depth == 0):
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
                layer.macs,
                layer.flops,
                layer.memory,
            )
        )
    ops = _at(whole, "coverage.ops")
    has_lost_ops = isinstance(ops, int) and ops > 0 and all(one.kind != "op" for one in nodes)
    return None if has_lost_ops else tuple(nodes)


def _times(report: _Report) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """Give seconds of a forward, own ones, and their standard errors, by node."""
    seconds: dict[int, float] = {}
    own: dict[int, float] = {}
    errors: dict[int, float] = {}
    forwards = report.latency.forwards if report.latency is not None else None
    for index, layer in enumerate(report.layers):
        timing = layer.timing
        if timing is None or timing.per_forward_s is None:
            continue
        seconds[index] = timing.per_forward_s
        if timing.self_s is not None and layer.kind == "module":
            own[index] = timing.self_s
        if None not in (timing.calls, timing.p50_s, timing.p95_s) and forwards:
            assert timing.calls is not None
            assert timing.p50_s is not None
            assert timing.p95_s is not None
            one = call_error(timing.p50_s, timing.p95_s, min(timing.calls, _MOST_CALLS))
            errors[index] = one * timing.calls / forwards
    return seconds, own, errors


def _statistic(report: _Report) -> str:
    """Say what the times are; of how many forwards they are the middle, a report does not tell."""
    forwards = report.latency.forwards if report.latency is not None else None
    return ONE_FORWARD if forwards == 1 else "p50 of its last forwards"


def _at(whole: dict[str, object], path: str) -> object:
    found: object = whole
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _total(whole: dict[str, object], unavailable: dict[str, str], path: str) -> Figure:
    found = _at(whole, path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        reasons = (unavailable.get(known) for known in (path, path.rpartition(".")[0]))
        return Unknown(next(filter(None, reasons), _NOT_TOLD))
    return found


def _settings(report: _Report) -> tuple[tuple[str, str], ...]:
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

"""This machine's roofs as JSON and as text: each with its age and whether it is good enough.

1. Names and units never change within one ``schema``; ``docs/ceilings.schema.json`` describes them.
2. A roof is ``good``, or ``not good enough`` and ``why_not_good`` says why: nothing is concluded
   from it. ``busy`` is the share of the time of its pieces in which threads waited for a core.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, TypedDict

from msgspec.structs import asdict

from tui_profiler.figures.units import UNAVAILABLE, duration, rate, share, size
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Ceilings, Environment, Unknown
from tui_profiler.queries.cost.ceilings import Roof, roofs_of
from tui_profiler.queries.panel.remembered_tree import ago
from tui_profiler.reports import json_values

SCHEMA: Literal["tui-profiler/ceilings/1"] = "tui-profiler/ceilings/1"
Grade: TypeAlias = Literal["good", "not good enough"]
_LABELS = {"memory": "memory copy", "operator": "one operator"}
_COLUMNS = ("roof", "value", "waited", "measured", "quality")


class RoofGrade(json_values.Part, frozen=True):
    """Whether a roof is good enough to conclude from."""

    quality: Grade | None
    """not good enough: no class and no finding is concluded from it; null without a figure."""
    why_not_good: str | None
    busy: json_values.Size | None
    """Share of the time of its pieces in which threads waited for a core."""
    measured_at: json_values.Number
    """Unix time."""
    raised_by: str | None
    """What reached more than was measured: the roof is that rate."""
    scaled: str | None
    """How the roof follows from one thread's, because the machine was busy; measured again at the
    next start."""


class ComputeRoof(json_values.Part, frozen=True):
    """Most FLOP per second of one dtype."""

    dtype: str
    flops_per_s: json_values.Known[float]
    quality: Grade | None
    """not good enough: no class and no finding is concluded from it; null without a figure."""
    why_not_good: str | None
    busy: json_values.Size | None
    """Share of the time of its pieces in which threads waited for a core."""
    measured_at: json_values.Number
    """Unix time."""
    raised_by: str | None
    """What reached more than was measured: the roof is that rate."""
    scaled: str | None
    """How the roof follows from one thread's, because the machine was busy; measured again at the
    next start."""


class CacheRoof(json_values.Part, frozen=True):
    """Most bytes per second of one level of cache."""

    level: json_values.Count
    """1 is the nearest to a core."""
    bytes: json_values.Count
    """Working set that fits: all caches of the level that the threads use."""
    bytes_per_s: json_values.Known[float]
    """Read plus written, of a copy that fits."""
    quality: Grade | None
    """not good enough: no class and no finding is concluded from it; null without a figure."""
    why_not_good: str | None
    busy: json_values.Size | None
    """Share of the time of its pieces in which threads waited for a core."""
    measured_at: json_values.Number
    """Unix time."""
    raised_by: str | None
    """What reached more than was measured: the roof is that rate."""
    scaled: str | None
    """How the roof follows from one thread's, because the machine was busy; measured again at the
    next start."""


class Roofs(json_values.Part, frozen=True):
    """What a machine can do at most."""

    device: str
    threads: json_values.Count
    compute: list[ComputeRoof]
    bytes_per_s: json_values.Known[float]
    """Read plus written, of a copy in memory."""
    op_s: json_values.Known[float]
    """Least seconds of one operator."""
    measured_at: json_values.Known[float]
    """Unix time."""
    memory: RoofGrade
    """Of bytes_per_s."""
    operator: RoofGrade
    """Of op_s."""
    caches: list[CacheRoof]
    why_no_caches: str | None
    waits_from: str | None
    """Where waiting for a core was read; null where nothing waits for one, as on a GPU."""
    busy_cores: json_values.Size | None
    """Cores that other programs kept busy meanwhile."""


class CeilingsReport(json_values.Closed, frozen=True):
    """What this machine can do at most, as `tui-profiler ceilings --format json` prints it.

    One object on one line. Times are seconds, sizes bytes, rates per second. A figure that is not
    known is null and `unavailable` says why, by path.
    """

    schema: Literal["tui-profiler/ceilings/1"]
    cpu: str | None
    torch: str | None
    device: str
    threads: json_values.Count
    compute: list[ComputeRoof]
    bytes_per_s: json_values.Known[float]
    """Read plus written, of a copy in memory."""
    op_s: json_values.Known[float]
    """Least seconds of one operator."""
    measured_at: json_values.Known[float]
    """Unix time."""
    memory: RoofGrade
    """Of bytes_per_s."""
    operator: RoofGrade
    """Of op_s."""
    caches: list[CacheRoof]
    why_no_caches: str | None
    waits_from: str | None
    """Where waiting for a core was read; null where nothing waits for one, as on a GPU."""
    busy_cores: json_values.Size | None
    """Cores that other programs kept busy meanwhile."""
    unavailable: dict[str, str]
    """Path to the reason."""


class _Grade(TypedDict):
    quality: Grade | None
    why_not_good: str | None
    busy: float | None
    measured_at: float | None
    raised_by: str | None
    scaled: str | None


def ceilings_section(found: Ceilings) -> Roofs:
    """Return the roofs, as they stand in the report of a model."""
    roofs = {roof.name: roof for roof in roofs_of(found)}
    return Roofs(
        device=found.device,
        threads=found.threads,
        compute=[
            ComputeRoof(
                dtype=one.dtype, flops_per_s=roofs[one.dtype].figure, **_grade(roofs[one.dtype])
            )
            for one in found.compute
        ],
        bytes_per_s=roofs["memory"].figure,
        op_s=roofs["operator"].figure,
        measured_at=found.measured_at,
        memory=RoofGrade(**_grade(roofs["memory"])),
        operator=RoofGrade(**_grade(roofs["operator"])),
        caches=[
            CacheRoof(level=one.level, bytes=one.bytes, bytes_per_s=roof.figure, **_grade(roof))
            for one, roof in ((one, roofs[f"L{one.level}"]) for one in found.caches)
        ],
        why_no_caches=found.why_no_caches or None,
        waits_from=found.waits_from or None,
        busy_cores=found.busy,
    )


def _grade(roof: Roof) -> _Grade:
    kept = roof.quality
    is_known = not isinstance(roof.figure, Unknown)
    return {
        "quality": quality_of(roof) if is_known else None,
        "why_not_good": roof.why_not_good or None,
        "busy": kept.busy if kept is not None else None,
        "measured_at": kept.measured_at if kept is not None else None,
        "raised_by": (kept.raised_by or None) if kept is not None else None,
        "scaled": (kept.scaled or None) if kept is not None else None,
    }


def ceilings_report_json(found: Ceilings, environment: Environment | None) -> str:
    """Return the roofs as one JSON object on one line, without a line end."""
    told = ceilings_section(found)
    report = CeilingsReport(
        schema=SCHEMA,
        cpu=environment.cpu if environment is not None else None,
        torch=environment.torch if environment is not None else None,
        **asdict(told),
        unavailable={},
    )
    return json_values.one_line(json_values.plain(report))


def ceilings_table(found: Ceilings, environment: Environment | None, now: float) -> tuple[str, ...]:
    """Return the roofs as lines: a row for each, and below them what is to be known of them.

    Args:
        found: the roofs.
        environment: of the machine, where it is known.
        now: Unix time.
    """
    of = safe(environment.cpu) if environment is not None else ""
    threads = "1 thread" if found.threads == 1 else f"{found.threads} threads"
    roofs = roofs_of(found)
    rows = [_COLUMNS, *(_row(roof, now) for roof in roofs)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    notes = [
        *([safe(found.why_no_caches)] if found.why_no_caches else []),
    ]
    if found.waits_from:
        notes.append(f"waiting for a core is read from {safe(found.waits_from)}")
    if any(roof.why_not_good for roof in roofs):
        notes.append(
            "not good enough: no class or finding uses it; measured again at a later start"
        )
    return (
        ", ".join(filter(None, (f"ceilings of {safe(found.device)}", of, threads))),
        "",
        *(_aligned(row, widths) for row in rows),
        *(("", *notes) if notes else ()),
    )


def _row(roof: Roof, now: float) -> tuple[str, ...]:
    kept = roof.quality
    busy = share(kept.busy) if kept is not None else UNAVAILABLE
    age = ago(max(now - kept.measured_at, 0.0)) if kept is not None else UNAVAILABLE
    if isinstance(roof.figure, Unknown):
        return (label_of(roof), UNAVAILABLE, busy, age, safe(roof.figure.reason))
    why = said_of(roof)
    said = f"{quality_of(roof)}{': ' if roof.why_not_good else ', '}{why}" if why else "good"
    return (label_of(roof), value_of(roof), busy, age, said)


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    label, value, busy, age, quality = row
    cells = (
        label.ljust(widths[0]), value.rjust(widths[1]), busy.rjust(widths[2]), age.rjust(widths[3])
    )  # fmt: skip
    return "  ".join((*cells, quality))


def ceilings_words(found: Ceilings) -> tuple[str, ...]:
    """Return the roofs in words: the good ones, then what is to be said of the others."""
    return tuple(_short(found))


def _short(found: Ceilings) -> Iterable[str]:
    roofs = [roof for roof in roofs_of(found) if not isinstance(roof.figure, Unknown)]
    good = [roof for roof in roofs if not roof.why_not_good]
    if good:
        yield ", ".join(f"{label_of(roof)} {value_of(roof)}" for roof in good)
    for roof in roofs:
        if roof.why_not_good:
            yield (
                f"{label_of(roof)} {value_of(roof)} is not good enough to conclude from:"
                f" {safe(roof.why_not_good)}"
            )
        elif said := said_of(roof):
            yield f"{label_of(roof)}: {said}"
    if found.why_no_caches:
        yield safe(found.why_no_caches)


def quality_of(roof: Roof) -> Grade:
    """Return ``good`` or ``not good enough``."""
    return "not good enough" if roof.why_not_good else "good"


def said_of(roof: Roof) -> str:
    """Return what is to be said of a roof's quality, safe to show; empty for nothing."""
    if roof.why_not_good:
        return safe(roof.why_not_good)
    kept = roof.quality
    if kept is None:
        return ""
    raised = f"raised: {kept.raised_by}" if kept.raised_by else ""
    return safe(", ".join(filter(None, (kept.scaled, raised))))


def label_of(roof: Roof) -> str:
    """Return what a roof is called: ``float32``, ``L2 copy (2.00 MiB)``, ``one operator``."""
    if roof.bytes is not None:
        return f"{roof.name} copy ({size(roof.bytes)})"
    return _LABELS.get(roof.name, safe(roof.name))


def value_of(roof: Roof) -> str:
    """Return a roof's figure with its unit, a dash where there is none."""
    if isinstance(roof.figure, Unknown):
        return UNAVAILABLE
    return duration(roof.figure) if roof.unit == "s" else rate(roof.figure, roof.unit)

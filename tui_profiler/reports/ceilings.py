"""This machine's roofs as JSON and as text: each with its age and whether it is good enough.

1. Names and units never change within one ``schema``; ``docs/ceilings.schema.json`` describes them.
2. A roof is ``good``, or ``not good enough`` and ``why_not_good`` says why: nothing is concluded
   from it. ``busy`` is the share of the time of its pieces in which threads waited for a core.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from tui_profiler.figures.units import UNAVAILABLE, duration, rate, share, size
from tui_profiler.formatting.text import aligned, safe
from tui_profiler.messages import Ceilings, Environment, Unknown
from tui_profiler.queries.cost.ceilings import Roof, roofs_of
from tui_profiler.queries.panel.cached_tree import ago
from tui_profiler.reports import json_values

SCHEMA: Literal["tui-profiler/ceilings/1"] = "tui-profiler/ceilings/1"
Grade: TypeAlias = Literal["good", "not good enough"]
_LABELS = {"memory": "memory copy", "operator": "one operator"}
_COLUMNS = ("roof", "value", "waited", "measured", "quality")


class RoofGrade(json_values.Part, frozen=True, kw_only=True):
    """Quality of a roof."""

    quality: Grade | None
    """not good enough: no class and no finding is based on it; null without a figure."""
    why_not_good: str | None
    busy: json_values.Size | None
    """Share of the measured time in which threads waited for a core."""
    measured_at: json_values.Number
    """Unix time."""
    raised_by: str | None
    """What attained more than was measured: the roof is that rate."""
    scaled: str | None
    """How the roof is computed from one thread's, because the machine was busy; it is measured
    again at the next start."""


class ComputeRoof(RoofGrade, frozen=True):
    """Roof of one dtype: FLOP per second."""

    dtype: str
    flops_per_s: json_values.Known[float]


class CacheRoof(RoofGrade, frozen=True):
    """Roof of one level of cache: bytes per second."""

    level: json_values.Count
    """1 is nearest to a core."""
    bytes: json_values.Count
    """Largest working set that fits: all caches of this level that the threads use."""
    bytes_per_s: json_values.Known[float]
    """Of a copy that fits: bytes read plus bytes written."""


class Roofs(json_values.Part, frozen=True, kw_only=True):
    """Roofs of a machine."""

    device: str
    threads: json_values.Count
    compute: list[ComputeRoof]
    bytes_per_s: json_values.Known[float]
    """Of a copy in memory: bytes read plus bytes written."""
    op_s: json_values.Known[float]
    """Minimum seconds of one operator."""
    measured_at: json_values.Known[float]
    """Unix time."""
    memory: RoofGrade
    """Of bytes_per_s."""
    operator: RoofGrade
    """Of op_s."""
    caches: list[CacheRoof]
    why_no_caches: str | None
    waits_from: str | None
    """Source of the time spent waiting for a core; null if nothing waits for one, as on a GPU."""
    busy_cores: json_values.Size | None
    """Cores that other programs used during the measurement."""


class _RoofsOfMachine(Roofs, frozen=True):
    """The first fields of the report."""

    schema: Literal["tui-profiler/ceilings/1"]
    cpu: str | None
    torch: str | None


class CeilingsReport(_RoofsOfMachine, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The roofs of this machine, as `tui-profiler ceilings --format json` prints them.

    One object on one line. Times are seconds, sizes bytes, rates per second. A figure that is not
    known is null, and `unavailable` has the reason, by path.
    """

    unavailable: dict[str, str]
    """Path to the reason."""


def ceilings_section(found: Ceilings) -> Roofs:
    """Return the roofs, as in the report of a model."""
    roofs = {roof.name: roof for roof in roofs_of(found)}
    memory, operator = roofs["memory"], roofs["operator"]
    return json_values.fill(
        Roofs,
        found,
        compute=[
            json_values.fill(
                ComputeRoof,
                _grade(roofs[one.dtype]),
                dtype=one.dtype,
                flops_per_s=roofs[one.dtype].figure,
            )
            for one in found.compute
        ],
        bytes_per_s=memory.figure,
        op_s=operator.figure,
        memory=_grade(memory),
        operator=_grade(operator),
        caches=[
            json_values.fill(
                CacheRoof, _grade(roof), level=one.level, bytes=one.bytes, bytes_per_s=roof.figure
            )
            for one, roof in ((one, roofs[f"L{one.level}"]) for one in found.caches)
        ],
        busy_cores=found.busy,
    )


def _grade(roof: Roof) -> RoofGrade:
    return json_values.fill(
        RoofGrade,
        roof.quality,
        quality=None if isinstance(roof.figure, Unknown) else quality_of(roof),
        why_not_good=roof.why_not_good or None,
    )


def ceilings_report_json(found: Ceilings, environment: Environment | None) -> str:
    """Return the roofs as one JSON object on one line, without a line end."""
    report = json_values.fill(
        CeilingsReport,
        ceilings_section(found),
        schema=SCHEMA,
        cpu=environment and environment.cpu,
        torch=environment and environment.torch,
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
    notes = [safe(found.why_no_caches)] if found.why_no_caches else []
    if found.waits_from:
        notes.append(f"waiting for a core is read from {safe(found.waits_from)}")
    if any(roof.why_not_good for roof in roofs):
        notes.append(
            "not good enough: no class or finding uses it; measured again at a later start"
        )
    return (
        ", ".join(filter(None, (f"roofline of {safe(found.device)}", of, threads))),
        "",
        *aligned([_COLUMNS, *(_row(roof, now) for roof in roofs)], left=(0, 4)),
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


def ceilings_words(found: Ceilings) -> Iterator[str]:
    """Yield the roofs in words: the good ones, then what is to be said of the others."""
    roofs = [roof for roof in roofs_of(found) if not isinstance(roof.figure, Unknown)]
    good = [roof for roof in roofs if not roof.why_not_good]
    if good:
        yield ", ".join(f"{label_of(roof)} {value_of(roof)}" for roof in good)
    for roof in roofs:
        if roof.why_not_good:
            yield (
                f"{label_of(roof)} {value_of(roof)} is not good enough: {safe(roof.why_not_good)}"
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

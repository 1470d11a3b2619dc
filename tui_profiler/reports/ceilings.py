"""This machine's roofs as JSON and as text: each with its age and whether it is good enough.

1. Names and units never change within one ``schema``; ``docs/ceilings.schema.json`` describes them.
2. A roof is ``good``, or ``not good enough`` and ``why_not_good`` says why: nothing is concluded
   from it. ``busy`` is the share of the time of its pieces in which threads waited for a core.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tui_profiler.figures.units import UNAVAILABLE, duration, rate, share, size
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Ceilings, Environment, Unknown
from tui_profiler.queries.cost.ceilings import Roof, roofs_of
from tui_profiler.queries.panel.remembered_tree import ago
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.reports.text_parts import field

SCHEMA = "tui-profiler/ceilings/1"
OF_HARDWARE = "hardware.ceilings"
"""Where they stand in the report of a model."""
_NOT_TOLD = "this recording is older than the figure"
_LABELS = {"memory": "memory copy", "operator": "one operator"}
_COLUMNS = ("roof", "value", "waited", "measured", "quality")


def ceilings_json(found: Ceilings | None, unavailable: Unavailable, path: str = "") -> Json:
    """Return the roofs as an object, null where there are none.

    Args:
        found: the roofs.
        unavailable: is told what is null, and why.
        path: where the object stands in the report.
    """
    if found is None:
        return unavailable.missing(path, "this machine's ceilings were not measured")
    prefix = f"{path}." if path else ""
    roofs = {roof.name: roof for roof in roofs_of(found)}

    def figure(name: str, roof: Roof) -> Json:
        return unavailable.figure(f"{prefix}{name}", roof.figure)

    def quality(name: str) -> dict[str, Json]:
        return _quality(roofs[name])

    return {
        "device": found.device,
        "threads": found.threads,
        "compute": [
            {
                "dtype": one.dtype,
                "flops_per_s": figure(f"compute[{at}].flops_per_s", roofs[one.dtype]),
                **quality(one.dtype),
            }
            for at, one in enumerate(found.compute)
        ],
        "bytes_per_s": figure("bytes_per_s", roofs["memory"]),
        "op_s": figure("op_s", roofs["operator"]),
        "measured_at": unavailable.figure(f"{prefix}measured_at", found.measured_at),
        "memory": quality("memory"),
        "operator": quality("operator"),
        "caches": [
            {
                "level": one.level,
                "bytes": one.bytes,
                "bytes_per_s": figure(f"caches[{at}].bytes_per_s", roofs[f"L{one.level}"]),
                **quality(f"L{one.level}"),
            }
            for at, one in enumerate(found.caches)
        ],
        "why_no_caches": found.why_no_caches or None,
        "waits_from": found.waits_from or None,
        "busy_cores": found.busy,
    }


def _quality(roof: Roof) -> dict[str, Json]:
    kept = roof.quality
    is_known = not isinstance(roof.figure, Unknown)
    return {
        "quality": ("not good enough" if roof.why_not_good else "good") if is_known else None,
        "why_not_good": roof.why_not_good or None,
        "busy": kept.busy if kept is not None else None,
        "measured_at": kept.measured_at if kept is not None else None,
        "raised_by": (kept.raised_by or None) if kept is not None else None,
        "scaled": (kept.scaled or None) if kept is not None else None,
    }


def ceilings_report_json(found: Ceilings, environment: Environment | None) -> str:
    """Return the roofs as one JSON object on one line, without a line end."""
    unavailable = Unavailable()
    told = ceilings_json(found, unavailable)
    assert isinstance(told, dict)
    report: dict[str, Json] = {
        "schema": SCHEMA,
        "cpu": environment.cpu if environment is not None else None,
        "torch": environment.torch if environment is not None else None,
        **told,
        "unavailable": unavailable.reasons,
    }
    text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    # The only control character that JSON does not escape by itself.
    return text.replace("\x7f", "\\u007f")


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


def ceilings_lines(found: Ceilings) -> list[str]:
    """Return the roofs as fields of the text report of a model."""
    return [field("ceilings" if not at else "", line) for at, line in enumerate(_short(found))]


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


def quality_of(roof: Roof) -> str:
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

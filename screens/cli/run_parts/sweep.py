"""``sweep``, put together: workers, verb, report, output."""

from __future__ import annotations

import asyncio
import math
import os
import time
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import clock
from tui_profiler.formatting.canvas import ASCII, Glyphs
from tui_profiler.messages import Request
from tui_profiler.queries.sweep import Axis, Sweep, points
from tui_profiler.reports.json.sweep import sweep_csv, sweep_json
from tui_profiler.reports.text.sweep import rounds as in_rounds
from tui_profiler.reports.text.sweep import sweep_table
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.sweep import estimated_seconds, exit_code, sweep

from ...options.model import Chosen
from ...settings.appearance import glyphs_for
from ...terminal.standard_output import Results, columns, say, speaker


class SweepOptions(Struct, frozen=True):
    """What was typed after ``sweep``, the options of the model apart."""

    model: str
    axes: dict[Literal["batch", "sequence", "threads", "dtype"], tuple[int | str, ...] | None]
    seconds: float
    rounds: int
    timeout: float
    layout: Literal["table", "json", "csv"]
    output: str
    top: int
    is_ascii: bool

    @property
    def points(self) -> int:
        """How many points the axes make."""
        return math.prod(len(values) for values in self.axes.values() if values)


def run_sweep(options: SweepOptions, chosen: Chosen) -> int:
    """Visit every point, write what was found, and give the exit code.

    Raises:
        UsageError: the file to write cannot be written.
    """
    with Results(options.output) as results:
        found = _swept(options, chosen)
        results.add(_written(found, options))
    _complain(found)
    return exit_code(found)


def _swept(options: SweepOptions, chosen: Chosen) -> Sweep:
    """Visit every point; where that is interrupted, give what there is until then."""
    axes = tuple(Axis(name, values) for name, values in options.axes.items() if values)
    rounds = options.rounds if chosen.run else 1  # On paper every round says the same.
    wanted = Sweep(options.model, axes, rounds, options.seconds, chosen.run)
    say(options.model, _stated(wanted))
    kept = [wanted]
    try:
        return asyncio.run(
            sweep(
                wanted,
                chosen.spec(options.model, started_at=0.0),
                _begin,
                seconds=options.timeout,
                now=time.monotonic,
                progress=speaker(options.model),
                kept=kept.append,
            )
        )
    except KeyboardInterrupt:
        found = replace(kept[-1], interrupted=True)
        say(options.model, f"interrupted after {len(found.visits)} visits; what there is follows")
        return found


def _begin(request: Request) -> Spawned:
    return Spawned(worker_command(), first=[request])


def _stated(wanted: Sweep) -> str:
    axes = [f"{len(axis.values)} of {axis.name}" for axis in wanted.axes]
    count = len(points(wanted.axes))
    number = "1 point" if count == 1 else f"{count} points"
    product = wanted.axes[0].name if len(axes) == 1 else " × ".join(axes)
    about = clock(estimated_seconds(wanted))
    if not wanted.runs:
        return f"{number} ({product}) on paper; about {about}"
    return (
        f"{number} ({product}) in {in_rounds(wanted.rounds)}, {wanted.seconds:g} s of"
        f" running a point; about {about}"
    )


def _complain(found: Sweep) -> None:
    failed = {visit.place: visit.failure for visit in found.visits if visit.failure}
    if failed:
        number = len(points(found.axes))
        say(found.model, f"{len(failed)} of {number} points failed: {next(iter(failed.values()))}")


def _written(found: Sweep, options: SweepOptions) -> str:
    if options.layout == "json":
        return sweep_json(found) + "\n"
    if options.layout == "csv":
        return sweep_csv(found)
    glyphs: Glyphs = ASCII if options.is_ascii else glyphs_for("auto", os.environ)
    lines = sweep_table(found, columns=columns(options.output), glyphs=glyphs, top=options.top)
    return "\n".join(lines) + "\n"

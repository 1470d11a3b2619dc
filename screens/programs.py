"""Running programs that can be attached to, as they are listed and chosen."""

from __future__ import annotations

from tui_profiler.source.attached import Found
from tui_profiler.text import safe
from tui_profiler.units import clock


def matching(found: list[Found], who: str) -> list[Found]:
    """Give those whose name or process id is ``who``, else whose name begins so; all for none."""
    named = [one for one in found if one.program is not None]
    exact = [one for one in named if one.program and who in (one.program.name, str(one.place.pid))]
    if exact or not who:
        return exact or found
    return [one for one in named if one.program and one.program.name.startswith(who)]


def columns(found: Found) -> tuple[str, ...]:
    """Give what tells one program from another: name, process, command, how long, what else."""
    program = found.program
    if program is None:
        return (safe(found.place.name), f"pid {found.place.pid}", safe(found.why_not))
    since = clock(max(program.at, 0.0))
    rank = "" if program.rank is None else f"rank {program.rank} of {program.ranks}"
    parts = (safe(program.name), f"pid {program.pid}", safe(program.command), f"watched {since}")
    return (*parts, *(part for part in (rank, safe(program.role)) if part))

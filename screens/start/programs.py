"""Running programs that can be attached to, as they are listed and chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tui_profiler.figures.units import clock
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Failed, Program, Remedy
from tui_profiler.source.adapters import TimeLimited
from tui_profiler.source.attached import Attached, AttachError, Found, attached, find
from tui_profiler.source.ranks import is_whole_run
from tui_profiler.source.remote import SCHEME, address, remote
from tui_profiler.verbs.outcome import MODEL_FAILED

from ..terminal.standard_output import say

HOW = "in the program: import tui_profiler; tui_profiler.watch(model)"
_MOST_NAMED = 6


def matching(found: list[Found], who: str) -> list[Found]:
    """Return those whose name or process id is ``who``, else whose name begins so; all for none."""
    named = [one for one in found if one.program is not None]
    exact = [one for one in named if one.program and who in (one.program.name, str(one.place.pid))]
    if exact or not who:
        return exact or found
    return [one for one in named if one.program and one.program.name.startswith(who)]


def candidates(found: list[Found], who: str) -> list[Found]:
    """Return those to choose from: that answer, and without helpers where there are others.

    Raises:
        AttachError: there is none.
    """
    fitting = [one for one in matching(found, who) if one.program is not None]
    silent = [one for one in found if one.program is None]
    refusing = [
        one for one in silent if one.instead and who in (one.place.name, str(one.place.pid))
    ]
    if not fitting and refusing:
        raise AttachError(safe(refusing[0].why_not), safe(refusing[0].instead))
    if not fitting and who:
        what = f"nothing called {safe(who)!r} can be attached to"
        raise AttachError(what, "tui-profiler attach --list")
    if not fitting:
        what = "no watched process found"
        if silent:
            one = silent[0]
            what = f"process {one.place.pid} watches a model, and does not answer: {one.why_not}"
        raise AttachError(safe(what), safe(silent[0].instead if silent else "") or HOW)
    # Children that load data have the model and never call it.
    return [one for one in fitting if one.program and not one.program.role] or fitting


def choose(who: str) -> Found:
    """Return the one program that fits.

    Raises:
        AttachError: there is none, or there are several.
    """
    fitting = candidates(find(), who)
    if len(fitting) > 1:
        one_process = len({one.place.pid for one in fitting}) == 1
        remedy = "the name of its model" if one_process else "its process id"
        raise AttachError(f"several programs fit: {_names(fitting)}", remedy)
    return fitting[0]


def source_of(who: str, remote_python: str, started_at: float) -> Attached:
    """Attach to the one program that fits, here or at ``ssh://``.

    Raises:
        AttachError: it cannot be done.
    """
    if who.startswith(SCHEME):
        return remote(address(who), remote_python, started_at)
    return attached(choose(who).place, started_at)


def follow(
    who: str, remote_python: str, *, seconds: float | None, started_at: float
) -> Attached | TimeLimited:
    """Attach to the one program that fits, for so many seconds of figures; None: until it ends.

    Raises:
        AttachError: it cannot be done.
    """
    source = source_of(who, remote_python, started_at)
    if seconds is None:
        return source
    began = time.monotonic() - (time.time() - started_at)  # The clock may be set meanwhile.
    return TimeLimited(source, seconds, lambda: time.monotonic() - began)


def not_attached(error: AttachError) -> Failed:
    """Say the same as a failure of a session."""
    instead = error.instead or "tui-profiler attach --list"
    return Failed("attach", str(error), remedies=(Remedy(instead, ""),))


def refused(error: AttachError) -> int:
    """Say why a program cannot be attached to, and what to try."""
    say("attach", safe(str(error)))
    say("attach", f"try {error.instead or 'tui-profiler attach --list'}")
    return MODEL_FAILED


def columns(found: Found) -> tuple[str, ...]:
    """Return what tells one program from another: name, process, command, how long, what else."""
    program = found.program
    if program is None:
        return (safe(found.place.name), f"pid {found.place.pid}", safe(found.why_not))
    since = clock(max(program.at, 0.0))
    rank = "" if program.rank is None else f"rank {program.rank} of {program.ranks}"
    if is_whole_run(found):
        rank = f"{program.ranks} ranks"
    parts = (safe(program.name), f"pid {program.pid}", safe(program.command), f"watched {since}")
    return (*parts, *(part for part in (rank, safe(program.role)) if part))


def in_order(found: Iterable[Found], column: str, *, descending: bool) -> tuple[Found, ...]:
    """Return programs by a column of the list; those that do not answer come last either way.

    Args:
        found: in the order that is kept among equal ones.
        column: ``model``, ``process``, ``command`` or ``watched``; any other leaves the order.
        descending: from Z to A, the largest first.
    """
    every = tuple(found)
    keys: dict[str, Callable[[Program], str | float]] = {
        "model": lambda program: program.name.casefold(),
        "process": lambda program: program.pid,
        "command": lambda program: program.command,
        "watched": lambda program: program.at,
    }
    if column not in keys:
        return every
    pairs = [(keys[column](one.program), one) for one in every if one.program is not None]
    pairs.sort(key=lambda pair: pair[0], reverse=descending)
    return (*(one for _, one in pairs), *(one for one in every if one.program is None))


def _names(found: Iterable[Found]) -> str:
    names = [f"{one.program.name} (pid {one.place.pid})" for one in found if one.program]
    more = len(names) - _MOST_NAMED
    return ", ".join(map(safe, names[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")

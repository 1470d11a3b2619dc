"""Running programs that can be attached to, as they are listed and chosen."""

import time
from collections.abc import Callable, Iterable

from tui_profiler.figures.units import clock
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Failed, Program, Remedy, Unknown
from tui_profiler.source.adapters import TimeLimited
from tui_profiler.source.attached import Attached, AttachError, Found, attached, find, unprepared
from tui_profiler.source.ranks import is_whole_run
from tui_profiler.source.remote import SCHEME, address, remote
from tui_profiler.verbs.outcome import MODEL_FAILED

from ..terminal.standard_output import say

HOW = "in the program: import tui_profiler; tui_profiler.watch(model)"
_MOST_NAMED = 6
UNKNOWN = "–"


def matching(found: list[Found], who: str) -> list[Found]:
    """Return those whose name or process id is ``who``, else whose name begins so; all for none."""
    if not who:
        return found
    named = [one for one in found if one.program is not None]
    exact = [
        one
        for one in named
        if one.program and who in (one.program.name, one.program.model, str(one.place.pid))
    ]
    if exact:
        return exact
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
        what = f"no program named {safe(who)!r} can be attached to"
        raise AttachError(what, "tui-profiler attach --list")
    if not fitting:
        what = "no watched process found"
        if silent:
            one = silent[0]
            what = f"process {one.place.pid} watches a model, and does not answer: {one.why_not}"
        raise AttachError(safe(what), safe(silent[0].instead if silent else "") or HOW)
    # Children that load data have the model and never call it.
    return [one for one in fitting if one.program and not one.program.role] or fitting


def listening(who: str) -> list[Found]:
    """Return every program that listens; a process id that does not is made to.

    Raises:
        AttachError: it cannot be made to.
    """
    found = find()
    is_known = any(str(one.place.pid) == who for one in found) or bool(matching(found, who))
    if who.isdecimal() and not is_known:
        found.append(unprepared(int(who)))
    return found


def choose(who: str) -> Found:
    """Return the one program that fits.

    Raises:
        AttachError: there is none, or there are several.
    """
    return one_of(candidates(listening(who), who), who)


def choose_listening(who: str) -> Found:
    """Return the one program that fits among those that listen already: none is made to.

    Raises:
        AttachError: there is none, or there are several.
    """
    found = find()
    is_known = any(str(one.place.pid) == who for one in found) or bool(matching(found, who))
    if who.isdecimal() and not is_known:
        what = f"process {who} is not watched, and no listener is started in it from here"
        raise AttachError(what, f"tui-profiler attach {who}")
    return one_of(candidates(found, who), who)


def one_of(fitting: list[Found], who: str) -> Found:
    """Return the one that is meant.

    A process id means the process: where it was attached to before it called ``watch``, the
    listener that shows whatever it runs.

    Raises:
        AttachError: there are several.
    """
    is_one_process = len({one.place.pid for one in fitting}) == 1
    if is_one_process and who.isdecimal():
        of_process = [one for one in fitting if one.program is not None and one.program.model]
        fitting = of_process if len(of_process) == 1 else fitting
    if len(fitting) > 1:
        what = f"several {'models' if is_one_process else 'programs'} can be attached to"
        remedy = f"one of these {'names' if is_one_process else 'process ids'}"
        raise AttachError(f"{what}: {_names(fitting)}", remedy)
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
    """Return what tells one program from another.

    Model, process, command, how long it is watched, device, pace, and what else it is; ``–`` where
    it is not known.
    """
    program = found.program
    if program is None:
        return (safe(found.place.name), f"pid {found.place.pid}", safe(found.why_not))
    since = clock(max(program.at, 0.0))
    rank = "" if program.rank is None else f"rank {program.rank} of {program.ranks}"
    if is_whole_run(found):
        rank = f"{program.ranks} ranks"
    name = (program.model or program.name) if found.listens else UNKNOWN
    per_second = program.per_second
    pace = UNKNOWN if isinstance(per_second, Unknown) else f"{per_second:.3g} it/s"
    return (
        safe(name),
        f"pid {program.pid}",
        safe(program.command),
        f"watched {since}" if found.listens else "not watched",
        safe(program.device) or UNKNOWN,
        pace,
        *(part for part in (rank, safe(program.role)) if part),
    )


def question(found: Found) -> str:
    """Return what is asked before a program that does not listen is made to."""
    return f"start a listener in pid {found.place.pid}"


def in_order(found: Iterable[Found], column: str, *, descending: bool) -> tuple[Found, ...]:
    """Return programs by a column; those that do not listen or answer come last either way.

    Args:
        found: in the order that is kept among equal ones.
        column: a title of the list; any other leaves the order.
        descending: from Z to A, the largest first.
    """
    every = tuple(found)
    keys: dict[str, Callable[[Program], str | float]] = {
        "model": lambda program: program.name.casefold(),
        "process": lambda program: program.pid,
        "command": lambda program: program.command,
        "watched": lambda program: program.at,
        "device": lambda program: program.device,
        "it/s": lambda program: (
            -1.0 if isinstance(program.per_second, Unknown) else program.per_second
        ),
    }
    if column not in keys:
        return every
    pairs = [(keys[column](one.program), one) for one in every if one.program and one.listens]
    pairs.sort(key=lambda pair: pair[0], reverse=descending)
    return (
        *(one for _, one in pairs),
        *(one for one in every if not one.program or not one.listens),
    )


def _names(found: Iterable[Found]) -> str:
    names = [
        f"{one.program.name} (pid {one.place.pid}{_rank(one.program)})"
        for one in found
        if one.program
    ]
    more = len(names) - _MOST_NAMED
    return ", ".join(map(safe, names[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


def _rank(program: Program) -> str:
    return "" if program.rank is None else f", rank {program.rank} of {program.ranks}"

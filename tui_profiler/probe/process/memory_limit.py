"""A limit on the memory of this process: allocations above it fail; the kernel kills nothing.

1. It is ``RLIMIT_DATA``, which counts private writable memory, touched or not: torch's allocator
   then raises, and the error can be shown. The kernel's own answer to a full machine is to kill
   the largest process.
2. It is the soft limit alone. It protects the machine from a model that is too large, not from
   malicious code.
3. A private map of a file counts in full though its pages are the file's: whoever maps one says so
   first (``allow_map``). So does memory that was asked for and never touched, such as the
   parameters of a model that was built for a trace (``allow_untouched``).
4. On a GPU there is none: CUDA reserves far more addresses than it uses.

Source: setrlimit(2), proc_pid_status(5); ``may_expand_vm`` in ``mm/mmap.c`` of Linux.
"""

import errno
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tui_profiler.messages import Failed, Remedy

NONE = 0
"""Requested limit that means no limit."""
_WANTED = re.compile(r"tried to allocate (\d+) bytes")
_STATUS = Path("/proc/self/status")
_GIB = 1 << 30
_MOST_RESERVE, _LEAST_RESERVE = 2 * _GIB, 256 << 20
_TO_TELL = 128 << 20
"""Added to the limit once it is hit: reporting the error needs memory too."""
_MOST_LIFTS = 4


class _Here:
    most_bytes: int | None = None
    resident_bytes = 0
    """What may be resident, of which ``most_bytes`` is what came after the limit was set."""
    words: str = ""
    lifts = 0


def reserve_bytes(free_bytes: int) -> int:
    """Return the reserve for other processes: a tenth of what is free, 256 MiB to 2 GiB."""
    return min(_MOST_RESERVE, max(_LEAST_RESERVE, free_bytes // 10))


def limit_memory(
    asked_bytes: int | None, free_bytes: int, asked_by: str = "set by --memory-limit"
) -> None:
    """Limit the memory of this process from now on; an existing lower limit stays.

    Args:
        asked_bytes: what the user asked for; ``NONE`` for no limit; None for what is free less a
            reserve.
        free_bytes: memory that is free now, within the limits of the control group.
        asked_by: where the limit comes from, in words.
    """
    if asked_bytes == NONE:
        return
    if asked_bytes is None:
        reserve = reserve_bytes(free_bytes)
        most = max(free_bytes - reserve, _LEAST_RESERVE)
        words = f"{_gib(free_bytes)} free less a reserve of {_gib(reserve)}"
    else:
        most, words = asked_bytes, asked_by
    held, resident = _held_bytes()
    # A requested limit is the total; free memory is added to what is already in use.
    if asked_bytes is not None:
        held = resident = 0
    lower = _lower(held + most)
    if lower is None:
        _Here.most_bytes, _Here.words = most, words
        _Here.resident_bytes = resident + most
    elif _Here.most_bytes is None:
        _Here.most_bytes = _Here.resident_bytes = lower
        _Here.words = "set before it was started (ulimit -d)"


def told() -> str:
    """Return the limit in words; empty where there is none."""
    if _Here.most_bytes is None:
        return ""
    return f"memory limit {_gib(_Here.most_bytes)}"


def limit_bytes() -> int | None:
    """Return the limit in bytes; None where there is no limit."""
    return _Here.most_bytes


def allow_map(size_bytes: int) -> None:
    """Raise the limit by a private map of a file, whose pages are not this process's."""
    _raise_by(size_bytes)


def allow_untouched() -> None:
    """Raise the limit by what was asked for and never touched until now."""
    if _Here.most_bytes is None:
        return
    held, resident = _held_bytes()
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    _raise_by(max(held - resident + _Here.resident_bytes - soft, 0))


def lift() -> None:
    """Raise the limit a little once it is hit: the error must still be reported."""
    if _Here.lifts < _MOST_LIFTS:
        _Here.lifts += 1
        _raise_by(_TO_TELL)


def with_limit(failed: Failed, error: BaseException) -> Failed:
    """Return a failure with the limit that was hit; as it is where memory was not the cause."""
    if _Here.most_bytes is None or not any(map(_ran_out, chain_of(error))):
        return failed
    limit = f"the memory limit is {_gib(_Here.most_bytes)}: {_Here.words}"
    wanted = _wanted_bytes(error)
    is_told = wanted is None or _gib(wanted) in failed.what
    why = limit if is_told else f"{_gib(wanted or 0)} more was requested; {limit}"
    remedies = {one.command: one for one in failed.remedies}
    # Before a model is loaded its batch takes no memory; a failed trace knows its own batch.
    has_batch = failed.stage not in ("load model", "initialise", "trace")
    for remedy in (
        *((Remedy("--batch 1", "the least memory"),) if has_batch else ()),
        Remedy("--device meta", "traces without memory for parameters"),
        Remedy("--memory-limit none", "no limit; if memory runs out, the kernel kills the process"),
    ):
        remedies.setdefault(remedy.command, remedy)
    return replace(failed, why=failed.why or why, remedies=tuple(remedies.values()))


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised because of."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _ran_out(error: BaseException) -> bool:
    """Say whether an error is that there was no memory in the machine, as against in a GPU."""
    if isinstance(error, RuntimeError):
        return "DefaultCPUAllocator" in str(error) or "Cannot allocate memory" in str(error)
    is_of_system = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or is_of_system


def _wanted_bytes(error: BaseException) -> int | None:
    """Return what torch's allocator was asked for in vain; None where another one was asked."""
    found = (_WANTED.search(str(one)) for one in chain_of(error) if isinstance(one, RuntimeError))
    return next((int(match[1]) for match in found if match), None)


def _raise_by(size_bytes: int) -> None:
    if _Here.most_bytes is None or size_bytes <= 0:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY:  # Other code in this process removed the limit.
        return
    more = soft + size_bytes
    if hard != resource.RLIM_INFINITY:
        more = min(more, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (more, hard))


def _lower(most_bytes: int) -> int | None:
    """Set the soft limit; returns the one that stays where that is lower already."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lowest = min((one for one in (soft, hard) if one != resource.RLIM_INFINITY), default=None)
    if lowest is not None and lowest <= most_bytes:
        return lowest
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, hard))
    return None


def _held_bytes() -> tuple[int, int]:
    found = {"VmData": 0, "RssAnon": 0}
    for line in _STATUS.read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return found["VmData"], found["RssAnon"]


def _gib(count: float) -> str:
    return f"{count / _GIB:,.2f} GiB"

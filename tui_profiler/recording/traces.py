"""Which trees of a damaged recording are not whole: their figures would stand at other nodes."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.recording.frames import Kind
from tui_profiler.recording.scan import Entry


def broken_traces(entries: Sequence[Entry]) -> frozenset[int]:
    """Give the numbers of the trees of which a part is missing, or may be.

    A tree whose parts were still coming when the recording ended is not among them.
    """
    broken: set[int] = set()
    known, is_open, sequence = 0, False, -1
    for entry in entries:
        number, kind = entry.frame.trace, entry.frame.kind
        begins = kind == Kind.TRACE_STARTED
        if is_open and entry.frame.sequence != sequence + 1:
            broken.add(known)
        if number > known:
            # Only its first part may come first; any tree in between is lost whole.
            broken.update(range(known + 1, number + (not begins)))
            is_open = begins
        elif begins:
            is_open = True
        if kind == Kind.TRACE_DONE:
            is_open = False
        known, sequence = max(known, number), entry.frame.sequence
    return frozenset(broken)

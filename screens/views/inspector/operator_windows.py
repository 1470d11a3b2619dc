"""What an operator window said of a module: how much of its time no operator ran, and what else.

Of a module that is timed as a whole, what it ran inside; on a GPU, its time there.
"""

from __future__ import annotations

from tui_profiler.figures.units import duration, thousands
from tui_profiler.figures.units import share as share_text
from tui_profiler.formatting.text import safe
from tui_profiler.queries.time.node_seconds import part_of
from tui_profiler.session.windows import Shares

from ...widgets.lines import EMPTY, Line
from ...widgets.rows import LABEL, Look, columns, row, section

MOST_PARTS = 5


def window_lines(look: Look) -> tuple[Line, ...]:
    """Return the section with its title; nothing where there is nothing to say."""
    tree = look.tree
    if tree is None or tree.nodes[look.node].kind == "op":
        return ()
    of_window = (*_shares(look), *_region(look))
    lines = (*of_window, *_device(look))
    provenance = "last operator window" if of_window else ""
    return (section("time", provenance, look), *lines) if lines else ()


def _shares(look: Look) -> tuple[Line, ...]:
    windows = look.session.windows
    found = windows.shares(look.node) if windows is not None else None
    if found is None or found.seconds <= 0:
        return ()
    parts: list[Line] = [
        (("host".ljust(LABEL), "muted"), (_share(found.host, found), "ink")),
        (("   other ", "muted"), (_share(found.other, found), "ink")),
    ]
    right: Line = (("of ", "muted"), (duration(found.seconds), "ink"))
    return (columns(parts, right, look),)


def _share(seconds: float, whole: Shares) -> str:
    return share_text(part_of(max(seconds, 0.0), whole.seconds) or 0.0)


def _device(look: Look) -> tuple[Line, ...]:
    device = look.session.device
    seconds = device.per_forward(look.node) if device is not None else None
    if seconds is None:
        return ()
    left: Line = (("on GPU".ljust(LABEL), "muted"), (duration(seconds), "ink"))
    return (row(left, (("per forward, by events", "muted"),), look),)


def _region(look: Look) -> tuple[Line, ...]:
    windows = look.session.windows
    region = windows.region(look.node) if windows is not None else None
    if region is None:
        return ()
    shown = [
        row(
            (("  " + safe(part.name), "ink"),),
            ((f"{thousands(part.calls)} × ", "muted"), (duration(part.seconds), "ink")),
            look,
        )
        for part in region.parts[:MOST_PARTS]
    ]
    more = len(region.parts) - len(shown)
    rest = (row(((f"  {thousands(more)} more", "faint"),), EMPTY, look),) if more > 0 else ()
    return (*shown, *rest)

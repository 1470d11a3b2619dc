"""The inspector: everything about one node, the machine pinned to its bottom.

When rows are short, ``inside`` goes first, then the sparkline shrinks to one row, then the last
operator window and the tensors go. The machine never goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tui_profiler.queries.panel.state import is_stale

from ...widgets.bound_lines import bound_lines
from ...widgets.file_lines import file_lines
from ...widgets.identity_lines import identity_lines, tensor_lines, work_lines
from ...widgets.lines import EMPTY, Line
from ...widgets.machine_lines import machine_lines
from ...widgets.rows import Look, finished, without_colour
from ...widgets.timing_lines import timing_lines
from .inside_lines import inside_lines
from .operator_windows import window_lines

Block = tuple[Line, ...]


def inspector_lines(look: Look, rows: int) -> tuple[Line, ...]:
    """Return exactly ``rows`` lines of exactly the look's width."""
    machine = machine_lines(look)
    room = rows - len(machine)
    if room <= 0:
        return finished(machine, look, rows)
    above: Block = ()
    for above in _forms(look):
        if len(above) <= room - 1:
            break
    above = above[: max(room - 1, 0)]
    blank = (EMPTY,) * (room - len(above))
    return finished((*above, *blank, *machine), look, rows)


def _forms(look: Look) -> Iterator[Block]:
    """Yield what stands above the machine, the fullest form first; each is made when asked for."""
    identity, tensors, work = identity_lines(look), tensor_lines(look), work_lines(look)
    if look.tree is not None and not look.tree.has_forward:
        file, inside = file_lines(look), inside_lines(look)
        yield _stacked(identity, tensors, file, inside)
        yield _stacked(identity, tensors, file)
        yield _stacked(identity, file)
        return
    tall, window, with_tensors = _live(look, 3), window_lines(look), (*tensors, *work)
    yield _stacked(identity, with_tensors, *tall, window, inside_lines(look))
    yield _stacked(identity, with_tensors, *tall, window)
    flat = _live(look, 1)
    yield _stacked(identity, with_tensors, *flat, window)
    yield _stacked(identity, with_tensors, *tall)
    yield _stacked(identity, with_tensors, *flat)
    yield _stacked(identity, work, *flat)


def _live(look: Look, spark_rows: int) -> tuple[Block, Block]:
    timing, bound = timing_lines(look, spark_rows), bound_lines(look)
    if is_stale(look.session, look.now):
        # The title keeps its ink: only figures are old.
        return (timing[0], *without_colour(timing[1:])), (bound[0], *without_colour(bound[1:]))
    return timing, bound


def _stacked(*blocks: Block) -> Block:
    """Set blocks below each other, a blank row between; an empty block takes none."""
    lines: list[Line] = []
    for block in blocks:
        if block and lines:
            lines.append(EMPTY)
        lines += block
    return tuple(lines)

"""The right pane: one node in full, and the machine."""

from collections.abc import Iterator

from tui_profiler.figures.units import duration, thousands
from tui_profiler.figures.units import share as share_text
from tui_profiler.formatting.text import safe
from tui_profiler.queries.time.node_seconds import part_of
from tui_profiler.session.columns import Shares

from ...widgets.bound_lines import bound_lines
from ...widgets.file_lines import file_lines
from ...widgets.identity_lines import identity_lines, tensor_lines, work_lines
from ...widgets.lines import EMPTY, Line
from ...widgets.machine_lines import machine_lines
from ...widgets.rows import LABEL, Look, aged, columns, finished, row, section
from ...widgets.step_lines import node_step_lines, step_lines
from ...widgets.timing_lines import timing_lines
from .inside_lines import inside_lines
from .request_lines import request_lines
from .why_lines import Why, why_pages

Block = tuple[Line, ...]
LEAST_ANSWER = 4
"""Rows of an answer for which the machine makes room."""


def inspector_lines(look: Look, rows: int) -> tuple[Line, ...]:
    """Return exactly ``rows`` lines of exactly the look's width."""
    if look.session.tree is None:
        return request_lines(look, rows)
    machine = machine_lines(look)
    room = max(rows - len(machine) - 1, 0)
    above: Block = ()
    for above in _forms(look):
        if len(above) <= room:
            break
    return _above(above[:room], machine, look, rows)


def answer_lines(look: Look, asked: Why, rows: int) -> tuple[tuple[Line, ...], int]:
    """Return where the figures come from, exactly ``rows`` lines, and how many pages there are."""
    machine, identity = machine_lines(look), identity_lines(look)
    room = rows - len(machine) - 1 - len(identity) - 2
    if room < LEAST_ANSWER:
        machine, room = (), rows - len(identity) - 2
    pages = why_pages(look, asked, room)
    title = section("why", asked.hint(len(pages)), look, "strong accent")
    page = pages[min(asked.page, len(pages) - 1)]
    return _above((*identity, EMPTY, title, *page), machine, look, rows), len(pages)


def _above(lines: Block, machine: Block, look: Look, rows: int) -> Block:
    """Pin the machine to the bottom."""
    blank = (EMPTY,) * max(rows - len(lines) - len(machine), 0)
    return finished((*lines, *blank, *machine), look, rows)


def _forms(look: Look) -> Iterator[Block]:
    """Yield what stands above the machine, the fullest form first; each is made when asked for."""
    identity, tensors, work = identity_lines(look), tensor_lines(look), work_lines(look)
    if look.tree is not None and not look.tree.has_forward:
        file, inside = file_lines(look), inside_lines(look)
        yield _stacked(identity, tensors, file, inside)
        yield _stacked(identity, tensors, file)
        yield _stacked(identity, file)
        return
    if look.node == 0 and (step := _aged(step_lines(look), look)):
        window = _aged(window_lines(look), look)
        yield _stacked(identity, (*tensors, *work), step, *_live(look, 1), window)
        yield _stacked(identity, (*tensors, *work), step, *_live(look, 1))
        yield _stacked(identity, work, step, _live(look, 1)[0])
        yield _stacked(identity, step, _live(look, 1)[0])
        yield _stacked(identity, step)
        return
    tall, with_tensors = _live(look, 3), (*tensors, *work)
    window = _aged(window_lines(look), look)
    if step := _aged(node_step_lines(look), look):
        flat = _live(look, 1)
        yield _stacked(identity, with_tensors, *tall, step, window, _aged(inside_lines(look), look))
        yield _stacked(identity, with_tensors, *tall, step, window)
        yield _stacked(identity, with_tensors, *flat, step, window)
        yield _stacked(identity, with_tensors, *flat, step)
        yield _stacked(identity, work, *flat, step)
        yield _stacked(identity, flat[0], step)
        return
    yield _stacked(identity, with_tensors, *tall, window, _aged(inside_lines(look), look))
    yield _stacked(identity, with_tensors, *tall, window)
    flat = _live(look, 1)
    yield _stacked(identity, with_tensors, *flat, window)
    yield _stacked(identity, with_tensors, *tall)
    yield _stacked(identity, with_tensors, *flat)
    yield _stacked(identity, work, *flat)


def _live(look: Look, spark_rows: int) -> tuple[Block, Block]:
    timing, bound = timing_lines(look, spark_rows), bound_lines(look)
    return _aged(timing, look), _aged(bound, look)


def _aged(block: Block, look: Look) -> Block:
    # The title keeps its ink: only figures are old.
    return (*block[:1], *aged(block[1:], look))


def _stacked(*blocks: Block) -> Block:
    """Set blocks below each other, a blank row between; an empty block takes none."""
    lines: list[Line] = []
    for block in blocks:
        if block and lines:
            lines.append(EMPTY)
        lines += block
    return tuple(lines)


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
    """Return the other of the two times of a model on a GPU: the host's, or the GPU's."""
    session, node = look.session, look.node
    if session.is_timed_on_gpu:
        name, said = "host", "per forward, enqueueing"
        seconds = session.host.per_forward(node) if session.host is not None else None
    else:
        name, said = "on GPU", "per forward, CUDA events"
        seconds = session.device.per_forward(node) if session.device is not None else None
    if seconds is None:
        return ()
    left: Line = ((name.ljust(LABEL), "muted"), (duration(seconds), "ink"))
    return (row(left, ((said, "muted"),), look),)


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

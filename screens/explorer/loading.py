"""The body while a model is on its way: the stages with their seconds."""

from msgspec.structs import replace

from tui_profiler.formatting.text import safe, width, wrap
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.panel.failure import trouble
from tui_profiler.queries.panel.state import running_stage
from tui_profiler.queries.time.forward_kinds import children_words

from ..views.inspector.request_lines import request_lines
from ..widgets.file_lines import trusted_lines
from ..widgets.lines import EMPTY, Line
from ..widgets.machine_lines import machine_lines
from ..widgets.rows import Look, beside, finished, row
from ..widgets.stage_lines import progress_lines, shown_stages, stage_lines
from .failure import LEAST_ROWS, failure_lines, partial_lines, shortest_failure

_DETAIL_BESIDE = 27
"""Cells beside the detail of a stage: its mark, its name and its seconds."""
BESIDE = 48
"""Columns of what stands beside the stages, where the inspector will be."""
BESIDE_FROM = 100


def loading_lines(
    look: Look, rows: int, spec: LoadSpec | None = None, cursor: int | None = None
) -> tuple[Line, ...]:
    """Return the stage table, exactly ``rows`` lines; ``cursor`` as in ``partial_lines``."""
    session = look.session
    stages = shown_stages(session, spec)
    title, *table = stage_lines(look, stages, "starting")
    body = (title, EMPTY, *table, EMPTY, *progress_lines(look, stages), EMPTY)
    body = (*body, *_waiting(look), *_children(look), *trusted_lines(look))
    if session.has_failed and session.partial is not None:
        body = (*body, *partial_lines(look, rows - len(body), cursor))
    return finished(body, look, rows)


def _waiting(look: Look) -> tuple[Line, ...]:
    """Return what the program is waited for, where it has no room beside its stage."""
    stage = running_stage(look.session)
    said = safe(stage.detail) if stage is not None else ""
    if not said.startswith("waits: ") or width(said) <= look.inner - _DETAIL_BESIDE:
        return ()
    lines = wrap(said, look.inner)
    return tuple(row(((line, "ink"),), EMPTY, look) for line in lines)


def _children(look: Look) -> tuple[Line, ...]:
    """Return the child processes that are not profiled: the status line may be hidden."""
    words = children_words(look.session)[:1]
    lines = [line for said in words for line in wrap(said, look.inner)]
    return tuple(row(((line, "ink"),), EMPTY, look) for line in lines)


def loading_body(
    look: Look,
    rows: int,
    spec: LoadSpec | None = None,
    *,
    marked: int = 0,
    hint: str = "",
    cursor: int | None = None,
) -> tuple[Line, ...]:
    """Return the whole body: stages left, the request right with the explorer's geometry.

    A failure takes the place of the request. Below ``BESIDE_FROM`` columns it takes that of the
    stages too; without one the machine stands below them.
    """
    failed = trouble(look.session) is not None
    if look.cells < BESIDE_FROM:
        if failed:
            return _failed_narrow(look, rows, marked, hint, cursor)
        machine = machine_lines(look)
        table = loading_lines(look, max(rows - len(machine), 0), spec)
        return finished((*table, *machine), look, rows)
    left = loading_lines(replace(look, cells=look.cells - BESIDE - 1), rows, spec, cursor)
    pane = replace(look, cells=BESIDE)
    right = failure_lines(pane, rows, marked, hint) if failed else request_lines(pane, rows, spec)
    return beside(left, right, look.cells - BESIDE - 1, rows, look)


def _failed_narrow(
    look: Look, rows: int, marked: int, hint: str, cursor: int | None
) -> tuple[Line, ...]:
    """Return the failure; where there is a tree as far as forward came, it is what is known."""
    failure = shortest_failure(look, marked, hint)
    left = rows - len(failure) - 1
    if look.session.partial is None or left < LEAST_ROWS:
        return failure_lines(look, rows, marked, hint)
    return finished((*failure, EMPTY, *partial_lines(look, left, cursor)), look, rows)

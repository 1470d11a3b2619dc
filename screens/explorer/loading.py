"""The body while a model is on its way: the stages with their seconds."""

from __future__ import annotations

import sys

from msgspec.structs import replace

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, width, wrap
from tui_profiler.messages import LoadSpec
from tui_profiler.messages.live import Stage
from tui_profiler.queries.panel.failure import trouble
from tui_profiler.queries.panel.remembered_tree import last_seconds, seconds_left
from tui_profiler.queries.panel.state import has_failed, running_stage, seconds_text, whole_seconds
from tui_profiler.queries.time.forward_kinds import children_words
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session import Session, StageRecord

from ..views.inspector.request_lines import request_lines
from ..widgets.file_lines import trusted_lines
from ..widgets.lines import EMPTY, Line, LinesWidget
from ..widgets.machine_lines import machine_lines
from ..widgets.rows import Look, finished, meter, row
from .failure import failure_lines, shortest_failure
from .partial import LEAST_ROWS, partial_lines, raised_at

_BESIDE = 14
"""Cells beside the detail of a stage: its mark and its seconds."""
STAGES: dict[Stage, str] = {
    "worker": "",
    "import torch": "check versions",
    "load model": "load the model",
    "trace": "build the tree and count costs",
    "initialise": "initialise weights",
    "idle": "measure idle power",
    "first run": "first times",
    "ceilings": "calibrate the roofline",
}
_ONLY_TO_RUN: tuple[Stage, ...] = ("initialise", "first run", "ceilings")
_OF_SCRIPTS: tuple[Stage, ...] = ("worker", "import torch", "trace")
_NAME = 13
_LAST = 10
"""Cells of the seconds of last time."""
_LAST_FROM = 66
"""Below this many columns between the blank ends there is no room for them."""
BESIDE = 48
"""Columns of what stands beside the stages, where the inspector will be."""
BESIDE_FROM = 100


def stages_of(spec: LoadSpec | None) -> tuple[Stage, ...]:
    """Return the stages that a request goes through, in order."""
    if spec is not None and spec.observed:
        # A program that is attached to has imported torch before.
        return ("worker", "trace") if spec.observed == "program" else _OF_SCRIPTS
    left_out: set[Stage] = set()
    if spec is not None and not spec.run:
        left_out.update(_ONLY_TO_RUN)
    if spec is not None and not spec.ceilings:
        left_out.add("ceilings")
    return tuple(stage for stage in STAGES if stage not in left_out)


def loading_lines(
    look: Look, rows: int, spec: LoadSpec | None = None, cursor: int | None = None
) -> tuple[Line, ...]:
    """Return the stage table, exactly ``rows`` lines; ``cursor`` as in ``partial_lines``."""
    session = look.session
    records = {record.stage: record for record in session.stages}
    stages = stages_of(spec)
    last = max((stages.index(stage) for stage in records if stage in stages), default=-1)
    shown: list[Stage] = [
        # Not every model needs its values made: what was skipped is not waited for.
        stage
        for index, stage in enumerate(stages)
        if stage in records or (index > last and stage != "idle")
    ]
    names: dict[Stage, str] = {stage: stage for stage in shown}
    if spec is not None and spec.observed:
        names["worker"] = "process"
    table = tuple(_stage(stage, names[stage], records.get(stage), look) for stage in shown)
    heading: Line = (("last time", "faint"),) if _shows_last(look) else EMPTY
    title = row((("starting", "strong ink"),), heading, look)
    told = trusted_lines(look)
    body = (title, EMPTY, *table, EMPTY, *_progress(look, names, records), EMPTY)
    body = (*body, *_waiting(look), *_children(look), *told)
    if has_failed(session) and session.partial is not None:
        body = (*body, *partial_lines(look, rows - len(body), cursor))
    return finished(body, look, rows)


def _stage(stage: Stage, named: str, record: StageRecord | None, look: Look) -> Line:
    name = f" {named}".ljust(_NAME + 2)
    over = has_failed(look.session) or look.session.ended is not None
    if record is None and stage == "worker" and not over:
        record = StageRecord("worker", 0.0, detail="starting")
    if record is None:
        words = "not reached" if over else STAGES[stage]
        waiting: Line = (("·", "faint"), (name, "muted"), (words, "muted"))
        return row(waiting, _times("", stage, look), look)
    if record.seconds is not None:
        done: Line = (
            (look.glyphs.done, "accent"),
            (name, "ink"),
            (safe(record.detail), "muted"),
        )
        return row(done, _times(seconds_text(record.seconds), stage, look), look)
    detail = safe(record.detail) or _arrived(stage, look.session) or STAGES[stage]
    if look.session.ended is not None and look.session.ended.expected:
        ended: Line = (("·", "faint"), (name, "muted"), ("ended", "muted"))
        return row(ended, _times("", stage, look), look)
    if over:
        failed: Line = ((look.glyphs.failed, "error"), (name, "error"), ("failed", "muted"))
        return row(failed, _times("", stage, look), look)
    spinner = look.glyphs.spinner
    turning = spinner[int(max(look.now, 0.0) * 4) % len(spinner)]
    current: Line = ((turning, "accent"), (name, "strong ink"), (detail, "muted"))
    return row(current, _times(seconds_text(look.now - record.started_at), stage, look), look)


def _shows_last(look: Look) -> bool:
    kept = look.session.remembered
    return kept is not None and bool(kept.stages) and look.inner >= _LAST_FROM


def _times(own: str, stage: Stage, look: Look) -> Line:
    """Return the right end of a stage's row: how long it took, and how long last time."""
    if not _shows_last(look):
        return ((own, "ink"),) if own else EMPTY
    seconds = last_seconds(look.session, stage)
    last = seconds_text(seconds) if seconds is not None else look.glyphs.dash
    return ((own, "ink"), (last.rjust(_LAST), "faint"))


def _arrived(stage: Stage, session: Session) -> str:
    arriving = session.arriving
    if stage != "trace" or arriving is None:
        return ""
    return f"{thousands(len(arriving.nodes))} of {thousands(arriving.expected)} nodes"


def _progress(
    look: Look, stages: dict[Stage, str], records: dict[Stage, StageRecord]
) -> tuple[Line, ...]:
    if has_failed(look.session) or look.session.ended is not None:
        return ()
    left = seconds_left(look.session, look.now, list(stages))
    if left is not None:
        return _going_by_last_time(look, left)
    done = sum(stage in records and records[stage].seconds is not None for stage in stages)
    bar = meter(done / len(stages), look.inner, "accent", look)
    stage = running_stage(look.session)
    now = f", now: {stages.get(stage.stage, stage.stage)}" if stage is not None else ""
    said: Line = ((f"{done} of {len(stages)} stages done{now}", "muted"),)
    return (row(bar, EMPTY, look), row(said, EMPTY, look))


def _going_by_last_time(look: Look, left: float) -> tuple[Line, ...]:
    """Return the share of the time that is over, and the seconds that are to come."""
    bar = meter(look.now / max(look.now + left, 1e-9), look.inner, "accent", look)
    words = f"about {_about(left)} more, as last time"
    if left <= 0:
        words = "longer than last time"
    return (row(bar, EMPTY, look), row(((words, "muted"),), EMPTY, look))


def _waiting(look: Look) -> tuple[Line, ...]:
    """Return what the program is waited for, where it has no room beside its stage."""
    stage = running_stage(look.session)
    said = safe(stage.detail) if stage is not None else ""
    if not said.startswith("waits: ") or width(said) <= look.inner - _NAME - _BESIDE:
        return ()
    lines = wrap(said, look.inner, look.glyphs.ellipsis)
    return tuple(row(((line, "ink"),), EMPTY, look) for line in lines)


def _children(look: Look) -> tuple[Line, ...]:
    """Return the child processes that are not profiled: the status line may be hidden."""
    words = children_words(look.session)[:1]
    lines = [line for said in words for line in wrap(said, look.inner, look.glyphs.ellipsis)]
    return tuple(row(((line, "ink"),), EMPTY, look) for line in lines)


def _about(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 9.95 else whole_seconds(seconds)


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
    beside = replace(look, cells=BESIDE)
    if failed:
        right = failure_lines(beside, rows, marked, hint)
    else:
        right = request_lines(beside, rows, spec)
    divider: Line = ((look.glyphs.divider, "hairline"),)
    return tuple((*a, *divider, *b) for a, b in zip(left, right, strict=True))


def _failed_narrow(
    look: Look, rows: int, marked: int, hint: str, cursor: int | None
) -> tuple[Line, ...]:
    """Return the failure; where there is a tree as far as forward came, it is what is known."""
    failure = shortest_failure(look, marked, hint)
    left = rows - len(failure) - 1
    if look.session.partial is None or left < LEAST_ROWS:
        return failure_lines(look, rows, marked, hint)
    return finished((*failure, EMPTY, *partial_lines(look, left, cursor)), look, rows)


class Loading(LinesWidget):
    """Shows the stages, and beside them what was asked for, or what went wrong."""

    DEFAULT_CSS = """
    Loading { width: 1fr; height: 1fr; }
    """

    def __init__(
        self,
        glyphs: Glyphs = UNICODE,
        spec: LoadSpec | None = None,
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self.spec = spec
        self._shown: tuple[Session, float, int, str] = (NOTHING, 0.0, 0, "")
        self._cursor: int | None = None

    def show(self, session: Session, now: float, marked: int = 0, hint: str = "") -> None:
        """Show a session as it is at ``now``, seconds on the probe's clock.

        Args:
            session: what is known.
            now: for how long the present stage has gone on.
            marked: of a failure, which remedy the cursor is on.
            hint: what a key does with the marked line; empty where there is no such key.
        """
        if session.partial is not self._shown[0].partial:
            self._cursor = None
        self._shown = (session, now, marked, hint)
        self._draw()

    def move(self, by: int) -> None:
        """Move among the modules of a forward that raised, from the one that did."""
        tree = self._shown[0].partial
        if tree is not None and tree.modules_shown:
            at = (raised_at(tree) if self._cursor is None else self._cursor) + by
            self._cursor = min(max(at, 0), len(tree.modules_shown) - 1)
            self._draw()

    def page(self, direction: int) -> None:
        """Move by half a page."""
        self.move(direction * max(self.size.height // 2, 1))

    def first(self) -> None:
        """Go to the first module."""
        self.move(-sys.maxsize)

    def last(self) -> None:
        """Go to the last module."""
        self.move(sys.maxsize)

    def on_mouse_scroll_down(self) -> None:
        """Move on."""
        self.move(1)

    def on_mouse_scroll_up(self) -> None:
        """Move back."""
        self.move(-1)

    def on_resize(self) -> None:
        """Lay the body out anew."""
        self._draw()

    def _draw(self) -> None:
        session, now, marked, hint = self._shown
        cells, rows = self.size
        if cells > 2 and rows > 0:
            look = Look(session, 0, now, cells, self.glyphs)
            self.lines = loading_body(
                look, rows, self.spec, marked=marked, hint=hint, cursor=self._cursor
            )

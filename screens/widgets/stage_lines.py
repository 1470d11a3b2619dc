"""The stages of a model on its way, with their seconds and how far they are."""

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec
from tui_profiler.messages.live import Stage
from tui_profiler.queries.panel.cached_tree import last_seconds, seconds_left
from tui_profiler.queries.panel.state import running_stage, seconds_text, stage_name, whole_seconds
from tui_profiler.session import Session, StageRecord

from .lines import EMPTY, Line
from .rows import Look, meter, row, turning

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


def shown_stages(session: Session, spec: LoadSpec | None) -> dict[Stage, str]:
    """Return the stages that a model goes through or went through, and what each is called."""
    records = {record.stage for record in session.stages}
    stages = stages_of(spec)
    last = max((stages.index(stage) for stage in records if stage in stages), default=-1)
    names: dict[Stage, str] = {
        # Not every model needs its values made: what was skipped is not waited for.
        stage: stage_name(stage)
        for index, stage in enumerate(stages)
        if stage in records or (index > last and stage != "idle")
    }
    if spec is not None and spec.observed:
        names["worker"] = "process"
    return names


def stage_lines(look: Look, stages: dict[Stage, str], title: str) -> tuple[Line, ...]:
    """Return a title and a row for each stage."""
    records = {record.stage: record for record in look.session.stages}
    table = (_stage(stage, name, records.get(stage), look) for stage, name in stages.items())
    heading: Line = (("last time", "faint"),) if _shows_last(look) else EMPTY
    return (row(((title, "strong ink"),), heading, look), *table)


def _stage(stage: Stage, named: str, record: StageRecord | None, look: Look) -> Line:
    name = f" {named}".ljust(_NAME + 2)
    over = look.session.is_over
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
    sign = turning(look.now, look.glyphs)
    current: Line = ((sign, "accent"), (name, "strong ink"), (detail, "muted"))
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


def progress_lines(look: Look, stages: dict[Stage, str]) -> tuple[Line, ...]:
    """Return a bar of the stages, or of the time that they took last time, and words for it."""
    if look.session.is_over:
        return ()
    left = seconds_left(look.session, look.now, list(stages))
    if left is not None:
        return _going_by_last_time(look, left)
    over = {record.stage for record in look.session.stages if record.seconds is not None}
    done = len(over & stages.keys())
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


def _about(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 9.95 else whole_seconds(seconds)

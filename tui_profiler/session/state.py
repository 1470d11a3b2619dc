"""The session: one frozen value that holds all that is known about one process."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.messages import (
    Ceilings,
    Ended,
    Environment,
    Failed,
    Hello,
    Listed,
    LoopState,
    ModelFacts,
    Overhead,
    Sample,
    Tick,
)
from tui_profiler.messages.live import Stage
from tui_profiler.session.timing import Timings
from tui_profiler.session.tree import Tree


class StageRecord(Struct, frozen=True):
    """One stage on the way from the command to live figures."""

    stage: Stage
    started_at: float
    """Seconds since the command was started."""
    seconds: float | None = None
    """None while it goes on."""
    detail: str = ""


class Log(Struct, frozen=True, eq=False):
    """What the model and the worker printed, its last lines."""

    lines: tuple[str, ...] = ()
    partial: str = ""
    """The line that has not ended yet."""
    total_lines: int = 0
    dropped_bytes: int = 0


class History(Struct, frozen=True, eq=False):
    """The last ticks and samples, oldest first; bounded in number and in bytes."""

    ticks: tuple[Timings, ...] = ()
    tick_bytes: int = 0
    samples: tuple[Sample, ...] = ()


class Session(Struct, frozen=True, eq=False):
    """Everything learned so far; compared by identity, replaced by ``apply``."""

    hello: Hello | None = None
    environment: Environment | None = None
    stages: tuple[StageRecord, ...] = ()
    model: ModelFacts | None = None
    arriving: Tree | None = None
    """A tree of which parts have come; shown only when it is complete."""
    tree: Tree | None = None
    listed: Listed | None = None
    ceilings: Ceilings | None = None
    loop: LoopState | None = None
    overhead: Overhead | None = None
    timings: Timings | None = None
    sample: Sample | None = None
    history: History = History()
    log: Log = Log()
    failure: Failed | None = None
    """Of the last failure; a new start clears it, nothing else does."""
    ended: Ended | None = None
    heard_at: float = 0.0
    """When the probe last gave a sign of life, on its own clock."""
    forward_seconds: float = 0.0
    """How long the forward that runs now has taken, at the last sign of life."""

    @property
    def tick(self) -> Tick | None:
        """The latest tick."""
        return self.timings.tick if self.timings is not None else None


EMPTY = Session()

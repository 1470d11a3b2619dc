"""The session: one frozen value that holds all that is known about one process."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler import messages
from tui_profiler.messages.live import Stage
from tui_profiler.session.columns import Operators, Timings
from tui_profiler.session.history import LatencySecond, LoadSecond
from tui_profiler.session.parameters import Parameters, Sensitivities
from tui_profiler.session.tree import Tree
from tui_profiler.session.windows import DeviceTimings, MeasuredMemory, Windows


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
    samples: tuple[messages.Sample, ...] = ()
    latencies: tuple[LatencySecond, ...] = ()
    """Of whole forwards, further back than the ticks."""
    loads: tuple[LoadSecond, ...] = ()
    """Of the machine, further back than the samples."""


class Remembered(Struct, frozen=True, eq=False):
    """What is known of the last time that the same was opened; no probe says it."""

    age_seconds: float
    """How long ago that was, when it was opened again."""
    stages: tuple[tuple[Stage, float], ...] = ()
    """Seconds that each stage took."""
    tree: Tree | None = None
    """None where only the stages are known: the files or the versions are others now."""
    phases: tuple[Tree, ...] = ()
    """As of a session."""
    model: messages.ModelFacts | None = None


class Session(Struct, frozen=True, eq=False):
    """Everything learned so far; compared by identity, replaced by ``apply``."""

    hello: messages.Hello | None = None
    environment: messages.Environment | None = None
    stages: tuple[StageRecord, ...] = ()
    model: messages.ModelFacts | None = None
    file: messages.FileFacts | None = None
    """Where the model is a file."""
    arriving: Tree | None = None
    """A tree of which parts have come; shown only when it is complete."""
    tree: Tree | None = None
    """The one that is looked at, and that times speak of."""
    phases: tuple[Tree, ...] = ()
    """The trees of a model that generates, one for each phase, ``tree`` among them; else none."""
    no_decode: messages.NoDecode | None = None
    """Why a model that generates has no decode phase; None where it has, or does not generate."""
    partial: messages.PartialTree | None = None
    """How far the forward came that raised in the trace; a complete tree takes its place."""
    real: messages.RealCost | None = None
    """What one real forward cost, where the tree's figures depend on the data and it was run."""
    listed: messages.Listed | None = None
    opinion: messages.SecondOpinion | None = None
    """What another counter says, where it was asked."""
    exported: messages.Exported | None = None
    """The ONNX file that was written, where one was asked for."""
    ceilings: messages.Ceilings | None = None
    loop: messages.LoopState | None = None
    overhead: messages.Overhead | None = None
    timings: Timings | None = None
    operators: Operators | None = None
    """Times of operators, None before the first window."""
    windows: Windows | None = None
    """Where the time of modules went in the last window, None before the first."""
    memory_window: MeasuredMemory | None = None
    """What a forward allocated, None before it was measured."""
    device: DeviceTimings | None = None
    """Times on the GPU, None where there are none."""
    steps: messages.StepTimes | None = None
    """Of a rank of a distributed run, None elsewhere."""
    mode: messages.ModeSeen | None = None
    """How its forwards ran, None before one was recorded."""
    replays: tuple[messages.Replayed, ...] = ()
    """Nodes of the tree looked at that were run by themselves, the last of each, oldest first."""
    trial: messages.TrialProgress | None = None
    """The trial under way, None where there is none."""
    trials: tuple[messages.TrialResult, ...] = ()
    """How trials came out, the last of each kind and node, oldest first."""
    parameters: Parameters | None = None
    """What their values are like, None before it was asked for."""
    sensitivity: Sensitivities | None = None
    """What the output loses when a weight changes, None before it was asked for."""
    sample: messages.Sample | None = None
    history: History = History()
    log: Log = Log()
    failure: messages.Failed | None = None
    """Of the last failure; a new start clears it, nothing else does."""
    ended: messages.Ended | None = None
    children: messages.TorchChildren | None = None
    """Of a script, where child processes of it run torch; none of it is profiled."""
    slow: tuple[messages.SlowForward, ...] = ()
    """The slowest forward first, then the last eight that were told, the last first; none before
    there is one."""
    programs: messages.ProgramsSeen | None = None
    """Who else uses this machine, None where it is not this one or nobody looked."""
    playback: messages.Playback | None = None
    """Of a recording: where it comes from, and how it is played; None where a probe tells."""
    remembered: Remembered | None = None
    """Of the last time; its tree is the one looked at until the worker's own comes."""
    heard_at: float = 0.0
    """When the probe last gave a sign of life, on its own clock."""
    forward_seconds: float = 0.0
    """How long the forward that runs now has taken, at the last sign of life."""

    @property
    def tick(self) -> messages.Tick | None:
        """The latest tick."""
        return self.timings.tick if self.timings is not None else None


EMPTY = Session()


class Jump(Struct, frozen=True, eq=False):
    """What a recording tells when another place of it is looked at; no probe says it."""

    session: Session
    """Everything known at that place: it replaces what was known."""

"""The session: one frozen value with everything that is known about one process."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages import Stage
from tui_profiler.session import columns
from tui_profiler.session.history import LatencySecond, LoadSecond
from tui_profiler.session.parameters import Parameters, Sensitivities
from tui_profiler.session.slow_forward_context import Surroundings
from tui_profiler.session.training import (
    BackwardColumns,
    CostColumns,
    MemoryColumns,
    StepColumns,
    ValueColumns,
)
from tui_profiler.session.tree import Tree


class StageRecord(Struct, frozen=True):
    """One stage on the way from the command to live figures."""

    stage: Stage
    started_at: float
    """Seconds since the command was started."""
    seconds: float | None = None
    """None while it runs."""
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

    ticks: tuple[columns.Timings, ...] = ()
    tick_bytes: int = 0
    samples: tuple[messages.Sample, ...] = ()
    latencies: tuple[LatencySecond, ...] = ()
    """Of whole forwards, further back than the ticks."""
    loads: tuple[LoadSecond, ...] = ()
    """Of the machine, further back than the samples."""


class Remembered(Struct, frozen=True, eq=False):
    """What was cached when the same model was last opened; not sent by a probe."""

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
    """A tree in transfer; shown only when it is complete."""
    tree: Tree | None = None
    """The shown tree, which times are of."""
    phases: tuple[Tree, ...] = ()
    """The trees of a model that generates, one for each phase, ``tree`` among them; else none."""
    no_decode: messages.NoDecode | None = None
    """Why a model that generates has no decode phase; None where it has, or does not generate."""
    partial: messages.PartialTree | None = None
    """The partial tree of a forward that raised in the trace, until there is a complete one."""
    real: messages.RealCost | None = None
    """What one real forward cost, where the tree's figures depend on the data and it was run."""
    listed: messages.Listed | None = None
    opinion: messages.SecondOpinion | None = None
    """Figures of another counter, if requested."""
    exported: messages.Exported | None = None
    """The exported ONNX file, if requested."""
    ceilings: messages.Ceilings | None = None
    loop: messages.LoopState | None = None
    overhead: messages.Overhead | None = None
    timings: columns.Timings | None = None
    """Times of modules: on a GPU where their kernels are timed there, else of the thread."""
    host: columns.Timings | None = None
    """Times of the thread that runs forwards; on a GPU its calls only enqueue kernels."""
    host_operators: columns.Operators | None = None
    """Times of operators on that thread, None before the first window."""
    host_windows: columns.Windows | None = None
    """Where the thread's time in modules went in the last window, None before the first."""
    memory_window: columns.MeasuredMemory | None = None
    """What a forward allocated, None before it was measured."""
    device: columns.DeviceTimings | None = None
    """Times on the GPU, None where there are none."""
    steps: messages.StepTimes | None = None
    """Of a rank of a distributed run, None elsewhere."""
    training: StepColumns | None = None
    """Where the time of training steps goes, None before steps were seen."""
    slow_steps: tuple[messages.SlowStep, ...] = ()
    """The slowest step first, then the last eight slow ones, newest first."""
    backward: BackwardColumns | None = None
    """Operators of the backward; None before the first window on a step."""
    values: ValueColumns | None = None
    """What values are like in steps of training; None before they were asked for and read."""
    generation: messages.Generation | None = None
    """Requests of a language model; None before one was seen."""
    experts: messages.ExpertTokens | None = None
    """Tokens per expert of a request; None where they were not counted."""
    mode: messages.ModeSeen | None = None
    """How its forwards ran, None before one was recorded."""
    replays: tuple[messages.Replayed, ...] = ()
    """Replayed nodes of the shown tree, the last replay of each, oldest first."""
    trial: messages.TrialProgress | None = None
    """The trial under way, None where there is none."""
    trials: tuple[messages.TrialResult, ...] = ()
    """How trials came out, the last of each kind and node, oldest first."""
    parameters: Parameters | None = None
    """Statistics of their values, None before they are requested."""
    sensitivity: Sensitivities | None = None
    """Sensitivity of the output to each weight, None before it is requested."""
    sample: messages.Sample | None = None
    history: History = History()
    log: Log = Log()
    failure: messages.Failed | None = None
    """Of the last failure; a new start clears it, nothing else does."""
    out_of_memory: messages.OutOfMemory | None = None
    """The last allocation of a program that failed; it may have gone on after it."""
    ended: messages.Ended | None = None
    children: messages.TorchChildren | None = None
    """Of a script, where child processes of it run torch; none of it is profiled."""
    slow: tuple[messages.SlowForward, ...] = ()
    """The slowest forward first, then the last eight slow ones, newest first; empty before there is
    one."""
    around_slow: tuple[Surroundings, ...] = ()
    """What was told of the machine around those of ``slow`` whose time is known."""
    programs: messages.ProgramsSeen | None = None
    """Who else uses this machine, None where it is not this one or nobody looked."""
    serving: messages.ServingSeen | None = None
    """The inference server whose metrics are read; None where no address was given."""
    playback: messages.Playback | None = None
    """Origin and playback state of a recording; None for a probe."""
    remembered: Remembered | None = None
    """Cached from the last time; its tree is shown until that of the worker arrives."""
    training_cost: CostColumns | None = None
    """What a training step costs on paper beside its forward; None where none was recorded."""
    training_memory: MemoryColumns | None = None
    """Who is alive over a training step, on paper; likewise."""
    compilations: messages.Compilations | None = None
    """What ``torch.compile`` did in the process; None where nothing was compiled."""
    heard_at: float = 0.0
    """When the probe last gave a sign of life, on its own clock."""
    forward_seconds: float = 0.0
    """How long the forward that runs now has taken, at the last sign of life."""

    @property
    def has_failed(self) -> bool:
        """Whether a failure ended the work, as against one request that failed."""
        return self.failure is not None and self.failure.fatal

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes: the process has ended, or a failure ended the work."""
        return self.ended is not None or self.has_failed

    @property
    def operators(self) -> columns.Operators | None:
        """Times of operators, None where there are none of the kind that modules have."""
        return None if self.is_timed_on_gpu else self.host_operators

    @property
    def windows(self) -> columns.Windows | None:
        """Where the time of modules went in the last window, likewise."""
        return None if self.is_timed_on_gpu else self.host_windows

    @property
    def gpu_forwards(self) -> columns.GpuForwards | None:
        """What is known of forwards on a GPU, where ``timings`` are its; None elsewhere."""
        return self.timings.device if self.timings is not None else None

    @property
    def is_timed_on_gpu(self) -> bool:
        """Whether ``timings`` are those of a GPU."""
        return self.gpu_forwards is not None

    def timed_on_host(self) -> Session:
        """Return the session with the times of the thread that runs forwards, on a GPU as well."""
        return replace(self, timings=self.host) if self.is_timed_on_gpu else self

    @property
    def tick(self) -> messages.Tick | None:
        """The latest tick."""
        return self.timings.tick if self.timings is not None else None


EMPTY = Session()


class Jump(Struct, frozen=True, eq=False):
    """The session at another position of a recording; not sent by a probe."""

    session: Session
    """Everything known at that place: it replaces what was known."""

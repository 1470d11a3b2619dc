"""What a viewer may ask of a probe: the only way back."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Moment, OnWire, Part
from tui_profiler.messages.model import Phase
from tui_profiler.messages.parameters import AnalyseParameters, MeasureSensitivity, StopAnalysing
from tui_profiler.messages.trials import Wish
from tui_profiler.messages.verification import Counter


class TrainSpec(Part, frozen=True):
    """How the profiler trains a model."""

    optimizer: str = "adamw"
    """A class of ``torch.optim`` in any case, with settings: ``sgd,momentum=0.9``."""
    checkpoint: str = ""
    """``blocks``, or a pattern of module paths whose activations are computed again in the
    backward; empty: none are."""
    accumulate: int = 1
    """Forward and backward passes in one step."""
    autocast: Literal["", "bf16", "fp16"] = ""
    """Dtype of ``torch.autocast`` around forward and loss; empty: none."""
    update: bool = False
    """Steps move the weights; else the learning rate is 0."""
    peak_flops: float | None = None
    """FLOP per second that MFU is told of, as the user named it; None: the measured roof."""


class LoadSpec(Part, frozen=True):
    """Which model to load, and how to run it: the command line, as data."""

    model: str
    """``resnet50``, ``demo:cnn``, ``file.py:build``, ``pkg.module:build``."""
    arguments: str = ""
    """JSON for the factory: an object is keywords, an array is positional; empty is none."""
    inputs: tuple[str, ...] = ()
    """As typed: ``[name=]1,3,224,224[:float32]``."""
    batch: int | None = None
    weights: str = ""
    device: str = "cpu"
    dtype: str = ""
    threads: int | None = None
    tracer: str = "auto"
    trust: bool = False
    run: bool = True
    """False: trace and cost only, never run."""
    forwards: int | None = None
    """Stop after so many; None: until asked."""
    seconds: float | None = None
    """Stop after so many seconds of running warmed up; None: until asked."""
    budget: float = 0.02
    """What watching may cost, as a share."""
    folder: str = ""
    """The user's working directory, put first on the module path when their code is loaded."""
    started_at: float = 0.0
    """``time.time()`` when the command was started: stages are counted from it."""
    ceilings: bool = True
    """Measure this machine's roofs where they are not kept from before."""
    grid_grams_per_kwh: float | None = None
    """Grams of CO₂ per kilowatt-hour of the grid; None: no grams are reported."""
    grid_named: str = ""
    """Whose grid that is, and of which year; empty where the grams themselves were typed."""
    observed: Literal["", "script", "module", "program"] = ""
    """What runs the model, where that is not a worker: then ``model`` is its name, nothing is
    loaded, and nothing is known of the model before its first forward."""
    memory_limit_bytes: int | None = None
    """Maximum memory of the worker; 0: no limit; None: the free memory less a reserve."""
    train: TrainSpec | None = None
    """Run steps of training; None: forwards in eval mode."""
    generate: int | None = None
    """Run requests that generate so many tokens per row; None: forwards."""


class Start(OnWire, frozen=True):
    """Load this model and run it. The first request, once."""

    spec: LoadSpec


class ListModels(OnWire, frozen=True):
    """List the names of models, and stop. Instead of ``Start``."""

    pattern: str = ""


class MeasureCeilings(OnWire, frozen=True):
    """Tell this machine's roofs, and stop. Instead of ``Start``."""

    spec: LoadSpec
    """Of which the device and the threads count; it names no model."""
    again: bool = False
    """Measure every one anew, whatever is kept."""


class CountWith(OnWire, frozen=True):
    """Load this model, let another counter count one forward, and stop. Instead of ``Start``."""

    spec: LoadSpec
    counter: Counter


class ExportOnnx(OnWire, frozen=True):
    """Load this model, write it as an ONNX file, and stop. Instead of ``Start``."""

    spec: LoadSpec
    path: str
    """Where to; relative to the spec's folder."""
    opset: int | None = None
    """Version of ONNX's operators; None leaves it to torch."""


class Pause(OnWire, frozen=True):
    """Hold the model before its next forward."""


class Resume(OnWire, frozen=True):
    """Let it run again."""


class Step(OnWire, frozen=True):
    """One forward, then hold again."""


class SetBatch(OnWire, frozen=True):
    """Run with another batch size: inputs are made anew, the model is traced anew."""

    batch: int


class SetPhase(OnWire, frozen=True):
    """Run the other forward of a model that generates: all tokens, or the next one."""

    phase: Phase


class ReplayNode(OnWire, frozen=True):
    """Run one module alone, on the inputs of one forward, to measure its energy."""

    node: int
    """Its index in the shown tree."""


class Try(OnWire, frozen=True):
    """Run a trial in a separate process while the model is paused; several are queued."""

    wish: Wish


class StopTrial(OnWire, frozen=True):
    """End the trial under way, and forget those that wait."""


class ProlongTrial(OnWire, frozen=True):
    """Let the trial under way measure for longer."""

    seconds: float = 30.0
    """Longer than it was to be until now."""


class TryAlone(OnWire, frozen=True):
    """Load this model, try a change on it, and stop. Instead of ``Start``; a worker asks it."""

    spec: LoadSpec
    wish: Wish
    path: str = ""
    """Of the module to try; empty for the whole model."""
    phase: Phase = ""


class TryOptimizer(OnWire, frozen=True):
    """Measure an optimizer's update of tensors like those of a program, fused and not, and stop.

    The program has no part in it: a worker beside it makes the tensors. Instead of ``Start``.
    """

    spec: LoadSpec
    """Device and threads; no model is loaded."""
    wish: Wish
    name: str
    """A class of ``torch.optim``, with its default settings."""
    tensors: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each parameter."""
    of_step: float
    """Share of the program's training step that the update is."""


class Stop(OnWire, frozen=True):
    """End the probe."""


class Observe(OnWire, frozen=True):
    """Observe this watched model from now on. Before this request nothing is observed."""


class TraceAgain(OnWire, frozen=True):
    """Record the tree anew, from the next forward that the program runs."""


class ReadValues(OnWire, frozen=True):
    """Read activations, gradients and updates in a step of training now and then."""

    wanted: bool = True
    """False: read no more of them. They are read until each that asked has said so or has left."""


class ShowModel(OnWire, frozen=True):
    """Show another model of the program, and keep it."""

    pattern: str
    """Its class, ``CLASS#INDEX`` or variable, with ``*`` and ``?`` as in file names; empty: the one
    that runs, as at first."""


class Play(OnWire, frozen=True):
    """Play a recording from its position; at its end, from its first figures again."""


class Halt(OnWire, frozen=True):
    """Pause a recording."""


class SetSpeed(OnWire, frozen=True):
    """Play a recording so many times as fast as it was recorded, now or when it is played."""

    speed: float


class Seek(OnWire, frozen=True):
    """Show a recording as it was at that time."""

    at: Moment
    """Seconds since the command that recorded it was started; before and after it are its ends."""


Request: TypeAlias = (
    Start
    | ListModels
    | MeasureCeilings
    | CountWith
    | ExportOnnx
    | Pause
    | Resume
    | Step
    | SetBatch
    | SetPhase
    | ReplayNode
    | Try
    | StopTrial
    | ProlongTrial
    | TryAlone
    | TryOptimizer
    | AnalyseParameters
    | StopAnalysing
    | MeasureSensitivity
    | Stop
    | Observe
    | TraceAgain
    | ShowModel
    | ReadValues
    | Play
    | Halt
    | SetSpeed
    | Seek
)

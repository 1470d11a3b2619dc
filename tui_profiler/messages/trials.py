"""Trials: a change, measured in a separate process in turns with the unchanged model."""

from typing import Literal, TypeAlias, get_args

from tui_profiler.messages.base import Figure, OnWire, Part, Unknown
from tui_profiler.messages.model import Phase

TrialKind: TypeAlias = Literal[
    "fold-conv-bn",
    "channels-last",
    "bf16-autocast",
    "fp16-autocast",
    "int8-dynamic",
    "compile",
    "sdpa",
    "larger-batch",
    "inference-mode",
    "threads",
    "static-kv-cache",
    "remove-dropout-identity",
    "checkpoint",
    "optimizer-loop",
]
TRIAL_KINDS: tuple[TrialKind, ...] = get_args(TrialKind)
STEP_KINDS: tuple[TrialKind, ...] = (
    "bf16-autocast",
    "fp16-autocast",
    "checkpoint",
    "optimizer-loop",
)
"""Of these, those that change a training step (``--train``)."""
STEP_ONLY: tuple[TrialKind, ...] = ("checkpoint", "optimizer-loop")
"""Those that change nothing else."""
TrialOutcome: TypeAlias = Literal["measured", "impossible", "failed", "stopped", "time", "memory"]
"""``impossible``: the change cannot be made to this model or on this machine; ``failed``: it was
made, and raised; ``time`` and ``memory``: the trial was ended because it took more than allowed."""
TrialStep: TypeAlias = Literal["start", "load", "change", "warm up", "compare", "memory", "measure"]

WHOLE_MODEL = -1
"""In the place of a node's index: the trial is of the whole model."""


class Wish(Part, frozen=True):
    """What is to be tried, and how much that may take."""

    kind: TrialKind
    node: int = WHOLE_MODEL
    """Index in the shown tree; only a module can be tried alone."""
    seconds: float = 10.0
    """Of measuring, at most: it ends sooner where the interval is narrow already."""
    most_seconds: float = 120.0
    """Of measuring, however few pairs there are by then. Starting a process, importing torch,
    loading the model and changing (compiling) it are in neither limit."""
    most_bytes: int | None = None
    """Of memory that the trial's processes may hold; None: four fifths of what is free at its
    start."""
    paths: tuple[str, ...] = ()
    """Of the modules that are changed; empty: the kind chooses them."""


class TrialProgress(OnWire, frozen=True):
    """A trial is under way; the next one of these, or its result, replaces it."""

    kind: TrialKind
    node: int
    step: TrialStep
    seconds: float
    """Since it was begun."""
    pairs: int = 0
    """Measured so far."""
    speedup: float | None = None
    """Median of the pairs so far; None before there is one."""
    waiting: tuple[TrialKind, ...] = ()
    """Asked for as well, and tried after it."""
    left_seconds: float | None = None
    """Of measuring, at most; None: it has not begun."""


TRIAL_STEPS: tuple[TrialStep, ...] = get_args(TrialStep)
"""In the order of a trial."""


class TrialSide(Part, frozen=True):
    """One of the two that a trial compares: the model as it is, or changed."""

    seconds: float
    """Median of one call, warmed up."""
    items: int
    """Items per call, as a multiple of the unchanged model's batch."""
    peak_bytes: Figure = Unknown("it was not measured")
    """The most that one call had allocated at once: activations and workspace, no parameters."""
    weight_bytes: Figure = Unknown("they were not counted")
    """Parameters and buffers; packed weights of whole numbers among them."""
    kept_bytes: Figure = Unknown("it was not counted")
    """What else lives from call to call: inputs, and the optimizer's state of a training step."""


class OutputError(Part, frozen=True):
    """How far the output of the changed model is from that of the model as it is."""

    largest: float
    """Largest absolute difference of any value."""
    relative: float
    """Euclidean norm of all differences over that of all values of the model as it is."""
    values: int
    """How many floating values were compared."""
    others_differ: int = 0
    """Of the values that are no floating numbers (indices, masks): how many differ."""
    again: float = 0.0
    """The relative difference of the model as it is from itself, called again: more than 0 where
    it is random."""


class TrialResult(OnWire, frozen=True):
    """Result of a trial. If nothing was measured, ``why`` has the reason."""

    kind: TrialKind
    node: int
    outcome: TrialOutcome
    seconds: float
    """Duration of the whole trial."""
    why: str = ""
    """Why there is no speed-up; a clause in lower case without a full stop."""
    detail: str = ""
    """What was changed: ``53 pairs folded``, ``2 threads instead of 1``."""
    baseline: TrialSide | None = None
    changed: TrialSide | None = None
    speedup: float | None = None
    """Time of an item without the change over that with it: the median of the pairs. 2 is twice as
    fast."""
    low: float | None = None
    """The interval contains the true median with at least 95 % probability."""
    high: float | None = None
    pairs: int = 0
    """Each a batch of calls as it is and one changed, in turn."""
    error: OutputError | None = None
    """None where the outputs could not be compared."""
    why_no_error: str = ""
    """Why they could not; empty where they were, and where nothing was measured."""
    change_seconds: float = 0.0
    """Once, before it runs at its speed: folding, quantising, compiling; in no other figure."""
    phase: Phase = ""
    """Which forward of a model that generates was tried."""
    batch: int | None = None
    """Items per call of the unchanged model; None without a batch axis."""
    is_step: bool = False
    """A call is a training step: its gradients were compared, in the place of outputs."""
    of_step: float = 1.0
    """Share of a training step that a call is, where it is the update of an optimizer alone."""

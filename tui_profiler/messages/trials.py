"""Trials: a change that is tried in a process of its own, in turn with the model as it is."""

from __future__ import annotations

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
]
TRIAL_KINDS: tuple[TrialKind, ...] = get_args(TrialKind)
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
    """Index in the tree that is looked at; only a module can be tried by itself."""
    seconds: float = 10.0
    """Of measuring, at most: it ends sooner where the interval is narrow already."""
    most_seconds: float = 120.0
    """Of all of it: starting a process, loading the model, changing (compiling) it, measuring."""
    most_bytes: int | None = None
    """Of memory that the trial's processes may hold; None: four fifths of what is free at its
    start."""


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


class TrialSide(Part, frozen=True):
    """One of the two that a trial compares: the model as it is, or changed."""

    seconds: float
    """Median of one call, warmed up."""
    items: int
    """In one call: how many times the batch of the model as it is."""
    peak_bytes: Figure = Unknown("it was not measured")
    """The most that one call had allocated at once: activations and workspace, no parameters."""
    weight_bytes: Figure = Unknown("they were not counted")
    """Parameters and buffers; packed weights of whole numbers among them."""


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
    """How a trial came out. Where nothing was measured, ``why`` says it in a sentence."""

    kind: TrialKind
    node: int
    outcome: TrialOutcome
    seconds: float
    """That the trial took, all in all."""
    why: str = ""
    """Why there is no speed-up; a clause that begins in lower case and has no point."""
    detail: str = ""
    """What was changed: ``53 pairs folded``, ``2 threads instead of 1``."""
    baseline: TrialSide | None = None
    changed: TrialSide | None = None
    speedup: float | None = None
    """Time of an item without the change over that with it: the median of the pairs. 2 is twice as
    fast."""
    low: float | None = None
    """The interval holds the true median with at least 95 % probability."""
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
    """Items of one call as it is; None where there is no batch axis."""

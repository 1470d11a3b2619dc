"""The vocabulary of the two halves: every value that crosses the wire, by subject.

``model`` is what a model is on paper, ``live`` what it does while it runs, ``failure`` what went
wrong, ``requests`` the only way back. Sizes are bytes, times are seconds, unless a name says
otherwise. A figure that could not be had is an ``Unknown`` with its reason, never 0.
"""

from __future__ import annotations

from typing import TypeAlias

from tui_profiler.messages.failure import Ended, Failed, Printed, Remedy
from tui_profiler.messages.figures import Figure, Unknown, known
from tui_profiler.messages.live import (
    Ceiling,
    Ceilings,
    Core,
    Gpu,
    Heartbeat,
    Hello,
    LoopState,
    Overhead,
    Sample,
    StageDone,
    StageStarted,
    Tick,
)
from tui_profiler.messages.model import (
    Attempt,
    Cost,
    Edges,
    Environment,
    InputSpec,
    Listed,
    ModelFacts,
    Node,
    Nodes,
    PeakMemory,
    Tensor,
    TraceDone,
    TraceStarted,
    Weight,
)
from tui_profiler.messages.requests import (
    ListModels,
    LoadSpec,
    Pause,
    Request,
    Resume,
    SetBatch,
    Start,
    Step,
    Stop,
)

Message: TypeAlias = (
    Hello
    | StageStarted
    | StageDone
    | Environment
    | ModelFacts
    | TraceStarted
    | Nodes
    | Edges
    | TraceDone
    | Listed
    | Ceilings
    | LoopState
    | Heartbeat
    | Tick
    | Sample
    | Overhead
    | Failed
    | Printed
    | Ended
)

__all__ = [
    "Attempt",
    "Ceiling",
    "Ceilings",
    "Core",
    "Cost",
    "Edges",
    "Ended",
    "Environment",
    "Failed",
    "Figure",
    "Gpu",
    "Heartbeat",
    "Hello",
    "InputSpec",
    "ListModels",
    "Listed",
    "LoadSpec",
    "LoopState",
    "Message",
    "ModelFacts",
    "Node",
    "Nodes",
    "Overhead",
    "Pause",
    "PeakMemory",
    "Printed",
    "Remedy",
    "Request",
    "Resume",
    "Sample",
    "SetBatch",
    "StageDone",
    "StageStarted",
    "Start",
    "Step",
    "Stop",
    "Tensor",
    "Tick",
    "TraceDone",
    "TraceStarted",
    "Unknown",
    "Weight",
    "known",
]

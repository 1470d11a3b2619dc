"""The vocabulary of the two halves: every value that crosses the wire, by subject.

``model`` is what a model is on paper, ``live`` what it does while it runs, ``failure`` what went
wrong, ``requests`` the only way back. Sizes are bytes, times are seconds, unless a name says
otherwise. A figure that could not be had is an ``Unknown`` with its reason, never 0.
"""

from __future__ import annotations

from typing import TypeAlias

from tui_profiler.messages.base import Figure, Unknown, known
from tui_profiler.messages.failure import Ended, Failed, Printed, Remedy
from tui_profiler.messages.files import NO_FORWARD, Exported, FileFacts, FileProblem
from tui_profiler.messages.hardware import (
    Account,
    Allocator,
    Cache,
    Core,
    EnergyTotals,
    Gpu,
    GpuProcess,
    MigDevice,
    PerfCounters,
    Pressure,
    ProgramsSeen,
    ProgramUse,
    Replayed,
    Sample,
    Traffic,
)
from tui_profiler.messages.live import (
    CacheCeiling,
    Ceiling,
    Ceilings,
    Heartbeat,
    Hello,
    LoopState,
    OperatorTimes,
    Overhead,
    Program,
    RoofQuality,
    RunModel,
    Sandbox,
    SlowForward,
    StageDone,
    StageStarted,
    ThreadTime,
    Tick,
    TorchChildren,
)
from tui_profiler.messages.model import (
    Attempt,
    Caller,
    Cost,
    Edges,
    Environment,
    InputSpec,
    Listed,
    ModelFacts,
    Node,
    NoDecode,
    Nodes,
    PartialModule,
    PartialTree,
    PeakMemory,
    RealCost,
    Tensor,
    TraceDone,
    TraceStarted,
    Weight,
)
from tui_profiler.messages.parameters import (
    AnalyseParameters,
    MeasureSensitivity,
    ParametersDone,
    ParametersProgress,
    ParametersStarted,
    Sensitivity,
    SensitivityDone,
    SensitivityStarted,
    StopAnalysing,
    TensorStatistics,
)
from tui_profiler.messages.playback import Playback, Skipped, Splice
from tui_profiler.messages.program import ModeSeen, Setting, StepTimes
from tui_profiler.messages.requests import (
    CountWith,
    ExportOnnx,
    Halt,
    ListModels,
    LoadSpec,
    MeasureCeilings,
    Observe,
    Pause,
    Play,
    ReplayNode,
    Request,
    Resume,
    Seek,
    SetBatch,
    SetPhase,
    SetSpeed,
    ShowModel,
    Start,
    Step,
    Stop,
    StopTrial,
    TraceAgain,
    Try,
    TryAlone,
)
from tui_profiler.messages.trials import (
    TRIAL_KINDS,
    WHOLE_MODEL,
    OutputError,
    TrialKind,
    TrialProgress,
    TrialResult,
    TrialSide,
    Wish,
)
from tui_profiler.messages.verification import Counted, Counter, SecondOpinion
from tui_profiler.messages.windows import (
    DeviceTimes,
    MemorySteps,
    MemoryWindow,
    Region,
    RegionPart,
    WindowTimes,
)

Message: TypeAlias = (
    Hello
    | StageStarted
    | StageDone
    | Environment
    | FileFacts
    | ModelFacts
    | TraceStarted
    | Nodes
    | Edges
    | MemorySteps
    | TraceDone
    | RealCost
    | NoDecode
    | PartialTree
    | Listed
    | SecondOpinion
    | Exported
    | Ceilings
    | LoopState
    | Heartbeat
    | Tick
    | OperatorTimes
    | WindowTimes
    | DeviceTimes
    | StepTimes
    | ModeSeen
    | MemoryWindow
    | Sample
    | Overhead
    | Replayed
    | TrialProgress
    | TrialResult
    | ParametersStarted
    | TensorStatistics
    | ParametersProgress
    | ParametersDone
    | SensitivityStarted
    | Sensitivity
    | SensitivityDone
    | Failed
    | Printed
    | Ended
    | Playback
    | TorchChildren
    | ProgramsSeen
    | SlowForward
)

__all__ = [
    "NO_FORWARD",
    "TRIAL_KINDS",
    "WHOLE_MODEL",
    "Account",
    "Allocator",
    "AnalyseParameters",
    "Attempt",
    "Cache",
    "CacheCeiling",
    "Caller",
    "Ceiling",
    "Ceilings",
    "Core",
    "Cost",
    "CountWith",
    "Counted",
    "Counter",
    "DeviceTimes",
    "Edges",
    "Ended",
    "EnergyTotals",
    "Environment",
    "ExportOnnx",
    "Exported",
    "Failed",
    "Figure",
    "FileFacts",
    "FileProblem",
    "Gpu",
    "GpuProcess",
    "Halt",
    "Heartbeat",
    "Hello",
    "InputSpec",
    "ListModels",
    "Listed",
    "LoadSpec",
    "LoopState",
    "MeasureCeilings",
    "MeasureSensitivity",
    "MemorySteps",
    "MemoryWindow",
    "Message",
    "MigDevice",
    "ModeSeen",
    "ModelFacts",
    "NoDecode",
    "Node",
    "Nodes",
    "Observe",
    "OperatorTimes",
    "OutputError",
    "Overhead",
    "ParametersDone",
    "ParametersProgress",
    "ParametersStarted",
    "PartialModule",
    "PartialTree",
    "Pause",
    "PeakMemory",
    "PerfCounters",
    "Play",
    "Playback",
    "Pressure",
    "Printed",
    "Program",
    "ProgramUse",
    "ProgramsSeen",
    "RealCost",
    "Region",
    "RegionPart",
    "Remedy",
    "ReplayNode",
    "Replayed",
    "Request",
    "Resume",
    "RoofQuality",
    "RunModel",
    "Sample",
    "Sandbox",
    "SecondOpinion",
    "Seek",
    "Sensitivity",
    "SensitivityDone",
    "SensitivityStarted",
    "SetBatch",
    "SetPhase",
    "SetSpeed",
    "Setting",
    "ShowModel",
    "Skipped",
    "SlowForward",
    "Splice",
    "StageDone",
    "StageStarted",
    "Start",
    "Step",
    "StepTimes",
    "Stop",
    "StopAnalysing",
    "StopTrial",
    "Tensor",
    "TensorStatistics",
    "ThreadTime",
    "Tick",
    "TorchChildren",
    "TraceAgain",
    "TraceDone",
    "TraceStarted",
    "Traffic",
    "TrialKind",
    "TrialProgress",
    "TrialResult",
    "TrialSide",
    "Try",
    "TryAlone",
    "Unknown",
    "Weight",
    "WindowTimes",
    "Wish",
    "known",
]

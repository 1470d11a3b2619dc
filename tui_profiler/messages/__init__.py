"""The vocabulary of the two halves: every value that crosses the wire, by subject.

``model`` is what a model is on paper, ``live`` what it does while it runs, ``failure`` what went
wrong, ``requests`` the only way back. Sizes are bytes, times are seconds, unless a name says
otherwise. A figure that could not be had is an ``Unknown`` with its reason, never 0.
"""

from typing import TypeAlias

from tui_profiler.messages.base import *
from tui_profiler.messages.failure import *
from tui_profiler.messages.files import *
from tui_profiler.messages.generation import *
from tui_profiler.messages.hardware import *
from tui_profiler.messages.live import *
from tui_profiler.messages.model import *
from tui_profiler.messages.parameters import *
from tui_profiler.messages.program import *
from tui_profiler.messages.requests import *
from tui_profiler.messages.serving import *
from tui_profiler.messages.training import *
from tui_profiler.messages.trials import *
from tui_profiler.messages.verification import *
from tui_profiler.messages.windows import *

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
    | TrainingStep
    | SlowStep
    | TrainingCost
    | TrainingMemory
    | BackwardOperators
    | ModelValues
    | OutOfMemory
    | Compilations
    | Generation
    | ExpertTokens
    | ServingSeen
)

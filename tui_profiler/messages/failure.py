"""What went wrong, as a value; and what the model printed."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, Moment, OnWire, Part


class Remedy(Part, frozen=True):
    """One thing to try."""

    command: str
    """What to type, ready: ``--input 1,3,224,224``."""
    result: str
    """What it will do: ``4.69 GiB at the peak, fits``."""
    is_tried: bool = False
    """It is what failed: the form in which to type something else."""


SCRIPT = "script"
"""The stage of what a script of the user's failed by."""


class Failed(OnWire, frozen=True):
    """Something could not be done; what is known already stays."""

    stage: str
    """The stage that failed: ``load model``, ``first run``."""
    what: str
    """One sentence with figures."""
    where: str = ""
    """Path of the node, or empty."""
    at: str = ""
    """``file:line``, or empty."""
    why: str = ""
    """The cause, only where it was computed."""
    likely: str = ""
    """The likely cause."""
    remedies: tuple[Remedy, ...] = ()
    traceback: str = ""
    fatal: bool = True
    """The probe cannot go on; False where only one request failed."""
    bad_argument: bool = False
    """The request itself was wrong (exit code 2), not the model (exit code 1)."""


MemoryPart: TypeAlias = Literal["forward", "backward", "clip", "optimizer", "data", "other"]


class OutOfMemory(OnWire, frozen=True):
    """What a program was doing when an allocation failed, and what was alive; bytes.

    Sent before the error goes on. What is alive was read from the objects themselves, each storage
    once, when the error was raised, or had left the program.
    """

    at: Moment
    device: str
    """That had no memory left: ``cpu``, ``cuda:0``."""
    wanted: Figure
    """What was asked for in vain."""
    part: MemoryPart
    """Of the step; ``other``: outside of all that is told apart, the loss for example."""
    node: str | None
    """Path of the innermost module under way, empty for the model itself; None: not known."""
    why_no_node: str
    """Why there is none; empty where there is one."""
    steps: int
    """Training steps that were seen to end before."""
    line: str
    """``file:line`` of the innermost frame of the program's own code; empty: not known."""
    parameters: Figure
    buffers: Figure
    gradients: Figure
    """Of the parameters."""
    optimizer_state: Figure
    allocated: Figure
    """All that torch's allocator had given out on the device."""
    resident: Figure
    """Of the process, in the machine's memory."""
    is_uncaught: bool = False
    """Whether nothing in the program caught the error: it ends by it."""


class Printed(OnWire, frozen=True):
    """What the model or the worker wrote to its output; made by the source, not by the probe."""

    text: str
    dropped_bytes: int = 0
    """Left out because it came faster than it is kept."""


class Ended(OnWire, frozen=True):
    """The probe is gone; made by the source."""

    code: int
    """Exit code, or minus the signal's number."""
    expected: bool
    """The viewer requested it."""
    last_line: str = ""
    """Last line that it printed."""
    pid: int = 0
    seconds: float = 0.0
    """Lifetime; of an attached program, the time it was observed."""
    attached: bool = False
    """It is a program that was attached to: its exit code is not known."""
    is_script: bool = False
    """It is the user's script, under ``run``."""
    out_of_memory: bool | None = None
    """Whether the kernel's out-of-memory killer ended it; None: not known. Only of SIGKILL."""
    why: str = ""
    """The evidence: the kernel's counters, in words."""

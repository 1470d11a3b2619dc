"""What went wrong, as a value; and what the model printed."""

from __future__ import annotations

from tui_profiler.messages.base import OnWire, Part


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
    """The cause, where it is a guess."""
    remedies: tuple[Remedy, ...] = ()
    traceback: str = ""
    fatal: bool = True
    """The probe cannot go on; False where only one request failed."""
    bad_argument: bool = False
    """The request itself was wrong (exit code 2), not the model (exit code 1)."""


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
    """We asked for it."""
    last_line: str = ""
    """Last line that it printed."""
    pid: int = 0
    seconds: float = 0.0
    """How long it lived; of a program that was attached to, how long it was looked at."""
    attached: bool = False
    """It is a program that was attached to: its exit code is not known."""
    is_script: bool = False
    """It is the user's script, under ``run``."""
    out_of_memory: bool | None = None
    """Whether the kernel's out-of-memory killer ended it; None: not known. Only of SIGKILL."""
    why: str = ""
    """What tells that: the kernel's counters, in words."""

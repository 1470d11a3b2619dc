"""Energy: what each counter of this machine said while the model ran and while it did not."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tui_profiler.messages.base import OnWire, Part

EnergySource: TypeAlias = Literal["counter", "power"]
"""``counter`` counts energy; ``power`` is the integral of power that was looked at again and again,
which a sensor that looks away most of the time makes worse."""
Activity: TypeAlias = Literal["", "other", "idle", "running", "replay"]
EnergyOf: TypeAlias = Literal["package", "dram", "gpu"]

LEAST_STEPS = 10
"""Of a counter: over fewer, the edges of the time decide the figure."""
LEAST_SECONDS = 5.0
"""Of running, likewise."""


class Account(Part, frozen=True):
    """Energy over time of one kind, from one step of the counter to another.

    All of it lies between steps, so that energy, time and work speak of the same time. Time in
    which the kind changed is in no account.
    """

    seconds: float = 0.0
    joules: float = 0.0
    steps: int = 0
    """Times that the counter moved: below ten the edges of the time decide the figure."""
    work: float = 0.0
    """Forwards meanwhile (calls, in a replay); one under way counts for its part."""


class EnergyTotals(Part, frozen=True):
    """One counter since the model's loop began."""

    of: EnergyOf
    name: str
    """``processor packages``, ``GPU 0: NVIDIA H100``."""
    gpu: int
    """NVML's number of the GPU; -1 for what is none."""
    source: EnergySource
    running: Account
    """While forwards ran one after another, on these inputs."""
    idle: Account
    """While this process did nothing: before the first forward, and while it was paused."""
    limit_watts: float | None = None
    """The most power that it is allowed to draw for long; None where it does not tell."""
    why: str = ""
    """Why it is not counted any more; empty while it is."""


class Replay(Part, frozen=True):
    """One replay of a node."""

    seconds: float
    """That it took, without the pauses between its parts."""
    calls: int
    joules_per_call: float


class Replayed(OnWire, frozen=True):
    """A node that was run again and again by itself, on the inputs of one forward."""

    node: int
    """Index in the tree that is looked at."""
    of: str
    """Which counter: ``processor packages``."""
    source: EnergySource
    replays: tuple[Replay, ...]
    """At least three; empty where there are none."""
    idle_watts: float | None
    """What the counter said while nothing ran; None where that was not measured."""
    seconds_per_call: float
    """In the replay; the module clock has that of the live run."""
    why_none: str = ""
    """Why there is none; empty where there is one."""

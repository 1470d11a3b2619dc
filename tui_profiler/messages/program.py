"""How a program runs its model: mode, autograd, threads, backward passes, a rank's steps."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, Moment, OnWire, Part, Unknown

Autograd: TypeAlias = Literal["grad", "no_grad", "inference_mode"]
"""``grad``: operators are recorded for a backward pass."""


ENOUGH_FORWARDS = 8
"""Forwards that autograd recorded without a backward pass, from which on none is expected."""


class Setting(Part, frozen=True):
    """How some of the last forwards ran."""

    training: bool
    """The root's ``training`` flag."""
    autograd: Autograd
    threads: int
    """Intra-operator threads of torch, on the thread of those forwards."""
    as_traced: bool
    """As in ``Tick``: they are like the forward that the tree is made of."""
    forwards: int


class ModeSeen(OnWire, frozen=True):
    """How forwards ran, and which backward passes there were, as observed in the program."""

    at: float
    """Seconds since the command was started."""
    settings: tuple[Setting, ...]
    """Of the last forwards that were recorded, most frequent first."""
    forwards: int
    """Recorded since the model is watched."""
    passes: int | Unknown
    """Backward passes of the program since then, whichever model they are of."""
    reached: int = 0
    """Of those, passes that computed gradients of this model's parameters."""
    pass_seconds: Figure = Unknown("no backward pass was observed")
    """Median of the last passes."""


class CompiledAgain(Part, frozen=True):
    """Why a function has several graphs: a break inside it, or a guard that failed."""

    file: str
    line: int
    """Of the break; of a recompilation, the first of the function. 0 where it is not known."""
    function: str
    reason: str
    """Dynamo's, its first line."""
    count: int
    """How often, in all compilations."""
    forwards: tuple[str, ...] = ()
    """``file:line`` of ``forward``, as ``Node.source`` is, of the classes of the model's modules
    whose methods it is in: the innermost that is known. Empty where it is in none."""


class Compilations(OnWire, frozen=True):
    """What ``torch.compile`` did in this process, of all models, as Dynamo has it."""

    at: Moment
    frames: int
    """Compilations of a function, or of the rest of one after a break."""
    graphs: int
    seconds: Figure
    """Spent compiling, in all."""
    breaks: tuple[CompiledAgain, ...]
    """Most frequent first."""
    recompiles: tuple[CompiledAgain, ...]
    """Most frequent first."""
    left_out: int = 0
    """Breaks and recompilations that are not listed."""


class StepTimes(OnWire, frozen=True):
    """Where the time of a rank's steps goes: from one forward's begin to the next one's.

    Each figure is the mean over those of the last ``window`` steps whose length is in their middle
    half, so that ``compute``, ``wait`` and ``host`` add up to ``step``, and a pause to save or to
    validate is in none of them.
    """

    at: Moment
    steps: int
    """Steps so far."""
    window: int
    step: Figure
    """Seconds."""
    compute: Figure
    """Seconds in the watched model's forward and in backward passes, without ``wait``."""
    wait: Figure
    """Seconds in which the thread that runs the model waits for a collective, transfer included."""
    host: Figure
    """Seconds of neither: the optimizer, loading of data, Python."""
    forward: Figure
    """Seconds of ``compute`` in the forward."""
    backward: Figure
    """Seconds of ``compute`` in backward passes."""
    dropped: int = 0
    """Steps that were not counted, because what was recorded of them did not fit."""

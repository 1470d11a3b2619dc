"""The classes of a bottleneck: a row for each, in the order of bars, legends and columns.

A class is added here, with its sign in ``formatting/canvas.py``, its colour in every theme of
``screens/settings/palette.py`` and its field in the JSON report (``Bottlenecks``). Tests compare
those with this table; everything else is made from it.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

BoundKind: TypeAlias = Literal[
    "compute", "memory", "overhead", "python", "faults", "blocked", "unexplained"
]
KINDS: tuple[BoundKind, ...] = get_args(BoundKind)


class BoundClass(NamedTuple):
    """How a class is named, and what it asks for."""

    letter: str
    phrase: str
    """In a sentence: ``memory-bound``, ``page faults``."""
    wants: str
    """What helps most; ``{level}`` is the level of memory that limits."""
    wants_on_paper: str = ""
    """The same before anything is measured; empty for a class that only times can show."""


CLASSES: Mapping[BoundKind, BoundClass] = {
    "compute": BoundClass(
        "C",
        "compute-bound",
        "the largest floor is compute: faster arithmetic helps most",
        "fewer FLOPs or faster arithmetic",
    ),
    "memory": BoundClass("M", "memory-bound", "{level} helps most", "fewer bytes or faster memory"),
    "overhead": BoundClass("O", "overhead-bound", "a larger batch or torch.compile helps most"),
    "python": BoundClass("P", "Python", "less Python outside of operators helps most"),
    "faults": BoundClass(
        "F",
        "page faults",
        "reusing memory helps most: out=, fewer temporaries, an allocator that keeps memory",
    ),
    "blocked": BoundClass(
        "B", "blocked", "less waiting for sleep, files, network or locks helps most"
    ),
    "unexplained": BoundClass("U", "unexplained", "cause unknown"),
}
LETTERS: Mapping[BoundKind, str] = {kind: one.letter for kind, one in CLASSES.items()}
OF_FLOORS: tuple[BoundKind, ...] = ("compute", "memory", "overhead")
"""Classes decided by the largest floor of the operators."""
OF_THREAD: tuple[BoundKind, ...] = ("python", "faults", "blocked")
"""Classes decided by what the thread did, whatever the operators' floors are."""
LEGEND = ", ".join(f"{one.letter} {kind}" for kind, one in CLASSES.items())
"""``C compute, M memory, O overhead, …``"""
IN_ORDER = ", ".join(KINDS)
"""``compute, memory, …``"""
NAMES = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
"""``compute, memory, … or unexplained``"""

"""How a figure of the work on paper is to be read: as exact, as a bound, or as neither.

1. MACs, bytes and operators depend on the data alone (``tree.bounded``): every operator is seen.
2. FLOPs are a lower bound where operators have no formula, and so is a peak of memory without a
   part that is not known; where others depend on the data too, they are neither.
3. A ratio of two figures that depend on the data is neither: FLOPs per byte of upper bounds.
4. A difference B − A rises with B and falls with A, and so does a ratio B / A of figures above 0.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from tui_profiler.session import Bounded

Reading: TypeAlias = Literal["", "at most", "at least", "about"]
"""Empty where a figure is exact."""
SIGNS: Mapping[Reading, str] = {"": "", "at most": "≤", "at least": "≥", "about": "~"}
"""Written before a figure."""
_OPPOSITES: Mapping[Reading, Reading] = {
    "": "",
    "at most": "at least",
    "at least": "at most",
    "about": "about",
}


def of_count(bounded: Bounded | None) -> Reading:
    """Return how MACs, bytes and numbers of operators are to be read, by rule 1."""
    return bounded or ""


def of_flops(bounded: Bounded | None, *, is_at_least: bool) -> Reading:
    """Return how FLOPs, or a peak, are to be read, by rule 2.

    Args:
        bounded: how they depend on the data.
        is_at_least: something is not in them.
    """
    if not is_at_least:
        return bounded or ""
    return "about" if bounded else "at least"


def of_intensity(bounded: Bounded | None, *, is_at_least: bool) -> Reading:
    """Return how FLOPs per byte are to be read, by rule 3; arguments as of ``of_flops``."""
    return "about" if bounded else "at least" if is_at_least else ""


def of_difference(a: Reading, b: Reading) -> Reading:
    """Return how B − A and B / A are to be read, by rule 4."""
    taken = _OPPOSITES[a]
    if not taken or not b:
        return taken or b
    return b if taken == b else "about"

"""Questions that take long of a large tree: kept, and worked out in small steps where keys wait.

1. Such a question is written once, as a generator that yields every ``STEP`` nodes, each a few
   milliseconds of work, and returns the answer.
2. Asked, it goes to its end at once. ``steps`` goes on bit by bit: who asks afterwards finds the
   answer. The last two answers are kept; arguments are the same where they are identical.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from itertools import accumulate
from typing import Generic, TypeVar

STEP = 4096
_MOST = 2

_Answer = TypeVar("_Answer")


class Incremental(Generic[_Answer]):
    """A question that can be answered in steps; use it as a decorator."""

    def __init__(self, working: Callable[..., Generator[None, None, _Answer]]) -> None:
        self._working = working
        self._kept: list[tuple[tuple[object, ...], _Answer]] = []

    def __call__(self, *arguments: object) -> _Answer:
        """Return the answer, worked out now where it is not kept."""
        for _ in self.steps(*arguments):
            pass
        return next(answer for of, answer in self._kept if _are_same(of, arguments))

    def steps(self, *arguments: object) -> Iterator[None]:
        """Work the answer out, and yield between the steps; none where it is kept."""
        if any(_are_same(of, arguments) for of, _ in self._kept):
            return
        answer = yield from self._working(*arguments)
        self._kept = [(arguments, answer), *self._kept][:_MOST]


def sums_in_steps(column: array[float]) -> Generator[None, None, array[float]]:
    """Yield the running sums of a column, as long as it is."""
    sums, total = array("d"), 0.0
    for start in range(0, len(column), STEP):
        part = array("d", accumulate(column[start : start + STEP], initial=total))
        sums += part[1:]
        total = part[-1]
        yield
    return sums


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))

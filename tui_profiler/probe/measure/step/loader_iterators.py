"""Iterators of DataLoaders, told apart: which loader a batch came from.

A program may make a loader anew for each epoch, and an iterator of the same loader for an
evaluation, so both are numbered. Nothing here keeps either alive.
"""

import weakref
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

MOST_LOADERS = 1_000
"""Loaders that are told apart; of those that are gone the numbers are dropped."""


class Fetcher(NamedTuple):
    """One iterator of a DataLoader."""

    iterator: int
    """Its number, from 1; no other iterator of the process has it."""
    loader: int
    """Number of its loader, from 1."""
    made: float
    """Second of ``time.perf_counter`` at which it was made; 0 where that was not seen."""


class Fetch(NamedTuple):
    """One call of an iterator's ``__next__``."""

    fetcher: Fetcher
    is_grad: bool
    """Whether autograd was on."""
    is_over: bool
    """Whether it had no batch left."""


UNKNOWN_FETCHER = Fetcher(0, 0, 0.0)


class LoaderIterators:
    """Numbers of the iterators of one process."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, Fetcher] = weakref.WeakKeyDictionary()
        self.get: Callable[[Any], Fetcher | None] = self._known.get
        """Returns what an iterator is known as; None: it is new."""
        self._numbers = count(1)
        self._loaders: dict[int, tuple[weakref.ref[Any], int]] = {}
        """By ``id`` of what chooses the indexes of a loader, which its iterators share."""

    def add(self, iterator: object, sampler: object, made: float = 0.0) -> Fetcher:
        """Return a new number for an iterator.

        Args:
            iterator: of a DataLoader.
            sampler: what chooses its indexes: one of each loader.
            made: second at which it was made.
        """
        fetcher = Fetcher(next(self._numbers), self._loader(sampler), made)
        self._known[iterator] = fetcher
        return fetcher

    def _loader(self, sampler: object) -> int:
        kept = self._loaders.get(id(sampler))
        if kept is not None and kept[0]() is sampler:
            return kept[1]
        number = next(self._numbers)
        try:
            reference = weakref.ref(sampler)
        except TypeError:
            return number  # A list of batches: each of its iterators counts as of another loader.
        if len(self._loaders) >= MOST_LOADERS:
            self._loaders = {key: one for key, one in self._loaders.items() if one[0]() is not None}
        if len(self._loaders) < MOST_LOADERS:
            self._loaders[id(sampler)] = reference, number
        return number

"""What lies between two steps of training: evaluations, and inference such as rollouts.

Told apart by what the program does, not by how long it takes. Between the ends of two steps

1. a batch of a loader that does not feed the step is an evaluation's: of several iterators, those
   feed steps that fed the step before, or, where none of them has batches left, the last one before
   the first forward with autograd or backward pass. One that is fetched from equally often in two
   steps in a row feeds them as well (two loaders in each step);
2. a forward without autograd in eval mode, where steps run in training mode, is an evaluation's. If
   it has no loader and less than half of a step's items, it is inference (acting, sampling);
3. other forwards without autograd before the step's own are inference if no batch was fetched for
   the step before them and there are at least two, or if there are far more than usual. Else they
   are a part of the step (a teacher, one action per update).

What lies from the first to the last of these, without a backward pass in between, is one ``Gap``.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

from tui_profiler.messages.training import BetweenKind
from tui_profiler.probe.measure.clock.call_recorder import RootCall
from tui_profiler.probe.measure.step.loader_iterators import Fetch

LAST_COUNTS, LEAST_COUNTS = 64, 3
"""Steps that the usual number of forwards without autograd is the median of, at most and least."""
FAR_MORE = 3.0
"""Times the usual number of forwards without autograd in a step."""
LEAST_CALLS = 2
"""Forwards without autograd, in a step without a loader, that are inference."""
SMALL_SHARE = 0.5
"""Share of a step's items below which forwards in eval mode are inference."""
MOST_FED = 64
"""Iterators and loaders that feed steps and are remembered."""


class Batch(NamedTuple):
    """One fetch of a batch; seconds of ``time.perf_counter``."""

    began: float
    ended: float
    fetch: Fetch


class Interval(NamedTuple):
    """What the thread that trains did between the ends of two steps, in the order of time."""

    began: float
    ended: float
    batches: Sequence[Batch]
    calls: Sequence[RootCall]
    """Of the model."""
    works: Sequence[float]
    """When backward passes began."""
    are_calls_known: bool
    """Whether the model's calls up to the first with autograd are known."""
    seen_from: float = 0.0
    """Second from which on they are: what was seen first then has lasted all along."""


class Gap(NamedTuple):
    """A time between two steps."""

    kind: BetweenKind
    began: float
    ended: float
    calls: int
    """Of the model, as far as they are known."""
    call_seconds: float
    data_seconds: float
    are_calls_known: bool

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.ended - self.began


class BetweenSteps:
    """Judges interval after interval, and learns from each what feeds steps."""

    def __init__(self) -> None:
        self._feeding: dict[int, int] = {}
        """Loader by iterator, of those that fed the last steps and have batches left."""
        self._loaders: dict[int, None] = {}
        """That fed a step."""
        self._before: dict[int, int] = {}
        """Fetches by iterator in the interval before, of those that did not feed it."""
        self._counts: deque[int] = deque(maxlen=LAST_COUNTS)
        """Forwards without autograd in the mode of the step, in intervals whose calls are known."""
        self._training = True
        """Whether steps run the model in training mode."""
        self._items = 0
        """Of the last forward with autograd."""
        self.was_mistaken = False
        """Whether what the interval before was judged by was wrong: a second loader feeds steps."""

    def is_plain(self, batches: Iterable[Batch], calls: Iterable[RootCall]) -> bool:
        """Return whether intervals hold nothing but batches and forwards of steps."""
        feeding = self._feeding
        for one in batches:
            fetch = one.fetch
            if fetch.fetcher.iterator not in feeding or fetch.is_over or not fetch.is_grad:
                return False
        return all(one.is_grad for one in calls)

    def pass_plain(self, intervals: int, *, are_calls_known: bool) -> None:
        """Take note of intervals in a row that ``is_plain`` holds for."""
        self._before.clear()
        if are_calls_known:
            self._counts.extend([0] * min(intervals, LAST_COUNTS))

    def judge(self, interval: Interval) -> tuple[Gap, ...]:
        """Return what of an interval is no part of a step, in the order of time."""
        works = sorted((*interval.works, *(one.began for one in interval.calls if one.is_grad)))
        first_work = works[0] if works else interval.ended
        feeding = self._feed(interval.batches, first_work)
        batches: list[Batch] = []
        fed_at = first_work
        for one in interval.batches:
            if one.fetch.fetcher.iterator in feeding and one.fetch.is_grad:
                fed_at = min(fed_at, one.began)
            else:
                batches.append(one)
        calls = self._apart(interval, first_work, fed_at)
        return tuple(self._gaps(interval, batches, calls, works))

    def _feed(self, batches: Sequence[Batch], first_work: float) -> set[int]:
        """Return the iterators that feed the step of an interval, and remember them."""
        loaders: dict[int, int] = {}
        before_work: dict[int, None] = {}
        counts: Counter[int] = Counter()
        over: set[int] = set()
        for one in batches:
            fetcher = one.fetch.fetcher
            if not one.fetch.is_grad:
                continue
            loaders[fetcher.iterator] = fetcher.loader
            counts[fetcher.iterator] += 1
            if one.began < first_work:
                before_work.pop(fetcher.iterator, None)
                before_work[fetcher.iterator] = None  # In the order of last fetches.
            if one.fetch.is_over:
                over.add(fetcher.iterator)
        found = {number for number in loaders if number in self._feeding}
        again = {
            number
            for number, fetches in counts.items()
            if number not in found | over and self._before.get(number) == fetches
        }
        self.was_mistaken = bool(again)
        found |= again
        fresh = [number for number in before_work if number not in found | over]
        if found <= over and fresh:
            found |= {number for number in fresh if loaders[number] in self._loaders}
            found.add(fresh[-1])
        for number in over:
            self._feeding.pop(number, None)
        for number in found:
            self._loaders[loaders[number]] = None
            if number not in over:
                self._feeding[number] = loaders[number]
        for kept in (self._feeding, self._loaders):
            while len(kept) > MOST_FED:
                del kept[next(iter(kept))]
        self._before = {number: count for number, count in counts.items() if number not in found}
        return found

    def _apart(self, interval: Interval, first_work: float, fed_at: float) -> list[RootCall]:
        """Return the calls without autograd that are no part of the step."""
        for one in interval.calls:
            if one.is_grad:
                self._training, self._items = one.training, one.items
        apart: list[RootCall] = []
        own: list[RootCall] = []
        for one in interval.calls:
            if one.is_grad:
                continue
            if self._training and not one.training:
                apart.append(one)
            elif one.began < first_work:
                own.append(one)
        count, is_learned = sum(one.calls for one in own), len(self._counts) >= LEAST_COUNTS
        usual = median(self._counts) if self._counts else 0.0
        if interval.are_calls_known:
            self._counts.append(count)
        if not self._feeding and all(one.began < fed_at for one in own):
            is_apart = count >= LEAST_CALLS
        else:
            is_apart = is_learned and count > FAR_MORE * usual
        return apart + own if is_apart else apart

    def _gaps(
        self,
        interval: Interval,
        batches: Sequence[Batch],
        calls: Sequence[RootCall],
        works: Sequence[float],
    ) -> Iterator[Gap]:
        events: list[Batch | RootCall] = [*batches, *calls]
        events.sort(key=lambda one: one.began)
        for _, group in groupby(events, lambda one: bisect_right(works, one.began)):
            yield self._gap(interval, [*group])

    def _gap(self, interval: Interval, group: Sequence[Batch | RootCall]) -> Gap:
        batches = [one for one in group if isinstance(one, Batch)]
        calls = [one for one in group if isinstance(one, RootCall)]
        made = (one.fetch.fetcher.made for one in batches)
        began = min((group[0].began, *(second for second in made if second > interval.began)))
        seen: list[Batch | RootCall] = [*interval.batches, *interval.calls]
        first = min(one.began for one in seen)
        is_late = interval.seen_from > interval.began and group[0].began == first
        return Gap(
            "evaluation" if self._is_evaluation(batches, calls) else "inference",
            interval.began if is_late else max(began, interval.began),
            min(max(one.ended for one in group), interval.ended),
            sum(one.calls for one in calls),
            sum(one.seconds for one in calls),
            sum(one.ended - one.began for one in batches),
            interval.are_calls_known and not is_late,
        )

    def _is_evaluation(self, batches: Sequence[Batch], calls: Sequence[RootCall]) -> bool:
        if batches:
            return True
        if not self._training or any(one.training for one in calls):
            return False
        items = median(one.items for one in calls)
        is_small = 0 < items < SMALL_SHARE * self._items
        return not (is_small and sum(one.calls for one in calls) >= LEAST_CALLS)


def is_inside(began: float, ended: float, gaps: Iterable[Gap]) -> bool:
    """Return whether a time lies in a gap."""
    return any(one.began <= began and ended <= one.ended for one in gaps)

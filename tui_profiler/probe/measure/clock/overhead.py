"""What watching costs, and how much of it a budget allows.

Both are arithmetic on seconds that the loop measures: pairs of short batches, one watched and one
bare, in turn, so that what else the machine does falls on both alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from math import comb, sqrt
from statistics import median

from tui_profiler.messages import Overhead

PAIRS = 200
"""The latest pairs that count: a model whose speed changed is not held to what it was."""
TICKS = 64
LEAST_PARTS = 6
T_OF_SIX = 2.571
"""Student's t, 97.5 %, five degrees of freedom."""
LEAST_SHARE = 1 / 200
"""A forward in so many is recorded at least, or the figures would stand still."""
MARGIN = 0.4
"""How much of the budget is planned for: a forward after a recorded one, or after a tick, finds the
caches as they left them (0.7 and 4 % slower on mobilenet_v3_small), and the replacement in torch's
place is not quite free (0.2 %); no pair shows these."""
TICK_SECONDS = 0.25
MOST_TICK_SECONDS = 1.0
TICK_BUDGET = 0.1
"""The part of the budget that ticks may take before they come less often."""


class OverheadMeter:
    """Collects pairs of batches of forwards, and what is done between forwards."""

    def __init__(self) -> None:
        self._ratios: deque[float] = deque(maxlen=PAIRS)
        self._between: deque[tuple[float, float]] = deque(maxlen=TICKS)
        self.windows_share = 0.0
        """What operator windows cost, as a share of the time from each to the next."""

    def add(self, watched_seconds: float, bare_seconds: float) -> None:
        """Take in one pair: the same number of forwards, watched and bare.

        What was not measurable, such as no time at all, is left out.
        """
        if watched_seconds > 0 and bare_seconds > 0:
            self._ratios.append(watched_seconds / bare_seconds)

    def add_between(self, seconds: float, running_seconds: float = TICK_SECONDS) -> None:
        """Take in what was added up and sent between two forwards.

        Args:
            seconds: that it took.
            running_seconds: of forwards since the last time, above 0; the default is the least.
        """
        self._between.append((seconds, running_seconds))

    def recording(self) -> Overhead | None:
        """Give what it costs to record every forward, and nothing else; None: too few pairs."""
        found = interval_of_median(self._ratios)
        if found is None:
            return None
        low, high = found
        return Overhead(median(self._ratios) - 1, low - 1, high - 1, len(self._ratios))

    def overhead(self, share: float = 1.0) -> Overhead | None:
        """Give what watching costs, None while there are too few pairs for an interval.

        Args:
            share: of the forwards that are recorded.
        """
        recording = self.recording()
        if recording is None:
            return None
        between, least, most = interval_of_share(self._between)
        return Overhead(
            ratio=share * recording.ratio + between + self.windows_share,
            low=share * recording.low + least + self.windows_share,
            high=share * recording.high + most + self.windows_share,
            pairs=recording.pairs,
            share=share,
        )

    def between(self) -> float:
        """Give what is done between forwards, as a share of the time that they take."""
        return interval_of_share(self._between)[0] + self.windows_share


class Governor:
    """Decides which forwards are recorded, so that watching stays within a budget."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        """What watching may cost, as a share of the time without it."""
        self.share = 1.0
        """Of the forwards that are recorded; starts with all."""
        self._due = 0.0

    def update(self, recording: Overhead, between: float = 0.0) -> None:
        """Decide anew.

        Args:
            recording: what it costs to record every forward, and nothing else.
            between: what is paid beside it, however few are recorded.
        """
        if recording.ratio + between > self.budget:
            # By the upper end of the interval: it is a promise, and a median is broken half of the
            # time.
            room = max(MARGIN * self.budget - between, LEAST_SHARE * self.budget)
            self.share = max(room / max(recording.high, room), LEAST_SHARE)
        elif recording.ratio + between <= MARGIN * self.budget:
            # Between the two nothing changes, so that noise does not move it back and forth.
            self.share = 1.0

    def records_next(self) -> bool:
        """Say whether the next forward is recorded: ``share`` of them, evenly spread."""
        self._due += self.share
        if self._due < 1.0:
            return False
        self._due -= 1.0
        return True


def seconds_to_next_tick(cost_seconds: float, budget: float) -> float:
    """Say how long after a tick the next one is due: a large model's cost more, so come seldom.

    Args:
        cost_seconds: that the last one took.
        budget: what watching may cost, as a share of the time without it.
    """
    affordable = cost_seconds / (TICK_BUDGET * budget) if budget > 0 else MOST_TICK_SECONDS
    return min(max(TICK_SECONDS, affordable), MOST_TICK_SECONDS)


def interval_of_median(values: Sequence[float] | deque[float]) -> tuple[float, float] | None:
    """Give an interval that holds the true median with at least 95 % probability.

    It lies between two of the values themselves, whatever their distribution, and is the same for
    the same values. None for fewer than six: even the widest would hold it less often.

    Source: W. J. Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2: the number of
    values below the median is binomial with probability one half.
    """
    ordered = sorted(values)
    count = len(ordered)
    # The rank is the highest with at most 1 of 40 equally likely cases below it, and as many above.
    rank, cases = 0, comb(count, 0)
    while 40 * cases <= 2**count:
        rank += 1
        cases += comb(count, rank)
    return (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None


def interval_of_share(
    parts: Collection[tuple[float, float]],
) -> tuple[float, float, float]:
    """Give what a share is in all parts together, with an interval for that of more of them.

    Of fewer than six parts it reaches from the least share of one to the greatest; of more it is at
    least 95 % wide where parts vary at random, and never reaches beyond those two.

    Source: the standard error of a ratio estimate, W. G. Cochran, Sampling Techniques, 3rd ed.,
    section 2.11; the quantile is Student's for six parts, which is above that of more.

    Args:
        parts: seconds of what is asked for, and seconds of which they are a share, above 0.

    Returns:
        the share and the ends of its interval; all 0 where there are no parts.
    """
    if not parts:
        return 0.0, 0.0, 0.0
    count, of = len(parts), sum(whole for _, whole in parts)
    share = sum(seconds for seconds, _ in parts) / of
    least, most = (choose(seconds / whole for seconds, whole in parts) for choose in (min, max))
    if count < LEAST_PARTS:
        return share, least, most
    squares = sum((seconds - share * whole) ** 2 for seconds, whole in parts)
    half = T_OF_SIX * sqrt(count / (count - 1) * squares) / of
    return share, max(share - half, least), min(share + half, most)

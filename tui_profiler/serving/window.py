"""Figures of a server from its last scrapes: gauges of the newest, counters over a window.

1. The window begins at the oldest scrape of the last ``SECONDS``. A counter that is smaller than
   before, is gone, or has another creation time, was reset: the server was restarted, and the
   window starts anew at that scrape. The creation time that counts is the last one exported. If an
   earlier one comes back, several servers answer in turn: no rates for as long as the window.
2. A counter that was not there in the first scrape was 0: servers export most of them from the
   first request on.
3. Quantiles are estimated as by Prometheus (``histogram_quantile``): evenly spread within a bucket,
   the first of which begins at 0. One in the last bucket, which has no bound, is not known.
4. Each sample is at most ``MOST_COUNT``; so is each sum of them, or it is not known.
"""

import math
from collections.abc import Callable, Iterable

from tui_profiler.messages import BucketQuantile, Figure, ServingFigures, ServingTimes, Unknown
from tui_profiler.serving.scrape import MOST_COUNT, Labels, Scrape
from tui_profiler.serving.servers import (
    BUCKETS,
    PRIORITY,
    SAME_REQUESTS,
    SUM,
    Names,
    Series,
    Server,
)

SECONDS = 60.0
ONE_SCRAPE = Unknown("rates and times need a second scrape")
SEVERAL = Unknown("several servers answer at this address")
TOO_LARGE = Unknown("the server's counts are too large to add up")
ENGINES_DIFFER = Unknown("engines report different rates, without counters to combine them")
_BOUND = "le"


class Window:
    """The last scrapes of one server."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._scrapes: list[tuple[float, Scrape]] = []
        self._began: dict[Labels, float] = {}
        """Creation times of the counters, the last known of each."""
        self._earlier: list[tuple[float, dict[Labels, float]]] = []
        """Those of servers that answered before, and until when."""
        self._several_until = -math.inf

    def figures(self, at: float, scrape: Scrape) -> ServingFigures:
        """Take in a scrape, and return the figures by now.

        Args:
            at: when it came, in seconds on a clock that only goes forward.
            scrape: its samples.
        """
        if self._is_another(at, scrape) or _was_reset(self._scrapes, scrape):
            self._scrapes.clear()
        self._scrapes.append((at, scrape))
        while at - self._scrapes[0][0] > self._seconds and len(self._scrapes) > 2:
            del self._scrapes[0]
        first_at, first = self._scrapes[0]
        if at <= self._several_until:
            return _figures(scrape, SEVERAL, 0.0)
        return _figures(scrape, first if at > first_at else ONE_SCRAPE, at - first_at)

    def _is_another(self, at: float, scrape: Scrape) -> bool:
        """Return whether another server answers than before, or it began anew."""
        began = scrape.samples.get(scrape.server.began, {})
        is_another = bool(self._scrapes) and self._scrapes[-1][1].server is not scrape.server
        is_another = is_another or not _agree(began, self._began)
        if is_another:
            self._earlier.append((at, self._began))
            self._earlier = [one for one in self._earlier if at - one[0] <= self._seconds]
            if any(
                _agree(began, before) and began.items() & before.items()
                for _, before in self._earlier
            ):
                self._several_until = at + self._seconds
            self._began = {}
        self._began.update(began)
        return is_another


def _agree(began: dict[Labels, float], before: dict[Labels, float]) -> bool:
    """Return whether no creation time that is in both differs."""
    return all(before.get(labels, value) == value for labels, value in began.items())


def _was_reset(scrapes: list[tuple[float, Scrape]], now: Scrape) -> bool:
    """Return whether a counter is smaller than at the last scrape, or gone."""
    if not scrapes:
        return False
    _, before = scrapes[-1]
    for name in _counters(now.server):
        newer = now.samples.get(name, {})
        for labels, value in before.samples.get(name, {}).items():
            if newer.get(labels, -1.0) < value:
                return True
    return False


def _counters(server: Server) -> Iterable[str]:
    for series in (*server.prompt_tokens, *server.generated_tokens, *server.preemptions):
        yield series.name
    for pair in server.prefix_hits:
        yield from (series.name for series in pair)
    yield from (f"{name}{BUCKETS}" for name in (*server.first_token, *server.between_tokens))


def _figures(now: Scrape, first: Scrape | Unknown, seconds: float) -> ServingFigures:
    server = now.server
    running = _gauge(now, server.running, sum, "requests running")
    prompt, generated = _present(now, server.prompt_tokens), _present(now, server.generated_tokens)
    rate, is_own = _prefix_hits(now, first, seconds)
    lost = _present(now, server.preemptions)
    return ServingFigures(
        server=server.name,
        models=now.models,
        seconds=0.0 if isinstance(first, Unknown) else seconds,
        running=running,
        waiting=_gauge(now, server.waiting, sum, "requests waiting"),
        prompt_per_second=_rate(now, first, prompt, seconds, running),
        generated_per_second=_rate(now, first, generated, seconds, running),
        generated_at_end=generated is not None and generated.name in server.counted_at_end,
        first_token=_times(now, first, server.first_token, seconds, "time to first token"),
        between_tokens=_times(now, first, server.between_tokens, seconds, "time between tokens"),
        cache_usage=_share(_gauge(now, server.cache_usage, max, "KV cache usage")),
        prefix_hits=rate,
        prefix_hits_from_counters=not is_own,
        preemptions=_lost(now, first, lost),
        all_preemptions=_not_exported(now, "preemptions")
        if lost is None
        else _counted(_total(now, lost)),
    )


def _not_exported(scrape: Scrape, what: str) -> Unknown:
    return Unknown(f"{scrape.server.name} exports no {what}")


def _present(scrape: Scrape, names: Names) -> Series | None:
    """Return the first name of which there is a sample, None where there is none."""
    return next((one for one in names if _of(scrape, one)), None)


def _of(scrape: Scrape, series: Series) -> dict[Labels, float]:
    """Return the samples of a name, one of those that are of the same requests."""
    found: dict[Labels, float] = {}
    for labels, value in scrape.samples.get(series.name, {}).items():
        named = dict(labels)
        if series.values and named.get(series.label) not in series.values:
            continue
        key = tuple(one for one in labels if one[0] not in SAME_REQUESTS)
        found[key] = max(found.get(key, 0.0), value)
    return found


def _total(scrape: Scrape, series: Series) -> float:
    return sum(_of(scrape, series).values())


def _counted(total: float) -> Figure:
    return total if total <= MOST_COUNT else TOO_LARGE


def _gauge(
    scrape: Scrape, names: Names, joined: Callable[[Iterable[float]], float], what: str
) -> Figure:
    series = _present(scrape, names)
    if series is None:
        return _not_exported(scrape, what)
    found = _of(scrape, series)
    whole = [value for labels, value in found.items() if dict(labels).get(PRIORITY) == ""]
    return _counted(float(joined(whole or found.values())))


def _share(figure: Figure) -> Figure:
    if isinstance(figure, Unknown) or figure <= 1.0:
        return figure
    return Unknown("the server reports a value above 1")


def _grown(now: Scrape, first: Scrape, series: Series) -> float:
    return _total(now, series) - _total(first, series)


def _rate(
    now: Scrape, first: Scrape | Unknown, series: Series | None, seconds: float, running: Figure
) -> Figure:
    if series is None:
        return _not_exported(now, "token counter")
    if isinstance(first, Unknown):
        return first
    grown = _grown(now, first, series)
    is_at_end = series.name in now.server.counted_at_end
    if is_at_end and grown == 0 and not isinstance(running, Unknown) and running > 0:
        # Not 0: requests are under way, and are counted when they end.
        return Unknown(f"counted when a request ends; none ended in {seconds:.0f} s")
    return TOO_LARGE if grown > MOST_COUNT else grown / seconds


def _lost(now: Scrape, first: Scrape | Unknown, series: Series | None) -> Figure:
    if series is None:
        return _not_exported(now, "preemptions")
    return first if isinstance(first, Unknown) else _counted(_grown(now, first, series))


def _prefix_hits(now: Scrape, first: Scrape | Unknown, seconds: float) -> tuple[Figure, bool]:
    """Return the hit rate, and whether the server computed it."""
    for hits, queries in now.server.prefix_hits:
        if not _of(now, queries):
            continue
        if isinstance(first, Unknown):
            return first, False
        looked_up = _grown(now, first, queries)
        if looked_up <= 0:
            return Unknown(f"no prefix cache lookups in {seconds:.0f} s"), False
        return _share(_grown(now, first, hits) / looked_up), False
    lowest, highest = (
        _gauge(now, now.server.prefix_hit_rate, joined, "prefix cache hit rate")
        for joined in (min, max)
    )
    return (_share(highest) if lowest == highest else ENGINES_DIFFER), True


def _times(
    now: Scrape, first: Scrape | Unknown, names: tuple[str, ...], seconds: float, what: str
) -> ServingTimes:
    name = next((one for one in names if now.samples.get(f"{one}{BUCKETS}")), None)
    if name is None:
        return _no_times(_not_exported(now, what))
    is_mean = name in now.server.means_per_request
    if isinstance(first, Unknown):
        return _no_times(first, is_mean=is_mean)
    buckets = _buckets(now, first, Series(f"{name}{BUCKETS}"))
    count = buckets[-1][1] if buckets else 0.0
    if count <= 0:
        return _no_times(Unknown(f"no observations in {seconds:.0f} s"), is_mean=is_mean)
    if count > MOST_COUNT:
        return _no_times(TOO_LARGE, is_mean=is_mean)
    p50, p95 = _quantile(buckets, 0.5), _quantile(buckets, 0.95)
    mean = _mean(now, first, Series(f"{name}{SUM}"), count)
    return ServingTimes(p50, p95, round(count), is_mean, mean)


def _no_times(why: Unknown, *, is_mean: bool = False) -> ServingTimes:
    return ServingTimes(_absent(why), _absent(why), 0, is_mean, why)


def _mean(now: Scrape, first: Scrape, series: Series, count: float) -> Figure:
    """Return the mean over the window, from the sum and the count."""
    if not _of(now, series):
        return _not_exported(now, "sum of these times")
    grown = _grown(now, first, series)
    return _counted(grown / count) if grown >= 0 else Unknown("the sum of these times decreased")


def _absent(why: Unknown) -> BucketQuantile:
    return BucketQuantile(why, why, why)


def _buckets(now: Scrape, first: Scrape, series: Series) -> list[tuple[float, float]]:
    """Return upper bounds and how many came at or below each, over all series.

    Only bounds that all of them have: engines of one server may differ.
    """
    grown: dict[Labels, dict[float, float]] = {}
    before = _of(first, series)
    for labels, value in _of(now, series).items():
        bound = _bound_of(labels)
        if bound is not None:
            rest = tuple(one for one in labels if one[0] != _BOUND)
            grown.setdefault(rest, {})[bound] = value - before.get(labels, 0.0)
    if not grown:
        return []
    bounds = set.intersection(*(set(each) for each in grown.values()))
    if math.inf not in bounds:
        return []
    return [(bound, sum(each[bound] for each in grown.values())) for bound in sorted(bounds)]


def _bound_of(labels: Labels) -> float | None:
    try:
        bound = float(dict(labels).get(_BOUND, ""))
    except ValueError:
        return None
    return bound if 0 <= bound <= MOST_COUNT or bound == math.inf else None


def _quantile(buckets: list[tuple[float, float]], share: float) -> BucketQuantile:
    rank = share * buckets[-1][1]
    above, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank and count > below:
            if math.isinf(bound):
                break
            seconds = above + (bound - above) * (rank - below) / (count - below)
            return BucketQuantile(seconds, above, bound)
        above, below = bound, max(count, below)
    return _absent(Unknown(f"above {above:g} s, the last finite bucket bound"))

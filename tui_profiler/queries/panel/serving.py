"""Figures of an inference server in words; an estimate wears a ``~``."""

from collections.abc import Callable
from typing import NamedTuple

from tui_profiler.figures.units import count, duration, share, thousands, three_digits
from tui_profiler.messages import (
    BucketQuantile,
    Figure,
    ServingFigures,
    ServingSeen,
    ServingTimes,
    Unknown,
)

FROM_COUNTER = "from a counter"
FROM_SUM = "from its sum and count"
MEAN = "mean per request"
_AT_END = "counted when a request ends"
_OWN = "reported by the server"
_LEAST_LARGE = 999.5


class ServingRow(NamedTuple):
    """One figure, how it is written, and what it is of."""

    label: str
    figure: Figure
    written: Callable[[float], str]
    aside: str = ""
    """Where it is from, if not a gauge of the server."""

    def with_aside(self, value: float) -> str:
        """Return the figure as it is written, and where it is from."""
        return f"{self.written(value)}  {self.aside}"


def figures_of(seen: ServingSeen) -> ServingFigures | Unknown:
    """Return the figures, or why the last scrape failed."""
    return Unknown(seen.why_none) if seen.figures is None else seen.figures


def serving_rows(found: ServingFigures) -> tuple[ServingRow, ...]:
    """Return all figures, in the order in which they are shown."""
    return (
        ServingRow("requests running", found.running, whole),
        ServingRow("requests waiting", found.waiting, whole),
        *throughput_rows(found),
        *_times("first token", found.first_token),
        *_times("between tokens", found.between_tokens),
        *cache_rows(found),
    )


def throughput_rows(found: ServingFigures) -> tuple[ServingRow, ...]:
    """Return tokens per second."""
    return (
        ServingRow("prompt throughput", found.prompt_per_second, tokens_text, FROM_COUNTER),
        ServingRow(
            "generation throughput",
            found.generated_per_second,
            tokens_text,
            generated_from(found),
        ),
    )


def cache_rows(found: ServingFigures) -> tuple[ServingRow, ...]:
    """Return the use of the KV cache, prefix cache hits and preemptions."""
    return (
        ServingRow("KV cache in use", found.cache_usage, share),
        ServingRow("prefix cache hits", found.prefix_hits, share, hits_from(found)),
        ServingRow("preemptions", found.all_preemptions, since_start, lately(found)),
    )


def window_text(found: ServingFigures) -> str:
    """Return what rates and times are of."""
    return f"last {found.seconds:.0f} s" if found.seconds else "one scrape"


def tokens_text(per_second: float) -> str:
    """Return tokens per second."""
    number = three_digits(per_second) if per_second < _LEAST_LARGE else count(per_second)
    return f"{number} tokens/s"


def whole(value: float) -> str:
    """Return a number of requests."""
    return thousands(round(value))


def estimate(quantile: BucketQuantile) -> Callable[[float], str]:
    """Return a formatter for a quantile: in the first bucket only the upper bound is known."""
    up_to = quantile.up_to
    if is_in_first_bucket(quantile) and not isinstance(up_to, Unknown):
        return lambda _: f"≤{duration(up_to)}"
    return lambda seconds: f"~{duration(seconds)}"


def is_in_first_bucket(quantile: BucketQuantile) -> bool:
    """Return whether no lower bound of a quantile is known but 0."""
    return quantile.above == 0


def requests_text(found: ServingFigures, dash: str) -> str:
    """Return how many requests run and wait."""
    running, waiting = (
        dash if isinstance(one, Unknown) else whole(one) for one in (found.running, found.waiting)
    )
    return f"{running} running, {waiting} waiting"


def generated_from(found: ServingFigures) -> str:
    """Return when generated tokens are counted."""
    return _AT_END if found.generated_at_end else FROM_COUNTER


def hits_from(found: ServingFigures) -> str:
    """Return where the hit rate is from."""
    return FROM_COUNTER if found.prefix_hits_from_counters else _OWN


def since_start(preemptions: float) -> str:
    """Return preemptions since the server started."""
    return f"{whole(preemptions)} since the server started"


def lately(found: ServingFigures) -> str:
    """Return preemptions in the window; empty where they are not known."""
    if isinstance(found.preemptions, Unknown):
        return ""
    return f"{whole(found.preemptions)} in the {window_text(found)}"


def bucket_text(quantile: BucketQuantile) -> str:
    """Return the bucket that a quantile is in; empty where it is not known."""
    if isinstance(quantile.above, Unknown) or isinstance(quantile.up_to, Unknown):
        return ""
    if is_in_first_bucket(quantile):
        return "the first bucket"
    return f"bucket {duration(quantile.above)} to {duration(quantile.up_to)}"


def _times(label: str, times: ServingTimes) -> tuple[ServingRow, ...]:
    if not times.count:
        return (ServingRow(label, times.p50.seconds, duration),)
    mean = MEAN if times.is_mean_per_request else ""
    return (
        *(
            ServingRow(f"{label}, {name}", one.seconds, estimate(one), bucket_text(one))
            for name, one in (("p50", times.p50), ("p95", times.p95))
        ),
        ServingRow(f"{label}, mean", times.mean, duration, FROM_SUM),
        ServingRow(f"{label}, count", float(times.count), whole, mean),
    )

"""Figures of an inference server in words; an estimate wears a ``~``."""

from collections.abc import Callable
from typing import NamedTuple

from tui_profiler.figures.units import duration, per_second, share, thousands
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
    counted = "counted when a request ends" if found.generated_at_end else FROM_COUNTER
    return (
        ServingRow("prompt throughput", found.prompt_per_second, tokens_text, FROM_COUNTER),
        ServingRow("generation throughput", found.generated_per_second, tokens_text, counted),
    )


def cache_rows(found: ServingFigures) -> tuple[ServingRow, ...]:
    """Return the use of the KV cache, prefix cache hits and preemptions."""
    hits = FROM_COUNTER if found.prefix_hits_from_counters else "reported by the server"
    lately = ""
    if not isinstance(found.preemptions, Unknown):
        lately = f"{whole(found.preemptions)} in the {window_text(found)}"
    return (
        ServingRow("KV cache in use", found.cache_usage, share),
        ServingRow("prefix cache hits", found.prefix_hits, share, hits),
        ServingRow(
            "preemptions",
            found.all_preemptions,
            lambda value: f"{whole(value)} since the server started",
            lately,
        ),
    )


def window_text(found: ServingFigures) -> str:
    """Return what rates and times are of."""
    return f"last {found.seconds:.0f} s" if found.seconds else "one scrape"


def tokens_text(value: float) -> str:
    """Return tokens per second."""
    return f"{per_second(value)} tokens/s"


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

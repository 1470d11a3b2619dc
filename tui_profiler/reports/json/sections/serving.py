"""The inference server beside the program, in the JSON report."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from tui_profiler.messages import BucketQuantile, ServerName, ServingFigures, ServingTimes, Unknown
from tui_profiler.queries.panel.serving import figures_of, is_in_first_bucket
from tui_profiler.reports.json_values import Count, Known, Part, Share, Size, fill
from tui_profiler.session import Session

FIRST_BUCKET = Unknown("in the first bucket: only its upper bound is known")
NO_NAME = "no model label in the server's metrics"
Bucket = Annotated[list[Size], Meta(min_length=2, max_length=2)]


class Serving(Part, frozen=True, kw_only=True):
    """An inference server, as its own /metrics describe it (--serving), all its engines together.

    Percentiles are estimated: interpolated within a bucket of the server's histogram. In its first
    bucket they are null: only that bucket's upper bound is known.
    """

    address: str
    server: ServerName
    models: Known[list[str]]
    """Models that it serves, at most eight."""
    seconds: Size = field(name="window_s")
    """Seconds between the two scrapes that rates, percentiles, hits and preemptions are computed
    from; 0 after one scrape, and while several servers answer in turn."""
    running: Known[Size]
    """Requests in the batch, at the last scrape."""
    waiting: Known[Size]
    """Requests in the queue, at the last scrape."""
    prompt_per_second: Known[Size] = field(name="prompt_tokens_per_s")
    """Derived from a counter."""
    generated_per_second: Known[Size] = field(name="generated_tokens_per_s")
    """Derived from a counter."""
    generated_tokens_counted: Literal["when generated", "when a request ends"]
    first_token_p50: Known[Size] = field(name="first_token_p50_s")
    """From the arrival of a request to its first token, waiting included; estimated."""
    first_token_p50_bucket: Known[Bucket] = field(name="first_token_p50_bucket_s")
    """Bounds of the bucket that it is in."""
    first_token_p95: Known[Size] = field(name="first_token_p95_s")
    first_token_p95_bucket: Known[Bucket] = field(name="first_token_p95_bucket_s")
    first_token_mean: Known[Size] = field(name="first_token_mean_s")
    """From the sum and the count of the histogram; not estimated."""
    first_token_count: Count
    between_tokens_p50: Known[Size] = field(name="between_tokens_p50_s")
    """Estimated."""
    between_tokens_p50_bucket: Known[Bucket] = field(name="between_tokens_p50_bucket_s")
    between_tokens_p95: Known[Size] = field(name="between_tokens_p95_s")
    between_tokens_p95_bucket: Known[Bucket] = field(name="between_tokens_p95_bucket_s")
    between_tokens_mean: Known[Size] = field(name="between_tokens_mean_s")
    between_tokens_count: Count
    between_tokens_of: Literal["tokens", "mean per request"]
    cache_usage: Known[Share] = field(name="kv_cache_usage")
    """Share in use; with several engines, the highest."""
    prefix_hits: Known[Share] = field(name="prefix_cache_hit_rate")
    """Share of the tokens of prompts that were in the cache."""
    prefix_cache_hit_rate_from: Literal["counters", "the server"]
    """`the server`: computed by the server, not over the window."""
    preemptions: Known[Size]
    """Requests taken out of the batch because the KV cache was full; in the window."""
    all_preemptions: Known[Size] = field(name="preemptions_since_start")


def serving_section(session: Session) -> Serving | Unknown | UnsetType:
    """Return the server, why it could not be read, or that none was asked for."""
    seen = session.serving
    if seen is None:
        return UNSET
    found = figures_of(seen)
    return found if isinstance(found, Unknown) else _serving(seen.address, found)


def _serving(address: str, found: ServingFigures) -> Serving:
    return fill(
        Serving,
        found,
        address=address,
        models=list(found.models) or Unknown(NO_NAME),
        generated_tokens_counted="when a request ends"
        if found.generated_at_end
        else "when generated",
        **_times("first_token", found.first_token),
        **_times("between_tokens", found.between_tokens),
        between_tokens_of="mean per request"
        if found.between_tokens.is_mean_per_request
        else "tokens",
        prefix_cache_hit_rate_from="counters" if found.prefix_hits_from_counters else "the server",
    )


def _times(name: str, times: ServingTimes) -> dict[str, object]:
    """Return the fields of one time of the requests."""
    return {
        f"{name}_p50": _estimated(times.p50),
        f"{name}_p50_bucket": _bucket(times.p50),
        f"{name}_p95": _estimated(times.p95),
        f"{name}_p95_bucket": _bucket(times.p95),
        f"{name}_mean": times.mean,
        f"{name}_count": times.count,
    }


def _estimated(quantile: BucketQuantile) -> Known[Size]:
    """Return the interpolated quantile, unless it is in the first bucket."""
    return FIRST_BUCKET if is_in_first_bucket(quantile) else quantile.seconds


def _bucket(quantile: BucketQuantile) -> list[Size] | Unknown:
    if isinstance(quantile.above, Unknown):
        return quantile.above
    if isinstance(quantile.up_to, Unknown):
        return quantile.up_to
    return [quantile.above, quantile.up_to]

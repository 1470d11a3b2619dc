"""The inference server beside the program, in the JSON report."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from tui_profiler.messages import BucketQuantile, ServerName, ServingFigures, Unknown
from tui_profiler.queries.panel.serving import figures_of, is_in_first_bucket
from tui_profiler.reports.json_values import Count, Known, Part, Share, Size
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
    window: Size = field(name="window_s")
    """Seconds between the two scrapes that rates, percentiles, hits and preemptions are computed
    from; 0 after one scrape, and while several servers answer in turn."""
    running: Known[Size]
    """Requests in the batch, at the last scrape."""
    waiting: Known[Size]
    """Requests in the queue, at the last scrape."""
    prompt_tokens_per_s: Known[Size]
    """Derived from a counter."""
    generated_tokens_per_s: Known[Size]
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
    kv_cache_usage: Known[Share]
    """Share in use; with several engines, the highest."""
    prefix_cache_hit_rate: Known[Share]
    """Share of the tokens of prompts that were in the cache."""
    prefix_cache_hit_rate_from: Literal["counters", "the server"]
    """`the server`: computed by the server, not over the window."""
    preemptions: Known[Size]
    """Requests taken out of the batch because the KV cache was full; in the window."""
    preemptions_since_start: Known[Size]


def serving_section(session: Session) -> Serving | Unknown | UnsetType:
    """Return the server, why it could not be read, or that none was asked for."""
    seen = session.serving
    if seen is None:
        return UNSET
    found = figures_of(seen)
    return found if isinstance(found, Unknown) else _serving(seen.address, found)


def _serving(address: str, found: ServingFigures) -> Serving:
    first, between = found.first_token, found.between_tokens
    return Serving(
        address=address,
        server=found.server,
        models=list(found.models) or Unknown(NO_NAME),
        window=found.seconds,
        running=found.running,
        waiting=found.waiting,
        prompt_tokens_per_s=found.prompt_per_second,
        generated_tokens_per_s=found.generated_per_second,
        generated_tokens_counted="when a request ends"
        if found.generated_at_end
        else "when generated",
        first_token_p50=_estimated(first.p50),
        first_token_p50_bucket=_bucket(first.p50),
        first_token_p95=_estimated(first.p95),
        first_token_p95_bucket=_bucket(first.p95),
        first_token_mean=first.mean,
        first_token_count=first.count,
        between_tokens_p50=_estimated(between.p50),
        between_tokens_p50_bucket=_bucket(between.p50),
        between_tokens_p95=_estimated(between.p95),
        between_tokens_p95_bucket=_bucket(between.p95),
        between_tokens_mean=between.mean,
        between_tokens_count=between.count,
        between_tokens_of="mean per request" if between.is_mean_per_request else "tokens",
        kv_cache_usage=found.cache_usage,
        prefix_cache_hit_rate=found.prefix_hits,
        prefix_cache_hit_rate_from="counters" if found.prefix_hits_from_counters else "the server",
        preemptions=found.preemptions,
        preemptions_since_start=found.all_preemptions,
    )


def _estimated(quantile: BucketQuantile) -> Known[Size]:
    """Return the interpolated quantile, unless it is in the first bucket."""
    return FIRST_BUCKET if is_in_first_bucket(quantile) else quantile.seconds


def _bucket(quantile: BucketQuantile) -> list[Size] | Unknown:
    if isinstance(quantile.above, Unknown):
        return quantile.above
    if isinstance(quantile.up_to, Unknown):
        return quantile.up_to
    return [quantile.above, quantile.up_to]

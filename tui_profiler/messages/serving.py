"""An inference server beside the program, as its own ``/metrics`` describe it."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, OnWire, Part, Unknown

ServerName: TypeAlias = Literal["vLLM", "SGLang", "TGI"]


class BucketQuantile(Part, frozen=True):
    """A quantile of a histogram, of which only counts per bucket are known."""

    seconds: Figure
    """Interpolated within its bucket, as if its values were spread evenly there."""
    above: Figure
    """Lower bound of that bucket; the quantile is above it."""
    up_to: Figure
    """Upper bound of the bucket."""


class ServingTimes(Part, frozen=True):
    """One time of the requests, as counted in the window."""

    p50: BucketQuantile
    p95: BucketQuantile
    count: int
    """Of the times in the window."""
    is_mean_per_request: bool = False
    """Whether each is the mean of one request, instead of one time between two tokens."""
    mean: Figure = Unknown("not in this recording")
    """Seconds; from the histogram's sum and count, so it does not depend on the buckets."""


class ServingFigures(Part, frozen=True):
    """What one server exports, all its engines together."""

    server: ServerName
    models: tuple[str, ...]
    """Names of the models that it serves, the first few; from the server."""
    seconds: float
    """Between the two scrapes that rates and quantiles are computed from; 0 before the second."""
    running: Figure
    """Requests in the batch, at the last scrape."""
    waiting: Figure
    """Requests in the queue, at the last scrape."""
    prompt_per_second: Figure
    """Tokens of prompts, from a counter over the window."""
    generated_per_second: Figure
    """Generated tokens, from a counter over the window."""
    generated_at_end: bool
    """Whether the generated tokens of a request are counted when it ends, not when they come."""
    first_token: ServingTimes
    """From the arrival of a request to its first token, waiting included."""
    between_tokens: ServingTimes
    cache_usage: Figure
    """Share of the KV cache in use, 0 to 1; of several engines, of the fullest."""
    prefix_hits: Figure
    """Share of the tokens of prompts that were found in the prefix cache, 0 to 1."""
    prefix_hits_from_counters: bool
    """Whether that is of the window; if not, it is a figure of the server's own."""
    preemptions: Figure
    """Requests that were taken out of the batch because the KV cache was full, in the window."""
    all_preemptions: Figure
    """Since the server started."""


class ServingSeen(OnWire, frozen=True):
    """One scrape of a server's ``/metrics``; made by the source, not by the probe."""

    address: str
    """That was scraped."""
    figures: ServingFigures | None
    """None where it could not be read."""
    why_none: str
    """Empty where it was."""

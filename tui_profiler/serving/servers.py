"""What each server calls its figures.

Names are those of vLLM 0.6 to 0.32 (``vllm/engine/metrics.py``, ``vllm/v1/metrics/loggers.py``),
SGLang 0.4.2 to 0.5.23 (``sglang/srt/metrics/collector.py``, Production Metrics in its docs) and
TGI 1 to 3 (``docs/source/reference/metrics.md``, ``router/src/server.rs``). Of several names for
one figure the first one counts that is there.
"""

from typing import NamedTuple, TypeAlias

from tui_profiler.messages.serving import ServerName


class Series(NamedTuple):
    """Samples of one name."""

    name: str
    label: str = ""
    """Only samples with one of these values of this label; empty: all."""
    values: tuple[str, ...] = ()


Names: TypeAlias = tuple[Series, ...]
BUCKETS, SUM = "_bucket", "_sum"
"""Suffixes of the samples of a histogram."""


class Server(NamedTuple):
    """The names of one server's figures; empty where it exports none."""

    name: ServerName
    prefix: str
    """Of all its names."""
    running: Names
    waiting: Names
    prompt_tokens: Names
    generated_tokens: Names
    counted_at_end: tuple[str, ...]
    """Of the names above those that grow when a request ends, not when tokens are processed."""
    first_token: tuple[str, ...]
    """Histograms, without their suffixes."""
    between_tokens: tuple[str, ...]
    means_per_request: tuple[str, ...]
    """Of these histograms those of a request's mean: of TGI with its prefill, of SGLang so far."""
    cache_usage: Names
    prefix_hits: tuple[tuple[Series, Series], ...]
    """Counters of tokens: those that were found, and those that were looked up."""
    prefix_hit_rate: Names
    """Computed by the server."""
    preemptions: Names
    began: str = ""
    """Creation time of a counter, s since 1970. If it changes, the server was restarted, even if
    its counters exceed the old values."""


VLLM = Server(
    "vLLM",
    "vllm:",
    running=(Series("vllm:num_requests_running"),),
    waiting=(Series("vllm:num_requests_waiting"),),
    prompt_tokens=(Series("vllm:prompt_tokens_total"),),
    generated_tokens=(Series("vllm:generation_tokens_total"),),
    counted_at_end=(),
    first_token=("vllm:time_to_first_token_seconds",),
    # Renamed in 0.11; both are times of one step of a request.
    between_tokens=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    means_per_request=(),
    cache_usage=(Series("vllm:kv_cache_usage_perc"), Series("vllm:gpu_cache_usage_perc")),
    prefix_hits=(
        (Series("vllm:prefix_cache_hits_total"), Series("vllm:prefix_cache_queries_total")),
        (Series("vllm:gpu_prefix_cache_hits_total"), Series("vllm:gpu_prefix_cache_queries_total")),
    ),
    prefix_hit_rate=(Series("vllm:gpu_prefix_cache_hit_rate"),),
    preemptions=(Series("vllm:num_preemptions_total"),),
    # Not exported with several API servers (``--api-server-count``): their files have no times.
    began="vllm:generation_tokens_created",
)
SGLANG = Server(
    "SGLang",
    "sglang:",
    running=(Series("sglang:num_running_reqs"),),
    waiting=(Series("sglang:num_queue_reqs"),),
    prompt_tokens=(
        Series("sglang:realtime_tokens_total", "mode", ("prefill_compute", "prefill_cache")),
        Series("sglang:prompt_tokens_total"),
    ),
    generated_tokens=(
        Series("sglang:realtime_tokens_total", "mode", ("decode",)),
        Series("sglang:generation_tokens_total"),
    ),
    counted_at_end=("sglang:prompt_tokens_total", "sglang:generation_tokens_total"),
    first_token=("sglang:time_to_first_token_seconds",),
    between_tokens=("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    means_per_request=("sglang:time_per_output_token_seconds",),
    cache_usage=(Series("sglang:token_usage"),),
    prefix_hits=(),
    prefix_hit_rate=(Series("sglang:cache_hit_rate"),),
    preemptions=(Series("sglang:num_retracted_requests_total"),),
)
TGI = Server(
    "TGI",
    "tgi_",
    running=(Series("tgi_batch_current_size"),),
    waiting=(Series("tgi_queue_size"),),
    prompt_tokens=(Series("tgi_request_input_length_sum"),),
    generated_tokens=(Series("tgi_request_generated_tokens_sum"),),
    counted_at_end=("tgi_request_generated_tokens_sum",),
    first_token=(),
    between_tokens=("tgi_request_mean_time_per_token_duration",),
    means_per_request=("tgi_request_mean_time_per_token_duration",),
    cache_usage=(),
    prefix_hits=(),
    prefix_hit_rate=(),
    preemptions=(),
)
SERVERS = (VLLM, SGLANG, TGI)
SAME_REQUESTS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels of processes that work on the same requests: each of them counts all (SGLang, with
``--enable-metrics-for-all-schedulers``)."""
PRIORITY = "priority"
"""SGLang with ``--enable-priority-scheduling``: a gauge without one is the sum of the others."""

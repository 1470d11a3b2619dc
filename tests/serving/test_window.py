"""Figures of each server, from recorded answers; expectations by Prometheus's client and numpy."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

import pytest

from tests.serving.answers import FOLDER, RELEASES, SECONDS, answer, buckets, grown, mean, quantile
from tui_profiler.connection.wire import encode
from tui_profiler.messages import (
    BucketQuantile,
    Figure,
    ServingFigures,
    ServingSeen,
    ServingTimes,
    Unknown,
)
from tui_profiler.queries.panel.serving import requests_text
from tui_profiler.serving.scrape import scrape
from tui_profiler.serving.window import ONE_SCRAPE, SEVERAL, Window


def figures(*texts: str, seconds: float = SECONDS) -> ServingFigures:
    """Return the figures after these answers, so many seconds apart."""
    window = Window()
    for number, text in enumerate(texts):
        found = window.figures(100.0 + number * seconds, scrape(text))
    return found


def of(release: str) -> ServingFigures:
    return figures(answer(release, 1), answer(release, 2))


def reason(figure: Figure) -> str:
    assert isinstance(figure, Unknown)
    return figure.reason


def known(figure: Figure) -> float:
    assert not isinstance(figure, Unknown), figure.reason
    return figure


def check_times(found: ServingTimes, release: str, name: str) -> None:
    lately, since_start = buckets(release, name)
    for share, one in ((0.5, found.p50), (0.95, found.p95)):
        assert known(one.seconds) == pytest.approx(quantile(lately, share), rel=1e-9)
        assert known(one.above) < known(one.seconds) <= known(one.up_to)
    assert found.count == grown(release, f"{name}_count")
    assert known(found.mean) == pytest.approx(mean(release, name), rel=1e-9)
    # Quantiles are of the window, not since the start.
    assert known(found.p50.seconds) != pytest.approx(quantile(since_start, 0.5), rel=0.01)


@pytest.mark.parametrize(
    ("release", "between"),
    [
        ("vllm-0.32", "vllm:inter_token_latency_seconds"),
        ("vllm-0.6", "vllm:time_per_output_token_seconds"),
    ],
)
def test_vllm_by_the_names_of_both_engines(release: str, between: str) -> None:
    found, new = of(release), release == "vllm-0.32"
    model = "tiny" if new else "meta-llama/Llama-3.1-8B-Instruct"
    assert (found.server, found.models) == ("vLLM", (model,))
    assert (found.seconds, found.running, found.waiting) == (SECONDS, 8.0 if new else 12.0, 4.0)
    assert found.prompt_per_second == grown(release, "vllm:prompt_tokens_total") / SECONDS
    assert found.generated_per_second == grown(release, "vllm:generation_tokens_total") / SECONDS
    assert not found.generated_at_end
    check_times(found.first_token, release, "vllm:time_to_first_token_seconds")
    check_times(found.between_tokens, release, between)
    assert not found.between_tokens.is_mean_per_request
    assert found.cache_usage == (pytest.approx(82 / 99) if new else 0.375)
    assert (found.preemptions, found.all_preemptions) == ((6.0, 9.0) if new else (2.0, 7.0))
    hits = grown(release, "vllm:prefix_cache_hits_total") if new else 0.5
    queries = grown(release, "vllm:prefix_cache_queries_total") if new else 1.0
    assert known(found.prefix_hits) == pytest.approx(hits / queries)
    assert found.prefix_hits_from_counters is new


def test_figures_of_a_real_vllm_are_those_that_its_clients_measured() -> None:
    """Clients' times include the HTTP server, and their window ends at a different moment."""
    clients = json.loads((FOLDER / "vllm-0.32-clients.json").read_text(encoding="utf-8"))
    release, seconds = "vllm-0.32", clients["window_s"]
    found = figures(answer(release, 1), answer(release, 2), seconds=seconds)

    def measured(name: str) -> float:
        return pytest.approx(clients[name], rel=0.02)

    assert known(found.generated_per_second) == measured("generated_tokens_per_s")
    assert known(found.prompt_per_second) == measured("prompt_tokens_per_s")
    assert known(found.running) + known(found.waiting) == measured("running + waiting")
    assert known(found.prefix_hits) == measured("prefix_cache_hit_rate")
    for name, times in (
        ("first_token", found.first_token),
        ("between_tokens", found.between_tokens),
    ):
        assert times.count == measured(f"{name}_count")
        assert known(times.mean) == measured(f"{name}_mean_s")
        for share, one in (("p50", times.p50), ("p95", times.p95)):
            assert known(one.above) < clients[f"{name}_{share}_s"] <= known(one.up_to)


def test_sglang_counts_tokens_as_they_are_processed() -> None:
    release, counter = "sglang-0.5.8", "sglang:realtime_tokens_total"
    found = of(release)
    assert (found.server, found.models) == ("SGLang", ("Qwen/Qwen3-32B",))
    assert (found.running, found.waiting, found.cache_usage) == (31.0, 2.0, 0.64)
    prompt = grown(release, counter, mode="prefill_compute")
    prompt += grown(release, counter, mode="prefill_cache")
    assert found.prompt_per_second == prompt / SECONDS
    assert found.generated_per_second == grown(release, counter, mode="decode") / SECONDS
    assert not found.generated_at_end
    check_times(found.first_token, release, "sglang:time_to_first_token_seconds")
    check_times(found.between_tokens, release, "sglang:inter_token_latency_seconds")
    assert (found.prefix_hits, found.prefix_hits_from_counters) == (0.45, False)
    assert (found.preemptions, found.all_preemptions) == (1.0, 8.0)


def test_tgi_has_no_figures_of_the_cache_and_means_of_requests() -> None:
    release = "tgi-3"
    found = of(release)
    assert (found.server, found.models) == ("TGI", ())
    assert (found.running, found.waiting) == (8.0, 3.0)
    assert known(found.prompt_per_second) == pytest.approx(
        grown(release, "tgi_request_input_length_sum") / SECONDS
    )
    assert known(found.generated_per_second) == pytest.approx(
        grown(release, "tgi_request_generated_tokens_sum") / SECONDS
    )
    assert found.generated_at_end
    check_times(found.between_tokens, release, "tgi_request_mean_time_per_token_duration")
    assert found.between_tokens.is_mean_per_request
    absent = {
        reason(found.first_token.p50.seconds),
        reason(found.cache_usage),
        reason(found.prefix_hits),
        reason(found.all_preemptions),
    }
    assert absent == {
        "TGI exports no time to first token",
        "TGI exports no KV cache usage",
        "TGI exports no prefix cache hit rate",
        "TGI exports no preemptions",
    }


@pytest.mark.parametrize("release", RELEASES)
def test_one_reading_has_gauges_and_no_rates(release: str) -> None:
    found = figures(answer(release, 2))
    assert found.seconds == 0.0
    assert known(found.running) > 0
    assert found.prompt_per_second == found.generated_per_second == ONE_SCRAPE
    assert found.between_tokens.p95.seconds == ONE_SCRAPE
    assert found.between_tokens.count == 0


@pytest.mark.parametrize("release", RELEASES)
def test_a_server_that_started_again_is_measured_anew(release: str) -> None:
    """The counters are smaller than before: neither negative nor huge."""
    first, second = answer(release, 1), answer(release, 2)
    window = Window()
    window.figures(0.0, scrape(second))
    again = window.figures(10.0, scrape(first))
    assert (again.seconds, again.generated_per_second) == (0.0, ONE_SCRAPE)
    later = window.figures(14.0, scrape(second))
    assert later.seconds == 4.0
    assert later.generated_per_second == pytest.approx(
        known(of(release).generated_per_second) * SECONDS / 4.0
    )


def test_a_server_that_started_again_and_has_done_more_is_measured_anew() -> None:
    """It restarted between two scrapes; a real vLLM exports when its counters were created."""
    second = answer("vllm-0.32", 2)
    began = re.compile(r"(_created\{.*\}) .*")
    assert began.search(second)
    found = figures(answer("vllm-0.32", 1), began.sub(r"\1 1.9e9", second))
    assert (found.seconds, found.generated_per_second) == (0.0, ONE_SCRAPE)


def began(when: str, tokens: int) -> str:
    """Return an answer with a counter that was created then; empty: it does not say when."""
    name = "vllm:generation_tokens"
    return f"{RUNS}{name}_total {tokens}\n" + (when and f"{name}_created {when}\n")


def test_a_restart_is_seen_if_an_answer_without_creation_time_came_between() -> None:
    found = figures(began("1.7e9", 10), began("", 20), began("1.8e9", 90))
    assert (found.seconds, found.generated_per_second) == (0.0, ONE_SCRAPE)
    same = figures(began("1.7e9", 10), began("", 20), began("1.7e9", 90))
    assert same.generated_per_second == 4.0


def test_several_servers_that_answer_in_turn_are_not_one_that_restarts() -> None:
    window = Window(seconds=60.0)
    told = [
        window.figures(at, scrape(began("1.8e9" if at % 4 else "1.7e9", 100 + int(at))))
        for at in (0.0, 2.0, 4.0, 6.0)
    ]
    rates = [one.generated_per_second for one in told]
    assert rates == [ONE_SCRAPE, ONE_SCRAPE, SEVERAL, SEVERAL]
    assert (told[-1].preemptions, told[-1].seconds, told[-1].running) == (
        Unknown("vLLM exports no preemptions"),
        0.0,
        1.0,
    )
    for at in range(8, 70, 2):
        alone = window.figures(float(at), scrape(began("1.8e9", 100 + at)))
        assert alone.generated_per_second == (SEVERAL if at <= 66 else 1.0)


def test_an_engine_that_starts_again_beside_another_is_not_another_server() -> None:
    def two(first: str) -> str:
        name = "vllm:generation_tokens_created"
        return f'{began("", 10)}{name}{{engine="0"}} {first}\n{name}{{engine="1"}} 1.7e9\n'

    assert figures(two("1.7e9"), two("1.8e9")).generated_per_second == ONE_SCRAPE


def test_another_server_at_the_same_address_is_measured_anew() -> None:
    found = figures(answer("vllm-0.32", 1), answer("sglang-0.5.8", 2))
    assert (found.server, found.seconds) == ("SGLang", 0.0)


def test_the_window_forgets_what_is_older() -> None:
    window = Window(seconds=60.0)
    first, second = scrape(answer("vllm-0.32", 1)), scrape(answer("vllm-0.32", 2))
    window.figures(0.0, first)
    for at in range(2, 60, 2):
        window.figures(float(at), second)
    assert window.figures(60.0, second).seconds == 60.0
    last = window.figures(62.0, second)
    assert (last.seconds, last.generated_per_second) == (60.0, 0.0)
    assert reason(last.first_token.p50.seconds) == "no observations in 60 s"
    assert reason(last.prefix_hits) == "no prefix cache lookups in 60 s"


HEAD = 'sglang:num_running_reqs{model_name="m"} 3\n'


def test_tokens_that_are_counted_at_the_end_are_not_zero_meanwhile() -> None:
    """An SGLang without counters of its scheduler counts when a request ends."""
    counted = HEAD + 'sglang:generation_tokens_total{model_name="m"} 500\n'
    found = figures(counted, counted)
    assert found.generated_at_end
    assert reason(found.generated_per_second) == "counted when a request ends; none ended in 10 s"
    idle = counted.replace("} 3", "} 0")
    assert figures(idle, idle).generated_per_second == 0.0
    assert reason(found.prompt_per_second) == "SGLang exports no token counter"


def test_ranks_of_one_engine_count_the_same_requests_and_engines_their_own() -> None:
    text = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",model_name="m",tp_rank="{tp}"}} {5 + dp}\n'
        f'sglang:token_usage{{dp_rank="{dp}",model_name="m",tp_rank="{tp}"}} 0.{5 + dp}\n'
        for dp in (0, 1)
        for tp in (0, 1, 2, 3)
    )
    found = figures(text)
    assert (found.running, found.cache_usage) == (11.0, 0.6)


def test_priorities_are_parts_of_a_whole() -> None:
    text = "".join(
        f'sglang:num_queue_reqs{{model_name="m",priority="{priority}"}} {count}\n'
        for priority, count in (("", 7), ("1", 4), ("2", 3))
    )
    assert figures(text).waiting == 7.0


def engines(name: str, *buckets: Mapping[str, int | str]) -> str:
    return "".join(
        f'vllm:{name}_bucket{{engine="{number}",le="{le}",model_name="m"}} {count}\n'
        for number, one in enumerate(buckets)
        for le, count in one.items()
    )


FIRST = "time_to_first_token_seconds"
RUNS = "vllm:num_requests_running 1\n"


def first_token(*buckets: dict[str, int]) -> ServingTimes:
    nothing = [dict.fromkeys(one, 0) for one in buckets]
    return figures(RUNS + engines(FIRST, *nothing), RUNS + engines(FIRST, *buckets)).first_token


def test_buckets_of_all_engines_are_one_histogram() -> None:
    found = first_token({"1.0": 4, "2.0": 4, "+Inf": 4}, {"1.0": 0, "2.0": 6, "+Inf": 6})
    assert found.count == 10
    assert found.p50 == BucketQuantile(pytest.approx(1.0 + 1 / 6), 1.0, 2.0)


def test_of_unlike_histograms_only_common_bounds_count() -> None:
    found = first_token({"0.5": 4, "2.0": 4, "+Inf": 4}, {"1.0": 0, "2.0": 6, "+Inf": 6})
    assert found.p50 == BucketQuantile(1.0, 0.0, 2.0)


def test_above_the_last_bound_a_quantile_is_not_known() -> None:
    found = first_token({"1.0": 8, "2.0": 8, "+Inf": 10})
    assert found.p50.seconds == pytest.approx(5 / 8)
    assert reason(found.p95.seconds) == "above 2 s, the last finite bucket bound"
    assert reason(found.p95.up_to) == reason(found.p95.seconds)


def test_a_counter_that_begins_within_the_window_began_at_zero() -> None:
    name = "vllm:generation_tokens_total"
    assert figures(RUNS, f"{RUNS}{name} 50\n").generated_per_second == 5.0


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1.5"])
def test_a_share_that_is_none_is_not_known(value: str) -> None:
    found = figures(f"{RUNS}vllm:kv_cache_usage_perc {value}\n")
    assert isinstance(found.cache_usage, Unknown)


def test_rates_of_engines_are_not_joined_without_counters() -> None:
    def rates(*found: float) -> Figure:
        lines = (
            f'sglang:cache_hit_rate{{dp_rank="{dp}",tp_rank="{tp}"}} {rate}\n'
            for dp, rate in enumerate(found)
            for tp in (0, 1)
        )
        return figures(HEAD + "".join(lines)).prefix_hits

    assert rates(0.25, 0.25) == 0.25
    assert (
        reason(rates(0.9, 0.1))
        == "engines report different rates, without counters to combine them"
    )


def test_prefix_caching_that_is_off_has_no_hits() -> None:
    """vLLM 0.6 exports -1."""
    found = figures(f"{RUNS}vllm:gpu_prefix_cache_hit_rate -1.0\n")
    assert reason(found.prefix_hits) == "vLLM exports no prefix cache hit rate"


HUGE = ("1e308", "1e20", "9007199254740993.0")  # The last one is read as 2**53, which may be.


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("bound", ["0.1", "1e308"])
def test_huge_numbers_of_a_server_are_drawn_and_recorded_as_unknown(value: str, bound: str) -> None:
    """Of two engines, whose sum is larger than either."""
    names = ("num_requests_running", "generation_tokens_total", "num_preemptions_total")
    text = "".join(
        f'vllm:{name}{{engine="{engine}"}} {value}\n' for name in names for engine in (0, 1)
    )
    text += RUNS.replace("running", "waiting")
    text += engines(FIRST, *[{bound: value, "+Inf": value}] * 2)
    found = figures(RUNS.replace("running", "waiting"), text)
    assert found.waiting == 1.0
    unknown = (found.running, found.generated_per_second, found.preemptions, found.all_preemptions)
    assert all(isinstance(one, Unknown) for one in unknown)
    assert isinstance(found.first_token.p50.seconds, Unknown)
    assert found.first_token.count == 0
    assert requests_text(found, "–") == "– running, 1 waiting"
    assert encode(ServingSeen("http://host/metrics", found, ""))


@pytest.mark.parametrize(
    ("sums", "why"),
    [
        (("", ""), "vLLM exports no sum of these times"),
        (("8", "NaN"), "vLLM exports no sum of these times"),
        (("8", "7"), "the sum of these times decreased"),
    ],
)
def test_a_mean_needs_a_sum_that_grows(sums: tuple[str, str], why: str) -> None:
    texts = [
        RUNS
        + engines(FIRST, {"1.0": count, "+Inf": count})
        + (value and f"vllm:{FIRST}_sum {value}\n")
        for count, value in zip((0, 4), sums, strict=True)
    ]
    found = figures(*texts).first_token
    assert reason(found.mean) == why
    assert found.p50.seconds == 0.5


def test_a_quantile_in_a_huge_bucket_is_not_of_that_bucket() -> None:
    found = first_token({"1.0": 4, "1e308": 10, "+Inf": 10})
    assert reason(found.p95.seconds) == "above 1 s, the last finite bucket bound"


def test_every_figure_is_finite_or_unknown() -> None:
    for release in RELEASES:
        found = of(release)
        for name in found.__struct_fields__:
            figure = getattr(found, name)
            assert not isinstance(figure, float) or math.isfinite(figure)

"""Reports of an inference server beside a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from screens.cli.main import main
from tests.reports.json.test_json_report import SCHEMA
from tests.reports.test_step import MEASURED, WRITERS
from tests.serving.answers import RELEASES, buckets, grown, mean, quantile
from tests.serving_session import ADDRESS, REFUSED, seen, serving_figures
from tests.small_model import folded
from tui_profiler.messages import BucketQuantile, ServingSeen
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.json.sections.serving import FIRST_BUCKET
from tui_profiler.reports.text.brief import brief
from tui_profiler.session import Session, apply

FIRST, BETWEEN = "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"


def beside(told: ServingSeen) -> Session:
    return apply(folded(MEASURED), told)


def report(told: ServingSeen) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_report(beside(told)))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def reasons(found: dict[str, Any]) -> dict[str, str]:
    why: dict[str, str] = found["unavailable"]
    return {path: said for path, said in why.items() if path.startswith("serving")}


def test_json_has_the_server() -> None:
    release = "vllm-0.32"
    first, _ = buckets(release, FIRST)
    between, _ = buckets(release, BETWEEN)
    whole = report(seen(release))
    assert reasons(whole) == {}
    assert whole["serving"] == {
        "address": ADDRESS,
        "server": "vLLM",
        "models": ["tiny"],
        "window_s": 10.0,
        "running": 8.0,
        "waiting": 4.0,
        "prompt_tokens_per_s": grown(release, "vllm:prompt_tokens_total") / 10,
        "generated_tokens_per_s": grown(release, "vllm:generation_tokens_total") / 10,
        "generated_tokens_counted": "when generated",
        "first_token_p50_s": pytest.approx(quantile(first, 0.5)),
        "first_token_p50_bucket_s": [1.0, 2.5],
        "first_token_p95_s": pytest.approx(quantile(first, 0.95)),
        "first_token_p95_bucket_s": [2.5, 5.0],
        "first_token_mean_s": pytest.approx(mean(release, FIRST)),
        "first_token_count": 47,
        "between_tokens_p50_s": pytest.approx(quantile(between, 0.5)),
        "between_tokens_p50_bucket_s": [0.01, 0.025],
        "between_tokens_p95_s": pytest.approx(quantile(between, 0.95)),
        "between_tokens_p95_bucket_s": [0.075, 0.1],
        "between_tokens_mean_s": pytest.approx(mean(release, BETWEEN)),
        "between_tokens_count": 4597,
        "between_tokens_of": "tokens",
        "kv_cache_usage": pytest.approx(82 / 99),
        "prefix_cache_hit_rate": 0.5,
        "prefix_cache_hit_rate_from": "counters",
        "preemptions": 6.0,
        "preemptions_since_start": 9.0,
    }


def test_json_has_the_reason_for_what_a_server_does_not_export() -> None:
    whole = report(seen("tgi-3"))
    found = whole["serving"]
    absent = {f"serving.{key}" for key, value in found.items() if value is None}
    assert absent == set(reasons(whole))
    assert reasons(whole)["serving.first_token_p95_bucket_s"] == (
        "TGI exports no time to first token"
    )
    assert found["generated_tokens_counted"] == "when a request ends"
    assert found["between_tokens_of"] == "mean per request"
    assert report(seen("sglang-0.5.8"))["serving"]["prefix_cache_hit_rate_from"] == "the server"


def test_json_has_no_time_within_the_first_bucket() -> None:
    """The text has only that bucket's upper bound: nothing is known of where it is below."""
    told = seen()
    assert told.figures is not None
    times = replace(told.figures.first_token, p50=BucketQuantile(0.0004, 0.0, 0.001))
    whole = report(replace(told, figures=replace(told.figures, first_token=times)))
    found = whole["serving"]
    assert (found["first_token_p50_s"], found["first_token_p50_bucket_s"]) == (None, [0.0, 0.001])
    assert found["first_token_p95_s"] is not None
    assert reasons(whole) == {"serving.first_token_p50_s": FIRST_BUCKET.reason}


def test_json_says_why_a_server_was_not_read_and_has_no_key_without_one() -> None:
    refused = report(REFUSED)
    assert refused["serving"] is None
    assert reasons(refused) == {"serving": "connection refused"}
    assert "serving" not in json.loads(json_report(folded(MEASURED)))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("written", WRITERS.values(), ids=WRITERS)
def test_every_report_for_reading_has_the_server(
    release: str, written: Callable[[Session], str]
) -> None:
    found, figures = " ".join(written(beside(seen(release))).split()), serving_figures(release)
    assert figures.server in found
    assert f"{figures.running:.0f} running, {figures.waiting:.0f} waiting" in found
    assert "of " + f"{figures.between_tokens.count:,}" in found


def test_text_says_where_figures_are_from() -> None:
    found = " ".join(WRITERS["text"](beside(seen())).split())
    assert "serving -- the server's own metrics, last 10 s; ~ estimated within a bucket" in found
    assert "464 tokens/s, from a counter" in found
    assert "p50 ~2.05 s (bucket 1.00 s to 2.50 s), p95 ~4.73 s (bucket 2.50 s to 5.00 s)" in found
    assert "mean 1.99 s, of 47" in found
    # The same names as on screen.
    assert "KV cache in use 83 %" in found
    assert "prefix cache hits 50 %, from a counter" in found
    assert "9 since the server started, 6 in the last 10 s" in found
    tgi = " ".join(WRITERS["text"](beside(seen("tgi-3"))).split())
    assert "– (TGI exports no time to first token)" in tgi
    assert "of 25, mean per request" in tgi
    assert "connection refused" in WRITERS["text"](beside(REFUSED))


def test_what_a_server_says_is_hostile_text() -> None:
    hostile = "\x1b[31mmodel"
    told = replace(seen(), figures=replace(serving_figures("vllm-0.32"), models=(hostile,)))
    for written in WRITERS.values():
        assert "\x1b" not in written(beside(told))
        assert "\x1b" not in written(beside(replace(REFUSED, why_none=hostile)))


def test_the_brief_report_has_one_line() -> None:
    figures = "464 tokens/s, first token p50 \\~2.05 s, KV cache 83 %"
    line = f"- serving: vLLM, 8 running, 4 waiting, {figures}"
    assert line in brief(beside(seen()))
    assert "- serving: – (connection refused)" in brief(beside(REFUSED))


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (("attach", "x", "--serving", "ftp://host/"), "not an http:// or https:// URL with a host"),
        (("run", "--serving", "http://a:b@host/", "x.py"), "user and password are not allowed"),
        (
            ("report", "resnet18", "--serving", ADDRESS),
            "--serving needs --attach NAME --measure SECONDS",
        ),
        (
            ("report", "--attach", "x", "--serving", ADDRESS),
            "--serving needs --attach NAME --measure SECONDS",
        ),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_first(
    typed: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == 2
    assert why in " ".join(capsys.readouterr().err.split())

"""Text from anywhere: rubbish, hostile lines, other exporters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.answers import answer
from tui_profiler.serving.scrape import MOST_LINES, MOST_MODELS, ScrapeError, scrape
from tui_profiler.serving.window import Window

NOT_PROMETHEUS = "not in Prometheus text format"
NAME = "vllm:num_requests_running"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", NOT_PROMETHEUS),
        ("<!doctype html><html><body>not found</body></html>", NOT_PROMETHEUS),
        ('{"detail":"Not Found"}', NOT_PROMETHEUS),
        ("\0\ufffd" * 1000, NOT_PROMETHEUS),
        ("# TYPE up gauge\nup 1\n", "no metrics of vLLM, SGLang or TGI"),
        (f"{NAME} 1\n{NAME}", "truncated response: no newline at the end"),
        (f"{NAME} many\n", "cannot parse its metrics: "),
        (f'{NAME}{{a="b" 1\n', "cannot parse its metrics: "),
        (f"{NAME} 1\n" * (MOST_LINES + 1), "more than 8,192 samples of the metrics shown"),
    ],
)
def test_what_is_no_answer_says_why(text: str, why: str) -> None:
    with pytest.raises(ScrapeError) as raised:
        scrape(text)
    assert str(raised.value).startswith(why)
    assert len(str(raised.value)) < 300


def test_only_the_figures_that_are_shown_are_read() -> None:
    found = scrape(answer("vllm-0.32", 1))
    assert "vllm:e2e_request_latency_seconds_bucket" not in found.samples
    assert all(name.startswith("vllm:") for name in found.samples)


@pytest.mark.parametrize(
    "line",
    [
        NAME + "{" + ",".join(f'a{n}="b"' for n in range(300_000)) + "} 1",
        NAME + '{a="' + '\\"' * 2_000_000 + '"} 1',
    ],
    ids=["labels", "quotes"],
)
def test_a_line_that_would_take_minutes_is_not_read(line: str) -> None:
    """Prometheus's client needs more than 20 s for each."""
    with pytest.raises(ScrapeError, match="is longer than 1,024 characters"):
        scrape(f"{NAME} 3\n{line}\n")


def test_lines_of_other_names_may_be_of_any_length() -> None:
    found = scrape(f'{NAME} 3\n{"a" * 4_000_000}\nother{{a="{"b" * 4_000_000}"}} 1\n')
    assert list(found.samples[NAME].values()) == [3.0]


def test_names_of_models_are_few_and_short() -> None:
    text = "".join(f'{NAME}{{model_name="{n}{"m" * 500}"}} 1\n' for n in range(20))
    found = scrape(text)
    assert len(found.models) == MOST_MODELS
    assert all(len(model) == 200 for model in found.models)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.integers(0, 400), st.integers(0, 400))
def test_no_text_ends_in_another_error(text: str, start: int, end: int) -> None:
    whole = answer("vllm-0.6", 1)[:2000]
    for hostile in (text, whole[:start] + text + whole[end:], f"{NAME}{{{text}}} 1\n"):
        try:
            found = scrape(hostile)
        except ScrapeError:
            continue
        Window().figures(1.0, found)

"""Reports of requests of a language model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.generation_session import CACHE, GENERATION, NO_REQUEST
from tests.reports.test_step import MEASURED, WRITERS
from tests.small_model import folded
from tui_profiler.messages import ExpertTokens, LayerExperts, StageDone, Unknown
from tui_profiler.queries.forward.generation import NO_REQUEST as NONE_SEEN
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.brief import brief
from tui_profiler.session import Session, apply


def generating(told: Any = GENERATION) -> Session:
    return apply(folded(MEASURED), told)


def report(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_report(session))
    return found


def test_json_has_the_requests() -> None:
    found = report(generating())["generation"]

    assert (found["requests"], found["cut"], found["under_way"]) == (12, 1, 2)
    assert (found["first_token_p50_s"], found["between_tokens_p95_s"]) == (0.25, 0.04)
    assert (found["tokens_per_s"], found["decode_tokens_per_s"]) == (170.0, 200.0)
    assert found["prefill"] == {"forwards": 12, "tokens": 6_144, "seconds": 3.0}
    assert found["cache"] == {
        "type": "DynamicCache",
        "bytes": 4_194_304,
        "layers_bytes": [1_048_576, 1_048_576, 2_097_152],
        "rows": 4,
        "tokens": 512,
        "bytes_per_token": 8_192.0,
        "peak_bytes": 8_388_608,
        "preallocated": False,
    }


def test_json_has_the_reason_for_what_is_not_known() -> None:
    told = replace(
        GENERATION,
        first_p50=NO_REQUEST,
        cache=replace(CACHE, length=Unknown("it does not say"), growth=Unknown("it is whole")),
    )
    found = report(generating(told))

    assert found["generation"]["first_token_p50_s"] is None
    assert found["generation"]["cache"]["tokens"] is None
    why = found["unavailable"]
    assert why["generation.first_token_p50_s"] == NO_REQUEST.reason
    assert why["generation.cache.tokens"] == "it does not say"
    assert why["generation.cache.bytes_per_token"] == "it is whole"
    assert why["generation.accepted_share"] == "no assistant proposed candidates"


def test_json_says_why_there_is_no_cache_and_why_there_are_no_requests() -> None:
    without = report(generating(replace(GENERATION, cache=None, why_no_cache="none is passed")))
    assert without["unavailable"]["generation.cache"] == "none is passed"

    found = report(folded(MEASURED))
    assert found["generation"] is None
    assert found["unavailable"]["generation"] == NONE_SEEN


def test_a_cache_with_half_a_figure_is_not_taken() -> None:
    before = generating()
    torn = replace(GENERATION, requests=99, cache=replace(CACHE, layers=b"\1\2\3"))
    assert apply(before, torn).generation is GENERATION


@pytest.mark.parametrize("written", WRITERS.values(), ids=WRITERS)
def test_text_has_the_requests(written: Callable[[Session], str]) -> None:
    found = " ".join(written(generating()).split())

    assert "p50 250 ms, p95 500 ms" in found
    assert "p50 20.0 ms, p95 40.0 ms, of 756" in found
    assert "170 tokens/s, all rows, prefill included" in found
    assert "12, 1 more without their beginning, 2 under way" in found
    assert "4 rows, 128 tokens of prompt, 64 new, each row" in found
    assert "4.00 MiB (DynamicCache), 4 rows of 512 tokens" in found
    assert "12 % of a request is outside of forwards" in found


def test_text_says_what_an_assistant_was_good_for() -> None:
    told = replace(GENERATION, is_at_least=True, checked=50, accepted=20)
    found = " ".join(WRITERS["text"](generating(told)).split())
    assert "at least 64 new" in found
    assert "50, 40 % accepted" in found


EXPERTS = ExpertTokens(
    1.0,
    (LayerExperts("layers.0.gate", [4, 4, 0]), LayerExperts("layers.1.gate", [0, 8, 0])),
)


def test_experts_without_a_token_are_dead() -> None:
    session = apply(generating(), EXPERTS)
    assert report(session)["generation"]["experts"] == [
        {"path": "layers.0.gate", "tokens": [4, 4, 0], "dead": 1},
        {"path": "layers.1.gate", "tokens": [0, 8, 0], "dead": 2},
    ]
    found = WRITERS["text"](session)
    assert "3 of 6 were given no token in one request" in found
    busiest = next(line for line in found.splitlines() if "layers.1.gate" in line)
    assert busiest.split() == ["layers.1.gate", "8", "3", "2", "100.0"]


def test_json_says_why_experts_are_not_known() -> None:
    why = report(generating())["unavailable"]["generation.experts"]
    assert why == "no router returned the indices of its chosen experts"

    recorded = apply(generating(), StageDone("load", 1.0, 1.0, "attached to pid 7"))
    why = report(recorded)["unavailable"]["generation.experts"]
    assert why == "experts are not counted in a running program: use report --generate"


def test_names_of_caches_are_hostile_text() -> None:
    told = replace(GENERATION, cache=replace(CACHE, name="\x1b[31mcache"))
    assert "\x1b" not in WRITERS["text"](generating(told))
    assert "\x1b" not in WRITERS["markdown"](generating(told))


def test_the_brief_report_has_what_matters_most() -> None:
    found = brief(generating())
    assert "- first token: p50 250 ms, p95 500 ms\n" in found
    assert "- KV cache: 4.00 MiB (DynamicCache)" in found

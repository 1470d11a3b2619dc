"""A watched program that answers: its requests, as a viewer is told of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from tests.probe.measure.generation.language_models import (  # needs transformers
    PROMPT,
    answer,
    llama,
    prompt,
)
from tests.probe.watch.watched_model import (
    assert_nothing_is_left,
    sockets,  # noqa: F401 # a fixture that is used by all
)
from tests.viewer import Viewer, place_of
from tui_profiler import watch
from tui_profiler.reports.json.report import json_report
from tui_profiler.session import Session


def has_answered(session: Session) -> bool:
    return session.generation is not None and session.generation.requests >= 2


def test_requests_of_a_watched_program(folder: Path) -> None:
    model = llama()
    with watch(model, "answers", grace_seconds=0.0), Viewer(place_of("answers")) as viewer:
        session = viewer.until(has_answered, lambda: answer(model, prompt(2), 12))
    assert_nothing_is_left()
    found = json.loads(json_report(session))["generation"]

    assert (found["rows"], found["prompt_tokens"], found["new_tokens"]) == (2, PROMPT, 12)
    assert found["cut"] <= 1  # The tree was made of a forward of the first.
    assert 0 < found["between_tokens_p50_s"] <= found["between_tokens_p95_s"]
    assert found["cache"]["type"] == "DynamicCache"
    assert (
        found["cache"]["bytes_per_token"] == 2 * 2 * 2 * 2 * 8 * 4
    )  # rows, layers, K and V, heads

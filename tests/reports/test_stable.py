"""Two runs of the same, where nothing is measured, give the same bytes in every format."""

from __future__ import annotations

import csv
import io
import json
from functools import partial

import pytest

from tests.reports.real_sessions import real_session, traced_anew
from tests.small_model import MEASURED, folded
from tui_profiler.messages import Heartbeat, StageDone, StageStarted
from tui_profiler.reports.csv import NODE_COLUMNS, csv_model
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.perfetto.trace import perfetto_trace
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.session import Session, apply

FORMATS = {
    "json": json_report,
    "csv": partial(csv_model, with_titles=True),
    "markdown": full_markdown,
    "text": partial(full_text, columns=100),
    "perfetto": lambda session: perfetto_trace(session, 1),
}


def with_times(session: Session, factor: float) -> Session:
    """Add what a worker tells and what no two runs have alike: times, samples, signs of life."""
    from tests.small_model import SAMPLE

    for message in (
        StageStarted("import torch", 0.1 * factor),
        StageDone("import torch", 2.0 * factor, 1.5 * factor, "2.15.0"),
        StageStarted("trace", 2.0 * factor),
        StageDone("trace", 2.5 * factor, 0.5 * factor, "8 nodes"),
        *([SAMPLE] if factor > 1 else []),
        Heartbeat(2.6 * factor, 0.0),
    ):
        session = apply(session, message)
    return session


@pytest.mark.parametrize("name", ["demo:cnn", "demo:hostile"])
@pytest.mark.parametrize("layout", FORMATS)
def test_two_runs_give_the_same_bytes(name: str, layout: str, again: dict[str, Session]) -> None:
    write = FORMATS[layout]
    first = with_times(real_session(name), 1.0)
    assert write(first) == write(with_times(again[name], 3.0))


@pytest.fixture(scope="module")
def again() -> dict[str, Session]:
    return {name: traced_anew(name) for name in ("demo:cnn", "demo:hostile")}


@pytest.mark.parametrize("layout", ["json", "text", "perfetto"])
def test_what_is_measured_does_differ(layout: str) -> None:
    # Else the test above would say nothing.
    write, measured = FORMATS[layout], folded(MEASURED)
    assert write(measured) != write(with_times(measured, 3.0))


def test_several_models_are_one_table() -> None:
    names = ("demo:cnn", "demo:hostile", "demo:lstm")
    sessions = [real_session(name) for name in names]
    text = "".join(csv_model(one, with_titles=at == 0) for at, one in enumerate(sessions))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert set(rows[0]) == {"model", *NODE_COLUMNS}
    trees = [one.tree for one in sessions]
    counts = [len(tree) for tree in trees if tree is not None]
    assert [sum(row["model"] == name for row in rows) for name in names] == counts
    assert len(rows) == sum(counts)
    assert [row["macs"] for row in rows if row["depth"] == "0"] == [
        str(json.loads(json_report(one))["total_macs"]) for one in sessions
    ]


def test_a_table_of_the_most_expensive_is_that_of_json() -> None:
    session = real_session("demo:cnn")
    rows = list(csv.DictReader(io.StringIO(csv_model(session, with_titles=True, top=5))))
    layers = json.loads(json_report(session, top=5))["layers"]
    assert [row["path"] for row in rows] == [layer["path"] for layer in layers]

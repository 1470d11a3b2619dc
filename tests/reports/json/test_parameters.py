"""What the values of parameters are like, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import torch
from msgspec.structs import replace

from tests.probe.parameters.test_analysis import analysed, saved, session_of, tree_of
from tui_profiler.archive import structure_of
from tui_profiler.formatting.text import width
from tui_profiler.messages import AnalyseParameters, ModelFacts
from tui_profiler.probe.parameters.subjects import FileSubjects
from tui_profiler.probe.worker.parameters_only import facts
from tui_profiler.reports.csv import csv_model
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session, apply

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[3] / "docs" / "report.schema.json").read_text()
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("weights")
    path, state = saved(folder)
    state["odd\x1b[0m"] = torch.tensor([[float("nan"), 1.0], [0.0, 0.0]])
    torch.save(state, path)
    subjects = FileSubjects(structure_of(path))
    said = analysed(subjects.subjects, AnalyseParameters(), weights="random")
    subjects.close()
    about: ModelFacts = facts(structure_of(path), "w.pt")
    return apply(session_of(said, tree_of(path)), about)


def test_json_follows_its_schema(session: Session) -> None:
    report = json.loads(json_report(session))
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    assert report["parameters"]["is_random"]
    assert len(report["parameters"]["tensors"]) == 6
    shared = next(one for one in report["parameters"]["tensors"] if one["shared_with"])
    assert (shared["name"], shared["moments"]) == ("a.tied", None)


def test_top_keeps_the_largest(session: Session) -> None:
    report = json.loads(json_report(session, top=1))
    assert [one["name"] for one in report["parameters"]["tensors"]] == ["a.weight"]
    assert [one["path"] for one in report["layers"]] == ["a"]
    assert [
        line.split(",")[1] for line in csv_model(session, with_titles=False, top=1).split()
    ] == ["a"]


def test_tensors_are_in_the_order_of_the_tree_whoever_was_done_first(session: Session) -> None:
    known = session.parameters
    assert known is not None
    turned = replace(session, parameters=replace(known, tensors=known.tensors[::-1]))
    names = [
        [one["name"] for one in json.loads(json_report(each))["parameters"]["tensors"]]
        for each in (session, turned)
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_table_says_that_weights_are_random_and_what_is_odd(
    session: Session, columns: int
) -> None:
    lines = table(session, columns=columns)
    assert max(map(width, lines)) <= columns
    text = "\n".join(lines)
    assert "random" in text
    assert "1 NaN" in text
    assert "1 of 2 channels dead" in text
    assert "\x1b" not in text

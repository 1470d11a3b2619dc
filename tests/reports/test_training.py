"""Reports of a training step on paper."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.queries.training.test_step_costs import trained
from tests.small_model import MEASURED, folded
from tui_profiler.reports.csv import csv_model
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session

SCHEMA = json.loads(Path("docs/report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def report(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_report(session))
    VALIDATOR.validate(found)
    return found


def test_json_has_the_step_by_its_keys() -> None:
    found = report(trained(seconds=0.5))
    train = found["train"]

    assert (train["optimizer"], train["loss"]) == ("SGD", "the model's own loss")
    assert (train["accumulate"], train["updates"], train["checkpoint"]) == (3, False, None)
    assert train["backward_macs"] == train["backward"]["macs"] == 6912 + 5120
    assert train["backward_bytes"] == 9000
    assert train["recomputed"]["flops"] == 2000
    assert train["step_s"] == 0.5
    assert train["mfu"] == pytest.approx(train["model_flops"] / 0.5 / train["roof_flops_per_s"])
    assert train["hfu"] > train["mfu"]
    memory = train["memory"]
    assert (memory["peak"], memory["at_least"], memory["phase"]) == (24_380, 24_280, "backward")
    assert memory["saved_activations"] == 2048
    assert memory["alive"][0]["use"] == "gradient"
    assert memory["checkpointing"] == [
        {"paths": ["conv"], "saved_bytes": 1024, "peak": 23_356, "recomputed_flops": 13_824}
    ]


def test_a_step_of_a_worker_is_training() -> None:
    mode = report(trained())["mode"]

    assert (mode["name"], mode["backward_passes"]) == ("training", None)


def test_csv_has_the_backward() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_model(trained(), with_titles=True))))
    conv = next(line for line in lines if line["path"] == "conv")

    names = ("backward_macs", "backward_flops", "backward_bytes", "gradient_bytes", "saved_bytes")
    assert [conv[name] for name in names] == ["6912", "13824", "1500", "432", "1024"]


def test_json_has_the_backward_of_each_layer() -> None:
    layers = {one["path"]: one for one in report(trained())["layers"]}

    conv = layers["conv"]
    assert (conv["backward_macs"], conv["backward_flops"]) == (6912, 13_824)
    assert (conv["backward_bytes"], conv["gradient_bytes"], conv["saved_bytes"]) == (
        1500,
        432,
        1024,
    )
    assert layers["act"]["backward_macs"] == 0


def test_json_says_why_there_is_no_step() -> None:
    plain, unmeasured = report(folded(MEASURED)), report(trained())

    assert plain["train"] is None
    assert plain["unavailable"]["train"] == "no training step was recorded"
    assert "backward_macs" not in plain["layers"][0]
    assert unmeasured["train"]["mfu"] is None
    assert unmeasured["unavailable"]["train.mfu"] == "no step was measured"


@pytest.mark.parametrize(
    "written",
    [
        lambda session: full_text(session, columns=100),
        full_markdown,
        lambda session: "\n".join(table(session, columns=76)),
    ],
)
def test_text_has_a_section(written) -> None:
    found = written(trained(seconds=0.5))

    for words in ("SGD, learning rate 0: weights do not change", "3 passes per step", "MFU"):
        assert words in found
    assert "1.27× forward" in found
    assert "23.8 KiB, in the backward" in found
    assert "training step" not in written(folded(MEASURED))


def test_the_summary_has_the_step() -> None:
    found = full_text(trained(seconds=0.5), columns=100)

    assert "training step    500 ms, 129 KFLOP, peak memory 23.8 KiB, predicted" in found

"""``report`` as it is typed: flat tables of a model that ran, values of a file of parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from screens.cli.main import main

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "report.schema.json").read_text()
)
HOSTILE = "a\x1b[31m.weight"
Capture = pytest.CaptureFixture[str]


def typed(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["report", *arguments, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("by", ["module", "class"])
def test_self_times_of_modules_and_of_classes_are_the_forward(
    by: str, recording: Path, capsys: Capture
) -> None:
    found = typed(capsys, str(recording), "--by", by)
    own = [row["self_s"] for row in found["rows"] if row["self_s"] is not None]
    # Times are float32 on the wire.
    assert sum(own) == pytest.approx(found["seconds"], rel=1e-4)
    assert sum(row["parameters"] for row in found["rows"]) == 272_282
    # A ModuleList is never called.
    [stages] = [row for row in found["rows"] if row["self_s"] is None]
    assert stages["type"] == "ModuleList"
    assert found["unavailable"]["rows[].self_s"].startswith("it is not called itself")


def test_operators_have_times_and_their_names(recording: Path, capsys: Capture) -> None:
    found = typed(capsys, str(recording), "--by", "operator")
    rows = {row["name"]: row for row in found["rows"]}
    assert found["operator_windows"] > 0
    assert (rows["aten::convolution"]["nodes"], rows["aten::addmm"]["calls"]) == (21, 1)
    # Beside other programs any operator may have been interrupted: the first is what took most.
    own = [row["self_s"] for row in found["rows"] if row["self_s"] is not None]
    assert own == sorted(own, reverse=True)
    assert sum(own) == pytest.approx(found["seconds"], rel=1e-4)
    assert 0 < rows["aten::convolution"]["share"] <= 1


def test_a_file_of_parameters_is_reported_by_its_values(tmp_path: Path, capsys: Capture) -> None:
    made = torch.Generator().manual_seed(1)
    state = {HOSTILE: torch.randn(70, 90, generator=made), "b": torch.tensor([float("nan")])}
    torch.save(state, tmp_path / "w.pt")
    assert main(["report", str(tmp_path / "w.pt"), "--parameters", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    report = json.loads(said.out)
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    found = report["parameters"]
    assert found["is_whole"]
    tensors = {one["name"]: one for one in found["tensors"]}
    assert tensors["b"]["moments"]["nans"] == 1
    assert tensors["b"]["moments"]["mean"] is None
    (root, *_) = found["modules"]
    values = state[HOSTILE].double()
    assert root["count"] == values.numel()
    assert abs(root["mean"] - values.mean().item()) < 1e-12
    assert abs(root["std"] - values.std(correction=0).item()) < 1e-12


def test_what_has_no_values_is_refused_in_a_sentence(capsys: Capture) -> None:
    for arguments in (("demo:cnn", "--format", "csv"), ("--attach", "serve.py")):
        assert main(["report", *arguments, "--parameters"]) == 2
        assert "--parameters" in capsys.readouterr().err

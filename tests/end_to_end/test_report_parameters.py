"""``report --parameters``, as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import torch

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "report.schema.json").read_text()
)
HOSTILE = "a\x1b[31m.weight"


def typed(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "screens", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_a_file_of_parameters_is_reported_by_its_values(tmp_path: Path) -> None:
    made = torch.Generator().manual_seed(1)
    state = {HOSTILE: torch.randn(70, 90, generator=made), "b": torch.tensor([float("nan")])}
    torch.save(state, tmp_path / "w.pt")
    ran = typed("report", str(tmp_path / "w.pt"), "--parameters", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
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


def test_what_has_no_values_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for arguments in (("demo:cnn", "--format", "csv"), ("--attach", "serve.py")):
        ran = typed("report", *arguments, "--parameters")
        assert ran.returncode == 2
        assert "--parameters" in ran.stderr

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from screens.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "ceilings.schema.json").read_text())


def run(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tui_profiler", "ceilings", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )


def test_roofs_are_measured_kept_and_shown(tmp_path: Path) -> None:
    first = run(tmp_path, "--threads", "1", "--format", "json")
    assert first.returncode == 0
    found = json.loads(first.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert (found["threads"], found["device"]) == (1, "cpu")
    assert found["bytes_per_s"] > 0
    assert "ceilings: ceilings: " in first.stderr
    assert len(list(tmp_path.rglob("ceilings-*.json"))) == 1

    made = tmp_path / "roofs.txt"
    second = run(tmp_path, "--threads", "1", "--output", str(made))
    assert (second.returncode, second.stdout) == (0, "")
    assert "memory copy" in made.read_text()


def test_a_device_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, "--device", "nonsense")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("wrong", [["--format", "yaml"], ["--threads", "0"], ["resnet50"]])
def test_wrong_arguments_are_refused(wrong: list[str]) -> None:
    assert main(["ceilings", *wrong]) == 2

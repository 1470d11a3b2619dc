"""Files of models through the real program: opened, reported, refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import nn

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[3] / "docs" / "report.schema.json").read_text()
)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4))
    torch.save(model.state_dict(), tmp_path / "w.pt")
    return tmp_path


def test_parameters_are_reported_and_what_needs_a_forward_is_null(weights: Path) -> None:
    done = run(weights, "report", "w.pt", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    assert report["total_parameters"] == (3 * 9 * 8 + 8) + 16 + (8 * 4 + 4)
    assert report["tracer"]["method"] == "parameters"
    assert report["file"]["checksum"] == "verified"
    assert "--weights" in report["file"]["hint"]
    why = "parameters only: no forward pass"
    for name in ("total_macs", "total_flops", "total_memory", "bottlenecks", "latency"):
        assert report[name] is None
        assert report["unavailable"][name] == why
    assert all(layer["macs"] is None for layer in report["layers"])
    assert [layer["parameters"] for layer in report["layers"] if layer["path"] == "1"] == [16]
    assert "import torch" not in done.stderr


def test_parameters_are_explored(start: Start, weights: Path) -> None:
    terminal = start("w.pt", columns=80, rows=24, folder=str(weights))
    shown = terminal.wait_for("parameters only")
    shown = terminal.wait_for("params")
    assert "MAC" not in shown
    terminal.send("jj")
    terminal.wait_for("16 parameters")
    terminal.send("q")
    assert terminal.wait_for_exit() == 0


class Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("stepped_into",))


def test_a_trap_is_not_stepped_into(tmp_path: Path) -> None:
    torch.save(Trap(), tmp_path / "trap.pt")
    torch.save({"a": torch.ones(1), "b": Trap()}, tmp_path / "mixed.pt")
    (tmp_path / "raw.pkl").write_bytes(pickle.dumps(Trap()))
    for name in ("trap.pt", "raw.pkl"):
        done = run(tmp_path, "report", name)
        assert done.returncode == 1, done.stderr
        assert "mkdir" in done.stderr
        assert "--trust" in done.stderr
    run(tmp_path, "report", "mixed.pt")
    assert run(tmp_path, "report", "demo:cnn", "--weights", "mixed.pt").returncode == 1
    assert not (tmp_path / "stepped_into").exists()


def test_what_cannot_be_opened_ends_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.pt").touch()
    os.mkfifo(tmp_path / "pipe.pt")
    for name in ("empty.pt", "pipe.pt"):
        done = run(tmp_path, "report", name)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "try " in done.stderr

"""The headless verbs from end to end: the real program, a real worker, real models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from tests.recording.files import timed, write
from tests.small_model import TRACED

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
PROGRAM = [sys.executable, "-m", "tui_profiler"]


def run(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
    )


def test_several_models_are_lines_of_json_and_one_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os\n\ndef build():\n    os.kill(os.getpid(), 9)\n")
    dies = f"{tmp_path / 'dies.py'}:build"
    done = run("report", "demo:cnn", "resnet51", dies, "demo:lstm", "--format", "json")
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [report["model"] for report in reports] == ["demo:cnn", "resnet51", dies, "demo:lstm"]
    for report in reports:
        jsonschema.Draft202012Validator(SCHEMA).validate(report)
    for report in (reports[0], reports[3]):
        assert report["failure"] is None
        children_and_own_operators_add_up_to_their_parent(report["layers"])
    unknown, killed = reports[1], reports[2]
    assert unknown["failure"]["what"] == 'no model is named "resnet51"'
    assert unknown["failure"]["bad_argument"]
    assert "tui-profiler resnet50" in [one["command"] for one in unknown["failure"]["remedies"]]
    assert killed["failure"]["stage"] == "load model"
    assert "SIGKILL" in killed["failure"]["what"]
    for report in (unknown, killed):
        assert report["layers"] is report["total_macs"] is report["tracer"] is None
        assert report["unavailable"]["total_macs"] == "load model failed"
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate({**report, "failure": None})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate({**reports[0], "layers": None})
    assert done.returncode == 2
    assert "resnet51: load model:" in done.stderr
    assert "resnet50" in done.stderr
    assert "Traceback" not in done.stderr


def children_and_own_operators_add_up_to_their_parent(layers: list[dict[str, Any]]) -> None:
    sums = [0] * len(layers)
    line: list[int] = []
    for index, layer in enumerate(layers):
        del line[layer["depth"] :]
        if line:
            sums[line[-1]] += layer["flops"]
        line.append(index)
    parents = [i for i, layer in enumerate(layers) if layer["kind"] == "module" and sums[i]]
    assert [layers[i]["flops"] for i in parents] == [sums[i] for i in parents]


def test_a_measured_report_has_times_and_the_machine_however_little_was_asked_for() -> None:
    done = run("report", "demo:cnn", "--format", "json", "--measure", "0.001")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    timing = report["layers"][0]["timing"]
    assert report["latency"]["p50_s"] > 0
    assert timing["share"] == pytest.approx(1)
    roofs = report["hardware"]["ceilings"]
    assert roofs["bytes_per_s"] > 0
    assert roofs["memory"]["quality"] in ("good", "not good enough")


def test_the_users_own_factory_is_taken_from_their_folder_and_a_table_put_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n\ndef build(width):\n    return torch.nn.Linear(width, 2)\n"
    )
    done = run("report", "mine.py:build", "--args", "[7]", "--output", "a.txt", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    table = (tmp_path / "a.txt").read_text()
    assert table.startswith("mine.py:build  ")
    assert "parameters       16" in table


def test_a_model_that_raises_is_exit_code_one(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def build():\n    raise ValueError('no such width')\n")
    done = run("report", "broken.py:build", "--debug", folder=tmp_path)
    assert done.returncode == 1
    assert "no such width" in done.stderr
    assert "Traceback" in done.stderr


def test_models_are_listed_one_a_line() -> None:
    done = run("models", "resnet1*")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        ["resnet101", "resnet152", "resnet18"],
    )


def test_a_pattern_without_a_model_is_exit_code_one() -> None:
    done = run("models", "no such model")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = subprocess.Popen(
        [*PROGRAM, "report", "demo:cnn"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    said = program.stderr.read().decode()
    assert program.wait(240) == 0
    assert "Broken pipe" not in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("interrupts_arrive")
def test_an_interrupt_stops_the_worker_too_and_keeps_what_was_finished(tmp_path: Path) -> None:
    recording, output = write(tmp_path / "a.rec", timed(TRACED)), tmp_path / "out.json"
    program = subprocess.Popen(
        [*PROGRAM, "report", recording, "demo:cnn", "--format", "json", "--output", output],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    worker = next(line for line in program.stderr if "worker: " in line)
    pid = int(worker.rsplit("pid ", 1)[1].split(",")[0])
    assert psutil.pid_exists(pid)
    os.kill(program.pid, signal.SIGINT)
    rest = program.communicate(timeout=240)[1]
    assert program.returncode == 130
    assert "Traceback" not in rest
    assert not psutil.pid_exists(pid)
    [kept] = output.read_text().splitlines()
    assert json.loads(kept)["model"] == "net.py:build"
    assert {one.name for one in tmp_path.iterdir()} == {"a.rec", "out.json"}

"""``report`` from the command line, over recordings: every format, several models, and checks."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from screens.cli.main import main
from tests.machine_session import FULL
from tests.recording.files import fixture, timed, write
from tests.small_model import MEASURED, TRACED
from tui_profiler.reports.csv import NODE_COLUMNS

READABLE = ("table", "text", "markdown")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("recordings")
    said = {"net": timed((*MEASURED, FULL)), "resnet50": fixture(), "traced": timed(TRACED)}
    return [str(write(folder / f"{name}.rec", messages)) for name, messages in said.items()]


def report(*arguments: str, output: Path, code: int = 0) -> bytes:
    assert main(["report", *arguments, "--output", str(output)]) == code
    return output.read_bytes()


@pytest.mark.parametrize("layout", READABLE)
def test_several_models_follow_each_other(layout: str, files: list[str], tmp_path: Path) -> None:
    alone = [report(file, "--format", layout, output=tmp_path / "one") for file in files]
    together = report(*files, "--format", layout, output=tmp_path / "all")
    assert together == b"\n".join(alone)


def test_several_models_are_lines_of_json(files: list[str], tmp_path: Path) -> None:
    lines = report(*files, "--format", "json", output=tmp_path / "all").splitlines()
    names = [json.loads(line)["model"] for line in lines]
    assert names == ["net.py:build", "resnet50", "net.py:build"]


def test_several_models_are_one_csv(files: list[str], tmp_path: Path) -> None:
    text = report(*files, "--format", "csv", output=tmp_path / "all").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["model"] for row in rows} == {"net.py:build", "resnet50"}
    assert all(set(row) == {"model", *NODE_COLUMNS} for row in rows)
    assert not any(row["depth"] == "depth" for row in rows)


def test_several_models_are_one_trace(files: list[str], tmp_path: Path) -> None:
    trace = Trace()
    trace.ParseFromString(report(*files, "--format", "perfetto", output=tmp_path / "all"))
    names = [
        packet.track_descriptor.process.process_name
        for packet in trace.packet
        if packet.track_descriptor.HasField("process")
    ]
    assert names == [
        *("net.py:build (measured)", "resnet50 (measured)"),
        "net.py:build (on paper: 1 ns is 1 FLOP, not time)",
    ]


def test_a_trace_goes_to_a_pipe_as_it_is(
    files: list[str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["report", files[0], "--format", "perfetto"]) == 0
    written = capfdbinary.readouterr().out
    assert written == report(files[0], "--format", "perfetto", output=tmp_path / "x")


def test_checks_that_hold_say_so_and_leave_the_report_alone(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = report(files[0], "--format", "json", output=tmp_path / "plain")
    checks = ("--check", "latency.p50_s<=10ms", "--check", "total_parameters<=5G")
    assert report(files[0], "--format", "json", *checks, output=tmp_path / "checked") == plain
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{files[0]}: 2 checks passed" in captured.err


def test_a_check_that_does_not_hold_is_exit_code_3_with_a_table_of_all(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = ("--check", "total_parameters<=5G", "--check", "latency.p50_s<=0.5ms")
    text = report(*files[:2], "--format", "markdown", *checks, output=tmp_path / "m", code=3)
    err = capsys.readouterr().err
    assert err.count("total_parameters") == err.count("latency.p50_s") == 2
    assert text.count(b"## checks") == 2
    assert b"| latency.p50\\_s" in text or b"| latency.p50_s" in text


def test_a_measured_figure_that_is_not_there_fails_its_check(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(files[2], "--check", "latency.p50_s<=1s", output=tmp_path / "t", code=3)
    assert "latency.p50_s: not measured; --measure SECONDS does" in capsys.readouterr().err


def test_an_entry_that_a_model_does_not_have_is_a_bad_argument(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(files[1], "--check", "layers[layer1.0.conv9].macs<=1", output=tmp_path / "t", code=2)
    err = capsys.readouterr().err
    assert "there is no [layer1.0.conv9]; near it are layer1.0.conv" in err


@pytest.mark.parametrize("check", ["total_macs", "nothing<=5", "total_macs<=5ms", "", "\x1b[2J<=5"])
def test_what_is_no_check_is_refused_before_anything_starts(
    check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "resnet50", "--check", check]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Usage:")
    assert captured.err.replace("\n", "").isprintable()
    assert captured.out == ""


def test_advice_that_was_not_asked_for_holds_no_check(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = ("--check", "findings.found[0].gains[0].share<=50%")
    report(files[0], *check, output=tmp_path / "t", code=3)
    assert "not computed; --findings does" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_full_disk_is_one_sentence(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", files[0], "--output", "/dev/full"]) == 1
    captured = capsys.readouterr()
    assert "--output /dev/full was not written completely: No space left on device." in captured.err
    assert "Traceback" not in captured.err


def test_a_trace_does_not_go_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["report", "resnet50", "--format", "perfetto"]) == 2
    assert "add --output FILE" in capsys.readouterr().err

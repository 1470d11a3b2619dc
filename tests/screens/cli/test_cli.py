"""The command line: what is typed, what is refused, with which exit code."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from screens.cli.main import main
from screens.options.grid_intensity import Typed, grid_intensity
from screens.options.model import Chosen, model_options
from tui_profiler import __version__
from tui_profiler.messages import LoadSpec

ROOT = Path(__file__).resolve().parents[3]


def typed(*arguments: str) -> Chosen:
    """Return what the options of a model mean."""
    found: list[Chosen] = []

    @click.command()
    @model_options
    def command(chosen: Chosen) -> None:
        found.append(chosen)

    command(list(arguments), standalone_mode=False)
    return found[0]


def test_help_names_the_verbs_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("explore", "report", "models", "Exit codes", "demo:cnn"))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_nothing_is_imported_for_help_that_it_does_not_need(option: str) -> None:
    code = (
        f"import sys; from screens.cli.main import main; main([{option!r}]);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rooms = ("screens", "tui_profiler")
    ours = [name for name in done.stderr.split() if name.partition(".")[0] in rooms]
    assert "screens.cli.main" in ours
    assert len(ours) < 20


def test_every_verb_of_the_list_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0]
    verbs = re.findall(r"^  (\w+) ", listed, re.MULTILINE)
    assert len(verbs) == 21
    for verb in verbs:
        assert main([verb, "--help"]) == 0
        assert f"Usage: tui-profiler {verb} " in capsys.readouterr().out


def test_nothing_typed_and_no_terminal_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: tui-profiler" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"tui-profiler, version {__version__}"


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (["resnet18"], "report MODEL"),
        (["explore", "resnet18"], "report MODEL"),
        (["--batch", "4", "resnet18"], "report MODEL"),
        (["attach"], "report --attach NAME --measure 10"),
        (["attach", "served"], "report --attach NAME --measure 10"),
        (["open", "night.rec"], "report FILE"),
    ],
)
def test_without_a_terminal_nothing_is_explored(
    arguments: list[str], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "The explorer needs a terminal" in err
    assert f'try "tui-profiler {instead}", which needs none.' in err


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_move_its_cursor_is_refused(term: str) -> None:
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "screens", "resnet18"],
        cwd=ROOT,
        env={**os.environ, "TERM": term},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    try:
        assert program.wait(120) == 2
        said = os.read(ours, 4096)
    finally:
        program.kill()
        os.close(theirs)
        os.close(ours)
    assert b"can move its cursor" in b" ".join(said.split())


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["report"], "MODEL"),
        (["report", "resnet18", "--format", "xml"], "xml"),
        (["report", "resnet18", "--budget", "200%"], "200%"),
        (["report", "resnet18", "--budget", "much"], "much"),
        (["report", "resnet18", "--batch", "0"], "--batch"),
        (["report", "resnet18", "--threads", "0"], "--threads"),
        (["report", "resnet18", "--measure", "0"], "--measure"),
        (["report", "resnet18", "--top", "0"], "--top"),
        (["report", "resnet18", "--depth", "-1"], "--depth"),
        (["report", "resnet18", "--depth", "1", "--top", "3"], "give one of them"),
        (["report", "resnet18", "--depth", "1", "--by", "class"], "--depth"),
        (
            ["report", "resnet18", "--format", "perfetto", "--output", "t", "--depth", "1"],
            "--depth",
        ),
        (["report", "--all", "demo", "--output", "zoo", "--depth", "1"], "--depth"),
        (["report", "resnet18", "--tracer", "magic"], "magic"),
        (["report", "resnet18", "--measure", "1", "--no-run"], "--no-run"),
        (["report", "resnet18", "--output", "/nowhere/at/all.json"], "cannot be written"),
        (["report", "resnet18", "--output", "/"], "cannot be written"),
        (["report", "resnet18", "--bogus"], "--bogus"),
        (["report", "resnet18", "--measure", "nan"], "finite number"),
        (["report", "resnet18", "--measure", "inf"], "finite number"),
        (["sweep", "resnet18", "--batch", "1", "--seconds", "nan"], "finite number"),
        (["try", "resnet18", "--most-memory", "1e300"], "--most-memory"),
        (["report", "resnet18", "--format", "perfetto", "--output", "t", "--top", "3"], "--top"),
        (["report", "x.pt", "--format", "perfetto", "--output", "t", "--parameters"], "perfetto"),
        (["report", "--all", "demo", "--output", "zoo", "--check", "total_macs<=1"], "--check"),
        (["report", "--all", "demo", "--output", "zoo", "--findings"], "--findings"),
        (["report", "--all", "demo", "--output", "zoo", "--parameters"], "--parameters"),
        (["report", "--all", "demo", "--output", "z", "--measure", "1", "--no-run"], "--no-run"),
        (["onnx", "resnet18", "-o", "/dev/null", "--force"], "not a regular file"),
        (["explore"], "MODEL"),
        (["resnet18", "resnet50"], "resnet50"),
        (["report", "resnet18", "--output", ""], "it is empty"),
        (["report", "resnet18", "--weights", ""], "it is empty"),
        (["record", "resnet18", "-o", ""], "it is empty"),
        (["report", "resnet18", "--remote-python", "/usr/bin/python"], "--remote-python"),
        (["report", "--attach", "net", "--remote-python", "/usr/bin/python"], "--remote-python"),
        (["record", "--attach", "net", "-o", "x.rec", "--remote-python", "p"], "--remote-python"),
        (["attach", "ssh://host/net", "--list"], "ssh HOST tui-profiler attach --list"),
        (["report", "net\udcff.py:build"], "not UTF-8"),
        (["run", "--format", "table", "/"], "__main__.py"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert word in captured.err
    assert captured.out == ""


def test_a_working_directory_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["report", "resnet18"]) == 2
    assert "The working directory is gone" in capsys.readouterr().err


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_crash_and_its_number_is_nobody_else_s(closed: int) -> None:
    program = """
import os, sys
os.close(int(sys.argv[1]))
sys.stdin, sys.stdout, sys.stderr = (
    None if at == int(sys.argv[1]) else stream
    for at, stream in enumerate((sys.stdin, sys.stdout, sys.stderr))
)
from screens.cli.main import main
code = main(["config"])
null = os.stat(os.devnull)
found = os.fstat(int(sys.argv[1]))
sys.exit(code or (found.st_rdev != null.st_rdev))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(closed)], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) == (closed != 1)


def test_a_locale_without_the_characters_gets_them_spelled_out() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "screens", "config"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"\\x" in done.stdout


def test_a_mistake_of_ours_is_exit_code_70_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mistaken(*anything: object) -> bool:
        raise AssertionError("mistaken")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("screens.cli.report.is_recording", mistaken)
    assert main(["report", "net", "--measure", "1"]) == 70
    said = capsys.readouterr().err
    assert "internal error" in said
    assert "Traceback" not in said
    assert "mistaken" in next(tmp_path.rglob("crash-*.txt")).read_text()


def test_without_options_everything_is_left_to_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = typed().spec("resnet18", started_at=1.5)
    assert spec == LoadSpec("resnet18", folder=str(tmp_path), started_at=1.5)


def test_every_option_reaches_the_worker() -> None:
    chosen = typed(
        *("--args", '{"width": 2}', "--input", "1,3", "--input", "mask=1,8:bool", "--batch", "4"),
        *("--weights", "DEFAULT", "--device", "cuda:1", "--dtype", "bfloat16", "--threads", "3"),
        *("--tracer", "fx", "--trust", "--no-run", "--budget", "5%", "--debug"),
        *("--grid-intensity", "381.5"),
    )
    assert chosen == Chosen(
        arguments='{"width": 2}',
        inputs=("1,3", "mask=1,8:bool"),
        batch=4,
        weights="DEFAULT",
        device="cuda:1",
        dtype="bfloat16",
        threads=3,
        tracer="fx",
        trust=True,
        run=False,
        budget=0.05,
        grid_intensity=Typed(381.5),
        debug=True,
        typed=(
            *("--args", "--input", "--batch", "--weights", "--device", "--dtype", "--threads"),
            *("--tracer", "--trust", "--no-run", "--budget", "--grid-intensity", "--debug"),
        ),
    )
    assert typed().typed == ()


def test_the_grid_s_intensity_reaches_the_worker_and_is_nothing_without() -> None:
    named = typed("--grid-intensity", "381.5")
    assert named.spec("resnet18", started_at=0.0).grid_grams_per_kwh == 381.5
    assert typed().spec("resnet18", started_at=0.0).grid_grams_per_kwh is None


@pytest.mark.parametrize("name", ["FRA", "fra", "France", " france "])
def test_a_country_names_its_grid(name: str) -> None:
    spec = typed("--grid-intensity", name).spec("resnet18", started_at=0.0)
    assert spec.grid_named.startswith("France 20")
    # Nearly all of it is nuclear and water, 12 and 24 g in IPCC AR5's table, and some gas.
    assert spec.grid_grams_per_kwh == pytest.approx(60, abs=30)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Germny", "Was Germany meant?"),
        ("", "neither g per kWh"),
        ("\x1b[31mX", "neither g per kWh"),
        ("0", "not above 0"),
        ("-5", "not above 0"),
        ("nan", "not above 0"),
        ("inf", "not above 0"),
    ],
)
def test_what_is_no_grid_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        grid_intensity(text)
    assert "\x1b" not in str(refused.value)


def test_a_time_to_measure_reaches_the_worker() -> None:
    assert typed().spec("resnet18", started_at=0.0, seconds=2.5).seconds == 2.5


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.5%", 0.005), ("0.1", 0.1), ("1", 1)])
def test_a_share_is_typed_in_percent_or_not(text: str, share: float) -> None:
    assert typed("--budget", text).budget == pytest.approx(share)

"""Options beside a recording, a report or a program, which are what they were: refused, by verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from screens.cli.main import main
from tests.recording.files import timed, write
from tests.small_model import MEASURED
from tui_profiler.reports.json.report import json_report
from tui_profiler.source.recorded import last_session

OPTIONS = (
    *(("--batch", "4"), ("--device", "cpu"), ("--input", "1,3"), ("--dtype", "float16")),
    *(("--weights", "DEFAULT"), ("--threads", "2"), ("--tracer", "fx"), ("--trust",)),
    *(("--args", "[1]"), ("--budget", "3%"), ("--grid-intensity", "300")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("as_it_was")
    write(made / "a.rec", timed(MEASURED))
    (made / "a.json").write_text(json_report(last_session(made / "a.rec")[0]))
    return made


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def refused(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the sentence with which a command line is refused, before anything is done."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return " ".join(captured.err.partition("Error: ")[2].split())


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: str(option[0]))
@pytest.mark.parametrize("verb", [("report",), ("explore",), ("compare", "a.json")], ids=str)
def test_an_option_of_a_model_is_refused_beside_a_recording(
    verb: tuple[str, ...], option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(*verb, "a.rec", *option, capsys=capsys)
    assert said.endswith(f": omit {option[0]}.")
    assert said.startswith(("A recording cannot be changed", "A report cannot be changed"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("report", "a.rec", "demo:cnn", "--batch", "4", "--trust"),
            "A recording cannot be changed: omit --batch, --trust.",
        ),
        (("report", "a.rec", "--measure", "1"), "cannot be measured again: omit --measure."),
        (
            ("report", "--attach", "x", "--batch", "4"),
            "An attached program cannot be changed: omit --batch.",
        ),
        (("record", "--attach", "x", "-o", "b.rec", "--dtype", "float16"), "omit --dtype."),
        (("compare", "a.rec --batch 4", "demo:cnn"), "omit --batch."),
        (
            ("compare", "a.rec", "a.json", "--measure", "1"),
            "A recording cannot be changed, and neither side is a model: omit --measure.",
        ),
        (("try", "demo:cnn", "a.rec"), "A recording cannot be changed: give a model."),
        (("verify", "a.rec"), "A recording cannot be counted again: give a model."),
        (("sweep", "a.rec", "--batch", "1,2"), "run at other settings: give a model."),
        (("record", "a.rec", "-o", "b.rec"), "A recording cannot be recorded again: give a model."),
        (("onnx", "a.rec", "-o", "b.onnx"), "A recording cannot be exported: give a model."),
        (("open", "a.rec", "--batch", "4"), "No such option '--batch'."),
    ],
)
def test_each_verb_says_why(
    arguments: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(*arguments, capsys=capsys)
    assert {one.name for one in folder.iterdir()} == {"a.rec", "a.json"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "a.rec", "--no-run", "--debug", "--top", "3", "--findings"),
        ("compare", "a.rec", "a.json", "--no-run", "--debug", "--format", "table"),
    ],
)
def test_what_changes_nothing_is_let_be(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    assert "1×3×8×8 f32" in capsys.readouterr().out

"""Names that no model has are refused before anything is started."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from screens.cli.main import main


def said(capsys: pytest.CaptureFixture[str], *typed: str) -> tuple[int, str]:
    code = main(typed)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("report", "resnet19"), "Did you mean resnet18"),
        (("report", "Mobilenet_v4_small"), "mobilenet_v3_small"),
        (("report", "cnn"), "demo:cnn"),
        (("report", "vit_small_patch16_224"), "Did you mean timm:vit_small_patch16_224?"),
        (("report", "vit_smal_patch16_224"), "Did you mean timm:vit_small_patch16_224"),
        (("report", "no-such"), 'No model is named "no-such". tui-profiler models lists all.'),
    ],
)
def test_a_name_that_no_model_has_is_refused_with_what_is_like_it(capsys, typed, meant) -> None:
    code, error = said(capsys, *typed)
    assert code == 2
    assert "No model is named" in error
    assert meant in " ".join(error.split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("reprot", "resnet18"), "the verb report?"),
        (("atach",), "the verb attach?"),
        (("rnu", "train.py"), "the verb run?"),
        (("Reprot",), "the verb report?"),
        (("reprot", "--format", "json", "resnet18"), "the verb report?"),
        (("reprot", "--help"), "the verb report?"),
        (("resnt18",), "resnet18"),
        (("demo_cnn",), "demo:cnn"),
    ],
)
def test_a_verb_that_was_mistyped_is_refused_with_the_one_that_was_meant(
    capsys, typed, meant
) -> None:
    code, error = said(capsys, *typed)
    assert code == 2
    told = " ".join(error.split())
    assert f'No model or verb is named "{typed[0]}". Did you mean {meant}' in told


def test_what_is_like_a_verb_and_a_model_is_told_so(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said(capsys, "report", "no-such")  # Writes the cache.
    cached = tmp_path / "tui-profiler" / "torchvision_names"
    cached.write_text(f"{cached.read_text().splitlines()[0]}\nreport2\nresnet18")
    told = " ".join(said(capsys, "reprot2")[1].split())
    assert "Did you mean the verb report or report2?" in told


@pytest.mark.parametrize(
    "typed",
    [
        ("sweep", "resnt18", "--batch", "1,2"),
        ("try", "resnt18"),
        ("explore", "resnt18", "--web"),
        ("verify", "resnt18"),
        ("onnx", "resnt18", "-o", "new.onnx"),
        ("record", "resnt18", "-o", "new.rec"),
        ("compare", "resnet18", "resnt18 --batch 2", "--format", "table"),
    ],
)
def test_every_verb_refuses_an_unknown_name_before_torch_is_imported(capsys, typed) -> None:
    code, error = said(capsys, *typed)
    assert (code, 'No model is named "resnt18"' in error) == (2, True)


@pytest.mark.parametrize("name", ["no-such.rec", "no-such.json", "folder/no-such.onnx"])
def test_a_file_that_is_not_there_is_not_taken_for_a_module(capsys, name) -> None:
    code, error = said(capsys, "report", name)
    assert (code, f"There is no file '{name}'" in error) == (2, True)


def test_a_report_is_no_model(capsys, tmp_path) -> None:
    written = tmp_path / "before.json"
    written.write_text('{"schema": "tui-profiler/report/1"}')
    assert "is a report: tui-profiler compare reads it" in " ".join(
        said(capsys, "report", str(written))[1].split()
    )


def test_behind_a_verb_no_verb_is_meant(capsys) -> None:
    assert "the verb" not in said(capsys, "report", "reprot")[1]


def test_hostile_names_are_harmless(capsys) -> None:
    assert "\x1b" not in said(capsys, "report", "résnet\x1b[2J")[1]


NOT_REFUSED = ("net.py:build", "package.module:Class", "hf:dir", "timm:x", "a.pt", "ResNet50")


@pytest.mark.parametrize("name", NOT_REFUSED)
def test_names_that_there_are_and_other_sources_pass(name: str) -> None:
    from screens.options.verbs import require_known

    with CliRunner().isolation():
        require_known(name)

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
        (("reprot", "resnet18"), "Did you mean the verb report?"),
        (("report", "no-such"), 'No model is named "no-such". tui-profiler models lists all.'),
    ],
)
def test_a_name_that_no_model_has_is_refused_with_what_is_like_it(capsys, typed, meant) -> None:
    code, error = said(capsys, *typed)
    assert code == 2
    assert "No model is named" in error
    assert meant in " ".join(error.split())


def test_hostile_names_are_harmless(capsys) -> None:
    assert "\x1b" not in said(capsys, "report", "résnet\x1b[2J")[1]


NOT_REFUSED = ("net.py:build", "package.module:Class", "hf:dir", "timm:x", "a.pt", "ResNet50")


@pytest.mark.parametrize("name", NOT_REFUSED)
def test_names_that_there_are_and_other_sources_pass(name: str) -> None:
    from screens.cli.options import require_known

    with CliRunner().isolation():
        require_known(name)

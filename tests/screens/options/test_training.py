"""Options of training, as they are typed."""

from __future__ import annotations

import click
import pytest

from screens.cli.main import main
from screens.options.model import Chosen, model_options
from tui_profiler.messages import TrainSpec


@click.command()
@model_options
def _command(chosen: Chosen) -> TrainSpec | None:
    return chosen.spec("demo:cnn", started_at=0.0).train


def train(*typed: str) -> TrainSpec | None:
    found: TrainSpec | None = _command.main(list(typed), standalone_mode=False)
    return found


def test_training_is_what_is_typed() -> None:
    assert train() is None
    assert train("--train") == TrainSpec()
    typed = "--train --optimizer sgd,momentum=0.9 --checkpoint layers.* --accumulate 4"
    assert train(*typed.split(), "--autocast", "bf16", "--update", "--peak-flops", "989T") == (
        TrainSpec("sgd,momentum=0.9", "layers.*", 4, "bf16", update=True, peak_flops=989e12)
    )


@pytest.mark.parametrize(
    "option",
    [
        *(("--optimizer", "sgd"), ("--checkpoint", "blocks"), ("--accumulate", "2")),
        *(("--autocast", "bf16"), ("--update",), ("--peak-flops", "1e12")),
    ],
    ids=lambda option: option[0],
)
def test_an_option_of_training_alone_is_refused(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in (("report",), ("sweep", "--batch", "1,2")):
        assert main((*verb, "demo:cnn", *option)) == 2
        assert f"{option[0]} applies to training steps: add --train." in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["0", "-1T", "T", "nan", "inf", "1e30"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    with pytest.raises(click.UsageError, match="is not a rate such as 989T"):
        train("--train", f"--peak-flops={rate}")


@pytest.mark.parametrize("verb", ["verify", "onnx"])
def test_verbs_of_one_forward_do_not_train(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main((verb, "demo:cnn", "--train")) == 2
    assert "No such option" in capsys.readouterr().err

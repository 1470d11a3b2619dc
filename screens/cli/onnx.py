"""``onnx``: a model as an ONNX file."""

from __future__ import annotations

import click

from ..options.model import Chosen, file_option, model_options
from ..options.refusals import require_models
from .first_word import models_and_files


@click.command("onnx", short_help="Write a model as an ONNX file.")
@click.argument("model", shell_complete=models_and_files)
@file_option("--output", "-o", required=True, help="Where to write it.")
@click.option(
    "--opset",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Version of ONNX's operators; without it torch chooses.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@model_options
@click.pass_obj
def onnx(
    started_at: float,
    /,
    model: str,
    output: str,
    opset: int | None,
    force: bool,
    chosen: Chosen,
) -> int:
    """Write MODEL as an ONNX file by torch.onnx, for the shapes of its inputs, and check it.

    It needs the packages onnx and onnxscript: pip install 'tui-profiler[onnx]'.
    """
    from .run_parts.onnx import run_onnx  # noqa: PLC0415

    require_models([model], "exported")
    return run_onnx(model, (output, opset, force), chosen, started_at=started_at)

"""``onnx``: a model as an ONNX file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from tui_profiler.formatting.text import safe
from tui_profiler.messages import ExportOnnx
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.one_request import exported_lines, onnx
from tui_profiler.verbs.outcome import MODEL_FAILED, complaint, exit_code

from ..options.model import Chosen, file_option, model_options
from ..terminal.standard_output import put, require_writable, say, speaker
from .options import models_and_files, require_models


@click.command("onnx")
@click.argument("model", shell_complete=models_and_files)
@file_option("--output", "-o", required=True, help="Output file.")
@click.option(
    "--opset",
    type=click.IntRange(1, 100),
    metavar="N",
    help="ONNX opset version; default: chosen by torch.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@model_options
@click.pass_obj
def onnx_verb(
    started_at: float,
    /,
    model: str,
    output: str,
    opset: int | None,
    force: bool,
    chosen: Chosen,
) -> int:
    """Export MODEL to an ONNX file with torch.onnx, for the shapes of its inputs, and check it.

    Requires the packages onnx and onnxscript: pip install 'tui-profiler[onnx]'.
    """
    require_models([model], "exported")
    return _write(model, (output, opset, force), chosen, started_at=started_at)


def _write(
    model: str, wanted: tuple[str, int | None, bool], chosen: Chosen, *, started_at: float
) -> int:
    """Write the file and tell what it holds; give the exit code.

    Args:
        model: as typed.
        wanted: where to, which version of the operators, and whether a file there may go.
        chosen: the options of the model.
        started_at: Unix time at which the command was started.

    Raises:
        UsageError: the file cannot be written, or there is one.
    """
    output, opset, force = wanted
    require_writable(output)
    if Path(output).exists() and not Path(output).is_file():
        raise click.UsageError(f"{safe(output)} is not a regular file.")
    if not force and Path(output).exists():
        raise click.UsageError(f"{safe(output)} exists already: --force overwrites it.")
    request = ExportOnnx(chosen.spec(model, started_at=started_at), output, opset)
    session = asyncio.run(onnx(Spawned(worker_command(), first=[request]), speaker(model)))
    for line in complaint(session, debug=chosen.debug):
        say(model, line)
    if session.exported is None:
        return exit_code(session) or MODEL_FAILED
    put("".join(f"{line}\n" for line in exported_lines(session.exported)))
    return 0

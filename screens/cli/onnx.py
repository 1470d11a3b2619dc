"""``onnx``: a model as an ONNX file."""

import asyncio
from pathlib import Path

import click

from tui_profiler.formatting.text import safe
from tui_profiler.messages import ExportOnnx
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.one_request import exported_lines, onnx
from tui_profiler.verbs.outcome import MODEL_FAILED, complaint, exit_code

from ..options import verbs as options
from ..options.model import TRAINING, Chosen, model_options_but
from ..terminal.standard_output import put, require_writable, say, speaker


@click.command("onnx")
@options.model
@options.new_file
@options.count("--opset", "ONNX opset version; default: chosen by torch.", most=100)
@options.force
@model_options_but(*TRAINING)
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
    options.require_models([model], "exported")
    require_writable(output)
    if Path(output).exists() and not Path(output).is_file():
        raise click.UsageError(f"{safe(output)} is not a regular file.")
    if not force and Path(output).exists():
        raise click.UsageError(f"{safe(output)} exists already: --force overwrites it.")
    request = ExportOnnx(chosen.spec(model, started_at=started_at), output, opset)
    session = asyncio.run(onnx(worker(request), speaker(model)))
    say(model, *complaint(session, debug=chosen.debug))
    if session.exported is None:
        return exit_code(session) or MODEL_FAILED
    put("".join(f"{line}\n" for line in exported_lines(session.exported)))
    return 0

"""A model as an ONNX file, by ``torch.onnx``.

1. The file is written beside the requested one and replaces it when it is complete and has passed
   ``onnx.checker``: a failure does not lose the previous file.
2. Parameters are compared by name before the exporter folds constants: later a convolution may
   contain its batch norm, without a trace in its name.
"""

import os
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import torch

from tui_profiler.messages import Exported, ExportOnnx, Failed, LoadSpec, Remedy
from tui_profiler.probe.load.common.optional_libraries import library
from tui_profiler.probe.load.load import load
from tui_profiler.probe.sandbox.confinement import confinement
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.batch_axis import of_batch
from tui_profiler.probe.trace.failure import one_line
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.worker.failures import StageError, failure
from tui_profiler.probe.worker.stages import Stages

_MOST_MISSING = 100


def export_onnx(request: ExportOnnx, stages: Stages) -> Exported:
    """Write the file and return what it contains.

    Raises:
        StageError, LoadError, TraceError: a stage failed.
    """
    onnx = library("onnx", "ONNX files", "onnx")
    library("onnxscript", "ONNX files", "onnx")
    model, inputs = _model(request.spec, stages)
    path = Path(request.spec.folder or ".", request.path).absolute()
    with stages.stage("export", "export the file") as details:
        try:
            program = _program(model, inputs, request.opset)
            in_graph, missing = _compared(model, program)
            program.optimize()
            _require_opset(request.opset, program)
            files = _saved(program, path, onnx)
        # A foreign exporter: whatever it raises becomes one sentence.
        except (Exception, SystemExit) as error:
            raise StageError(_failed(error, model)) from error
        details.append(f"opset {_opset(program)}, checked")
    graph = program.model.graph
    return Exported(
        path=str(path),
        files=tuple(file.name for file in files),
        bytes=sum(file.stat().st_size for file in files),
        opset=_opset(program),
        exporter=f"torch {torch.__version__}, onnx {onnx.__version__}",
        operators=len(graph),
        inputs=tuple(f"{value.name} {value.type} {value.shape}" for value in graph.inputs),
        values_in_file=sum(_elements(value) for value in graph.initializers.values()),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        parameters_in_file=in_graph,
        missing=missing[:_MOST_MISSING],
    )


def _model(spec: LoadSpec, stages: Stages) -> tuple[torch.nn.Module, Inputs]:
    with stages.stage("load model"):
        loaded = load(spec)
        model = loaded.model
    with stages.stage("trace", "infer its inputs"):
        given = of_batch(model, loaded.candidates, loaded.batch)
        inputs = trace(model, tuple(given), spec.tracer, name=spec.model).inputs
    if loaded.initialise is None:
        return model, inputs
    with stages.stage("initialise", "the same model, with values"):
        return loaded.initialise(), inputs


def _program(model: torch.nn.Module, inputs: Inputs, opset: int | None) -> Any:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            inputs.args,
            kwargs=inputs.keywords(),
            opset_version=opset,
            dynamo=True,
            optimize=False,
            verbose=False,
        )
    assert program is not None  # As documented, with dynamo=True.
    return program


def _require_opset(asked: int | None, program: Any) -> None:
    """Raise StageError for another opset than the requested: torch.onnx only warns."""
    written = _opset(program)
    if asked is not None and written != asked:
        what = f"torch.onnx has no opset {asked} for this model: it wrote {written}"
        remedies = (Remedy(f"--opset {written}", "the nearest that it can write"),)
        raise StageError(Failed("export", what, remedies=remedies, bad_argument=True))


def _compared(model: torch.nn.Module, program: Any) -> tuple[int, tuple[str, ...]]:
    """Return how many parameters of the model are in the graph, and the names of the others."""
    there = program.model.graph.initializers
    names: dict[int, list[str]] = {}
    sizes: dict[int, int] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
        sizes[id(parameter)] = parameter.numel()
    held, missing = 0, []
    for identity, called in names.items():
        found = next((name for name in called if name in there), None)
        if found is not None and _elements(there[found]) == sizes[identity]:
            held += sizes[identity]
        else:
            missing.append(called[0])
    return held, tuple(missing)


def _saved(program: Any, path: Path, onnx: ModuleType) -> tuple[Path, ...]:
    """Write and check the files in a temporary folder, then move them to their place."""
    broker = confinement()
    if broker is not None and broker.delivery is not None:
        _save_checked(program, broker.delivery.folder / path.name, onnx)
        return broker.deliver()
    with tempfile.TemporaryDirectory(prefix=".onnx-", dir=path.parent) as folder:
        _save_checked(program, Path(folder, path.name), onnx)
        # Values first: the model cannot be read without them.
        made = sorted(Path(folder).iterdir(), key=lambda file: file.name == path.name)
        placed = []
        for file in made:
            placed.append(path.parent / file.name)
            os.replace(file, placed[-1])
    return tuple(reversed(placed))


def _save_checked(program: Any, whole: Path, onnx: ModuleType) -> None:
    program.save(whole)
    onnx.checker.check_model(str(whole), full_check=True)


def _elements(value: Any) -> int:
    held = value.const_value
    return int(held.size) if held is not None else 0


def _opset(program: Any) -> int:
    return int(program.model.opset_imports.get("", 0))


def _failed(error: BaseException, model: torch.nn.Module) -> Failed:
    """Return the message of the root cause: torch.onnx's own error only names a step."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, OSError | StageError):
        return failure(cause, "export")
    told = failure(cause, "export", model)
    what = f"torch.onnx could not write this model: {one_line(cause)}"
    return msgspec.structs.replace(told, what=what)

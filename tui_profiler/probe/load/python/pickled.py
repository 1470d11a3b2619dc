"""A pickled model: refused, with what it would import, unless the user trusts it."""

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from tui_profiler.archive import Found
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.architectures.ultralytics_models import NAME as ULTRALYTICS
from tui_profiler.probe.load.architectures.ultralytics_models import ultralytics_tasks
from tui_profiler.probe.load.common import loaded_model
from tui_profiler.probe.load.common.errors import LoadError, model_failed, reason
from tui_profiler.probe.load.common.initialisation import with_shapes
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.load.python.models import put_first_on_path

_INNER_NAMES = ("ema", "model", "module", "net", "network")
"""Where training scripts put a whole model beside their optimizer's state, likeliest first."""


def load_pickled(
    path: Path, found: Found, spec: LoadSpec, settings: loaded_model.Settings
) -> loaded_model.Loaded:
    """Unpickle a model; code of whoever made the file runs. The user has said that it may.

    The user's folder goes first on Python's path, as their own classes may be needed.
    """
    assert spec.trust
    put_first_on_path(Path(spec.folder or "."), path.parent)
    model = loaded_model.place(
        _module_in(_unpickled(path, found, spec.model), spec.model), settings
    )
    return loaded_model.loaded(
        model,
        "pickled module",
        "its own",
        lambda model, settings: with_shapes(model, candidates_for(model, None, spec, settings)),
        loaded_model.as_the_model(model, settings),
        knows_batch=False,
    )


def _unpickled(path: Path, found: Found, shown: str) -> object:
    if any(name.startswith(f"{ULTRALYTICS}.") for name in found.globals):
        ultralytics_tasks()  # Unpickling would import it as well, but not quietly.
    try:
        if found.kind == "raw-pickle":
            with path.open("rb") as stream:
                return pickle.load(stream)
        return torch.load(path, map_location="cpu", weights_only=False)
    except (Exception, SystemExit) as error:
        raise _failed(error, shown) from error


def _failed(error: BaseException, shown: str) -> LoadError:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return model_failed(
            f"{shown} needs the Python module {error.name}, which is not installed here",
            (f"pip install {package}", "if that is the package that has it"),
            ("tui-profiler from the folder that contains it", "it goes first on Python's path"),
            error=error,
        )
    if isinstance(error, AttributeError):
        what = f"{shown} needs something that the code here does not have: {reason(error)}"
        return model_failed(what, error=error)
    return model_failed(f"{shown} cannot be unpickled: {reason(error)}", error=error)


def _module_in(content: object, shown: str) -> nn.Module:
    """Return the model: what was pickled, or what lies under a usual name in a checkpoint."""
    if isinstance(content, nn.Module):
        return content
    if isinstance(content, Mapping):
        for name in (*_INNER_NAMES, *content):
            inner = content.get(name)
            if isinstance(inner, nn.Module):
                return inner
    name = type(content).__name__
    raise model_failed(
        f"{shown} contains a {name} without a torch.nn.Module in it",
        (f"tui-profiler {shown}", "without --trust: shows its parameters, if it has some"),
    )

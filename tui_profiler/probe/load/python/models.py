"""The user's own model: ``path/to/file.py:build`` or ``pkg.module:build``.

The demo models that come with us are files that are loaded the same way.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError, nearest, wrong_request
from tui_profiler.probe.load.common.factory import model_from
from tui_profiler.probe.load.common.initialisation import give_shapes, seeded
from tui_profiler.probe.load.common.layers import is_lazy
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.common.settings import Settings, place
from tui_profiler.probe.load.files.state_dict import bind_file, file_of_weights
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.load.python.modules import (
    import_file,
    import_named,
    named_object,
    only_name,
    put_first_on_path,
)
from tui_profiler.system.demos import PREFIX, demo_file, demo_names


@dataclass(frozen=True)
class _Found:
    """An object in a Python module."""

    module: ModuleType
    value: object
    shown: str
    """``file.py:build``, also where the user left ``:build`` away."""
    source: str
    """``demo``, or the file or module as typed."""


def load_own_code(spec: LoadSpec, settings: Settings) -> Loaded:
    """Load a model from a Python file or module; its factory runs exactly once.

    Raises:
        LoadError: Something that was named is not there, or their code does not run.
    """
    found = _find(spec)
    is_demo = found.source == "demo"
    # A demo has the same random values each time; the user's random state is the user's.
    with seeded() if is_demo else nullcontext():
        model = model_from(found.value, spec.arguments, found.shown)
    weights = "random" if is_demo else "its own"
    if spec.weights:
        path = file_of_weights(spec.weights, spec.folder)
        if path is None:
            raise wrong_request(
                f'--weights "{spec.weights}": there is no such file, and {found.shown} has no'
                " published weights"
            )
        bind_file(path, spec.weights, model, found.shown)
        weights = spec.weights
    model = place(model, settings)
    candidates = candidates_for(model, found.module, spec, settings)
    if is_lazy(model):
        candidates = (give_shapes(model, candidates),)
    return Loaded(
        model=model,
        facts_source=found.source,
        weights=weights,
        candidates=candidates,
        remake=lambda model, batch: candidates_for(
            model, found.module, spec, replace(settings, batch=batch)
        ),
    )


def is_own_code(model: str) -> bool:
    """Say whether a name on the command line means a Python file, a module or a demo model."""
    return ":" in model or model.endswith(".py")


def _find(spec: LoadSpec) -> _Found:
    where, _, name = spec.model.rpartition(":")
    if spec.model.endswith(".py"):
        where, name = spec.model, ""
    if f"{where}:" == PREFIX:
        return _find_demo(name)
    folder = Path(spec.folder or ".")
    if where.endswith(".py"):
        path = folder / Path(where).expanduser()
        if not path.is_file():
            raise _no_file(where, path)
        put_first_on_path(folder, path.parent)
        module = import_file(path, where)
    else:
        put_first_on_path(folder)
        module = import_named(where, folder)
    name = name or only_name(module, where)
    return _Found(module, named_object(module, name, where), f"{where}:{name}", where)


def _find_demo(name: str) -> _Found:
    path = demo_file(name)
    if path is None:
        names = demo_names()
        raise wrong_request(
            f'there is no demo model "{name}"',
            *(
                (f"tui-profiler {PREFIX}{near}", "runs this one")
                for near in nearest(name, names) or names
            ),
        )
    shown = f"{PREFIX}{name}"
    module = import_file(path, shown)
    return _Found(module, named_object(module, "build", shown), shown, "demo")


def _no_file(shown: str, path: Path) -> LoadError:
    folder = path.parent
    if not folder.is_dir():
        return wrong_request(f"there is no file {shown}, nor the folder {folder.resolve()}")
    beside = sorted(other.name for other in folder.glob("*.py") if other.is_file())
    typed_folder = shown.rpartition("/")[0]
    prefix = f"{typed_folder}/" if typed_folder else ""
    return wrong_request(
        f"there is no file {path.name} in {folder.resolve()}",
        *(
            (f"tui-profiler {prefix}{near}", "takes this file")
            for near in nearest(path.name, beside) or beside[:2]
        ),
    )

"""The user's own model: ``path/to/file.py:build`` or ``pkg.module:build``.

1. The demo models that come with us are files that are loaded the same way.
2. The user's folder goes first on the module path when, and only when, their code is loaded, and
   stays there: a forward may import as well. The file's own folder comes after it.
3. A file is a module of its own name, so that its classes can be pickled and other files of the
   user's that import it get the same one.
4. An instance is taken as it is, a class or factory called once.
"""

import ast
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import errors, loaded_model
from tui_profiler.probe.load.common.initialisation import seeded, with_shapes
from tui_profiler.probe.load.files.state_dict import bind_file, file_of_weights
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.system.demos import PREFIX, demo_file, demo_names

_MODEL_NAME = "build"
"""What is taken from a file where the user names nothing."""
_SAMPLES = {"int": 1, "float": 0.5, "str": "", "bool": True}


@dataclass(frozen=True)
class _Found:
    module: ModuleType
    value: object
    shown: str
    """``file.py:build``, also where the user left ``:build`` away."""
    source: str
    """``demo``, or the file or module as typed."""


def load_own_code(spec: LoadSpec, settings: loaded_model.Settings) -> loaded_model.Loaded:
    """Load a model from a Python file or module; its factory runs exactly once."""
    found = _find(spec)
    is_demo = found.source == "demo"
    # A demo has the same random values each time; the user's random state is the user's.
    with seeded() if is_demo else nullcontext():
        model = _model_from(found.value, spec.arguments, found.shown)
    weights = "random" if is_demo else "its own"
    if spec.weights:
        path = file_of_weights(spec.weights, spec.folder)
        if path is None:
            raise errors.wrong_request(
                f'--weights "{spec.weights}": there is no such file, and {found.shown} has no'
                " published weights"
            )
        bind_file(path, spec.weights, model, found.shown)
        weights = spec.weights
    return loaded_model.loaded(
        loaded_model.place(model, settings),
        found.source,
        weights,
        lambda model, settings: with_shapes(
            model, candidates_for(model, found.module, spec, settings)
        ),
        settings,
        knows_batch=False,
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
        module = _import_file(path, where)
    else:
        put_first_on_path(folder)
        module = _import_named(where, folder)
    name = name or _only_name(module, where)
    return _Found(module, _named_object(module, name, where), f"{where}:{name}", where)


def _find_demo(name: str) -> _Found:
    path = demo_file(name)
    if path is None:
        names = demo_names()
        raise errors.wrong_request(
            f'there is no demo model "{name}"',
            *(
                (f"tui-profiler {PREFIX}{near}", "runs this one")
                for near in errors.nearest(name, names) or names
            ),
        )
    shown = f"{PREFIX}{name}"
    module = _import_file(path, shown)
    return _Found(module, _named_object(module, "build", shown), shown, "demo")


def _no_file(shown: str, path: Path) -> errors.LoadError:
    folder = path.parent
    if not folder.is_dir():
        return errors.wrong_request(f"there is no file {shown}, nor the folder {folder.resolve()}")
    what = f"there is no file {path.name} in {folder.resolve()}"
    return errors.wrong_request(what, *errors.files_beside(path, shown, (".py",)))


def put_first_on_path(*folders: Path) -> None:
    """Let imports look into these folders first, in this order."""
    wanted = list(dict.fromkeys(str(folder.resolve()) for folder in folders))
    sys.path[:] = wanted + [entry for entry in sys.path if entry not in wanted]


def _import_file(path: Path, shown: str) -> ModuleType:
    path = path.resolve()
    name = path.stem
    if _has_relative_imports(path):
        root, name = _package_of(path)
        put_first_on_path(root)
        return _imported(name, shown)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if known is not None or not name.isidentifier():
        name = f"{name}__profiled"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise errors.wrong_request(f"{shown} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _does_not_import(shown, error) from error
    return module


def _import_named(name: str, folder: Path) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise errors.wrong_request(
            f'"{name}" is neither a Python file nor the name of a module',
            ("tui-profiler file.py:build", "takes build from a file"),
        )
    try:
        return _imported(name, name)
    except errors.LoadError as error:
        cause = error.__cause__
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        if missing is None or not f"{name}.".startswith(f"{missing}."):
            raise
        remedies = [
            (f"tui-profiler {found.relative_to(folder)}:{_MODEL_NAME}", "takes it from the file")
            for found in [folder / Path(*name.split(".")).with_suffix(".py")]
            if found.is_file()
        ]
        raise errors.wrong_request(
            f'there is no module "{missing}" in {folder.resolve()} or in this Python environment',
            *remedies,
        ) from cause


def _named_object(module: ModuleType, dotted: str, shown: str) -> object:
    found: object = module
    for part in dotted.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = _loadable_names(module)
            likely = (
                errors.nearest(dotted, (name for name in vars(module) if name[0] != "_")) or names
            )
            what = f'{shown} has no "{dotted}"'
            if names:
                what += f"; it has {errors.in_words(names)}"
            raise errors.wrong_request(
                what,
                *((f"tui-profiler {shown}:{name}", "takes this one") for name in likely[:3]),
            ) from None
    return found


def _only_name(module: ModuleType, shown: str) -> str:
    """Name the one object that the user can mean where they named none.

    ``build`` where there is one, else the only module class that is defined there.
    """
    if callable(getattr(module, _MODEL_NAME, None)):
        return _MODEL_NAME
    classes = _own_classes(module)
    if len(classes) == 1:
        return classes[0]
    names = _loadable_names(module)
    if not names:
        raise errors.wrong_request(
            f"{shown} has neither a function nor a class that could give a model",
            (f"tui-profiler {shown}:{_MODEL_NAME}", f"once it has a function {_MODEL_NAME}()"),
        )
    raise errors.wrong_request(
        f"{shown} has no function {_MODEL_NAME}; which of {errors.in_words(names)} is meant",
        *((f"tui-profiler {shown}:{name}", "takes this one") for name in names[:4]),
    )


def _loadable_names(module: ModuleType) -> list[str]:
    """Name what could give a model: module classes, modules, functions, in this order."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    classes = [name for name in _own_classes(module) if name in own]
    instances = [name for name, value in own.items() if isinstance(value, torch.nn.Module)]
    functions = [
        name
        for name, value in own.items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    return classes + instances + functions


def _own_classes(module: ModuleType) -> list[str]:
    """Name the module classes that are defined there."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == module.__name__
    ]


def _imported(name: str, shown: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _does_not_import(shown, error) from error


def _does_not_import(shown: str, error: BaseException) -> errors.LoadError:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return errors.model_failed(
            f'{shown} needs the module "{error.name}", which is not in this environment',
            (f"pip install {package}", "if the package is called like the module"),
            error=error,
        )
    return errors.model_failed(f"{shown} does not import: {errors.reason(error)}", error=error)


def _has_relative_imports(path: Path) -> bool:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False  # importing it says so, with the line
    return any(isinstance(part, ast.ImportFrom) and part.level for part in ast.walk(tree))


def _package_of(path: Path) -> tuple[Path, str]:
    """Return the folder above the outermost package of a file, and the file's dotted name."""
    parts = [path.stem]
    folder = path.parent
    # A file that imports from its own folder is in a package, __init__.py or not.
    while (folder / "__init__.py").is_file() or len(parts) == 1:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _model_from(made_by: object, arguments: str, shown: str) -> torch.nn.Module:
    args, kwargs = loaded_model.parse_arguments(arguments)
    if isinstance(made_by, torch.nn.Module):
        if args or kwargs:
            raise errors.wrong_request(
                f"{shown} is a model already, and has no --args",
                (f"tui-profiler {shown}", "without --args"),
            )
        return made_by
    if not callable(made_by):
        raise errors.wrong_request(
            f"{shown} is of type {type(made_by).__name__}: not a module, a module class or a"
            " function that returns one",
            (f"tui-profiler {shown.rpartition(':')[0] or shown}", "lists what else is there"),
        )
    _check_arguments(made_by, args, kwargs, shown)
    try:
        model = made_by(*args, **kwargs)
    except (Exception, SystemExit) as error:
        raise errors.model_failed(f"{shown} raised {errors.reason(error)}", error=error) from error
    if not isinstance(model, torch.nn.Module):
        raise _no_module(made_by, model, shown)
    return model


def _defined_at(value: object) -> str:
    """Return ``file:line`` of a function or class; empty where Python does not know it."""
    function = inspect.unwrap(value) if callable(value) else value
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    try:
        filename = inspect.getsourcefile(type(value) if not isinstance(value, type) else value)
        _, line = inspect.getsourcelines(type(value) if not isinstance(value, type) else value)
    except (OSError, TypeError):
        return ""
    return f"{filename}:{line}"


def _check_arguments(
    factory: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    shown: str,
) -> None:
    """Refuse arguments that do not fit, before the factory is called."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # built-in code without a signature: calling it tells
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        wanted = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        takes = errors.in_words(list(signature.parameters), 8)
        sample = json.dumps({parameter.name: _sample(parameter) for parameter in wanted})
        raise errors.wrong_request(
            f"{shown}({takes}) cannot be called with these arguments: {error}",
            (f"--args '{sample}'", "passes what it needs")
            if wanted
            else (f"tui-profiler {shown}", "without --args"),
            at=_defined_at(factory),
        ) from error


def _sample(parameter: inspect.Parameter) -> object:
    """Return a value of the type that the parameter is annotated with; 1 where there is none."""
    annotation = parameter.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return _SAMPLES.get(name, 1)


def _no_module(made_by: object, returned: object, shown: str) -> errors.LoadError:
    name = type(returned).__name__
    article = "an" if name[:1].lower() in "aeiou" else "a"
    kind = "None" if returned is None else f"{article} {name}"
    likely = ""
    if returned is None:
        likely = "its return statement is missing"
    elif isinstance(returned, (tuple, list)) and any(
        isinstance(part, torch.nn.Module) for part in returned
    ):
        likely = "the model is inside; return it alone"
    return errors.model_failed(
        f"{shown} returned {kind}, not a torch.nn.Module", at=_defined_at(made_by), likely=likely
    )

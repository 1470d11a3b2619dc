"""The user's own Python: a file or a module, imported from their folder, and what it holds.

1. The user's folder goes first on the module path when, and only when, their code is loaded, and
   stays there: a forward may import as well. The file's own folder comes after it.
2. A file is a module of its own name, so that its classes can be pickled and other files of the
   user's that import it get the same one.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import torch

from tui_profiler.probe.load.common import errors

MODEL_NAME = "build"
"""What is taken from a file where the user names nothing."""


def put_first_on_path(*folders: Path) -> None:
    """Let imports look into these folders first, in this order."""
    wanted = list(dict.fromkeys(str(folder.resolve()) for folder in folders))
    sys.path[:] = wanted + [entry for entry in sys.path if entry not in wanted]


def import_file(path: Path, shown: str) -> ModuleType:
    """Run a Python file as a module, once.

    Args:
        path: The file, which exists.
        shown: The file as the user typed it.

    Raises:
        LoadError: Its code does not run.
    """
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


def import_named(name: str, folder: Path) -> ModuleType:
    """Import a module by its dotted name.

    Raises:
        LoadError: There is none, or its code does not run.
    """
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
            (f"tui-profiler {found.relative_to(folder)}:{MODEL_NAME}", "takes it from the file")
            for found in [folder / Path(*name.split(".")).with_suffix(".py")]
            if found.is_file()
        ]
        raise errors.wrong_request(
            f'there is no module "{missing}" in {folder.resolve()} or in this Python environment',
            *remedies,
        ) from cause


def named_object(module: ModuleType, dotted: str, shown: str) -> object:
    """Return the object of that name, ``build`` or ``Net.small``.

    Raises:
        LoadError: There is none; the nearest names are offered.
    """
    found: object = module
    for part in dotted.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = loadable_names(module)
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


def only_name(module: ModuleType, shown: str) -> str:
    """Name the one object that the user can mean where they named none.

    ``build`` where there is one, else the only module class that is defined there.

    Raises:
        LoadError: There are several, or none.
    """
    if callable(getattr(module, MODEL_NAME, None)):
        return MODEL_NAME
    classes = [
        name
        for name, value in vars(module).items()
        if _is_module_class(value) and value.__module__ == module.__name__
    ]
    if len(classes) == 1:
        return classes[0]
    names = loadable_names(module)
    if not names:
        raise errors.wrong_request(
            f"{shown} has neither a function nor a class that could give a model",
            (f"tui-profiler {shown}:{MODEL_NAME}", f"once it has a function {MODEL_NAME}()"),
        )
    raise errors.wrong_request(
        f"{shown} has no function {MODEL_NAME}; which of {errors.in_words(names)} is meant",
        *((f"tui-profiler {shown}:{name}", "takes this one") for name in names[:4]),
    )


def loadable_names(module: ModuleType) -> list[str]:
    """Name what could give a model: module classes, modules, functions, in this order."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    classes = [
        name
        for name, value in own.items()
        if _is_module_class(value) and value.__module__ == module.__name__
    ]
    instances = [name for name, value in own.items() if isinstance(value, torch.nn.Module)]
    functions = [
        name
        for name, value in own.items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    return classes + instances + functions


def _is_module_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


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

"""Libraries that only some models need."""

from __future__ import annotations

import importlib
from types import ModuleType

from tui_profiler.probe.load.errors import model_failed, reason, wrong_request


def library(module: str, models: str, extra: str) -> ModuleType:
    """Import a library that may not be there.

    Args:
        module: Its name in Python.
        models: What needs it, as the start of a sentence: ``timm models``.
        extra: Of ours, which brings it.

    Raises:
        LoadError: It is not installed, or importing it raised.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise model_failed(f"{module} needs {error.name}", error=error) from error
        raise absent(module, models, extra) from None
    except Exception as error:
        raise model_failed(f"importing {module} raised {reason(error)}", error=error) from error


def absent(module: str, models: str, extra: str) -> Exception:
    """Give the error for a library that is not installed."""
    return wrong_request(
        f"{models} need the package {module}, which is not installed",
        (f"pip install 'tui-profiler[{extra}]'", "brings it"),
    )

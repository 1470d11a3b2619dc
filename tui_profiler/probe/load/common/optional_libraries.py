"""Libraries that only some models need."""

import importlib
import re
import traceback
from types import ModuleType

from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.probe.load.common.errors import LoadError, model_failed, reason, wrong_request

_NOT_ON_THIS_MACHINE = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
_WITHOUT_A_SCREEN = (
    "pip uninstall -y opencv-python && pip install opencv-python-headless",
    "installs the headless OpenCV, which needs no system libraries",
)


def library(module: str, models: str, extra: str) -> ModuleType:
    """Import a library that may not be there.

    Args:
        module: Its name in Python.
        models: What needs it, as the start of a sentence: ``timm models``.
        extra: Of ours, which brings it.

    Raises:
        LoadError: It is not installed, importing it raised, or a system library is missing.
    """
    try:
        with without_collector():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise model_failed(f"{module} needs {error.name}", error=error) from error
        raise absent(module, models, extra) from None
    except ImportError as error:
        raise not_imported(module, error) from error
    except Exception as error:
        raise model_failed(f"importing {module} raised {reason(error)}", error=error) from error


def not_imported(module: str, error: ImportError) -> LoadError:
    """Return the error for a library that is installed, but whose import fails.

    In a slim container a library of the system may be missing, which pip does not install.
    """
    missing = _NOT_ON_THIS_MACHINE.search(str(error))
    if missing is None:
        return model_failed(f"importing {module} raised {reason(error)}", error=error)
    by_opencv = any("cv2" in each.filename for each in traceback.extract_tb(error.__traceback__))
    remedy = (
        _WITHOUT_A_SCREEN
        if by_opencv
        else (f"ldconfig -p | grep {missing[1]}", "shows whether the system has it")
    )
    what = f"{module} is installed, but the system library {missing[1]} is missing"
    return model_failed(what, remedy, error=error)


def absent(module: str, models: str, extra: str) -> Exception:
    """Return the error for a library that is not installed."""
    return wrong_request(
        f"{models} need the package {module}, which is not installed",
        (f"pip install 'tui-profiler[{extra}]'", "installs it"),
    )

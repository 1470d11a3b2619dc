"""Has a Python that a script under ``run`` starts listen for viewers (``child_environment.py``).

Python's ``site`` imports it at each start, before the program's first line, if this folder is on
the path (docs.python.org/3/library/site.html).

1. The first thing that it does is to remove its folder from ``sys.path`` and from ``os.environ``:
   the program sees both as if nobody watched it.
2. Last it imports the ``sitecustomize`` that there would be without it; if there is none, the same
   error reaches ``site`` as without it.
3. In a Python whose environment does not have this very package nothing else happens. Its syntax is
   therefore one that older versions know.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER)))
_OLDEST = (3, 11)


def _leave() -> None:
    """Remove this folder from what the program sees (rule 1)."""
    sys.path[:] = [one for one in sys.path if one != _FOLDER]
    sys.path_importer_cache.pop(_FOLDER, None)
    given = os.environ.get("PYTHONPATH", "")
    if given == _FOLDER:
        del os.environ["PYTHONPATH"]
    elif given == _FOLDER + os.pathsep + _FOLDER:
        os.environ["PYTHONPATH"] = ""  # As it was: set, and empty.
    elif given.startswith(_FOLDER + os.pathsep):
        os.environ["PYTHONPATH"] = given[len(_FOLDER) + 1 :]


def _listen() -> None:
    """Have this process and those that it starts listen, if it has this package."""
    from importlib.util import find_spec  # noqa: PLC0415 # rule 1 comes first

    spec = find_spec("tui_profiler")
    if spec is None or not spec.origin or os.path.dirname(spec.origin) != _PACKAGE:
        return
    from tui_profiler.probe.watch import child_environment, enabled  # noqa: PLC0415

    child_environment.follow()
    enabled.listen()


_leave()
try:
    if sys.version_info >= _OLDEST:
        _listen()
except Exception as error:  # The border: the program starts all the same.
    import warnings

    warnings.warn(
        "tui-profiler: {}: {}".format(type(error).__name__, error),  # noqa: UP032 # rule 3
        stacklevel=1,
    )
del sys.modules[__name__]
import sitecustomize  # type: ignore[import-not-found] # noqa: E402, F401 # rule 2

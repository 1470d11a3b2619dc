"""A process with ``TUI_PROFILER=1`` listens for viewers once it has imported torch.

``tui-profiler enable`` writes the line that imports this module (``system/pth_file.py``): each
Python that starts runs it, before the program's first line.

1. Nothing that the program can see changes but ``sys.modules``, and until torch is imported
   ``sys.meta_path``. Nothing is printed; what fails is a warning, and the program continues.
2. The model is whatever the program runs: none is named, and none is looked for before a viewer
   attaches (``model_choice.py``).
3. Workers of ours do not listen by this, nor does a script under ``run`` (``script_models.py``).
"""

import importlib
import itertools
import os
import sys
import warnings

from tui_profiler.probe.watch.first_import import FirstImport

BROUGHT = ("platformdirs", "psutil", "resource", "statistics")
"""What we import and torch does not, whether at once or later. It is imported before the script's
folder is on the path: a file of that name there is not ours to run."""


_LISTENING: list[FirstImport] = []
"""The one of this process, once there is one."""


def listen() -> None:
    """Have this process listen for viewers once it has imported torch."""
    if _LISTENING or _is_ours():  # A folder may be taken for site-packages twice.
        return
    for name in BROUGHT:
        importlib.import_module(name)
    _LISTENING.append(FirstImport("torch", _nothing, imported))
    _LISTENING[0].listen()


def dismiss() -> None:
    """Have this process not listen: a viewer started it."""
    for one in _LISTENING:
        one.leave()


def _nothing() -> None:
    """Leave the import alone."""


def imported(is_there: bool) -> None:
    """Have this process listen now: its import of torch has ended.

    Args:
        is_there: whether torch is there, or its import has raised.
    """
    if not is_there:
        return
    try:
        from tui_profiler.probe.watch.watch import watch_process  # noqa: PLC0415 # rule 1

        watch_process()
    except Exception as error:  # The border: the program's import is none of our mistakes'.
        warnings.warn(f"tui-profiler: {type(error).__name__}: {error}", stacklevel=1)


def _is_ours() -> bool:
    """Tell whether a command of ours is to run here, by the arguments of the interpreter."""
    command = os.path.basename(sys.orig_argv[1]) if len(sys.orig_argv) > 1 else ""
    return command == "tui-profiler" or any(
        option == "-m" and module.partition(".")[0] == "tui_profiler"
        for option, module in itertools.pairwise(sys.orig_argv)
    )

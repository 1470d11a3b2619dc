"""The user's script, run as Python itself would run it, with the probe beside it.

1. The script sees its own ``sys.argv``, ``sys.path``, ``sys.flags``, environment and ``__main__``;
   what it raises is shown without our frames, and its exit code is the process's.
2. torch is imported by the script alone, with what it has set for that; then the probe starts
   (``script_models.py``).
3. A child that it forks ends as it would alone; the probe ignores it.
4. The socket to the viewer is not inherited by programs that the script starts.
"""

import atexit
import builtins
import contextlib
import os
import pkgutil
import runpy
import socket
import sys
import sysconfig
import threading
import traceback
import types
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import TracebackType

from tui_profiler.messages import Failed, Remedy
from tui_profiler.messages.failure import SCRIPT
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.watch.script_models import FLUSH_SECONDS, ScriptModels

_OURS = str(Path(__file__).resolve())
_PYTHONS = (sysconfig.get_path("stdlib") + os.sep, "<")
"""Where code of Python is; what begins with ``<`` is no file."""
_PACKAGES = frozenset(("site-packages", "dist-packages"))

_LOOK = (Remedy("L", "shows the output of the script"),)
_MOST_CHARACTERS = 1000
_MOST_TRACEBACK = 64 * 1024


def main(descriptor: str, started_at: str, budget: str, *rest: str) -> None:
    """Run the script that the arguments name.

    Args:
        descriptor: number of the socket to the viewer.
        started_at: Unix time at which the command was started.
        budget: what watching may cost, as a share of the model's time.
        rest: the file, ``-m`` and the module, ``-c`` and the code, or ``-`` for standard input;
            then the script's own arguments.

    Raises:
        SystemExit: as the script ended; with 1 where it raised.
        KeyboardInterrupt: the script was interrupted. It has been shown; Python ends the process by
            SIGINT for it.
    """
    os.set_inheritable(int(descriptor), False)
    link = Link(socket.socket(fileno=int(descriptor)), on_close=_nothing)
    models = ScriptModels(link, _name(rest), float(started_at), float(budget))
    models.listen()
    process = os.getpid()
    try:
        _run_shown(rest, link, models)
    except SystemExit as ended:
        if os.getpid() != process:
            _end_forked(ended.code)
        raise
    if os.getpid() != process:
        _end_forked(None)


def _run_shown(rest: Sequence[str], link: Link, models: ScriptModels) -> None:
    process = os.getpid()
    try:
        _run(rest)
    except SystemExit as error:
        if isinstance(error.code, str) and os.getpid() == process:
            _report(link, Failed(SCRIPT, error.code[:_MOST_CHARACTERS], remedies=_LOOK))
        raise
    except BaseException as error:  # What the script raised, shown as Python shows it.
        error = error.with_traceback(_without_ours(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        if os.getpid() == process:
            models.raised(error)
            _report(link, _failed(error))
        if isinstance(error, KeyboardInterrupt) and os.getpid() == process:
            sys.excepthook = _shown
            raise
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None


def _failed(error: BaseException) -> Failed:
    """Return what a script raised, in the words of its traceback."""
    # A SyntaxError begins with lines of the source, which are indented; notes come last.
    lines = traceback.format_exception_only(error)
    what = next((line for line in lines if not line.startswith(" ")), type(error).__name__)
    return Failed(
        SCRIPT,
        " ".join(what.split())[:_MOST_CHARACTERS],  # Messages of torch have several lines.
        at=_place(error.__traceback__),
        remedies=_LOOK,
        traceback="".join(traceback.format_exception(error))[-_MOST_TRACEBACK:],
    )


def _place(trace: TracebackType | None) -> str:
    """Return file and line of the innermost frame of the user's code, else of any."""
    frames = traceback.extract_tb(trace) if trace is not None else []
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith(_PYTHONS)
        and _PACKAGES.isdisjoint(frame.filename.split(os.sep))
    ]
    return "".join(f"{frame.filename}:{frame.lineno}" for frame in (own or frames)[-1:])


def _report(link: Link, failed: Failed) -> None:
    if not link.is_closed:
        link.send(failed)
        link.flush(FLUSH_SECONDS)


def _shown(*error: object) -> None:
    """Show nothing."""


def _end_forked(code: str | int | None) -> None:
    """End a child that the script has forked as Python does, but for what C libraries do last.

    The thread of torch's profiler, which we have set up, is not in the child, and its destructor
    waits for that thread for ever: torch 2.15, also without us once ``torch.profiler`` was used.
    """
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    threading._shutdown()  # type: ignore[attr-defined]  # As multiprocessing ends its children.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # Closed by the script, or by who read it.
            stream.flush()
    os._exit(1 if isinstance(code, str) else (code or 0) & 0xFF)


def _run(rest: Sequence[str]) -> None:
    """Run the script as Python runs ``python REST``.

    Source: ``pymain_run_python`` in Modules/main.c, Python 3.11 to 3.14.
    """
    sys.orig_argv = [sys.executable, *rest]  # By which some programs start themselves again.
    first, arguments = rest[0], rest[1:]
    module = _new_main()
    if first == "-m":
        sys.argv = ["-m", *arguments[1:]]
        _look_first_in(os.getcwd())
        runpy._run_module_as_main(arguments[0])  # type: ignore[attr-defined]
        return
    if first == "-c":
        sys.argv = ["-c", *arguments[1:]]
        _look_first_in("")
        _execute(arguments[0], "<string>", module)
        return
    sys.argv = list(rest)
    if first == "-":
        _look_first_in("")
        vars(module).update(__cached__=None, __file__="<stdin>")
        _execute(sys.stdin.buffer.read(), "<stdin>", module)
        return
    if pkgutil.get_importer(first) is not None:  # A folder or a zip file, with a ``__main__``.
        sys.path.insert(0, os.path.abspath(first))
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    _look_first_in(_folder_of(first))
    # As Python has it: the script may change its directory.
    path = os.path.join(os.getcwd(), first)
    is_compiled = path.endswith(".pyc")
    loader = (SourcelessFileLoader if is_compiled else SourceFileLoader)("__main__", path)
    vars(module).update(__cached__=None, __file__=path, __loader__=loader)
    if is_compiled:
        exec(loader.get_code("__main__") or "", vars(module))
    else:
        _execute(Path(path).read_bytes(), path, module)


def _new_main() -> types.ModuleType:
    """Return ``__main__`` as Python has it before a script runs.

    What the script pickles, and what it spawns, finds its classes under this name.
    """
    module = types.ModuleType("__main__")
    vars(module).update(__annotations__={}, __builtins__=builtins, __loader__=BuiltinImporter)
    sys.modules["__main__"] = module
    return module


def _execute(source: str | bytes, name: str, module: types.ModuleType) -> None:
    # Without what this file imports from __future__: the script's annotations are its own.
    exec(compile(source, name, "exec", dont_inherit=True), vars(module))


def _folder_of(file: str) -> str:
    """Return the folder of a script, of its target if it is a link.

    A link to no path (``/dev/fd/63`` to ``pipe:[4026]``, as ``<(command)`` makes) is in its own
    folder.
    """
    target = os.path.realpath(file)
    return os.path.dirname(target if os.path.exists(target) else os.path.abspath(file))


def _look_first_in(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _name(rest: Sequence[str]) -> str:
    if rest[0] in ("-c", "-"):
        return rest[0]
    return rest[1] if rest[0] == "-m" else Path(rest[0]).name


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    shown = trace
    while shown is not None and shown.tb_frame.f_code.co_filename.startswith(_OURS):
        shown = shown.tb_next
    return shown or trace


def _nothing() -> None:
    """The script goes on when nobody looks any more."""

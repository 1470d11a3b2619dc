"""The user's script, run as Python itself would run it, with the probe beside it.

1. The script sees its own ``sys.argv``, ``sys.path``, ``sys.flags``, environment and ``__main__``;
   what it raises is shown without our frames, and its exit code is the process's.
2. torch is imported by the script alone, with what it has set for that; then the probe starts
   (``script_models.py``).
3. A child that it forks ends as it would alone; the probe ignores it.
4. The socket to the viewer is not inherited by programs that the script starts.
"""

import atexit
import contextlib
import os
import runpy
import socket
import sys
import sysconfig
import threading
import traceback
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import TracebackType

from tui_profiler.messages import Failed, Remedy
from tui_profiler.messages.failure import SCRIPT
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.watch.script_models import FLUSH_SECONDS, ScriptModels

_OURS = (str(Path(__file__).resolve()), os.path.dirname(runpy.__file__) + os.sep + "runpy.py")
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
        rest: the file, or ``-m`` and the module, then the script's own arguments.

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
    sys.orig_argv = [sys.executable, *rest]  # By which some programs start themselves again.
    if rest[0] == "-m":
        sys.argv = list(rest[1:])
        _look_first_in(os.getcwd())
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        return
    file = Path(rest[0])
    sys.argv = list(rest)
    if file.is_dir() or file.suffix in (".pyc", ".zip", ".pyz"):
        runpy.run_path(str(file), run_name="__main__")
        return
    _look_first_in(str(file.resolve().parent))
    module = types.ModuleType("__main__")
    # As Python has it: the script may change its directory.
    path = os.path.join(os.getcwd(), rest[0])
    loader = SourceFileLoader("__main__", path)
    vars(module).update(
        __annotations__={},
        __builtins__=__builtins__,
        __cached__=None,
        __file__=path,
        __loader__=loader,
    )
    # What the script pickles, and what it spawns, finds its classes under this name.
    sys.modules["__main__"] = module
    # Without what this file imports from __future__: the script's annotations are its own.
    exec(compile(file.read_bytes(), path, "exec", dont_inherit=True), vars(module))


def _look_first_in(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _name(rest: Sequence[str]) -> str:
    return rest[1] if rest[0] == "-m" else Path(rest[0]).name


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    shown = trace
    while shown is not None and shown.tb_frame.f_code.co_filename.startswith(_OURS):
        shown = shown.tb_next
    return shown or trace


def _nothing() -> None:
    """The script goes on when nobody looks any more."""

"""The report of an internal error: a file with what is needed to fix it, and where it is.

The file holds versions, the terminal, the traceback without the values of variables, and the last
lines of the log. No tensor comes near it: the screens have none.
"""

import os
import platform
import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

import platformdirs
from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.system.files import private_directory, write_private

CRASHED = 70
"""Exit code of an internal error, as sysexits.h numbers it."""
MOST_FILES = 10
"""The newest are kept."""
_MOST_TRACEBACK_LINES = 400
_MOST_LOG_LINES = 20
_PACKAGES = ("tui-profiler", "textual", "rich", "msgspec", "click")
_VARIABLES = ("TERM", "COLORTERM", "TERM_PROGRAM", "LC_ALL", "LC_CTYPE", "LANG", "NO_COLOR")
_HEAD = """\
tui-profiler crashed: internal error. This file has what is needed to fix it.
It contains no values of tensors or variables, but paths of this machine, and the last lines
that your model printed: read it before you pass it on.
"""


class CrashContext(Struct, frozen=True):
    """What the screens were doing when it happened."""

    screens: tuple[str, ...] = ()
    """Names of their classes, the app first, the one on top last."""
    columns: int = 0
    """Of the terminal."""
    rows: int = 0
    facts: tuple[tuple[str, str], ...] = ()
    """What else is known of the session: (name, value)."""
    log: tuple[str, ...] = ()
    """What the model and the worker printed, last line last."""


def crash_report(
    error: BaseException,
    circumstances: CrashContext,
    *,
    at: float,
    environment: Mapping[str, str],
) -> str:
    """Return the text of the file.

    Args:
        error: what was raised.
        circumstances: where.
        at: Unix time when it happened.
        environment: variables of the process, of which the terminal's are named.
    """
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    terminal = [(name, environment[name]) for name in _VARIABLES if name in environment]
    inside = [word for name, word in (("TMUX", "tmux"), ("STY", "screen")) if name in environment]
    facts = [
        ("when", when),
        *((name, _version(name)) for name in _PACKAGES),
        ("python", platform.python_version()),
        ("system", platform.platform()),
        ("terminal", f"{circumstances.columns} columns, {circumstances.rows} rows"),
        *terminal,
        *(("inside", word) for word in inside),
        ("screens", " > ".join(circumstances.screens)),
        *circumstances.facts,
    ]
    lines = [*_HEAD.splitlines(), ""]
    lines += [f"{name:<14}{safe(value)}" for name, value in facts]
    lines += ["", *_traceback(error), "", "The last lines of the log:"]
    lines += [f"  {safe(line)}" for line in circumstances.log[-_MOST_LOG_LINES:]] or ["  none"]
    return "\n".join(lines) + "\n"


def keep(report: str, folder: Path, at: float) -> Path:
    """Write a report into ``folder``, for its owner alone, and forget the oldest ones.

    Raises:
        OSError: it cannot be written.
    """
    private_directory(folder)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at))
    path = folder / f"crash-{stamp}-{os.getpid()}.txt"
    write_private(path, report.encode("utf-8", "replace"))
    for old in sorted(folder.glob("crash-*.txt"))[:-MOST_FILES]:
        old.unlink(missing_ok=True)
    return path


def tell(error: BaseException, circumstances: CrashContext) -> None:
    """Keep a report and say on standard error where; where it cannot be kept, say all of it."""
    at = time.time()
    report = crash_report(error, circumstances, at=at, environment=os.environ)
    what = safe(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    what = f"tui-profiler crashed: internal error ({what})"
    folder = platformdirs.user_log_dir("tui-profiler", appauthor=False)
    try:
        said = f"{what}: {keep(report, Path(folder), at)} has what is needed to report it.\n"
    except OSError as refused:
        said = f"{report}{what}, and its report could not be kept: {safe(str(refused))}.\n"
    sys.stderr.write(said)
    sys.stderr.flush()


def _version(package: str) -> str:
    # Here, and not where every start would wait for it.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def _traceback(error: BaseException) -> Iterable[str]:
    text = "".join(traceback.format_exception(error))
    lines = [safe(line) for line in text.splitlines()]
    if len(lines) <= _MOST_TRACEBACK_LINES:
        return lines
    half = _MOST_TRACEBACK_LINES // 2
    left_out = f"  … {len(lines) - 2 * half} lines are left out …"
    return (*lines[:half], left_out, *lines[-half:])

"""The line in an environment with which its programs listen for viewers where ``TUI_PROFILER=1``.

Python runs the lines of a ``.pth`` file that begin with ``import`` at each start
(docs.python.org/3/library/site.html). Without the variable this one is one look-up in
``os.environ``, and imports nothing: ``os`` is there already.
"""

import sysconfig
from pathlib import Path

from tui_profiler.system.files import write_whole

VARIABLE = "TUI_PROFILER"
"""Environment variable: 1 has a program of an enabled environment listen."""
FILE = "zzz_tui_profiler.pth"
"""Python takes them by name: this one comes after those that put folders on the path."""
LINE = (
    f'import os; os.environ.get("{VARIABLE}") == "1" and '
    '__import__("tui_profiler.probe.watch.enabled", fromlist=["listen"]).listen()\n'
)


def file_path() -> Path:
    """Return where the line of this environment is, or would be."""
    return Path(sysconfig.get_path("purelib")) / FILE


def enable(path: Path) -> bool:
    """Write the line; return whether it was not there yet.

    Raises:
        OSError: the folder or the file cannot be written.
    """
    try:
        if path.read_text(encoding="utf-8") == LINE:
            return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    # Programs may start meanwhile: they find all of it or nothing.
    write_whole(path, LINE.encode())
    return True


def disable(path: Path) -> bool:
    """Remove the line; return whether it was there.

    Raises:
        OSError: it cannot be removed.
    """
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True

"""What goes wrong while a model is loaded, as one sentence and what to try.

Whatever loads raises ``LoadError`` where a model, or what goes with it, cannot be had.
"""

import difflib
import importlib.util
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from itertools import starmap
from pathlib import Path
from types import TracebackType

from tui_profiler.messages import Failed, Remedy

STAGE = "load model"

LONGEST_REASON = 300
"""Characters kept of somebody else's error message."""


def _folders_of(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec is not None else []


_PROBE_FOLDER = Path(__file__).resolve().parents[2]
_LIBRARY_FOLDERS = (
    _PROBE_FOLDER,
    # Found without being imported: files are refused before torch is there.
    *(Path(place).resolve() for place in _folders_of("torch")),
    Path(sysconfig.get_path("purelib")).resolve(),
    Path(sysconfig.get_path("platlib")).resolve(),
    Path(sysconfig.get_path("stdlib")).resolve(),
)


class LoadError(Exception):
    """The model could not be had; ``failed`` is the message that says so."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.what)
        self.failed = failed


def wrong_request(
    what: str, *remedies: tuple[str, str], at: str = "", why: str = "", likely: str = ""
) -> LoadError:
    """Return the error for a request that nobody could carry out.

    Args:
        what: One sentence, without a point.
        remedies: (what to type, what it does).
        at: ``file:line``, or empty.
        why: The cause, where it was computed.
        likely: The cause, where it is a guess.
    """
    return LoadError(
        Failed(
            stage=STAGE,
            what=what,
            at=at,
            why=why,
            likely=likely,
            remedies=tuple(starmap(Remedy, remedies)),
            bad_argument=True,
        )
    )


def model_failed(
    what: str,
    *remedies: tuple[str, str],
    error: BaseException | None = None,
    at: str = "",
    likely: str = "",
) -> LoadError:
    """Return the error for code or a file of the user's that does not work.

    Args:
        what: One sentence, without a point.
        remedies: (what to type, what it does).
        error: What their code raised; its line and traceback are told.
        at: ``file:line``, where there is no error that knows it.
        likely: The cause, where it is a guess.
    """
    return LoadError(
        Failed(
            stage=STAGE,
            what=what,
            at=at or ("" if error is None else line_of(error)),
            likely=likely,
            remedies=tuple(starmap(Remedy, remedies)),
            traceback="" if error is None else told(error),
        )
    )


def reason(error: BaseException) -> str:
    """Return an error's type and the first line of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def line_of(error: BaseException) -> str:
    """Return ``file:line`` of the innermost line of the user's own code; empty where none ran."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not _is_library(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def told(error: BaseException) -> str:
    """Return the traceback without the lines of ours that led to the user's code."""
    start: TracebackType | None = error.__traceback__
    while start is not None and _is_ours(start.tb_frame.f_code.co_filename):
        start = start.tb_next
    return "".join(traceback.format_exception(type(error), error, start or error.__traceback__))


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return the names most like ``name``, likest first."""
    by_folded = {known.casefold(): known for known in names}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=count, cutoff=0.6)
    return [by_folded[folded] for folded in found]


def files_beside(path: Path, shown: str, suffixes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the files most like one that is not in its folder, as remedies."""
    names = [other.name for other in path.parent.iterdir() if other.is_file()]
    beside = sorted(name for name in names if name.casefold().endswith(suffixes))
    folder = shown[: shown.rstrip("/").rfind("/") + 1]
    likely = nearest(path.name, beside) or beside[:2]
    return [(f"tui-profiler {folder}{near}", "takes this file") for near in likely]


def needs_trust(shown: str, found: Sequence[str]) -> LoadError:
    """Return the error for a file that does more than compute: what was found, as clauses."""
    return model_failed(
        f"{shown} needs --trust: it contains {in_words(found, 3)}",
        (f"tui-profiler {shown} --trust", "if you trust who made it"),
    )


def in_words(names: Sequence[str], most: int = 6) -> str:
    """Return names as a list in a sentence, the later ones counted."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _is_library(filename: str) -> bool:
    if filename.startswith("<"):
        return True
    path = Path(filename).resolve()
    return any(path.is_relative_to(folder) for folder in _LIBRARY_FOLDERS)


def _is_ours(filename: str) -> bool:
    return filename.startswith("<frozen importlib") or Path(filename).resolve().is_relative_to(
        _PROBE_FOLDER
    )

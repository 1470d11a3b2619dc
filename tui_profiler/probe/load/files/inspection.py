"""A file or folder that the user named: inspected, before anything in it is loaded.

No torch here: what an inspection alone can tell is told before torch is imported.
"""

import os
import stat
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from tui_profiler.archive import ArchiveError, Found, structure_of, verify
from tui_profiler.messages import FileFacts, FileProblem, LoadSpec
from tui_profiler.probe.load.common import errors
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.system.library_names import names_in_source

_SUFFIXES = (".pt", ".pth", ".pt2", ".safetensors", ".bin", ".ckpt", ".pkl", ".pickle", ".tar")
_FORMATS = "torch.save, TorchScript, torch.export and safetensors files can be opened"
_OTHERS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
           stat.S_IFBLK: "a device"}  # fmt: skip
_MOST_NAMED = 4
MOST_CHECKED_BYTES = 8 << 30
"""On disk: some eight seconds of reading."""


def is_file(spec: LoadSpec) -> bool:
    """Say whether what the user named is a file or folder to be looked into.

    A plain word that is the name of an architecture is that, whatever lies in the folder:
    ``./resnet50`` is the file. Python files are the user's own code, YAML files are YOLO models.
    """
    name = spec.model
    if not name or name.endswith((".py", ".yaml", ".yml")):
        return False
    if os.path.lexists(path_of(spec)):
        return name.casefold() not in _architectures()
    return ":" not in name and ("/" in name or Path(name).suffix.casefold() in _SUFFIXES)


@lru_cache(maxsize=1)
def _architectures() -> frozenset[str]:
    return names_in_source("torchvision")


@lru_cache(maxsize=1)
def inspected(spec: LoadSpec) -> Found:
    """Return what a look into the named file or folder tells; nothing in it is loaded or run."""
    path = path_of(spec)
    _check_readable(path, spec.model)
    try:
        found = structure_of(path)
    except ArchiveError as error:
        place = f" ({error.where})" if error.where else ""
        what = f"{spec.model} cannot be read: {error.what}{place}"
        raise errors.model_failed(what, _another()) from error
    if found.kind == "unknown":
        raise errors.model_failed(
            f"{spec.model} is not a known model format: {_FORMATS}", _another()
        )
    return found


def refusal(found: Found, spec: LoadSpec) -> errors.LoadError | None:
    """Return the error for what cannot be opened, or not without trust; None where it can."""
    shown = spec.model
    if found.kind == "hugging-face-directory" and found.content == "nothing":
        what = f"{shown} is a Hugging Face folder without weights"
        return errors.model_failed(what, (f"tui-profiler hf:{shown}", "builds it from its config"))
    if found.content in ("parameters", "program"):
        return None
    if found.content == "nothing":
        because = f": {found.problems[0].what}" if found.problems else ""
        return errors.model_failed(f"{shown} has no weights{because}", _another())
    return None if spec.trust else _untrusted(found, shown)


def checked(found: Found, is_over: Callable[[], bool] = lambda: False) -> Found:
    """Return the same with the verdict of the file's checksums, where it has some.

    Every byte is read: a file larger than ``MOST_CHECKED_BYTES`` stays unchecked.

    Args:
        found: What a look told.
        is_over: Asked between pieces; once true, the rest is not read.
    """
    on_disk = sum(Path(file).stat().st_size for file in found.files if Path(file).is_file())
    if found.checksum != "not checked" or on_disk > MOST_CHECKED_BYTES:
        return found
    try:
        verdict = verify(Path(found.path), is_over)
    except ArchiveError:
        return found
    return replace(found, checksum=verdict.checksum, problems=(*found.problems, *verdict.problems))


def imports(found: Found) -> str:
    """Say what loading a file imports, what can run commands first."""
    names = worst_first(found) or list(found.globals)
    dangerous = errors.in_words(found.dangerous_globals, _MOST_NAMED)
    warning = f" ({dangerous} can run commands: no model needs that)" if dangerous else ""
    return f"it imports {errors.in_words(names, _MOST_NAMED)}{warning}"


def worst_first(found: Found) -> list[str]:
    """Return what needs trust: first what can run commands, last what is torch's own."""

    def order(name: str) -> tuple[bool, bool]:
        return name not in found.dangerous_globals, name.startswith("torch.")

    return sorted(found.untrusted_globals, key=order)


def damaged(found: Found, shown: str) -> errors.LoadError:
    """Return the error for a file whose checksums failed: torch would load wrong values."""
    problem = found.problems[-1]
    place = f" ({problem.where})" if problem.where else ""
    return errors.model_failed(
        f"{shown} is damaged, its bytes are not those that were written{place}",
        (f"cp or download {shown} again", "compare its size with the original's"),
    )


def _untrusted(found: Found, shown: str) -> errors.LoadError:
    kind = {
        "module": "is a pickled module",
        "other": "contains objects other than weights",
    }[found.content]
    said = f": {imports(found)}" if found.globals else ""
    return errors.model_failed(
        f"{shown} {kind}, and loading it runs code{said}",
        (f"tui-profiler {shown} --trust", "if you trust who made it"),
    )


def path_of(spec: LoadSpec) -> Path:
    """Return the file's path."""
    return Path(spec.folder or ".") / Path(spec.model).expanduser()


def _another() -> tuple[str, str]:
    return ("tui-profiler models", "lists the models that have names")


def _check_readable(path: Path, shown: str) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise errors.model_failed(f"{shown} is a broken link", _another()) from None
        raise _missing(path, shown) from None
    except OSError as error:
        raise errors.model_failed(
            f"{shown} cannot be read: {error.strerror}", _another()
        ) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = _OTHERS.get(stat.S_IFMT(mode), "no ordinary file")
        raise errors.model_failed(f"{shown} is {what}: a model is a file or a folder", _another())
    if stat.S_ISREG(mode) and not path.stat().st_size:
        raise errors.model_failed(f"{shown} is empty", _another())
    if not os.access(path, os.R_OK):
        remedy = (f"chmod u+r {shown}", "if it is yours")
        raise errors.model_failed(f"{shown} cannot be read: permission denied", remedy)


def _missing(path: Path, shown: str) -> errors.LoadError:
    folder = path.parent
    if not folder.is_dir():
        what = f"there is no file {shown}, nor the folder {folder}"
        return errors.wrong_request(what, _another())
    remedies = errors.files_beside(path, shown, _SUFFIXES) or [_another()]
    return errors.wrong_request(f"no file {path.name} in {folder}", *remedies)


_MOST_LISTED = 100


def facts_with_trust(found: Found, spec: LoadSpec) -> FileFacts:
    """Return what the look found, and whether code in the file will run."""
    facts_of_file = file_facts(found, spec.model)
    return replace(facts_of_file, is_trusted=spec.trust and bool(found.untrusted_globals))


def file_facts(found: Found, shown: str) -> FileFacts:
    """Return what the look found, as a message; long lists are cut and counted."""
    # What TorchScript calls so are classes of the archive's own: nothing is imported for them.
    imported = tuple(name for name in found.globals if not name.startswith("__torch__."))
    return FileFacts(
        kind=found.kind,
        content=found.content,
        bytes=found.bytes,
        tensors=len(found.tensors),
        checksum=found.checksum,
        globals=tuple(writable(name) for name in imported[:_MOST_LISTED]),
        untrusted_globals=tuple(writable(name) for name in worst_first(found)[:_MOST_LISTED]),
        dangerous_globals=tuple(writable(name) for name in found.dangerous_globals[:_MOST_LISTED]),
        problems=tuple(
            FileProblem(writable(problem.file), writable(problem.where), writable(problem.what))
            for problem in found.problems[:_MOST_LISTED]
        ),
        problem_count=len(found.problems),
        hint=writable(hint(found, shown)),
    )


def hint(found: Found, shown: str) -> str:
    """Return the command that runs these weights: by the config beside them, or an architecture's.

    Empty where the file holds more than weights.
    """
    if found.content != "parameters":
        return ""
    path = Path(found.path)
    folder = path if path.is_dir() else path.parent
    if (folder / "config.json").is_file():
        beside = shown if path.is_dir() else shown.rpartition("/")[0] or "."
        return f"tui-profiler hf:{beside}"
    return f"tui-profiler NAME --weights {shown}"

"""Where the start screen's offers come from: caches, sockets, this folder, ourselves.

Nothing here runs code or waits long: folders and files are read up to a bound.
"""

import os
import time
from itertools import islice
from pathlib import Path

from tui_profiler.figures.units import size
from tui_profiler.formatting.text import safe
from tui_profiler.queries.panel.cached_tree import ago
from tui_profiler.queries.start_offers import Offer, options_text
from tui_profiler.recording.kind import is_recording
from tui_profiler.source.attached import find, not_listening
from tui_profiler.source.cached_tree_files import recent
from tui_profiler.source.ranks import by_run
from tui_profiler.source.torch_processes import UsersPrograms
from tui_profiler.system.demos import PREFIX, demo_file, demo_names
from tui_profiler.system.library_names import library_names

from .programs import UNKNOWN, columns, question

MOST_RECENT = 12
MOST_FILES = 100
MOST_ENTRIES = 2000
"""Of a folder that is looked through."""
_MOST_READ_BYTES = 65536
_TIMM = "timm:"
_KINDS = {
    ".pt": "weights, or a whole model",
    ".pth": "weights, or a whole model",
    ".ckpt": "weights, or a whole model",
    ".bin": "weights",
    ".safetensors": "weights",
    ".pt2": "exported program",
}


def opened_before(folder: str) -> tuple[Offer, ...]:
    """Return what was opened before, the last one first.

    Args:
        folder: the user's working directory: what lies elsewhere says where.
    """
    now = time.time()
    found = []
    for one in recent()[:MOST_RECENT]:
        away = one.spec.folder if _is_path(one.spec.model) and one.spec.folder != folder else ""
        place = f"in {safe(_with_tilde(away))}" if away else ""
        detail = "  ".join(part for part in (options_text(one.spec), place) if part)
        right = ago(max(now - one.at, 0.0))
        name = safe(one.spec.model)
        found.append(Offer("recent", name, detail, right, one.spec.model, one.spec))
    return tuple(found)


def running(torch: UsersPrograms) -> tuple[Offer, ...]:
    """Return the programs of this user that watch a model, then those that have torch loaded.

    Ranks of one run are one.

    Args:
        torch: what was seen of the latter before.
    """
    offers = []
    listens = find()
    for found in (*by_run(listens), *not_listening(torch, listens)):
        name, *detail = (part for part in columns(found) if part != UNKNOWN)
        if not found.listens:
            name, detail = safe(found.place.name), [name, "not watched"]
        offers.append(
            Offer(
                "running",
                name,
                "  ".join(detail),
                process=found.place.pid,
                is_live=found.program is not None,
                asks="" if found.listens else question(found),
            )
        )
    return tuple(offers)


def demo_models() -> tuple[Offer, ...]:
    """Return the models that come with us, with the first sentence about each."""
    return tuple(
        Offer("demo models", f"{PREFIX}{name}", _first_sentence(name), model=f"{PREFIX}{name}")
        for name in demo_names()
    )


def library_models() -> tuple[Offer, ...]:
    """Return the models of the libraries that are installed, by name; neither is imported."""
    names = library_names("torchvision") or ()
    torchvision = (Offer("torchvision", name, model=name) for name in names)
    prefixed = (f"{_TIMM}{name}" for name in library_names("timm") or ())
    return (*torchvision, *(Offer("timm", name, model=name) for name in prefixed))


def files_here(folder: str) -> tuple[Offer, ...]:
    """Return the files of a folder that may hold a model: by their name, Python by what it imports.

    Args:
        folder: only its own files are read, the first ``MOST_ENTRIES``.
    """
    try:
        with os.scandir(folder) as entries:
            files = sorted(entry.path for entry in islice(entries, MOST_ENTRIES) if entry.is_file())
    except OSError:  # Gone, or not ours to read: then nothing here can be opened either.
        return ()
    offers = (_of_file(Path(path)) for path in files)
    return tuple(islice((offer for offer in offers if offer is not None), MOST_FILES))


def _of_file(path: Path) -> Offer | None:
    kind = _KINDS.get(path.suffix.casefold(), "")
    if path.suffix == ".py" and _speaks_of_torch(path):
        kind = "Python"
    if not kind and is_recording(path):
        kind = "recording"
    if not kind:
        return None
    try:
        held = size(path.stat().st_size)
    except OSError:
        return None
    model = str(path) if kind == "recording" else f"./{path.name}"
    return Offer("files here", safe(path.name), kind, held, model)


def _speaks_of_torch(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"torch" in file.read(_MOST_READ_BYTES)
    except OSError:
        return False


def _first_sentence(name: str) -> str:
    file = demo_file(name)
    if file is None:
        return ""
    with file.open(encoding="utf-8") as text:
        sentence = text.readline().strip().lstrip("r").strip('"').rstrip(".")
    return safe(sentence.partition(", after ")[0])


def _is_path(model: str) -> bool:
    return not model.isidentifier() and not model.startswith((PREFIX, _TIMM))


def _with_tilde(folder: str) -> str:
    home = os.path.expanduser("~")
    return f"~{folder[len(home) :]}" if folder.startswith(f"{home}/") else folder

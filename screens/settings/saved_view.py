"""The saved view of a model: one small file for each, read when its tree comes.

1. Only what the user changed is kept, so that a new configuration holds for all the rest.
2. A file appears whole or not at all; one that cannot be read is as if it were not there.
3. At most ``MOST_FILES`` are kept: the ones written last.
"""

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from zlib import crc32

import msgspec
import platformdirs
from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.queries.cost.flat import By, Column
from tui_profiler.queries.tree.columns import ColumnName
from tui_profiler.queries.tree.focus import Focus, SortKey, initial
from tui_profiler.session import Tree
from tui_profiler.system.files import private_directory, write_private

from .appearance import ThemeName
from .config import NAME

MOST_FILES = 200
MOST_PATHS = 2000
"""Of unfolded blocks: the first of them."""
MOST_NAME = 60
"""Characters of a model's name in that of its file: its last ones."""
MOST_BYTES = 1 << 20
"""A file that is longer is not ours."""


class SavedView(Struct, frozen=True):
    """What was changed of the view of one model; None: as configured."""

    model: str = ""
    """As typed: another one may have the same name of its file."""
    kind: str = ""
    """Class of the model's root: folds of another model of that name mean nothing."""
    unfolded: tuple[str, ...] | None = None
    """Paths of modules whose children are shown."""
    operators: bool = False
    sort: SortKey | None = None
    descending: bool = False
    columns: tuple[ColumnName, ...] | None = None
    flat_columns: dict[By, tuple[Column, ...]] | None = None
    """Of flat tables, where they were chosen."""
    theme: ThemeName | None = None


NOTHING = SavedView()


class SavedViews:
    """The folder of those files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, model: str) -> tuple[SavedView, str]:
        """Return the saved view of a model, and what went wrong in a few words, if anything."""
        path = self._path(model)
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
            if len(text) > MOST_BYTES:
                return NOTHING, f"{path.name} is too long: saved view ignored"
            found = msgspec.json.decode(text, type=SavedView)
            return (found if found.model == _spelt(model) else NOTHING), ""
        except FileNotFoundError:
            return NOTHING, ""
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return NOTHING, f"{path.name} cannot be read: saved view ignored"

    def write(self, model: str, what: SavedView) -> str:
        """Save the view of a model; return what went wrong, if anything."""
        path = self._path(model)
        try:
            if replace(what, kind="") == NOTHING:
                path.unlink(missing_ok=True)
                return ""
            private_directory(self.folder)
            write_private(path, msgspec.json.encode(replace(what, model=_spelt(model))))
            self._forget_oldest()
        except OSError as error:
            return f"the view settings of this model are not saved: {error.strerror or error}"
        return ""

    def _path(self, model: str) -> Path:
        words = re.sub(r"[^\w.-]+", "-", model, flags=re.ASCII)[-MOST_NAME:].strip("-.")
        return self.folder / f"{words}-{crc32(model.encode(errors='surrogatepass')):08x}.json"

    def _forget_oldest(self) -> None:
        files: list[tuple[float, Path]] = []
        for path in self.folder.glob("*.json"):
            with suppress(FileNotFoundError):  # Another of us may have taken it away.
                files.append((path.stat().st_mtime, path))
        for _, path in sorted(files, reverse=True)[MOST_FILES:]:
            path.unlink(missing_ok=True)


def saved_views() -> SavedViews:
    """Return the user's own."""
    return SavedViews(Path(platformdirs.user_state_dir(NAME)) / "models")


def folds(view: Focus, tree: Tree) -> tuple[str, ...] | None:
    """Return the paths of the unfolded blocks of a tree; None where they are the initial ones."""
    if view.unfolded == initial(tree).unfolded:
        return None
    paths = (
        node.path
        for node, opened in zip(tree.nodes, view.unfolded, strict=True)
        if opened and node.kind == "module"
    )
    return tuple(islice(paths, MOST_PATHS))


def with_folds(view: Focus, tree: Tree, unfolded: tuple[str, ...]) -> Focus:
    """Return a view with these blocks unfolded; paths that are gone are ignored."""
    opened = frozenset(unfolded)
    return replace(view, unfolded=bytes(node.path in opened for node in tree.nodes))


def _spelt(model: str) -> str:
    """Return a name that can be written: of a file, it may hold bytes that are no text."""
    return model.encode(errors="backslashreplace").decode()

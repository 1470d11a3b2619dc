"""What a walk through a pickle gathers, within limits: tensors, modules, problems."""

from __future__ import annotations

from msgspec import structs

from tui_profiler.archive.pickles.tensors import Described, Storages, describe, entry_of, warning_of
from tui_profiler.archive.pickles.values import Made
from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_contents import ModuleEntry, Problem, Role, TensorEntry
from tui_profiler.archive.reading.file_region import Region
from tui_profiler.archive.reading.limits import ArchiveError

_MOST_PROBLEMS = 200
_GLANCES = 32
"""Plain numbers and texts that are passed in the time that a tensor or list takes."""


class Gathering:
    """The tensors, modules and problems of one file, as they are come by."""

    def __init__(self, region: Region, storages: Storages) -> None:
        self.region = region
        self.tensors: list[TensorEntry] = []
        self.modules: list[ModuleEntry] = []
        self.problems: list[Problem] = []
        self.unlisted_problems = 0
        self._storages = storages
        self._visits = 0
        self._characters = 0

    def visit(self, items: int = 0) -> None:
        """Count one value that was come by, with so many items that are only glanced at.

        Raises:
            ArchiveError: There are too many: a few shared values stand for very many.
        """
        self._visits += 1 + items // _GLANCES
        if self._visits > limits.VISITS:
            raise self.region.error(
                "holds more tensors, lists and mappings than any model, or some of them many times"
            )

    def path(self, above: str, key: str) -> str:
        """Return the dotted path of what lies under ``key``.

        Raises:
            ArchiveError: It, or all of them together, are longer than any model's.
        """
        path = f"{above}.{key}" if above else key
        self._characters += len(path)
        if len(path) > limits.NAME_CHARACTERS or self._characters > limits.ALL_NAMES_CHARACTERS:
            raise self.region.error("is nested deeper, or has longer names, than any model")
        return path

    def problem(self, where: str, what: str) -> None:
        """Remember a problem; of very many, the first."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(Problem(self.region.file, where, what))
        else:
            self.unlisted_problems += 1

    def module(self, path: str, class_name: str) -> None:
        """Remember a module.

        Raises:
            ArchiveError: There are too many.
        """
        if len(self.modules) >= limits.MODULES:
            raise self.region.error(f"has more than {limits.MODULES} modules")
        self.modules.append(ModuleEntry(path, class_name))

    def tensor(self, name: str, value: Made, role: Role = "unknown") -> None:
        """Remember a tensor if it lies within its storage, and a problem if not.

        Raises:
            ArchiveError: There are too many tensors.
        """
        described = describe(value)
        if isinstance(described, str):
            self.problem(f"tensor {name[:200]!a}", described)
        else:
            self.described(name, described, role)

    def described(self, name: str, tensor: Described, role: Role = "unknown") -> None:
        """Remember a tensor of which the description is known already.

        Raises:
            ArchiveError: There are too many tensors.
        """
        try:
            entry = entry_of(name, tensor, self._storages, self.region.file, role)
        except ArchiveError as error:
            # Of one tensor, not of the file: the others are still worth showing.
            where = f", {error.where}" if error.where else ""
            self.problem(f"tensor {name[:200]!a}{where}", error.what)
            return
        if isinstance(entry, str):
            self.problem(f"tensor {name[:200]!a}", entry)
            return
        warning = warning_of(entry)
        if warning:
            self.problem(f"tensor {name[:200]!a}", warning)
        self.listed(entry, role)

    def listed(self, entry: TensorEntry, role: Role) -> None:
        """Remember a tensor that was compared with its storage; its own role goes first.

        Raises:
            ArchiveError: There are too many tensors.
        """
        if len(self.tensors) >= limits.TENSORS:
            raise self.region.error(f"has more than {limits.TENSORS} tensors")
        known = entry.role != "unknown" or role == "unknown"
        self.tensors.append(entry if known else structs.replace(entry, role=role))

    def all_problems(self) -> tuple[Problem, ...]:
        """Return the problems, with the count of those that are not listed."""
        if not self.unlisted_problems:
            return tuple(self.problems)
        more = f"and {self.unlisted_problems} more problems"
        return (*self.problems, Problem(self.region.file, self.region.where, more))

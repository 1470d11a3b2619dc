"""What a walk through a file gathers, within limits: tensors, modules, problems."""

from msgspec import structs

from tui_profiler.archive.pickles.reader import Made
from tui_profiler.archive.pickles.tensors import Described, Storages, describe, entry_of, warning_of
from tui_profiler.archive.reading import file_contents, limits
from tui_profiler.archive.reading.file_region import ArchiveError, Region

_MOST_PROBLEMS = 200
_GLANCES = 32
"""Plain numbers and texts that are passed in the time that a tensor or list takes."""


class Gathering:
    """The tensors, modules and problems of one file, as they are come by."""

    def __init__(self, region: Region, storages: Storages) -> None:
        self.region = region
        self.tensors: list[file_contents.TensorEntry] = []
        self.modules: list[file_contents.ModuleEntry] = []
        self.problems: list[file_contents.Problem] = []
        self.unlisted_problems = 0
        self._storages = storages
        self._visits = 0
        self._characters = 0

    def visit(self, items: int = 0) -> None:
        """Count one value that was come by, with so many items that are only glanced at."""
        self._visits += 1 + items // _GLANCES
        if self._visits > limits.VISITS:
            raise self.region.error(
                "has more tensors, lists and mappings than any model, or some of them many times"
            )

    def path(self, above: str, key: str) -> str:
        """Return the dotted path of what lies under ``key``."""
        path = f"{above}.{key}" if above else key
        self._characters += len(path)
        if len(path) > limits.NAME_CHARACTERS or self._characters > limits.ALL_NAMES_CHARACTERS:
            raise self.region.error("is nested deeper, or has longer names, than any model")
        return path

    def problem(self, where: str, what: str) -> None:
        """Remember a problem; of very many, the first."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(file_contents.Problem(self.region.file, where, what))
        else:
            self.unlisted_problems += 1

    def module(self, path: str, class_name: str) -> None:
        """Remember a module."""
        if len(self.modules) >= limits.MODULES:
            raise self.region.error(f"has more than {limits.MODULES} modules")
        self.modules.append(file_contents.ModuleEntry(path, class_name))

    def tensor(self, name: str, value: Made, role: file_contents.Role = "unknown") -> None:
        """Remember a tensor if it lies within its storage, and a problem if not."""
        described = describe(value)
        if isinstance(described, str):
            self.problem(f"tensor {name[:200]!a}", described)
        else:
            self.described(name, described, role)

    def described(self, name: str, tensor: Described, role: file_contents.Role = "unknown") -> None:
        """Remember a tensor of which the description is known already."""
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

    def listed(self, entry: file_contents.TensorEntry, role: file_contents.Role) -> None:
        """Remember a tensor that was compared with its storage; its own role goes first."""
        if len(self.tensors) >= limits.TENSORS:
            raise self.region.error(f"has more than {limits.TENSORS} tensors")
        known = entry.role != "unknown" or role == "unknown"
        self.tensors.append(entry if known else structs.replace(entry, role=role))

    def all_problems(self) -> tuple[file_contents.Problem, ...]:
        """Return the problems, with the count of those that are not listed."""
        if not self.unlisted_problems:
            return tuple(self.problems)
        more = f"and {self.unlisted_problems} more problems"
        return (*self.problems, file_contents.Problem(self.region.file, self.region.where, more))

    def found(
        self,
        kind: file_contents.Kind,
        content: file_contents.Content,
        *,
        names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
        checksum: file_contents.Checksum,
        metadata: dict[str, str],
    ) -> file_contents.Found:
        """Return what was gathered, with its sums; ``names`` are those of ``sorted_by_trust``."""
        every, untrusted, dangerous = names
        found = file_contents.Found(
            kind,
            self.region.file,
            content,
            modules=tuple(self.modules),
            globals=every,
            untrusted_globals=untrusted,
            dangerous_globals=dangerous,
            problems=self.all_problems(),
            checksum=checksum,
            metadata=metadata,
            files=(self.region.file,),
        )
        return file_contents.with_tensors(found, self.tensors)

"""What a look into a file told, as a message.

No torch here: it is sent before torch is imported.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tui_profiler.archive import Found
from tui_profiler.messages import FileFacts, FileProblem, LoadSpec
from tui_profiler.probe.load.files.inspection import worst_first
from tui_profiler.probe.process.wire_names import writable

_MOST_LISTED = 100


def told_facts(found: Found, spec: LoadSpec) -> FileFacts:
    """Give what the look found, and whether code in the file will run."""
    facts_of_file = file_facts(found, spec.model)
    return replace(facts_of_file, is_trusted=spec.trust and bool(found.untrusted_globals))


def file_facts(found: Found, shown: str) -> FileFacts:
    """Give what the look found, as a message; long lists are cut and counted.

    Args:
        found: What the look told.
        shown: The file as the user typed it.
    """
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
    """Give the command that runs these weights: by the config beside them, or an architecture's.

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

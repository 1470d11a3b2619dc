"""What a report says of the model's file."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from tui_profiler.messages import FileFacts
from tui_profiler.reports.json_values import Count, Part, one_of, taken

_Content: TypeAlias = Annotated[str, one_of("parameters", "module", "program", "other", "nothing")]
_Checksum: TypeAlias = Annotated[
    str, one_of("verified", "failed", "none in this format", "not checked")
]


class Problem(Part, frozen=True):
    """Something in the file that is not as it should be."""

    file: str
    where: str | None
    what: str


class File(Part, frozen=True):
    """What a look into the model's file told, without loading it."""

    kind: str
    """By its bytes: safetensors, torchscript, exported-program, torch-zip-state-dict, ..."""
    content: _Content
    bytes: Count
    """Of all storages in use, each counted once."""
    tensors: Count
    checksum: _Checksum
    globals: tuple[str, ...]
    """What loading it would import; at most 100."""
    untrusted_globals: tuple[str, ...]
    """Those of them that run code."""
    problems: list[Problem]
    """At most 100."""
    problem_count: Count
    hint: str | None
    """The command that runs these parameters."""


def file_section(found: FileFacts | None) -> File | None:
    """Return what a look into the model's file told; None where the model is no file."""
    if found is None:
        return None
    return taken(
        File,
        found,
        problems=[
            Problem(file=one.file, where=one.where or None, what=one.what) for one in found.problems
        ],
        hint=found.hint or None,
    )

"""The tensors of a file of parameters, as what is to be looked at: read where they lie."""

from __future__ import annotations

import os
from functools import partial

import torch

from tui_profiler.archive import Found, TensorEntry
from tui_profiler.probe.load.files.parameters_tree import is_buffer, parts_of
from tui_profiler.probe.parameters.values import (
    MOST_WHOLE_BYTES,
    InFile,
    Subject,
    Values,
    alignment_of,
    in_file_with_strides,
)
from tui_profiler.probe.process.wire_names import writable


class FileSubjects:
    """Tensors of a look into a file, which is held open until ``close``."""

    def __init__(self, found: Found) -> None:
        self._descriptors: dict[str, int] = {}
        self.subjects: list[Subject] = []
        """In the order of the file."""
        shared = _second_names(found)
        for entry in found.tensors:
            self.subjects.append(self._subject(entry, shared.get(entry.name, "")))

    def close(self) -> None:
        """Let go of the files; may be called twice."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _subject(self, entry: TensorEntry, shared_with: str) -> Subject:
        owner = entry.name.rpartition(".")[0]
        why_none = _why_none(entry)
        return Subject(
            owner=writable(owner),
            name=writable(entry.name),
            shape=entry.shape,
            dtype=writable(entry.dtype),
            bytes=min(entry.bytes, entry.storage_bytes),
            storage_bytes=entry.storage_bytes,
            alignment=0 if entry.offset is None else alignment_of(entry.offset),
            is_buffer=is_buffer(entry),
            is_contiguous=entry.is_contiguous,
            shared_with=writable(shared_with),
            values=None if why_none else partial(self._values, entry),
            why_none=why_none,
        )

    def _values(self, entry: TensorEntry) -> Values:
        assert entry.offset is not None
        dtype = getattr(torch, entry.dtype)
        descriptor = self._descriptor(entry.file)
        if entry.is_contiguous:
            return InFile(descriptor, entry.offset, dtype, entry.shape)
        return in_file_with_strides(descriptor, entry.offset, dtype, entry.shape, entry.strides)

    def _descriptor(self, file: str) -> int:
        # Two threads may both open it: the second is closed again.
        if file not in self._descriptors:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            if self._descriptors.setdefault(file, descriptor) != descriptor:
                os.close(descriptor)
        return self._descriptors[file]


def _why_none(entry: TensorEntry) -> str:
    if entry.offset is None:
        return "its values do not lie plainly in the file"
    if not isinstance(getattr(torch, entry.dtype, None), torch.dtype):
        return f"torch has no type {writable(entry.dtype)}"
    if not entry.is_contiguous and entry.storage_bytes > MOST_WHOLE_BYTES:
        return "its values do not lie in rows, and are too many to be read at once"
    return ""


def _second_names(found: Found) -> dict[str, str]:
    """Return the tensors that are others under a second name, as the tree says it."""
    return {
        (f"{part.path}.{weight.name}" if part.path else weight.name): weight.shared_with
        for part in parts_of(found, "")
        for weight in part.weights
        if weight.shared_with
    }

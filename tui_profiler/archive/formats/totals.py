"""Sums over the tensors of a file, shared memory counted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.reading.file_contents import Checksum, Content, Found, Kind, TensorEntry


def bytes_of_storages(tensors: Iterable[TensorEntry]) -> int:
    """Return the bytes of every storage that a tensor uses, each once."""
    return sum({tensor.storage: tensor.storage_bytes for tensor in tensors}.values())


def parameters_of(tensors: Iterable[TensorEntry]) -> int:
    """Return the elements of all tensors but known buffers and constants.

    Tied weights (one storage, offset, shape and strides) count once; an expanded axis counts 1.
    """
    total = 0
    seen: set[tuple[object, ...]] = set()
    for tensor in tensors:
        if tensor.role in ("buffer", "constant"):
            continue
        place = (tensor.storage, tensor.offset, tensor.shape, tensor.strides)
        if place in seen:
            continue
        seen.add(place)
        elements = 1
        for size, stride in zip(tensor.shape, tensor.strides, strict=True):
            elements *= 1 if stride == 0 and size > 1 else size
        total += elements
    return total


def found_of(
    kind: Kind,
    path: str,
    content: Content,
    gathering: Gathering,
    *,
    names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = ((), (), ()),
    checksum: Checksum = "not checked",
    metadata: dict[str, str] | None = None,
) -> Found:
    """Return what was gathered from one file, with its sums.

    Args:
        kind: What the file is.
        path: Of the file.
        content: What can be done with it.
        gathering: Its tensors, modules and problems.
        names: As ``trust.told_apart`` gives them.
        checksum: Whether there are checksums.
        metadata: What the file says of itself.
    """
    tensors = tuple(with_known_buffers(gathering.tensors))
    return Found(
        kind=kind,
        path=path,
        content=content,
        tensors=tensors,
        modules=tuple(gathering.modules),
        globals=names[0],
        untrusted_globals=names[1],
        dangerous_globals=names[2],
        problems=gathering.all_problems(),
        checksum=checksum,
        metadata=metadata or {},
        files=(path,),
        bytes=bytes_of_storages(tensors),
        parameters=parameters_of(tensors),
    )


_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def with_known_buffers(tensors: Sequence[TensorEntry]) -> list[TensorEntry]:
    """Return the tensors with the statistics of batch norms marked as buffers.

    A state dict does not say what is a buffer. These three names are written by torch.nn's norms
    alone, side by side, so that a ``running_mean`` with a ``running_var`` beside it is one.
    """
    norms = {
        tensor.name.removesuffix("running_var")
        for tensor in tensors
        if tensor.name.endswith("running_var")
    }
    return [
        structs.replace(tensor, role="buffer")
        if tensor.role == "unknown" and _norm_of(tensor.name) in norms
        else tensor
        for tensor in tensors
    ]


def _norm_of(name: str) -> str | None:
    for statistic in _STATISTICS:
        if name.endswith(statistic):
            return name.removesuffix(statistic)
    return None

"""The structure of a file of weights, as plain values.

1. Nothing here was loaded, imported or run: names, class names and metadata are what the file
   claims, and hostile text (``text.safe`` before any screen).
2. Every tensor listed lies within its storage, and every storage within its file, by arithmetic
   on what the file says. A tensor that does not is a problem and is not listed.
3. A Found is complete or has problems: ``problems`` empty means that all of it was understood.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, structs

Kind = Literal[
    "safetensors",
    "safetensors-sharded",
    "torch-zip-state-dict",
    "torch-zip-module",
    "torch-zip-other",
    "torch-sharded",
    "torchscript",
    "exported-program",
    "torch-legacy",
    "raw-pickle",
    "hugging-face-directory",
    "unknown",
]
"""What the bytes are; the name of the file has no say in it.

``torch-zip-other`` is what torch.save wrote of neither a module nor a mapping with tensors in it;
``torch-sharded`` is an index of torch.save files; ``hugging-face-directory`` is config.json with or
without weights. A directory of weights alone is of the kind of its weights.
"""

Content = Literal["parameters", "module", "program", "other", "nothing"]
"""What can be done with it: named tensors to bind, a pickled module that runs code when it is
loaded, a graph that runs by itself, something else, or no weights at all."""

Role = Literal["parameter", "buffer", "constant", "unknown"]
"""What a tensor is to its module, where the file says so; state dicts do not."""

Checksum = Literal["verified", "failed", "none in this format", "not checked"]
"""Whether the bytes are those that were written: zip files hold a CRC-32 of each member."""


class TensorEntry(Struct, frozen=True, gc=False):
    """One named tensor of a file, without its values."""

    name: str
    """Path as in the state dict: ``layer1.0.conv1.weight``."""
    shape: tuple[int, ...]
    dtype: str
    """torch's name without its prefix: ``float32``, ``bfloat16``, ``float8_e4m3fn``."""
    bytes: int
    """Elements × bytes of one; an expanded tensor's are more than those of its storage."""
    storage: str
    """Two names with one storage share memory; unique over all files of a Found."""
    storage_bytes: int
    file: str
    """Path of the file that holds the values."""
    offset: int | None
    """Bytes from the start of ``file`` to the tensor's first element; None where the values are
    not in a file (meta device) or not plain (sparse, quantised per channel)."""
    strides: tuple[int, ...]
    """In elements, as many as ``shape`` has."""
    is_contiguous: bool
    """Row-major without gaps: its values are ``bytes`` bytes from ``offset`` on."""
    role: Role = "unknown"


class ModuleEntry(Struct, frozen=True, gc=False):
    """One module of a pickled or scripted model."""

    path: str
    """Dotted path; empty for the model itself."""
    class_name: str
    """As the file has it, with its module: ``torch.nn.modules.conv.Conv2d``."""


class Problem(Struct, frozen=True, gc=False):
    """Something in a file that is wrong, missing, or not understood."""

    file: str
    where: str
    """The place in it: ``data.pkl, byte 1042``, ``tensor layer1.weight``."""
    what: str
    """One sentence, without a point."""


class Found(Struct, frozen=True):
    """All that the structure of a file or directory tells, without its values."""

    kind: Kind
    path: str
    content: Content
    tensors: tuple[TensorEntry, ...] = ()
    """In the order of the file."""
    modules: tuple[ModuleEntry, ...] = ()
    """In preorder; where the file holds modules and not only their tensors. A shared module is
    listed at each of its paths. Those of an exported program are the ones its operators came from.
    """
    globals: tuple[str, ...] = ()
    """Every name that loading would import, sorted: ``torch._utils._rebuild_tensor_v2``."""
    untrusted_globals: tuple[str, ...] = ()
    """Those of them that ``torch.load(weights_only=True)`` refuses; loading needs trust."""
    dangerous_globals: tuple[str, ...] = ()
    """Those of them that are known to run commands, open files or import: no model needs them."""
    problems: tuple[Problem, ...] = ()
    checksum: Checksum = "not checked"
    """``not checked`` or ``none in this format`` where only the structure was read; see verify."""
    metadata: dict[str, str] = {}
    """What the file says of itself: format, versions, architecture, producer."""
    files: tuple[str, ...] = ()
    """Every file that was read."""
    bytes: int = 0
    """Of all storages in use, each counted once."""
    parameters: int = 0
    """Elements of all tensors but known buffers and constants; shared ones counted once."""


class Verdict(Struct, frozen=True):
    """What comparing all bytes with their checksums gave."""

    checksum: Checksum
    problems: tuple[Problem, ...] = ()
    """One for each member whose bytes are not those that were written."""


def with_tensors(found: Found, tensors: Sequence[TensorEntry]) -> Found:
    """Return it with tensors, of which the known buffers are marked, and their sums."""
    marked = tuple(_with_known_buffers(tensors))
    storages = {tensor.storage: tensor.storage_bytes for tensor in marked}
    return structs.replace(
        found,
        tensors=marked,
        bytes=sum(storages.values()),
        parameters=parameters_of(marked),
    )


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


_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def _with_known_buffers(tensors: Sequence[TensorEntry]) -> list[TensorEntry]:
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

"""Parameters of a file as parts of a tree, by their dotted names.

1. A part's figures hold everything below it; tied weights are counted once in every part.
2. Names are hostile: nothing here recurses, and a name with a million dots makes few levels.
"""

from __future__ import annotations

from tui_profiler.archive import Found, TensorEntry
from tui_profiler.messages import Weight
from tui_profiler.probe.process.wire_names import writable

_MOST_PARTS = 400
"""Dots in a name that make a level of the tree; the rest is one name."""
_BUFFERS = frozenset({"running_mean", "running_var", "num_batches_tracked"})
"""What torch's own layers keep beside parameters; a state dict does not say which is which."""


class Part:
    """A node to be: what is in it and below it."""

    __slots__ = (
        "below",
        "bytes",
        "index",
        "name",
        "parameters",
        "parent",
        "path",
        "shared",
        "weights",
    )

    def __init__(self, parent: Part | None, name: str, path: str) -> None:
        self.parent = parent
        self.name = name
        self.path = path
        self.below: dict[str, Part] = {}
        self.weights: list[Weight] = []
        self.parameters = 0
        self.bytes = 0
        self.shared: set[str] = set()
        """Storages with several names that are counted here already."""
        self.index = -1


def parts_of(found: Found, name: str) -> list[Part]:
    """Return the parts in preorder."""
    root = Part(None, name, "")
    first: dict[str, str] = {}
    for module in found.modules:
        _below(root, module.path)
    several = _shared_storages(found.tensors)
    for entry in found.tensors:
        above, _, own = _cut(entry.name).rpartition(".")
        part = _below(root, above)
        seen = first.setdefault(entry.storage, entry.name)
        shared_with = seen if seen != entry.name and entry.storage in several else ""
        part.weights.append(_weight(entry, own, shared_with))
        if not is_buffer(entry):
            _count(part, entry, several)
    return _in_preorder(root)


def _below(root: Part, path: str) -> Part:
    here = root
    for name in path.split(".") if path else ():
        inner = here.below.get(name)
        if inner is None:
            inner = Part(here, name, f"{here.path}.{name}" if here.path else name)
            here.below[name] = inner
        here = inner
    return here


def _cut(name: str) -> str:
    """Return a name with at most so many levels; a hostile one has a million."""
    parts = name.split(".", _MOST_PARTS)
    if len(parts) <= _MOST_PARTS:
        return name
    return ".".join([*parts[:-1], parts[-1].replace(".", "·")])


def _count(part: Part, entry: TensorEntry, several: frozenset[str]) -> None:
    """Add a tensor to a part and all above it; one that shares its storage once to each."""
    scalars = 1
    for axis in entry.shape:
        scalars *= axis
    here: Part | None = part
    while here is not None:
        if entry.storage not in several or entry.storage not in here.shared:
            here.parameters += scalars
            here.bytes += entry.bytes
            if entry.storage in several:
                here.shared.add(entry.storage)
        here = here.parent


def _shared_storages(tensors: tuple[TensorEntry, ...]) -> frozenset[str]:
    """Return the storages that several tensors cover whole: tied weights."""
    counts: dict[str, int] = {}
    for entry in tensors:
        if entry.bytes >= entry.storage_bytes:
            counts[entry.storage] = counts.get(entry.storage, 0) + 1
    return frozenset(storage for storage, count in counts.items() if count > 1)


def is_buffer(entry: TensorEntry) -> bool:
    """Say whether a tensor is a buffer: by the file, else by the names that torch's layers use."""
    if entry.role != "unknown":
        return entry.role != "parameter"
    return entry.name.rpartition(".")[2] in _BUFFERS


def _weight(entry: TensorEntry, name: str, shared_with: str) -> Weight:
    return Weight(
        name=writable(name),
        shape=entry.shape,
        dtype=writable(entry.dtype),
        bytes=entry.bytes,
        is_buffer=is_buffer(entry),
        shared_with=writable(shared_with),
    )


def _in_preorder(root: Part) -> list[Part]:
    order: list[Part] = []
    pending = [root]
    while pending:
        part = pending.pop()
        part.index = len(order)
        order.append(part)
        pending.extend(reversed(part.below.values()))
    return order

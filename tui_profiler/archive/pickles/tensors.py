"""Tensors of a pickle: where its storages lie, and what the calls that rebuild tensors describe.

Only arithmetic, no call.

Source: the ``_rebuild_…`` functions in torch/_utils.py, and ``_rebuild_from_type_v2`` in
torch/_tensor.py, for the order of their arguments.
"""

from typing import Protocol

from msgspec import Struct, structs

from tui_profiler.archive.pickles.reader import Made, Named, Persistent
from tui_profiler.archive.reading import limits, tensor_layout
from tui_profiler.archive.reading.file_contents import Role, TensorEntry
from tui_profiler.archive.reading.tensor_layout import BITS
from tui_profiler.archive.reading.zips import STORED, Member, Zip


class StorageClaim(Struct, frozen=True, gc=False):
    """What a pickle says of a storage."""

    key: str
    dtype: str
    """Of its elements; ``uint8`` where it is untyped."""
    elements: int
    offset_elements: int = 0
    """Of a view into the storage, as files before torch 0.4 could have."""


class Storage(Struct, frozen=True, gc=False):
    """Where a storage lies."""

    identity: str
    """Unique over all files that are looked into together."""
    bytes: int
    file: str
    start: int | None
    """Byte of the file; None where the values are in none."""


class Storages(Protocol):
    """Finds storages: in the members of a zip, or behind the pickles of a legacy file."""

    def locate(self, claim: StorageClaim) -> Storage:
        """Return where a storage lies."""


def claim_of(persistent: Persistent) -> StorageClaim | None:
    """Return what a persistent id says of a storage; None where it is no id of a storage.

    The id is (``storage``, class, key, location, number of elements) and, in legacy files, a sixth
    for views: (key of the view, offset in elements, elements) or None.
    """
    # A match would say this better, and takes half a second for 100,000 storages.
    id_ = persistent.key
    if not isinstance(id_, tuple) or len(id_) not in (5, 6) or id_[0] != "storage":
        return None
    _, kind, key, _, elements, *rest = id_
    if not isinstance(kind, Named) or not isinstance(key, str | int):
        return None
    dtype = tensor_layout.STORAGES.get(kind.name.rpartition(".")[2])
    if dtype is None or not isinstance(elements, int) or elements < 0:
        return None
    offset = _offset_of_view(rest[0]) if rest else 0
    if offset is None:
        return None
    return StorageClaim(str(key), dtype, elements, offset)


def _offset_of_view(view: object) -> int | None:
    """Return the offset in (key, offset, elements), 0 for no view, None for anything else."""
    match view:
        case None:
            return 0
        case (_, int(offset), int()) if offset >= 0:
            return offset
    return None


class ZipStorages:
    """Storages as members of a zip: ``data/0``, ``data/1``."""

    def __init__(self, archive: Zip, folder: str) -> None:
        self._archive = archive
        self._folder = folder
        self._known: dict[str, Storage] = {}

    def locate(self, claim: StorageClaim) -> Storage:
        """Return where the member with the storage lies."""
        known = self._known.get(claim.key)
        if known is None:
            name = f"{self._folder}{claim.key}"
            member = self._archive.members.get(name)
            if member is None:
                raise self._archive.region.error(f"has no member {name[:200]!a} for its storage")
            known = self._known[claim.key] = _located(self._archive, member)
        return known


def _located(archive: Zip, member: Member) -> Storage:
    if member.method != STORED:
        sizes = f"{member.bytes} bytes out of {member.stored_bytes}"
        what = f"is compressed, which torch never does to values: it would be {sizes}"
        raise archive.error(member, what)
    file = archive.region.file
    start = archive.region.start + archive.start(member)
    # A member without bytes begins where another one does.
    identity = f"{file}:{start if member.bytes else archive.place(member)}"
    return Storage(identity, member.bytes, file, start)


_PLAIN = ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2")
_WITH_DTYPE = "torch._utils._rebuild_tensor_v3"
_QUANTISED = "torch._utils._rebuild_qtensor"
_PARAMETER = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
_SUBCLASS = ("torch._tensor._rebuild_from_type_v2", "torch._tensor._rebuild_from_type")
_META = "torch._utils._rebuild_meta_tensor_no_storage"
_WRAPPER = "torch._utils._rebuild_wrapper_subclass"
_SPARSE = "torch._utils._rebuild_sparse_tensor"
_OTHER_DEVICE = "torch._utils._rebuild_device_tensor_from_cpu_tensor"
_REBUILDERS = frozenset(
    {*_PLAIN, *_PARAMETER, *_SUBCLASS, _WITH_DTYPE, _QUANTISED, _META, _WRAPPER, _SPARSE}
) | {_OTHER_DEVICE}
_MOST_WRAPPINGS = 8
_OTHER_ARGUMENTS = "is rebuilt by arguments that no tensor has"

_Fault = str
"""One sentence that says why something is no tensor that could be loaded."""


class Described(Struct, frozen=True, gc=False):
    """A tensor as a pickle describes it, not yet compared with any storage."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset_elements: int
    storage: StorageClaim | None
    """None where the values are in no single storage: on the meta device, or sparse."""
    is_plain: bool = True
    """The values can be read by offset and strides alone."""
    is_sparse: bool = False
    """The storage holds only some of the values that the shape has."""
    role: Role = "unknown"


def is_tensor(value: object) -> bool:
    """Say if a pickle's value would become a tensor."""
    return isinstance(value, Made) and _maker(value) in _REBUILDERS


def describe(value: Made) -> Described | _Fault:
    """Return the tensor that a call would rebuild, or what is wrong with it."""
    maker = _maker(value)
    arguments = value.arguments
    # What nearly every tensor is, before the rarer forms.
    if maker in _PLAIN and isinstance(arguments, tuple):
        return _plain(arguments)
    if maker in _PARAMETER and isinstance(arguments, tuple) and arguments:
        data = arguments[0]
        if isinstance(data, Made) and _maker(data) in _PLAIN:
            inside = data.arguments
            return _plain(inside if isinstance(inside, tuple) else (), "parameter")
    role: Role = "unknown"
    is_plain = True
    for _ in range(_MOST_WRAPPINGS):
        maker = _maker(value)
        arguments = value.arguments if isinstance(value.arguments, tuple) else ()
        inner: object
        match maker, arguments:
            case (name, (inner, *_)) if name in _PARAMETER:
                role = "parameter"
            case (name, (inner, *_)) if name == _OTHER_DEVICE:
                pass
            case (name, (Named() as function, _, tuple() as inside, *_)) if name in _SUBCLASS:
                inner, is_plain = Made(function, inside), False
            case (name, ((_, _, *_) as data)) if name == _SPARSE:
                return _sparse(data)
            case _:
                found = _rebuilt(maker, arguments)
                if isinstance(found, _Fault):
                    return found
                return structs.replace(found, is_plain=found.is_plain and is_plain, role=role)
        if not isinstance(inner, Made):
            return "does not contain a tensor"
        value = inner
    return "is wrapped in itself"


def _plain(arguments: tuple[object, ...], role: Role = "unknown") -> Described | _Fault:
    # A match would say this better, and takes a second for 100,000 tensors.
    if len(arguments) < 4:
        return _OTHER_ARGUMENTS
    storage, offset = arguments[0], arguments[1]
    if not isinstance(storage, Persistent) or not isinstance(offset, int):
        return _OTHER_ARGUMENTS
    return _strided(storage, offset, (arguments[2], arguments[3]), None, role)


def _rebuilt(maker: str, arguments: tuple[object, ...]) -> Described | _Fault:
    match maker, arguments:
        case (name, _) if name in _PLAIN:
            return _plain(arguments)
        case (name, (Persistent() as storage, int(offset), size, stride, *_)) if name == _QUANTISED:
            return _strided(storage, offset, (size, stride), None)
        case (
            name,
            (Persistent() as storage, int(offset), size, stride, _, _, Named(name=dtype), *_),
        ) if name == _WITH_DTYPE:
            return _strided(storage, offset, (size, stride), dtype)
        case (name, (Named(name=dtype), size, stride, *_)) if name == _META:
            return _without_storage(dtype, size, stride)
        case (name, (_, Named(name=dtype), size, stride, *_)) if name == _WRAPPER:
            return _without_storage(dtype, size, stride)
    return _OTHER_ARGUMENTS


def _strided(
    storage: Persistent,
    offset: int,
    sizes: tuple[object, object],
    dtype_name: str | None,
    role: Role = "unknown",
) -> Described | _Fault:
    claim = claim_of(storage)
    if claim is None:
        return "refers to a storage by an id that torch does not write"
    dtype = claim.dtype if dtype_name is None else dtype_name.removeprefix("torch.")
    if dtype not in BITS:
        return f"has the unknown dtype {dtype[:80]!a}"
    shape, strides = _whole_numbers(sizes[0]), _whole_numbers(sizes[1])
    if shape is None or strides is None or len(shape) != len(strides) or offset < 0:
        return "has no valid shape, strides and offset"
    return Described(
        shape, strides, dtype, offset + claim.offset_elements, claim, True, False, role
    )


def _without_storage(dtype_name: str, size: object, stride: object) -> Described | _Fault:
    dtype = dtype_name.removeprefix("torch.")
    shape, strides = _whole_numbers(size), _whole_numbers(stride)
    if dtype not in BITS or shape is None or strides is None or len(shape) != len(strides):
        return "has no valid shape, strides and dtype"
    return Described(shape, strides, dtype, 0, None)


def _sparse(arguments: tuple[object, ...]) -> Described | _Fault:
    # (layout, (indices, values, size, is_coalesced)), or more kinds of indices for compressed
    # layouts: the values are the tensor before the size.
    data = arguments[1]
    if not isinstance(data, tuple):
        return "is a sparse tensor without parts"
    for number, part in enumerate(data):
        shape = _whole_numbers(part)
        if shape is not None and number and isinstance(data[number - 1], Made):
            values = _describe_plain(data[number - 1])
            if isinstance(values, _Fault):
                return values
            return Described(
                shape,
                tensor_layout.contiguous_strides(shape),
                values.dtype,
                0,
                values.storage,
                is_plain=False,
                is_sparse=True,
            )
    return "is a sparse tensor without values"


def _describe_plain(value: object) -> Described | _Fault:
    """Return the tensor that one call rebuilds, without any wrapping."""
    if not isinstance(value, Made) or not isinstance(value.arguments, tuple):
        return "does not contain a tensor"
    return _rebuilt(_maker(value), value.arguments)


def _whole_numbers(value: object) -> tuple[int, ...] | None:
    """Return a tuple, list or ``torch.Size`` of numbers from 0 on; None where it is none."""
    if isinstance(value, Made) and _maker(value) == "torch.Size":
        value = value.arguments[0] if isinstance(value.arguments, tuple) and value.arguments else ()
    if not isinstance(value, tuple | list):
        return None
    for number in value:
        if type(number) is not int or number < 0:
            return None
    return tuple(value)


def entry_of(
    name: str, tensor: Described, storages: Storages, file: str, otherwise: Role
) -> TensorEntry | _Fault:
    """Return the entry of a tensor whose extent lies within its storage, or why it does not.

    Args:
        name: Its path.
        tensor: What a pickle says of it.
        storages: Finds its storage.
        file: Told as the file of a tensor without a storage.
        otherwise: Its role, where the description knows none.
    """
    elements = tensor_layout.number_of_elements(tensor.shape)
    if elements is None or max(tensor.strides, default=0) >= limits.LARGEST_SIZE:
        return "has a shape or strides of 2**62 elements or more, or more axes than torch allows"
    bits = BITS[tensor.dtype]
    total = -(-elements * bits // 8)
    start = None
    if tensor.storage is None:
        storage = Storage(f"{file}:{name}", 0, file, None)
    else:
        storage = storages.locate(tensor.storage)
        claimed = -(-tensor.storage.elements * BITS[tensor.storage.dtype] // 8)
        if claimed != storage.bytes:
            return (
                f"has a storage of {claimed} bytes by the pickle, and of {storage.bytes} in the"
                " file"
            )
        if not tensor.is_sparse:
            reached = tensor_layout.elements_reached(
                tensor.shape, tensor.strides, tensor.offset_elements
            )
            needed = -(-reached * bits // 8)
            if needed > storage.bytes:
                return f"reaches to byte {needed} of a storage of {storage.bytes} bytes"
            if storage.start is not None and tensor.is_plain:
                start = storage.start + tensor.offset_elements * bits // 8
    return TensorEntry(
        name,
        tensor.shape,
        tensor.dtype,
        total,
        storage.identity,
        storage.bytes,
        storage.file,
        start,
        tensor.strides,
        tensor_layout.is_contiguous(tensor.shape, tensor.strides),
        otherwise if tensor.role == "unknown" else tensor.role,
    )


def warning_of(tensor: TensorEntry) -> str:
    """Return what is odd about a tensor that is sound, or an empty text."""
    if tensor_layout.is_expanded(tensor.shape, tensor.strides):
        return (
            f"is expanded: {tensor.bytes} bytes of shape out of a storage of {tensor.storage_bytes}"
        )
    return ""


def _maker(value: Made) -> str:
    return value.maker.name if isinstance(value.maker, Named) else ""

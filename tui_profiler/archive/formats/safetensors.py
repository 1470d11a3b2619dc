"""Reads the header of a safetensors file.

The rules are those of the format's own reader (safetensors/src/tensor.rs): the header's length,
then JSON; tensors fill the rest of the file without a gap or an overlap; a tensor's bytes are its
elements times the size of one. The format has no checksum.
"""

from tui_profiler.archive.reading import limits, tensor_layout
from tui_profiler.archive.reading.file_contents import Found, TensorEntry, with_tensors
from tui_profiler.archive.reading.file_region import ArchiveError, Region
from tui_profiler.archive.reading.strict_json import Json, read_json

_LENGTH_BYTES = 8
_FORMAT_CAP = 100_000_000


def is_safetensors(region: Region) -> bool:
    """Say if the bytes begin as a safetensors file does: a length, then a JSON object."""
    if region.size < _LENGTH_BYTES + 2:
        return False
    start = region.read(0, _LENGTH_BYTES + 1)
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    # A length beyond the file is a damaged one of this kind: no other format has the brace there.
    return start[_LENGTH_BYTES:] == b"{" and 2 <= length <= 1 << 48


def structure_of_safetensors(region: Region) -> Found:
    """Return what a safetensors file holds."""
    tensors, metadata = read_safetensors(region)
    found = Found(
        "safetensors",
        region.file,
        "parameters" if tensors else "nothing",
        checksum="none in this format",
        metadata=metadata,
        files=(region.file,),
    )
    return with_tensors(found, tensors)


def read_safetensors(region: Region) -> tuple[list[TensorEntry], dict[str, str]]:
    """Return the tensors, in the order of their bytes, and the metadata of a file."""
    length = int.from_bytes(region.read(0, _LENGTH_BYTES), "little")
    if length > _FORMAT_CAP:
        raise region.error(f"the header claims {length} bytes; the format allows {_FORMAT_CAP}", 0)
    if _LENGTH_BYTES + length > region.size:
        raise region.error(f"the header claims {length} bytes, and the file ends before them", 0)
    head = region.part(_LENGTH_BYTES, length, "header")
    header = read_json(head)
    if not isinstance(header, dict):
        raise head.error("is not a JSON object")
    metadata = _metadata(header.pop("__metadata__", {}), head)
    if len(header) > limits.TENSORS:
        raise head.error(f"lists {len(header)} tensors, more than any model has")
    values = region.part(_LENGTH_BYTES + length, region.size - _LENGTH_BYTES - length, "values")
    tensors = [_tensor(name, entry, head, values) for name, entry in header.items()]
    tensors.sort(key=_place)
    _check_filled(tensors, values)
    return tensors, metadata


def _place(tensor: TensorEntry) -> tuple[int, int]:
    return tensor.offset or 0, tensor.bytes


def _metadata(entry: Json, head: Region) -> dict[str, str]:
    if not isinstance(entry, dict):
        raise head.error("__metadata__ is not a JSON object")
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    if len(texts) != len(entry):
        raise head.error("__metadata__ contains values that are not text")
    return texts


def _tensor(name: str, entry: Json, head: Region, values: Region) -> TensorEntry:
    where = f"tensor {name[:200]!a}"
    if len(name) > limits.NAME_CHARACTERS:
        raise head.error(f"{where} has a name of {len(name)} characters")
    if not isinstance(entry, dict):
        raise head.error(f"{where} is not a JSON object")
    begin, end = _offsets(entry.get("data_offsets"), where, head)
    dtype = tensor_layout.SAFETENSORS.get(str(entry.get("dtype")))
    if dtype is None:
        raise head.error(f"{where} has the unknown dtype {str(entry.get('dtype'))[:80]!a}")
    shape = _shape(entry.get("shape"), where, head)
    elements = tensor_layout.number_of_elements(shape)
    if elements is None:
        raise head.error(f"{where} has a shape of 2**62 elements or more")
    bits = elements * tensor_layout.BITS[dtype]
    if bits % 8 or bits // 8 != end - begin:
        raise head.error(
            f"{where} has {end - begin} bytes, and its shape and dtype need {bits / 8:g}"
        )
    if end > values.size:
        raise head.error(f"{where} ends {end - values.size} bytes behind the end of the file")
    return TensorEntry(
        name=name,
        shape=shape,
        dtype=dtype,
        bytes=end - begin,
        storage=f"{values.file}:{values.start + begin}" if end > begin else f"{values.file}:{name}",
        storage_bytes=end - begin,
        file=values.file,
        offset=values.start + begin,
        strides=tensor_layout.contiguous_strides(shape),
        is_contiguous=True,
    )


def _offsets(entry: Json, where: str, head: Region) -> tuple[int, int]:
    match entry:
        case [int(begin), int(end)] if 0 <= begin <= end and not isinstance(begin, bool):
            return begin, end
    raise head.error(f"{where} has no valid data_offsets")


def _shape(entry: Json, where: str, head: Region) -> tuple[int, ...]:
    if not isinstance(entry, list) or len(entry) > limits.DIMENSIONS:
        raise head.error(f"{where} has no valid shape")
    shape = tuple(size for size in entry if type(size) is int and size >= 0)
    if len(shape) != len(entry):
        raise head.error(f"{where} has no valid shape")
    return shape


def _check_filled(tensors: list[TensorEntry], values: Region) -> None:
    end = values.start
    for tensor in tensors:
        if tensor.offset != end:
            what = "overlaps the one before it" if (tensor.offset or 0) < end else "follows a gap"
            raise ArchiveError(
                f"the values of {tensor.name[:200]!a} begin at byte {tensor.offset}, not {end}: "
                f"it {what}",
                values.file,
                "header",
            )
        end += tensor.bytes
    if end != values.start + values.size:
        raise ArchiveError(
            f"the file goes on for {values.start + values.size - end} bytes behind the last tensor",
            values.file,
            f"byte {end}",
        )

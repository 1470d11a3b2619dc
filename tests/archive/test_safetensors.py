"""The header of a safetensors file: what the format's own reader takes, and why the rest is not."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import save, save_file

from tui_profiler.archive import Found, structure_of
from tui_profiler.archive.formats.safetensors import is_safetensors, structure_of_safetensors
from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_contents import parameters_of
from tui_profiler.archive.reading.file_region import ArchiveError, open_file
from tui_profiler.archive.reading.strict_json import read_json
from tui_profiler.archive.reading.tensor_layout import contiguous_strides, number_of_elements


def entry(
    begin: object = 0, end: object = 4, dtype: object = "F32", shape: object = (1,)
) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def file_of(header: object, values: int = 4) -> bytes:
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text.encode())) + text.encode() + bytes(values)


def read(tmp_path: Path, data: bytes) -> Found:
    path = tmp_path / "w.safetensors"
    path.write_bytes(data)
    with open_file(path) as region:
        return structure_of_safetensors(region)


def is_taken(data: bytes) -> bool:
    """Whether the format's own reader takes it."""
    try:
        deserialize(data)
    except SafetensorError:
        return False
    return True


SOUND = {
    "one": file_of({"w": entry()}),
    "with text about it": file_of({"__metadata__": {"format": "pt"}, "w": entry()}),
    "in another order than its bytes": file_of({"b": entry(4, 8), "a": entry()}, 8),
    "empty ones between": file_of(
        {"a": entry(), "none": entry(4, 4, shape=[0, 3]), "b": entry(4, 8)}, 8
    ),
    "of nothing": file_of({}, 0),
    "a scalar": file_of({"w": entry(shape=[])}),
    "halves of bytes": file_of({"w": entry(0, 1, "F4", [2])}, 1),
    "float8 scales": file_of({"w": entry(0, 4, "F8_E8M0", [4])}),
    "complex": file_of({"w": entry(0, 8, "C64", [1])}, 8),
    "spaces behind": file_of(json.dumps({"w": entry()}) + "    "),
}


@pytest.mark.parametrize("data", SOUND.values(), ids=SOUND)
def test_what_the_format_s_own_reader_takes_is_read(tmp_path: Path, data: bytes) -> None:
    assert is_taken(data)
    found = read(tmp_path, data)
    names = {name for name, _ in deserialize(data)}
    assert {one.name for one in found.tensors} == names
    assert [one.offset for one in found.tensors] == sorted(one.offset for one in found.tensors)  # type: ignore[type-var]  # none is None
    assert found.content == ("parameters" if names else "nothing")
    assert found.checksum == "none in this format"


REFUSED = {
    "a header beyond the file": (
        struct.pack("<Q", 40) + b"{}" + bytes(31),
        "the header claims 40 bytes, and the file ends before them",
    ),
    "a header of a terabyte": (
        struct.pack("<Q", 2**40) + b"{}",
        "the format allows 100000000",
    ),
    "a list": (file_of("[1]"), "is not a JSON object"),
    "a gap": (file_of({"a": entry(), "b": entry(8, 12)}, 12), "begin at byte .*: it follows a gap"),
    "an overlap": (
        file_of({"a": entry(), "b": entry(2, 6)}, 6),
        "it overlaps the one before it",
    ),
    "one twice": (file_of({"a": entry(), "b": entry()}), "it overlaps the one before it"),
    "bytes behind": (file_of({"w": entry()}, 12), "goes on for 8 bytes behind the last tensor"),
    "bytes missing": (file_of({"w": entry()}, 3), "ends 1 bytes behind the end of the file"),
    "many bytes missing": (file_of({"w": entry()}, 0), "ends 4 bytes behind the end"),
    "too many for the shape": (
        file_of({"w": entry(0, 8)}, 8),
        "has 8 bytes, and its shape and dtype need 4",
    ),
    "too few for the shape": (file_of({"w": entry(shape=[2])}), "4 bytes, .* need 8"),
    "half a byte": (file_of({"w": entry(0, 1, "F4", [3])}, 1), "1 bytes, .* need 1.5"),
    "an unknown type": (file_of({"w": entry(dtype="F33")}), "the unknown dtype 'F33'"),
    "reversed offsets": (file_of({"w": entry(4, 0)}), "no valid data_offsets"),
    "negative offsets": (file_of({"w": entry(-4, 0)}), "no valid data_offsets"),
    "three offsets": (
        file_of({"w": entry() | {"data_offsets": [0, 2, 4]}}),
        "no valid data_offsets",
    ),
    "true for an offset": (file_of({"w": entry(False, 4)}), "no valid data_offsets"),
    "true for a size": (file_of({"w": entry(shape=[True])}), "no valid shape"),
    "a negative size": (file_of({"w": entry(shape=[-1])}), "no valid shape"),
    "a text for a shape": (file_of({"w": entry(shape="1")}), "no valid shape"),
    "2**64 elements": (file_of({"w": entry(shape=[2**32, 2**32])}), "2\\*\\*62 elements"),
    "no object": (file_of({"w": 4}), "is not a JSON object"),
    "metadata that is a list": (
        file_of({"__metadata__": [1]}, 0),
        "__metadata__ is not a JSON object",
    ),
    "metadata that is a number": (
        file_of({"__metadata__": {"a": 1}}, 0),
        "values that are not text",
    ),
    "NaN": (file_of('{"w":NaN}'), "NaN, which is not JSON"),
    "no UTF-8": (struct.pack("<Q", 9) + b'{"\xff\xfe":1}' + bytes(4), "not in UTF-8"),
    "no JSON": (file_of("{nothing"), "is not JSON: "),
    "JSON that goes on": (file_of("{}{}", 0), "is not JSON: Extra data"),
}


@pytest.mark.parametrize(("data", "why"), REFUSED.values(), ids=REFUSED)
def test_what_it_refuses_is_refused_with_the_reason(tmp_path: Path, data: bytes, why: str) -> None:
    assert not is_taken(data)
    with pytest.raises(ArchiveError, match=why):
        read(tmp_path, data)


def test_what_cannot_be_shown_or_held_is_refused_though_it_is_sound(tmp_path: Path) -> None:
    for header, why in (
        ({"n" * (limits.NAME_CHARACTERS + 1): entry()}, "a name of 65537 characters"),
        ({"w": entry(shape=[1] * (limits.DIMENSIONS + 1))}, "no valid shape"),
    ):
        with pytest.raises(ArchiveError, match=why):
            read(tmp_path, file_of(header))
    many = ",".join(f'"{number}":0' for number in range(limits.TENSORS + 1))
    with pytest.raises(ArchiveError, match=f"lists {limits.TENSORS + 1} tensors"):
        read(tmp_path, file_of("{" + many + "}", 0))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nested deeper than any model needs"),
        ('{"w":' + "9" * 5000 + "}", "a number of thousands of digits"),
        ("[" + "[]" * 0 + ",".join(["[]"] * (limits.JSON_MARKS // 2 + 1)) + "]", "more values"),
        ("[" + " " * limits.JSON_BYTES + "]", "more than any model needs"),
    ],
    ids=["deep", "digits", "many", "large"],
)
def test_json_that_costs_more_than_any_model_needs_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "j"
    path.write_text(text)
    with open_file(path) as region, pytest.raises(ArchiveError, match=why):
        read_json(region)


def test_of_a_tensor_that_stands_twice_neither_is_believed(tmp_path: Path) -> None:
    """The format's own reader takes the last one, and others the first."""
    twice = file_of('{"w":%s,"w":%s}' % ((json.dumps(entry()),) * 2))
    assert is_taken(twice)
    with pytest.raises(ArchiveError, match="has the key 'w' twice in one object"):
        read(tmp_path, twice)


def test_half_a_character_in_a_name_becomes_text_that_a_terminal_takes(tmp_path: Path) -> None:
    (one,) = read(tmp_path, file_of('{"\\ud800":' + json.dumps(entry()) + "}")).tensors
    assert one.name.encode() == b"\\ud800"


@pytest.mark.parametrize("size", range(12))
def test_a_file_of_a_few_bytes_is_none_or_damaged(tmp_path: Path, size: int) -> None:
    path = tmp_path / "w"
    path.write_bytes((struct.pack("<Q", 2) + b"{}  ")[:size])
    with open_file(path) as region:
        assert is_safetensors(region) == (size >= 10)


DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32,
    torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_that_torch_writes_has_torch_s_name(tmp_path: Path, dtype: torch.dtype) -> None:
    value = torch.zeros(3, 2, dtype=torch.uint8).repeat(1, dtype.itemsize).view(dtype)
    (one,) = read(tmp_path, save({"w": value})).tensors
    assert f"torch.{one.dtype}" == str(dtype)
    assert (one.shape, one.bytes) == ((3, 2), value.nbytes)


def test_values_are_where_it_says(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file({"a": torch.arange(3.0), "b": torch.arange(7.0)}, file)
    for one in structure_of(file).tensors:
        assert one.offset is not None
        data = file.read_bytes()[one.offset : one.offset + one.bytes]
        assert torch.frombuffer(bytearray(data), dtype=torch.float32).tolist() == [
            float(number) for number in range(one.shape[0])
        ]


def test_two_empty_tensors_at_one_place_are_not_tied(tmp_path: Path) -> None:
    header = {"a": entry(0, 0, shape=[0]), "b": entry(0, 0, shape=[0]), "c": entry()}
    found = read(tmp_path, file_of(header))
    assert len({one.storage for one in found.tensors}) == 3


def test_statistics_of_a_norm_are_buffers_where_both_stand_side_by_side(tmp_path: Path) -> None:
    names = ("n.weight", "n.running_mean", "n.running_var", "other.running_mean")
    header = {name: entry(4 * at, 4 * at + 4) for at, name in enumerate(names)}
    found = read(tmp_path, file_of(header, 16))
    roles = {one.name: one.role for one in found.tensors}
    assert [name for name, role in roles.items() if role == "buffer"] == [
        "n.running_mean",
        "n.running_var",
    ]
    assert found.parameters == parameters_of(found.tensors) == 2


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (2, 0, 4), (0,), (1, 5, 1)])
def test_strides_are_those_of_torch(shape: tuple[int, ...]) -> None:
    assert contiguous_strides(shape) == torch.zeros(shape).stride()


def test_elements_are_counted_up_to_what_torch_can_hold() -> None:
    assert number_of_elements((2**31, 2**30)) == 2**61
    assert number_of_elements((2**31, 2**31)) is None
    assert number_of_elements((2**62,)) is None
    assert number_of_elements((-1,)) is None
    assert number_of_elements((0, 2**61, 2**61)) == 0

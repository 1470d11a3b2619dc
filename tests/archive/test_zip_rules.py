"""Each rule of reading a zip refuses what breaks it, and nothing beside it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.archive.hostile.zips import Raw, misleading
from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import ArchiveError, open_file
from tui_profiler.archive.reading.zips import (
    Writer,
    Zip,
    read_member,
    read_zip,
    small_texts,
    unexpected_members,
)

REFUSED = {
    "zip_absolute": "is not a relative path",
    "zip_backslash": "is not a relative path",
    "zip_empty_name": "is not a relative path",
    "zip_drive": "is not a relative path",
    "zip_upwards": "leads out of the archive",
    "zip_nul": "contains a control character",
    "zip_not_text": "has a name that is not text",
    "zip_twice": "twice, ignoring case and Unicode form",
    "zip_twice_by_case": "twice, ignoring case and Unicode form",
    "zip_encrypted": "is encrypted",
    "zip_method_99": "is compressed by method 99",
    "zip_larger_than_file": "overlaps the directory",
    "zip_sizes_differ": "4 bytes in the file and 5 once read, uncompressed",
    "zip_overlap": "overlaps the next member",
    "zip_header_far": "overlaps the directory",
    "zip_two_names": "has a header that disagrees with the directory",
    "zip_zip64_huge": "overlaps the directory",
    "zip_zip64_missing": "overlaps the directory",
    "zip_count_lies_more": "claims 9 members in a directory of",
    "zip_count_lies_less": "contains more than the 1 entries",
    "zip_count_65535": "claims 65535 members in a directory of",
    "zip_prefix": "bytes are missing or were added",
    "zip_prefix_zip": "bytes are missing or were added",
    "zip_no_directory": "is cut short",
}
"""By the names of ``misleading``; what is not here is refused by what reads the members."""


def read(tmp_path: Path, data: bytes) -> Zip:
    """Return the directory; reading on needs the file open."""
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    with open_file(path) as region:
        return read_zip(region)


def one(member: str, data: bytes = b"1234", **fields: object) -> bytes:
    raw = Raw()
    flags = 0 if member.isascii() else 0x800
    raw.add(member.encode(), data, **{"flags": flags, **fields})  # type: ignore[arg-type] # its own
    return raw.bytes()


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_breaks_a_rule_is_refused_by_that_rule(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match=REFUSED[name]):
        read(tmp_path, misleading()[name])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a/./b", "is not written as torch writes names"),
        ("a//b", "is not written as torch writes names"),
        ("a/", "is not written as torch writes names"),
        ("a/b\u202e", "contains a control character"),
        ("a/b\x7f", "contains a control character"),
        ("a" * 512, "longer than the 511 bytes"),
        ("é" * 256, "longer than the 511 bytes"),
        # A character that becomes 18: 170 of them are 510 bytes.
        ("\ufdfa" * 170, "normalises to a longer one"),
    ],
)
def test_a_name_that_torch_does_not_write_is_refused(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(ArchiveError, match=says):
        read(tmp_path, one(name))


@pytest.mark.parametrize("name", ["a/b..c", "a/.data/version", "a" * 511, "多/层", "aa:b"])
def test_a_name_beside_the_rules_is_read(tmp_path: Path, name: str) -> None:
    assert len(read(tmp_path, one(name)).members) == 1


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("a/code/Foo.py", "a/code/foo.py", False),  # Classes of generated code.
        ("a/data/Foo", "a/data/foo", True),
        ("a/code/x.py", "a/code/x.py", True),
        ("a/code/é.py", "a/code/e\u0301.py", True),
        ("a/data/\ufb01", "a/data/fi", True),  # A ligature.
        ("a/data/é", "a/data/e\u0301", True),
    ],
)
def test_two_names_are_one_by_the_rules_of_any_system(
    tmp_path: Path, first: str, second: str, is_refused: bool
) -> None:
    raw = Raw()
    for name in (first, second):
        raw.add(name.encode(), b"1234", flags=0x800)
    if is_refused:
        with pytest.raises(ArchiveError, match="twice, ignoring case"):
            read(tmp_path, raw.bytes())
    else:
        assert len(read(tmp_path, raw.bytes()).members) == 2


@pytest.mark.parametrize("flags", [0x1, 0x40, 0x2000])
def test_every_kind_of_encryption_is_refused(tmp_path: Path, flags: int) -> None:
    with pytest.raises(ArchiveError, match="is encrypted"):
        read(tmp_path, one("a/b", flags=flags))


def test_sizes_of_64_bits_are_read_in_their_order(tmp_path: Path) -> None:
    """Only those that do not fit are there: size, stored size, header."""
    wide = struct.pack("<HH2s", 9, 2, b"xx") + struct.pack("<HHQQ", 1, 16, 4, 4)
    data = one("a/b", stored=0xFFFFFFFF, size=0xFFFFFFFF, extra=wide)
    (member,) = read(tmp_path, data).members.values()
    assert (member.stored_bytes, member.bytes, member.header) == (4, 4, 0)
    # Deflated, the two differ: the first is the size once read.
    wide = struct.pack("<HHQQ", 1, 16, 9, 4)
    (member,) = read(
        tmp_path, one("a/b", method=8, stored=0xFFFFFFFF, size=0xFFFFFFFF, extra=wide)
    ).members.values()
    assert (member.stored_bytes, member.bytes) == (4, 9)


def test_a_member_that_says_it_is_longer_reads_no_byte_of_the_next(tmp_path: Path) -> None:
    raw = Raw()
    raw.add(b"a/b", b"1234", stored=5, size=5)
    raw.add(b"a/c", b"5678")
    with pytest.raises(ArchiveError, match="overlaps the next member"):
        read(tmp_path, raw.bytes())


def test_a_header_s_own_extra_field_moves_nothing_into_the_next_member(tmp_path: Path) -> None:
    """The directory has no word on the extra field of a member's own header."""
    raw = Raw()
    raw.add(b"a/b", b"1234")
    raw.add(b"a/c", b"5678")
    struct.pack_into("<H", raw.body, 28, 4)
    with pytest.raises(ArchiveError, match="overlaps what comes behind it"):
        read(tmp_path, raw.bytes())


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [(0, b"PK\3\5", "has no header at byte 0"), (8, b"\x08\0", "disagrees with the directory")],
)
def test_a_header_that_tells_another_story_is_refused(
    tmp_path: Path, at: int, value: bytes, says: str
) -> None:
    raw = Raw()
    raw.add(b"a/b", b"1234")
    raw.body[at : at + len(value)] = value
    with pytest.raises(ArchiveError, match=says):
        read(tmp_path, raw.bytes())


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        (4, 1, "in several files"),
        (6, 1, "in several files"),
        (8, 2, "in several files"),
        (20, 3, "is cut short"),  # A comment of three bytes that are not there.
    ],
)
def test_an_end_that_speaks_of_more_files_or_bytes_is_refused(
    tmp_path: Path, field: int, value: int, says: str
) -> None:
    data = bytearray(one("a/b"))
    struct.pack_into("<H", data, len(data) - 22 + field, value)
    with pytest.raises(ArchiveError, match=says):
        read(tmp_path, bytes(data))


def test_a_comment_is_no_part_of_the_zip(tmp_path: Path) -> None:
    raw = Raw()
    raw.add(b"a/b", b"1234")
    for comment in (b"text", b"PK\5\6" + bytes(40)):
        assert list(read(tmp_path, raw.bytes(comment=comment)).members) == ["b"]


def test_more_members_than_any_model_has_are_refused_before_they_are_read(tmp_path: Path) -> None:
    end = struct.pack(
        "<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, *[limits.ZIP_ENTRIES + 1] * 2, 0, 0
    )
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, 0, 1)
    last = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0, 0, 0)
    with pytest.raises(ArchiveError, match="a zip of 200001 members"):
        read(tmp_path, end + locator + last)


def test_only_a_folder_that_holds_everything_is_left_out_of_names(tmp_path: Path) -> None:
    raw = Raw()
    raw.add(b"a/b", b"1234")
    raw.add(b"ab/c", b"1234")
    found = read(tmp_path, raw.bytes())
    assert (found.root, list(found.members)) == ("", ["a/b", "ab/c"])


def test_a_compressed_member_is_not_read_as_it_lies(tmp_path: Path) -> None:
    found = read(tmp_path, one("a/b", method=8, size=9))
    with pytest.raises(ArchiveError, match="is compressed, 9 bytes out of 4"):
        read_member(found, "b")
    with pytest.raises(ArchiveError, match="has no member 'c'"):
        read_member(found, "c")
    assert small_texts(found, ["b", "c"]) == {}


EXPECTED: dict[Writer, str] = {
    "torch.save": "data.pkl data/0 data/10 version byteorder .data/serialization_id",
    "torch.jit.save": (
        "data.pkl data/0 constants.pkl constants/3 code/__torch__.py code/__torch__/net.py "
        "code/__torch__/net.py.debug_pkl extra/any/thing bytecode.pkl"
    ),
    "torch.export.save": (
        "archive_format models/model.json data/weights/weight_0 data/constants/tensor_1 "
        "data/weights/model_weights_config.json data/sample_inputs/model.pt extra/a"
    ),
}
UNEXPECTED: dict[Writer, str] = {
    "torch.save": "Data.pkl data/00 data/x data/0/1 data.pkl2 code/a.py extra/a data/0.py versionx",
    "torch.jit.save": "data/x code/a.pyc code/a-b.py constants.pkl.x extra models/m",
    "torch.export.save": (
        "Data/sample_inputs/model.pt data/sample_inputs/a/model.pt models/a/b.json models/model.py "
        "data/weights/weight_x data/aotinductor/model/x.so data/0 xarchive_format"
    ),
}


@pytest.mark.parametrize("writer", sorted(EXPECTED))
def test_members_that_a_writer_of_torch_does_not_write_are_named(
    tmp_path: Path, writer: Writer
) -> None:
    def unexpected(names: list[str], root: str = "m/") -> list[str]:
        raw = Raw()
        for name in names:
            raw.add((root + name).encode(), b"1234")
        return list(unexpected_members(read(tmp_path, raw.bytes()), writer))

    assert unexpected(EXPECTED[writer].split()) == []
    odd = UNEXPECTED[writer].split()
    assert unexpected(odd) == [repr(name) for name in odd]
    # Without one folder around them torch finds other members than are named here.
    assert unexpected(["data.pkl"], root="") == ["'data.pkl' outside of one top folder"]

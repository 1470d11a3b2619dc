"""Zip files as torch writes them, and others written to mislead: bombs, overlaps, names."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from tests.archive.hostile.pickles import P2, call, name, text

REBUILD = "torch._utils._rebuild_tensor_v2"


def number(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(16, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(number(value) for value in values) + b"t"


def storage(key: str, elements: int, kind: str = "torch.FloatStorage") -> bytes:
    parts = (text("storage"), name(kind), text(key), text("cpu"), number(elements))
    return b"(" + b"".join(parts) + b"tQ"


def tensor(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, kept: bytes) -> bytes:
    parts = (kept, number(offset), numbers(*shape), numbers(*strides), b"\x89", b"N")
    return call(name(REBUILD), *parts)


def state_dict(**tensors: bytes) -> bytes:
    return P2 + b"}(" + b"".join(text(key) + value for key, value in tensors.items()) + b"u."


def torch_zip(pickled: bytes, storages: dict[str, bytes] | None = None) -> bytes:
    """Return a zip as torch.save lays it out."""
    members = {"a/data.pkl": pickled, "a/byteorder": b"little", "a/version": b"3\n"}
    members |= {f"a/data/{key}": data for key, data in (storages or {"0": bytes(16)}).items()}
    return zipped(members)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return made.getvalue()


def sound() -> bytes:
    return torch_zip(state_dict(weight=tensor((4,), (1,), 0, storage("0", 4))))


def bomb(member: str, size: int) -> bytes:
    """Return a torch file in which one member is ``size`` zeros, compressed to a thousandth."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for kept, data in (("a/data.pkl", sound_pickle()), ("a/data/0", bytes(16))):
            if kept != member:
                archive.writestr(zipfile.ZipInfo(kept), data, zipfile.ZIP_STORED)
        with archive.open(member, "w") as out:
            for _ in range(size >> 20):
                out.write(bytes(1 << 20))
    return made.getvalue()


def sound_pickle() -> bytes:
    return state_dict(weight=tensor((4,), (1,), 0, storage("0", 4)))


def many_entries(count: int) -> bytes:
    tensors = {f"w{n}": tensor((1,), (1,), 0, storage(str(n), 1)) for n in range(count)}
    return torch_zip(state_dict(**tensors), {str(n): bytes(4) for n in range(count)})


class Raw:
    """A zip file put together field by field."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.directory = bytearray()
        self.count = 0

    def add(
        self,
        member: bytes,
        data: bytes,
        *,
        at: int | None = None,
        flags: int = 0,
        method: int = 0,
        stored: int | None = None,
        size: int | None = None,
        local_name: bytes | None = None,
        extra: bytes = b"",
    ) -> None:
        start = len(self.body)
        crc = zlib.crc32(data)
        inner = member if local_name is None else local_name
        fields = (20, flags, method, 0, 0, crc, len(data), len(data))
        if at is None:
            self.body += struct.pack("<4s5H3I2H", b"PK\3\4", *fields, len(inner), 0) + inner + data
        stored = len(data) if stored is None else stored
        size = len(data) if size is None else size
        place = start if at is None else at
        self.directory += struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 20, 20, flags, method, 0, 0, crc, stored, size,
            len(member), len(extra), 0, 0, 0, 0, place,
        ) + member + extra  # fmt: skip
        self.count += 1

    def bytes(self, count: int | None = None, before: bytes = b"", comment: bytes = b"") -> bytes:
        claimed = self.count if count is None else count
        end = struct.pack(
            "<4s4H2IH", b"PK\5\6", 0, 0, claimed, claimed, len(self.directory), len(self.body),
            len(comment),
        )  # fmt: skip
        return before + bytes(self.body) + bytes(self.directory) + end + comment


def misleading() -> dict[str, bytes]:
    """Return zip files that break one rule each."""
    made = {}
    for label, member in (
        ("absolute", b"/etc/passwd"), ("upwards", b"a/../../x"), ("backslash", b"a\\b"),
        ("nul", b"a/b\0c"), ("empty_name", b""), ("drive", b"C:x"), ("not_text", b"a/\xff\xfe"),
        ("twice", b"a/data/0"), ("twice_by_case", b"a/DATA/0"),
    ):  # fmt: skip
        made[f"zip_{label}"] = _with(member, bytes(4))
    made["zip_encrypted"] = _with(b"a/x", bytes(4), flags=1)
    made["zip_method_99"] = _with(b"a/x", bytes(4), method=99)
    made["zip_larger_than_file"] = _with(b"a/x", bytes(4), stored=1 << 30, size=1 << 30)
    made["zip_sizes_differ"] = _with(b"a/x", bytes(4), size=5)
    made["zip_overlap"] = _with(b"a/x", bytes(4), at=0)
    made["zip_header_far"] = _with(b"a/x", bytes(4), at=0xFFFFFFF0)
    made["zip_two_names"] = _with(b"a/x", bytes(4), local_name=b"a/y")
    wide = struct.pack("<HHQQQ", 1, 24, 2**62, 2**62, 2**62)
    made["zip_zip64_huge"] = _with(b"a/x", bytes(4), stored=0xFFFFFFFF, size=0xFFFFFFFF, extra=wide)
    made["zip_zip64_missing"] = _with(b"a/x", bytes(4), stored=0xFFFFFFFF, size=0xFFFFFFFF)
    raw = _sound()
    made["zip_count_lies_more"] = raw.bytes(count=9)
    made["zip_count_lies_less"] = raw.bytes(count=1)
    made["zip_count_65535"] = raw.bytes(count=0xFFFF)
    made["zip_prefix"] = raw.bytes(before=b"MZ" + bytes(100))
    made["zip_prefix_zip"] = raw.bytes(before=raw.bytes())
    made["zip_comment_with_end"] = raw.bytes(comment=raw.bytes())
    made["zip_empty"] = Raw().bytes()
    made["zip_no_directory"] = bytes(raw.body)
    made["zip_deflated_storage"] = zipped(
        {"a/data.pkl": sound_pickle(), "a/data/0": bytes(16)}, zipfile.ZIP_DEFLATED
    )
    return made


def _sound() -> Raw:
    raw = Raw()
    raw.add(b"a/data.pkl", sound_pickle())
    raw.add(b"a/data/0", bytes(16))
    return raw


def _with(member: bytes, data: bytes, **fields: object) -> bytes:
    raw = _sound()
    raw.add(member, data, **fields)  # type: ignore[arg-type]  # fields of Raw.add, by name
    return raw.bytes()

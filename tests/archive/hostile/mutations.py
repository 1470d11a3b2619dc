"""Damages the bytes of a file in ways that disks, networks and attackers do, from a seed."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random], bytes]


def truncated(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def one_bit(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def many_bits(data: bytes, random: Random) -> bytes:
    for _ in range(16):
        data = one_bit(data, random)
    return data


def zero_run(data: bytes, random: Random) -> bytes:
    return _run(data, random, b"\0")


def one_run(data: bytes, random: Random) -> bytes:
    return _run(data, random, b"\xff")


def duplicated(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    end = min(len(data), start + random.randrange(1, 512))
    return data[:end] + data[start:end] + data[end:]


def removed(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    return data[:start] + data[start + random.randrange(1, 512) :]


def copied_over(data: bytes, random: Random) -> bytes:
    source, target = random.randrange(len(data)), random.randrange(len(data))
    piece = data[source : source + random.randrange(1, 256)]
    return (data[:target] + piece + data[target + len(piece) :])[: len(data)]


def other_numbers(data: bytes, random: Random) -> bytes:
    """Replace one decimal number, as JSON headers have them, by a hostile one."""
    places = list(re.finditer(rb"\d+", data))
    if not places:
        return one_bit(data, random)
    place = random.choice(places)
    number = random.choice((b"0", b"-1", b"4611686018427387904", b"18446744073709551615", b"1e9"))
    return data[: place.start()] + number + data[place.end() :]


MUTATIONS: tuple[Mutation, ...] = (
    truncated, one_bit, many_bits, zero_run, one_run, duplicated, removed, copied_over,
)  # fmt: skip


def rezipped(data: bytes, random: Random, mutation: Mutation) -> bytes:
    """Damage one member that describes the structure, and write the zip anew: its CRC is valid."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        names = [
            name for name in old.namelist() if name.endswith((".pkl", ".json", ".py", "model.pt"))
        ]
        damaged = random.choice(names)
        for info in old.infolist():
            content = old.read(info)
            if info.filename == damaged and content:
                content = mutation(content, random)
            new.writestr(zipfile.ZipInfo(info.filename), content, info.compress_type)
    return made.getvalue()


def reheaded(data: bytes, random: Random, mutation: Mutation) -> bytes:
    """Damage the JSON header of a safetensors file, and correct its length."""
    length = int.from_bytes(data[:8], "little")
    header = mutation(data[8 : 8 + length], random)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def _run(data: bytes, random: Random, byte: bytes) -> bytes:
    start = random.randrange(len(data))
    count = min(random.randrange(1, 600), len(data) - start)
    return data[:start] + byte * count + data[start + count :]

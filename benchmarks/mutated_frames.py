"""Frames with random damage, given to both ends of the wire.

``python benchmarks/mutated_frames.py [FRAMES]`` (default 200,000)

Each is a real frame with bits flipped, bytes cut, put in or doubled. An end may take it for a
message (a number may be another number) or refuse it with a ``WireError``; anything else is a
fault. The session that screens show is folded from what is taken for a message.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tui_profiler.messages import LoadSpec, Observe, Seek, SetBatch, Start, TraceAgain
from tui_profiler.session import EMPTY, apply
from tui_profiler.wire import WireError, encode, message_decoder, request_decoder

FIXTURE = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "resnet50.frames"
REQUESTS = [
    *(Observe(), TraceAgain(), SetBatch(4), Seek(1.5)),
    Start(LoadSpec("resnet50", arguments='{"width": 3}', inputs=("1,3,224,224",))),
]


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """Give a frame with a few kinds of damage."""
    data = bytearray(frame)
    for _ in range(chance.choice((1, 1, 2, 8))):
        place = chance.randrange(len(data)) if data else 0
        match chance.randrange(5):
            case 0 if data:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                del data[place : place + chance.randrange(1, 16)]
            case 2:
                data[place:place] = chance.randbytes(chance.randrange(1, 16))
            case 3:
                data[place:place] = data[place : place + chance.randrange(1, 64)]
            case _ if data:
                data[place] = chance.choice((0, 0x7F, 0x80, 0xC1, 0xDD, 0xFF))
    return bytes(data)


def frames() -> list[bytes]:
    """Give the frames of a real session, long ones left out: they only take longer."""
    data, found = FIXTURE.read_bytes(), []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        found.append(data[:size])
        data = data[size:]
    return [frame for frame in found if len(frame) < 20_000]


def outcomes(count: int, seed: int = 0) -> Counter[str]:
    """Give both ends so many damaged frames; tells how many were taken and refused.

    Raises:
        Exception: an end did neither.
    """
    chance, told = random.Random(seed), Counter[str]()
    ours, asked = frames(), [encode(request) for request in REQUESTS]
    for _ in range(count // 2):
        told["by the viewer, " + _of_viewer(damaged(chance.choice(ours), chance))] += 1
        told["by the program, " + _of_program(damaged(chance.choice(asked), chance))] += 1
    return told


def _of_viewer(data: bytes) -> str:
    session = EMPTY
    try:
        for message in message_decoder().feed(data):
            session = apply(session, message)
    except WireError:
        return "refused"
    return "taken or waited on"


def _of_program(data: bytes) -> str:
    try:
        for _ in _requests(data):
            pass
    except WireError:
        return "refused"
    return "taken or waited on"


def _requests(data: bytes) -> Iterator[object]:
    return iter(request_decoder().feed(data))


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    for what, count in sorted(outcomes(wanted).items()):
        print(f"  {count:8,} {what}")

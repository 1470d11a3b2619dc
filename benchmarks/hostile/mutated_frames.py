"""Frames with random damage or hostile values, given to both ends of the wire.

``python benchmarks/hostile/mutated_frames.py [FRAMES [SESSIONS]]`` (default 200,000 and 2,000)

Each is a real frame with bits flipped, bytes cut, put in or doubled. An end may take it for a
message (a number may be another number) or refuse it with a ``WireError``; anything else is a
fault. The session that screens show is folded from what is taken for a message.

Then whole sessions are folded from frames that are well formed and hold what a worker could send
that a hostile file has taken over: NaN, infinite, negative and huge numbers, texts with escape
sequences and of 100,000 characters, columns of other lengths. Their reports are written in each
format; none may raise, hold a control character, or be other than JSON.
"""

from __future__ import annotations

import copy
import json
import random
import struct
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tui_profiler.connection.wire import WireError, encode, message_decoder, request_decoder
from tui_profiler.messages import LoadSpec, Observe, Seek, SetBatch, Start, TraceAgain
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.full import full_text
from tui_profiler.reports.text.html import html_profile
from tui_profiler.session import EMPTY, Session, apply

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures"
FIXTURE = FIXTURES / "resnet50.frames"
RECORDED = ("resnet50", "resnet50_memory", "decoder_weights")
_NAN, _INFINITE = float("nan"), float("inf")
NUMBERS = (
    *(-1, 0, 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 1e308, -1e308, 5e-324),
    *(_NAN, _INFINITE, -_INFINITE),
)
TEXTS = (
    *("", "\x1b]0;x\x07", "\x1b[2J", "a\x9b31m", "[/nope]", "[bold", "x" * 100_000, "\u202e"),
    *("\n\n", "\0", "../../x", "<script>"),
)
REQUESTS = [
    *(Observe(), TraceAgain(), SetBatch(4), Seek(1.5)),
    Start(LoadSpec("resnet50", arguments='{"width": 3}', inputs=("1,3,224,224",))),
]


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """Return a frame with a few kinds of damage."""
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
    """Return the frames of a real session without long ones, which only take longer."""
    data, found = FIXTURE.read_bytes(), []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        found.append(data[:size])
        data = data[size:]
    return [frame for frame in found if len(frame) < 20_000]


def outcomes(count: int, seed: int = 0) -> Counter[str]:
    """Send damaged frames to both ends; return how many were accepted and refused.

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


def hostile_sessions(count: int, seed: int = 0) -> Counter[str]:
    """Fold so many sessions from frames with hostile values, and write their reports.

    Returns:
        How many frames were taken and refused, and how many reports were written.

    Raises:
        Exception: a frame was neither, or a report could not be written.
    """
    chance, told = random.Random(seed), Counter[str]()
    recorded = [list(_bodies(FIXTURES / f"{name}.frames")) for name in RECORDED]
    for _ in range(count):
        bodies = chance.choice(recorded)
        wrong = {chance.randrange(len(bodies)) for _ in range(chance.choice((1, 3, 10, 40)))}
        session = EMPTY
        for place, body in enumerate(bodies):
            data = body
            if place in wrong:
                value = msgspec.msgpack.decode(body)
                for _ in range(chance.choice((1, 1, 4))):
                    _spoil(value, chance)
                data = msgspec.msgpack.encode(value)
            try:
                for message in message_decoder().feed(len(data).to_bytes(4, "big") + data):
                    session = apply(session, message)
            except WireError:
                told["frames refused"] += 1
            else:
                told["frames taken"] += 1
        if session.tree is not None and session.tree.done is not None and len(session.tree):
            _check_reports(session)
            told["sessions reported"] += 1
    return told


def _bodies(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        yield data[4:end]
        data = data[end:]


def _spoil(value: Any, chance: random.Random) -> None:
    """Put something hostile into a random place of a message in built-in types."""
    while isinstance(value, list | dict) and value:
        place = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        part = value[place]
        if isinstance(part, list | dict) and part and chance.random() > 0.15:
            value = part
            continue
        value[place] = _hostile(part, chance)
        return


def _hostile(part: Any, chance: random.Random) -> Any:
    match part:
        case bool():
            return not part
        case int() | float():
            return chance.choice(NUMBERS)
        case str():
            return chance.choice(TEXTS)
        case bytes() if len(part) >= 8:
            kind = chance.choice("fd")
            number = struct.pack(f"<{kind}", chance.choice((_NAN, _INFINITE, -1.0, 1e30)))
            at = chance.randrange(len(part) // 8) * 8
            return chance.choice((part[:at] + number + part[at + len(number) :], part[:at], b""))
        case list():
            return chance.choice(([], part * 2, part[:1] * 50, part[::-1], part[: len(part) // 2]))
        case None:
            return chance.choice((0, "", [], -1.0))
    return copy.copy(part)


def _check_reports(session: Session) -> None:
    json.loads(json_report(session, advises=True), parse_constant=_refuse)
    for text in (full_text(session, columns=100), html_profile(session)):
        wrong = {mark for mark in text if unicodedata.category(mark) in ("Cc", "Cf")} - {"\n", "\t"}
        assert not wrong, wrong


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    sessions = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000
    for what, count in sorted((outcomes(wanted) + hostile_sessions(sessions)).items()):
        print(f"  {count:8,} {what}")

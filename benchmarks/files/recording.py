"""Recordings: killed at random moments, damaged at random places, how small, how fast.

``python benchmarks/files/recording.py [KILLS] [DAMAGES]``

Kills the real recorder with a real worker so often (50), at moments chosen with a fixed seed from
its first second to well after its first figures; then a writer alone, that tells which frames were
taken, as often. Damages copies of a whole recording (2,000): bits flipped, blocks zeroed, cut.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.end_to_end.terminal import COMMAND
from tests.recording.files import fixture, messages_in, write
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Message
from tui_profiler.recording.reader import open_recording
from tui_profiler.source.recorded import SeekIndex

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
LATEST_SECONDS = 8.0
TAKEN = "from tests.recording.test_writer import taken_forever as t; t()"


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    damages = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    with tempfile.TemporaryDirectory() as folder:
        recorder_killed(Path(folder), kills)
        writer_killed(Path(folder), kills)
        damaged(Path(folder), damages)
        speed(Path(folder))


def recorder_killed(folder: Path, kills: int) -> None:
    """The whole program: what was in the file when it was killed is all there when it is opened."""
    chance = random.Random(1)
    opened = lost = torn = with_times = 0
    for number in range(kills):
        path = folder / f"{number}.rec"
        command = [*COMMAND, "record", "demo:cnn", "-o", str(path)]
        program = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        while not path.exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, LATEST_SECONDS))
        before = path.read_bytes()
        program.kill()
        program.wait()
        recording = open_recording(path)
        opened += 1
        seen = folder / "seen"
        seen.write_bytes(before)
        whole = open_recording(seen).entries
        lost += recording.entries[: len(whole)] != whole
        torn += bool(recording.holes)
        with_times += SeekIndex(recording).session(len(recording.entries)).timings is not None
        recording.close()
    print(
        f"recorder killed {kills} times: {opened} opened, {lost} lost a frame that was in the"
        f" file, {torn} ended in half a frame, {with_times} had figures already"
    )


def writer_killed(folder: Path, kills: int) -> None:
    """The writer at full speed: no frame that it called taken is lost, none is another."""
    chance = random.Random(2)
    said = [encode(message) for message, _ in fixture()]
    lost = wrong = taken = 0
    for number in range(kills):
        path = folder / f"taken{number}.rec"
        program = subprocess.Popen(
            [sys.executable, "-c", TAKEN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            cwd=ROOT,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(f"{path}\n".encode())
        program.stdin.flush()
        told = [int(program.stdout.readline()) for _ in range(chance.randrange(1, 2000))]
        program.kill()
        told += [int(line) for line in program.stdout.read().split(b"\n")[:-1] if line]
        program.wait()
        recording = open_recording(path)
        lost += len(recording.entries) < max(told)
        taken += max(told)
        found = map(encode, messages_in(recording))
        wrong += any(body != said[i % len(said)] for i, body in enumerate(found))
        recording.close()
    print(
        f"writer killed {kills} times: {taken:,} frames taken, {lost} recordings lost one,"
        f" {wrong} showed another"
    )


def damaged(folder: Path, damages: int) -> None:
    """Copies with flipped bits, zeroed blocks and cuts: all open, none shows what was not said."""
    chance = random.Random(3)
    path = write(folder / "whole.rec", fixture())
    whole = path.read_bytes()
    said = [encode(message) for message, _ in fixture()]
    opened = wrong = skipped = 0
    for _ in range(damages):
        data = bytearray(whole)
        for _ in range(chance.choice((0, 1, 1, 8, 64))):
            bit = chance.randrange(len(data) * 8)
            data[bit // 8] ^= 1 << bit % 8
        if chance.random() < 0.3:
            start = chance.randrange(len(data))
            length = min(512 * chance.randrange(1, 9), len(data) - start)
            data[start : start + length] = bytes(length)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        path.write_bytes(data)
        recording = open_recording(path)
        opened += 1
        skipped += recording.skipped
        wrong += not is_part_of([encode(m) for m in messages_in(recording)], said)
        SeekIndex(recording).session(len(recording.entries))
        recording.close()
    print(
        f"{damages} damaged copies: {opened} opened, {wrong} showed what was not said,"
        f" {skipped:,} frames skipped"
    )


def is_part_of(found: list[bytes], said: list[bytes]) -> bool:
    rest = iter(said)
    return all(message in rest for message in found)


def speed(folder: Path) -> None:
    """An hour of resnet50: its size, how long it takes to open and to go to a place."""
    said: list[tuple[Message, float]] = fixture()
    ticks = [message for message, _ in said if type(message).__name__ == "Tick"][1:]
    others = [message for message, _ in said if type(message).__name__ in ("Sample", "Heartbeat")]
    at = said[-1][1]
    for number in range(4 * 3600):
        at += 0.25
        said.append((ticks[number % len(ticks)], at))
        if number % 4 == 0:
            said += [(others[number % len(others)], at), (others[(number + 1) % len(others)], at)]
    began = time.perf_counter()
    path = write(folder / "hour.rec", said)
    written = time.perf_counter() - began
    began = time.perf_counter()
    recording = open_recording(path)
    opened = time.perf_counter() - began
    past = SeekIndex(recording)
    chance = random.Random(4)
    took = []
    for _ in range(20):
        stop = chance.randrange(len(recording.entries))
        began = time.perf_counter()
        past.session(stop)
        took.append(time.perf_counter() - began)
    took.sort()
    wire = sum(len(encode(message)) for message, _ in said)
    print(
        f"an hour of resnet50 at 4 ticks per second: {len(said):,} frames,"
        f" {path.stat().st_size / 1e6:.1f} MB ({path.stat().st_size / wire:.0%} of the wire),"
        f" written at {len(said) / written:,.0f} frames/s, opened in {opened:.2f} s,"
        f" a place in {took[10] * 1e3:.0f} ms (median), {took[-1] * 1e3:.0f} ms (longest of 20)"
    )


if __name__ == "__main__":
    main()

"""Recordings whose disk is full at random moments.

``python benchmarks/files/full_disk.py [MOMENTS] [PROGRAMS]``

1. The real writer with what a real worker said: a limit on the size of files at so many (50) random
   bytes of preamble, header, frames and last frame; a file system of 2 MiB with so many random
   numbers of free pages; a random ``write`` and a random ``fdatasync`` that are refused with
   ENOSPC (by ``strace``, left out where there is none).
2. The real program so often (10): ``record demo:cnn -o FILE`` with its temporary files on the same
   disk, which another program fills at a random moment.

Mounts in a mount namespace; where that is refused, says so and leaves those parts out.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.end_to_end.terminal import COMMAND
from tests.recording.files import fixture, write
from tests.recording.full_disk import frame_ends, record_until_full, trouble, without_room
from tui_profiler.recording.reader import open_recording

ROOT = Path(__file__).resolve().parents[2]
DISK_BYTES = 2 << 20
PAGE_BYTES = 4096
LATEST_SECONDS = 14.0
FULL = "No space left on device"
INSIDE = "--inside"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
ONE = """
import sys
from pathlib import Path
from tests.recording.files import fixture
from tests.recording.full_disk import record_until_full
said = fixture()
from tui_profiler.recording import writer
writer.SYNC_SECONDS = float(sys.argv[2])  # Of every frame, so that any of them can be refused.
done = record_until_full(Path(sys.argv[1]), said)
print(done.frames, done.failure, sep=",")
"""


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != INSIDE]
    count = int(arguments[0]) if arguments else 50
    programs = int(arguments[1]) if len(arguments) > 1 else 10
    if INSIDE in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            disk = Path(folder, "disk")
            disk.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(disk)]
            if subprocess.run(mount, check=False).returncode == 0:
                pages(disk, Path(folder), count)
                recorded(disk, programs)
                subprocess.run(["umount", str(disk)], check=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        limits(Path(folder), count)
        refused(Path(folder), count)
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *user, "--mount", sys.executable, *sys.argv, INSIDE]
    if subprocess.run(command, check=False).returncode:
        print("no file system can be mounted here: its parts are left out")


def limits(folder: Path, count: int) -> None:
    """A limit on the size of files."""
    wrong = without_room(folder, 1, count)
    told(f"size limited at {count} bytes", wrong)


def pages(disk: Path, folder: Path, count: int) -> None:
    """A disk with so many free pages."""
    chance = random.Random(2)
    said = fixture()
    ends = frame_ends(write(folder / "whole.rec", said))
    wrong = []
    for _ in range(count):
        room = PAGE_BYTES * chance.randrange(ends[-1] // PAGE_BYTES + 1)
        (disk / "others").write_bytes(bytes(DISK_BYTES - room))
        writer = record_until_full(disk / "a.rec", said)
        why = trouble(disk / "a.rec", writer, room, ends, said)
        if not why and writer.failure != FULL:
            why = f"it said {writer.failure!r}"
        wrong += [f"{room} bytes of room: {why}"] if why else []
        for path in disk.iterdir():
            path.unlink()
    told(f"disk with {count} numbers of free pages", wrong)


def refused(folder: Path, count: int) -> None:
    """A system call that is refused."""
    if shutil.which("strace") is None:
        print("no strace: refused calls are left out")
        return
    chance = random.Random(3)
    said = fixture()
    ends = frame_ends(write(folder / "first.rec", said))
    for call, sync_seconds in (("write", 1.0), ("fdatasync", 0.0)):
        wrong = []
        for _ in range(count):
            number = chance.randrange(1, len(ends) - 1)
            path = folder / "refused.rec"
            inject = f"{call}:error=ENOSPC:when={number}"
            done = subprocess.run(
                [
                    *("strace", "-f", "-qq", "-e", f"trace={call}", "-e", f"inject={inject}"),
                    *("-P", str(path), "-o", os.devnull),
                    *(sys.executable, "-c", ONE, str(path), str(sync_seconds)),
                ],
                capture_output=True,
                text=True,
                check=False,
                env=ENVIRONMENT,
                cwd=ROOT,
            )
            frames, _, failure = done.stdout.strip().partition(",")
            if done.returncode or failure != FULL:
                wrong.append(f"{call} {number}: {done.stdout}{done.stderr}")
            else:
                recording = open_recording(path)
                read, holes = len(recording.entries), recording.holes
                recording.close()
                # Calls are counted by thread: writes 1 and 2 are refused to the one that writes
                # preamble and header, later ones to the other. A fdatasync comes after its frame.
                whole = int(frames)
                if call == "write":
                    whole = number if number > 2 else 0
                if (read, holes) != (whole, ()) or int(frames) != whole:
                    wrong.append(f"{call} {number}: {frames} frames, {read} read, {holes}")
                if call == "fdatasync" and whole < number:
                    wrong.append(f"{call} {number}: {whole} frames")
            path.unlink(missing_ok=True)
        told(f"{call} refused at {count} moments", wrong)


def recorded(disk: Path, programs: int) -> None:
    """The whole program, on a disk that another program fills."""
    chance = random.Random(4)
    wrong = []
    ended: list[str] = []
    for _ in range(programs):
        path, scratch = disk / "a.rec", disk / "scratch"
        scratch.mkdir()
        program = subprocess.Popen(
            [*COMMAND, "record", "demo:cnn", "-o", str(path), "--seconds", "600"],
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, "TMPDIR": str(scratch)},
        )
        when = chance.uniform(0, LATEST_SECONDS)
        time.sleep(when)
        fill(disk)
        try:
            _, said = program.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            program.kill()
            _, said = program.communicate()
            wrong.append(f"after {when:.1f} s: it did not end")
        code = program.returncode
        # What ended it: the recording itself, or a worker without room for its temporary files.
        mine = [line for line in said.splitlines() if FULL in line]
        wrong += [f"after {when:.1f} s: exit code {code}: {said}"] if code != 1 else []
        wrong += [f"after {when:.1f} s: said {said!r}"] if len(mine) != 1 else []
        wrong += [f"after {when:.1f} s: {said}"] if "Traceback" in said else []
        if path.exists():
            recording = open_recording(path)
            ended.append(f"{len(recording.entries)} frames")
            wrong += [f"after {when:.1f} s: {recording.holes}"] if recording.holes else []
            recording.close()
        else:
            ended.append("not begun")
        wrong += [f"after {when:.1f} s: {one} is left" for one in scratch.iterdir()]
        shutil.rmtree(scratch)
        for one in disk.iterdir():
            one.unlink()
    told(f"recorder on a disk that was filled {programs} times ({', '.join(ended)})", wrong)


def fill(disk: Path) -> None:
    """Take all the room that there is."""
    descriptor = os.open(disk / "others", os.O_WRONLY | os.O_CREAT)
    block = bytes(PAGE_BYTES)
    try:
        while True:
            os.write(descriptor, block)
    except OSError:
        os.close(descriptor)


def told(what: str, wrong: list[str]) -> None:
    print(f"{what}: {len(wrong)} went wrong", flush=True)
    for line in wrong:
        print(f"  {line}")


if __name__ == "__main__":
    main()

"""The writer: no one waits for it, and what it took is not lost."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.recording.files import HEADER, fixture, messages_in, read, timed
from tests.small_model import MEASURED
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Ended, Printed, Tick
from tui_profiler.recording.kind import RecordingError
from tui_profiler.recording.reader import open_recording
from tui_profiler.recording.writer import MOST_WAITING, Writer, create, overwrite, remedy_of

ROOT = Path(__file__).resolve().parents[2]
SMALL_DISK = """
import os, sys
from tests.recording.test_writer import fill
os.chdir(sys.argv[1])
print(fill("full.rec"))
"""


def fill(path: str) -> str:
    """Write until it fails and return why, and how many frames were taken."""
    writer = Writer(create(path), HEADER)
    noise = random.Random(1)
    while not writer.failure:
        if writer.waiting < 50:
            writer.put(Printed(noise.randbytes(3000).hex()), 0.0)
        time.sleep(0)
    writer.close("", 0.0)
    return f"{writer.failure}, {writer.frames}"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_a_quota_suggests_more_room(number: int) -> None:
    assert "more room" in remedy_of(OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    ("number", "advised"),
    [
        (errno.EFBIG, "ulimit -f"),
        (errno.EACCES, "a folder that you can write to"),
        (errno.EROFS, "not read-only"),
        (errno.EIO, "another disk"),
        (errno.EINTR, "another FILE"),
    ],
)
def test_other_errors_have_their_own_remedy(number: int, advised: str) -> None:
    remedy = remedy_of(OSError(number, os.strerror(number)))
    assert advised in remedy
    assert "more room" not in remedy


def test_the_remedy_of_a_writer_depends_on_the_error() -> None:
    full = Writer(os.open("/dev/full", os.O_WRONLY), HEADER)
    full.close("", 0.0)
    assert full.failure == "No space left on device"
    assert full.remedies == ("try another FILE, on a file system with more room",)
    reader, closed = os.pipe()
    os.close(reader)
    broken = Writer(closed, HEADER)
    broken.close("", 0.0)
    assert (broken.failure, broken.remedies) == ("Broken pipe", ("try another FILE",))


def test_a_file_that_cannot_be_made_says_what_to_try(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file or directory") as caught:
        create(str(tmp_path / "nowhere" / "a.rec"))
    assert caught.value.remedy == "another FILE, in a folder that exists"


def test_a_recording_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    Writer(create(str(path)), HEADER).close("", 0.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_text("mine")
    with pytest.raises(RecordingError, match="exists already") as caught:
        create(str(path))
    assert "--force" in caught.value.remedy
    assert path.read_text() == "mine"
    Writer(overwrite(str(path)), HEADER).close("", 0.0)
    assert read(path) == []


def test_only_files_are_written_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "nowhere/a.rec"):
        with pytest.raises(RecordingError, match="cannot be written"):
            overwrite(str(tmp_path / name))


def test_a_disk_that_hangs_holds_up_no_one(tmp_path: Path) -> None:
    ours, theirs = os.pipe()  # Takes 64 KiB and then, unread, nothing more.
    writer = Writer(theirs, HEADER)
    ticks = [message for message, _ in fixture() if isinstance(message, Tick)]
    for at in range(2000):
        writer.put(ticks[at % len(ticks)], float(at))
    assert writer.waiting == MOST_WAITING
    assert writer.frames + 1 + writer.waiting + writer.dropped >= 2000
    os.close(ours)  # The disk is gone at last.
    writer.close("", 0.0)
    assert writer.failure == "Broken pipe"


def test_an_error_of_the_writer_is_said_and_leaves_whole_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    writer = Writer(create(str(path)), HEADER)
    writer.put(MEASURED[0], 0.0)
    writer.put(Ended(2**70, True), 1.0)  # msgpack has no integer as large.
    writer.close("done", 2.0)
    assert writer.failure.startswith("internal error: OverflowError: ")
    assert writer.remedies == ()
    writer.put(MEASURED[0], 3.0)
    assert writer.waiting == 0
    recording = open_recording(path)
    assert (messages_in(recording), recording.skipped) == ([MEASURED[0]], 0)
    assert recording.end is None


def test_what_was_left_out_is_told_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    writer = Writer(create(str(path)), HEADER)
    writer.put(Printed("x" * 5 * 1024 * 1024), 0.0)
    writer.put(MEASURED[0], 1.0)
    writer.close("done", 1.0)
    recording = open_recording(path)
    assert messages_in(recording) == [MEASURED[0]]
    assert recording.end is not None
    assert (recording.end.dropped, writer.dropped) == (1, 1)
    assert recording.skipped == 0


def test_a_limit_on_the_size_ends_with_whole_frames(tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000));"
    done = subprocess.run(
        [sys.executable, "-c", code + SMALL_DISK, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    why, frames = done.stdout.strip().rsplit(", ", 1)
    recording = open_recording(tmp_path / "full.rec")
    assert why == "File too large"
    assert (len(recording.entries), recording.holes) == (int(frames), ())
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 200_000


def test_no_room_at_any_byte_leaves_every_whole_frame(tmp_path: Path) -> None:
    code = "import sys, pathlib; from tests.recording.full_disk import without_room;"
    code += f"print(*without_room(pathlib.Path({str(tmp_path)!r}), 11, 50), sep='\\n', end='')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_full_disk_ends_with_whole_frames(tmp_path: Path) -> None:
    script = (
        'mount -t tmpfs -o size=1m none "$0" && "$1" -c "$2" "$0" && cp "$0"/full.rec "$3"/full.rec'
    )
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script),
            *(str(tmp_path / "disk"), sys.executable, SMALL_DISK, str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    why, frames = done.stdout.strip().rsplit(", ", 1)
    recording = open_recording(tmp_path / "full.rec")
    assert why == "No space left on device"
    assert (len(recording.entries), recording.holes) == (int(frames), ())
    assert recording.end is None


@pytest.mark.parametrize("seed", range(4))
def test_no_frame_that_was_taken_is_lost_by_kill_9(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "killed.rec"
    program = subprocess.Popen(
        [sys.executable, "-c", "from tests.recording.test_writer import taken_forever as t; t()"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{path}\n".encode())
    program.stdin.flush()
    last = int(program.stdout.readline())
    for _ in range(random.Random(seed).randrange(150)):
        last = int(program.stdout.readline())
    program.send_signal(signal.SIGKILL)
    told = [int(line) for line in program.stdout.read().splitlines() if line]
    program.wait()
    recording = open_recording(path)
    assert len(recording.entries) >= max([last, *told])
    said = [encode(message) for message, _ in fixture()]
    for position, message in enumerate(messages_in(recording)):
        assert encode(message) == said[position % len(said)]


def taken_forever() -> None:
    """Record a session again and again; tell after each message how many frames were taken."""
    writer = Writer(create(sys.stdin.readline().strip()), HEADER)
    while True:
        for message, at in timed(message for message, _ in fixture()):
            writer.put(message, at)
            while writer.waiting > 20:
                time.sleep(0)
            sys.stdout.write(f"{writer.frames}\n")
            sys.stdout.flush()

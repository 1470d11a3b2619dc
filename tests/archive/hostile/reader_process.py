"""Reads files in processes of their own, with a limit on memory, and watches what they do.

``python -m tests.archive.hostile.reader_process`` takes a path from each line of its input and
answers with a line of JSON. Loading torch would hide what the reader itself needs, so that nothing
here may import it.
"""

from __future__ import annotations

import json
import resource
import select
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Struct

MEMORY_BYTES = 512 << 20
SECONDS = 5.0
_WALL_SECONDS = 240.0
_ROOT = Path(__file__).resolve().parents[3]

_WATCHED = (
    "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.", "ctypes.",
    "pickle.find_class", "shutil.", "os.remove", "os.rename", "os.mkdir", "exec", "compile",
    "import",
)  # fmt: skip


class Reading(Struct):
    """What came of reading one file."""

    outcome: str
    """``found``, ``found with problems``, ``refused``, or a violation: ``crash``, ``time``, …"""
    message: str = ""
    kind: str = ""
    cpu_seconds: float = 0.0
    """Of the structure alone; verifying reads every value, and may take as long as that takes."""
    wall_seconds: float = 0.0
    peak_bytes: int = 0
    """The most that the process held meanwhile, its 20 MB of Python included."""
    verdict: str = ""
    dangerous: int = 0
    untrusted: int = 0
    tensors: int = 0

    @property
    def is_violation(self) -> bool:
        """Say if the file got the better of the reader."""
        return self.outcome not in ("found", "found with problems", "refused")


class Reader:
    """A process that reads files, started anew when one has killed it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path) -> Reading:
        """Read a file, in at most a few times the seconds that it may take."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n".encode())
        process.stdin.flush()
        started = time.monotonic()
        ready, _, _ = select.select([process.stdout], [], [], _WALL_SECONDS)
        line = process.stdout.readline() if ready else b""
        if not line:
            self.close()
            outcome = "crash" if ready else "time"
            return Reading(outcome, f"exit code {process.returncode}", wall_seconds=_WALL_SECONDS)
        answer = Reading(**json.loads(line))
        answer.wall_seconds = time.monotonic() - started
        if answer.cpu_seconds > SECONDS:
            answer.outcome = "time"
        if answer.peak_bytes > MEMORY_BYTES:
            answer.outcome = "memory"
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.archive.hostile.reader_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
        )
        return self._process


def main() -> None:
    """Answer for each path of the input."""
    import encodings.unicode_escape  # noqa: F401  # what our own first reading imports is no offence

    import tui_profiler.archive  # noqa: F401

    seen: list[str] = []
    watching = False

    def watch(event: str, _: object) -> None:
        if watching and event.startswith(_WATCHED):
            seen.append(event)

    sys.addaudithook(watch)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES * 2, MEMORY_BYTES * 2))
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        seen.clear()
        _forget_peak()
        watching = True
        answer = _answer(path)
        watching = False
        answer.peak_bytes = _peak_bytes()
        if seen:
            answer.outcome, answer.message = "did something", ", ".join(seen)
        if "torch" in sys.modules or "numpy" in sys.modules:
            answer.outcome = "imported torch"
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


def _answer(path: Path) -> Reading:
    from tui_profiler.archive import ArchiveError, structure_of, verify

    before = time.process_time()
    try:
        found = structure_of(path)
    except ArchiveError as error:
        told = error.file and error.what
        seconds = time.process_time() - before
        outcome = "refused" if told else "refused without a reason"
        return Reading(outcome, str(error)[:300], cpu_seconds=seconds)
    except BaseException as error:
        return Reading("crash", f"{type(error).__name__}: {error}"[:300])
    seconds = time.process_time() - before
    try:
        verdict = verify(path).checksum
    except ArchiveError:
        verdict = "failed"
    except BaseException as error:
        return Reading("crash", f"verify: {type(error).__name__}: {error}"[:300])
    problem = found.problems[0] if found.problems else None
    return Reading(
        "found with problems" if problem else "found",
        f"{problem.where}: {problem.what}" if problem else "",
        found.kind,
        seconds,
        verdict=verdict,
        dangerous=len(found.dangerous_globals),
        untrusted=len(found.untrusted_globals),
        tensors=len(found.tensors),
    )


def _forget_peak() -> None:
    # proc(5): 5 resets the peak of the resident set. ru_maxrss would be the parent's at least.
    Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell the peak of the resident set")


if __name__ == "__main__":
    main()

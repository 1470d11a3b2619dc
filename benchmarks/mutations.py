"""Break the most valuable code on purpose, and see whether the tests notice.

``python benchmarks/mutations.py [NAME...]`` applies mutations of ``mutations.toml`` (those whose
file or consequence contains one of the names) to a copy of the repository and runs the tests that
should notice. Prints a line for each that survived, and the table: tried, killed, survived, argued,
stale. Exit code 1 where one survived that is not argued, or does not fit the code any more.

A mutation is ``file``, ``before`` (must stand there once), ``after``, ``tests`` (files), ``user``
(what a user would get) and, where it may survive, ``argued`` (why).

Each run of pytest is a fork of this process, which has imported torch and Textual but nothing of
ours. A mutation takes two to ten seconds, one of screens, measured ceilings or ``--web`` a minute
at most. The whole table takes about an hour on two cores that other programs use too: estimated,
the 333 newest took 37 minutes, in parts.

Options: ``--jobs N`` (2), ``--list``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".toml")
ALLOWED_SECONDS = 600
"""For the tests of one mutation: an endless loop is noticed as well."""
ASIDE_SECONDS = 0.02
IMPORTED = (
    "pytest",
    "torch",
    "torchvision",
    "textual.app",
    "textual.pilot",
    "hypothesis",
    "psutil",
)
"""What tests import that is not ours, and what takes longest of it."""
TOO_LONG = 1
"""Counts as a test that failed."""


class Mutation(NamedTuple):
    """One change of the code that some test must notice."""

    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    user: str
    argued: str = ""


def mutations(names: list[str]) -> list[Mutation]:
    """Return the mutations of the table whose file or consequence contains one of the names."""
    rows = tomllib.loads(TABLE.read_text())["mutation"]
    made = [Mutation(**{**row, "tests": tuple(row["tests"])}) for row in rows]
    return [one for one in made if not names or any(n in one.file or n in one.user for n in names)]


class Copy:
    """A copy of the repository in which one run of pytest takes place at a time."""

    _stamps = itertools.count(1_000_000_000)
    """Seconds, a new one for each file written: by it and the size Python knows its bytecode."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tree = folder / "tree"
        self._changed: tuple[Path, str] | None = None
        self.child = 0
        """Its number while it runs."""
        self.began = 0.0
        tracked = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in filter(None, tracked.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self._tree / name)
        # As the wheel has them; found before what is installed.
        for name in ("screens", "demo_models"):
            (self._tree / "tui_profiler" / name).symlink_to(self._tree / name)

    def change(self, one: Mutation) -> bool:
        """Apply a mutation; tells whether it fits."""
        path = self._tree / one.file
        text = path.read_text() if path.exists() else ""
        if text.count(one.before) != 1:
            return False
        self._changed = path, text
        self._write(path, text.replace(one.before, one.after))
        return True

    def start(self, tests: Iterable[str]) -> None:
        """Fork a process that runs tests."""
        self.began = time.monotonic()
        self.child = os.fork()
        if not self.child:
            self._run([*tests])

    def ended(self) -> int | None:
        """Return the exit code of pytest, and put back what was changed; None: it still runs."""
        done, status = os.waitpid(self.child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        if not done:
            if time.monotonic() - self.began < ALLOWED_SECONDS:
                return None
            self.stop()
            code = TOO_LONG
        if self._changed is not None:
            self._write(*self._changed)
        self.child, self._changed = 0, None
        return code

    def stop(self) -> None:
        """End the run, and the programs that its tests started in its session."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)
            os.killpg(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        stamp = next(self._stamps)
        os.utime(path, (stamp, stamp))

    def _run(self, tests: list[str]) -> None:
        """Run tests in this process, and end it."""
        code = 99
        try:
            os.setsid()
            os.chdir(self._tree)
            # Before what is installed, here and in every program that a test starts.
            sys.path.insert(0, str(self._tree))
            os.environ["PYTHONPATH"] = str(self._tree)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nowhere, number)
            pytest = importlib.import_module("pytest")
            own = f"--basetemp={self._folder / 't'}"
            code = int(
                pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", own, *tests])
            )
        finally:
            os._exit(code)  # What this process would do at its end is the other one's to do.


class Task(NamedTuple):
    """A run of pytest: of one file without a mutation, or of a mutation's tests with it."""

    tests: tuple[str, ...]
    mutation: Mutation | None = None


def outcome(one: Mutation, code: int) -> str:
    """Return what became of a mutation: killed, survived, argued, or what went wrong."""
    if code in (1, 2):  # 2: it could not even be imported.
        return "killed"
    if code:
        return f"pytest ended with {code}"
    return "argued" if one.argued else "survived"


def told(found: Counter[str], one: Mutation, said: str) -> None:
    """Count what became of a mutation, and print it where it is not killed."""
    found[said] += 1
    if said != "killed":
        print(f"{said}: {one.file}: {one.user} {one.argued}".strip(), flush=True)


def tried(chosen: list[Mutation], copies: list[Copy]) -> Counter[str]:
    """Try mutations in copies of the repository side by side; return what became of them."""
    files = dict.fromkeys(file for one in chosen for file in one.tests)
    waiting = deque([*(Task((file,)) for file in files), *(Task(one.tests, one) for one in chosen)])
    unsound: set[str] = set()
    running: dict[int, Task] = {}
    found: Counter[str] = Counter()
    while waiting or running:
        for at, copy in enumerate(copies):
            if copy.child:
                code = copy.ended()
                if code is None:
                    continue
                task = running.pop(at)
                if task.mutation is not None:
                    told(found, task.mutation, outcome(task.mutation, code))
                elif code:
                    unsound.add(task.tests[0])
            # The first mutation waits until every file was run without one.
            while waiting and not copy.child:
                task = waiting[0]
                one = task.mutation
                if one is not None and any(each.mutation is None for each in running.values()):
                    break
                waiting.popleft()
                if one is not None:
                    if failing := [name for name in one.tests if name in unsound]:
                        told(found, one, f"{failing[0]} fails without it")
                        continue
                    if not copy.change(one):
                        told(found, one, "stale")
                        continue
                running[at] = task
                copy.start(task.tests)
        time.sleep(ASIDE_SECONDS)
    return found


def main() -> int:
    """Try each mutation and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    chosen = mutations(asked.names)
    if asked.list:
        for one in chosen:
            print(f"{one.file}: {one.user}")
        return 0
    # As tests/conftest.py has them: both are read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in IMPORTED:
        importlib.import_module(name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        places = [Path(folder) / str(number) for number in range(asked.jobs)]
        copies = [Copy(place) for place in places]
        try:
            found = tried(chosen, copies)
        finally:  # ctrl+C: they have sessions of their own.
            for copy in copies:
                if copy.child:
                    copy.stop()
    print(f"tried {found.total()} in {time.monotonic() - began:.0f} s: ", end="")
    print(", ".join(f"{name} {count}" for name, count in found.most_common()))
    return int(set(found) - {"killed", "argued"} != set())


if __name__ == "__main__":
    sys.exit(main())

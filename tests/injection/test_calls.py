"""Functions called on threads of other processes: their results, and what is left of it."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.viewer import wait_until
from tui_profiler.injection.ptrace import CallError, stopped
from tui_profiler.injection.symbols import SymbolError, addresses, mappings

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="threads are called on x86-64 only"
)
NAMES = ("getpid", "drand48", "atoi", "sleep", "abort")
ADDS = """
import hashlib, sys
import numpy
numbers = numpy.random.default_rng(0).random(4096)
print("ready", flush=True)
found = hashlib.sha256()
for _ in range(int(sys.argv[1])):
    numbers = numpy.sqrt(numbers * 1.5 + 0.25)
    found.update(numbers.tobytes())
print(found.hexdigest())
"""
"""Vector registers are in use nearly always, and any wrong bit changes the answer."""


def functions(pid: int) -> dict[str, int]:
    """Return addresses of functions of its C library."""
    found: dict[str, int] = {}
    for one in mappings(Path(f"/proc/{pid}/maps").read_text()):
        if Path(one.path).name.startswith(("libc.so.6", "libc-2")):
            found |= addresses(one.path, one.start, NAMES)
    return found


@contextmanager
def running(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", child.communicate()
        yield child
    finally:
        child.kill()
        child.communicate()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_functions_lie_where_the_loader_says() -> None:
    found = functions(os.getpid())
    library = ctypes.CDLL(None)
    for name in NAMES:
        assert found[name] == ctypes.cast(getattr(library, name), ctypes.c_void_p).value


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + bytes(200)])
def test_what_is_not_a_library_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "libc.so.6"
    file.write_bytes(content or b"#!/bin/sh\n")
    with pytest.raises(SymbolError, match="libc"):
        addresses(str(file), 0, NAMES)


def test_a_program_that_is_called_into_computes_the_same() -> None:
    rounds = 25_000
    with running(ADDS, str(rounds)) as alone:
        expected = alone.communicate(timeout=240)[0]
    calls = 0
    with running(ADDS, str(rounds)) as child:
        found = functions(child.pid)
        while child.poll() is None and calls < 300:
            try:
                with stopped(child.pid, child.pid) as thread:
                    assert thread.call(found["getpid"], ()) == child.pid
                    thread.call(found["drand48"], ())  # Its result is in a vector register.
                calls += 1
            except ProcessLookupError:
                break
        said = child.communicate(timeout=240)[0]
    assert calls > 20
    assert said == expected


def test_a_sleep_is_not_cut_short_and_a_call_that_waits_is_given_up() -> None:
    code = "import time; print('ready', flush=True); t = time.time(); time.sleep(2)\n"
    code += "print(time.time() - t)"
    with running(code) as child:
        wait_until(lambda: state(child.pid) == "S")
        found = functions(child.pid)
        with pytest.raises(CallError, match="did not return"), stopped(child.pid, child.pid) as one:
            one.call(found["sleep"], (100,))
        out, err = child.communicate(timeout=240)
    assert err == ""
    assert 2.0 <= float(out) < 60.0
    assert child.returncode == 0


def test_a_fault_of_the_call_is_no_fault_of_the_program() -> None:
    with running("import time; print('ready', flush=True); time.sleep(0.5)") as child:
        wait_until(lambda: state(child.pid) == "S")
        with pytest.raises(CallError, match="fault"), stopped(child.pid, child.pid) as thread:
            thread.call(functions(child.pid)["atoi"], (8,))
        assert child.communicate(timeout=240) == ("", "")
    assert child.returncode == 0


def test_who_waits_for_a_lock_is_woken_and_who_sleeps_is_not() -> None:
    lock = "import threading; print('ready', flush=True); threading.Lock().acquire(); "
    for code, waits in (
        (lock + "threading.Event().wait()", True),
        ("import time; print('ready', flush=True); time.sleep(1)", False),
    ):
        with running(code) as child:
            wait_until(lambda: state(child.pid) == "S")
            with stopped(child.pid, child.pid) as thread:
                assert thread.interrupt_lock() is waits
            assert child.poll() is None


def test_nobody_else_is_stopped() -> None:
    with pytest.raises(PermissionError), stopped(os.getpid(), os.getpid()):
        pass
    began = time.monotonic()
    with pytest.raises(ProcessLookupError), stopped(2**22 - 1, 2**22 - 1):
        pass
    assert time.monotonic() - began < 60.0

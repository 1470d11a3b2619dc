"""Our listener started in a running Python that was not prepared for it.

1. The program is stopped for two calls into C, a millisecond in all: some memory for a line of
   Python, and ``Py_AddPendingCall``, which asks its main thread to run the line when it comes to
   it, as after a signal. Nothing is loaded, and no lock of malloc, the loader or the interpreter is
   waited for: a library that is loaded by a stopped thread (``pyinjector``) waits for ever where
   the thread was inside malloc.
2. The line starts a thread of ours, and the main thread goes on; the rest is done there
   (``probe/watch/injected.py``).
3. A thread that sleeps is stopped rather than the main one, so that the program goes on meanwhile.
4. Python 3.14 has ``sys.remote_exec``, which is used instead, by the program's own interpreter. A
   main thread that waits for a lock does not run what it is asked to so, not even after a signal
   (``Py_MakePendingCalls`` of 3.14 looks at calls alone): a pending call of one empty
   statement makes it run.
"""

import contextlib
import errno
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tui_profiler.injection import processes
from tui_profiler.injection.processes import PREPARED, InjectionError
from tui_profiler.injection.ptrace import CallError, stopped
from tui_profiler.injection.symbols import SymbolError, addresses, mappings

ANSWER_SECONDS = 30.0
"""From the line to the listener: imports, on a busy machine."""
NUDGE_SECONDS = 0.5
"""After which a main thread that waits for a lock is made to look."""
TRIES = 20
TRY_AGAIN_SECONDS = 0.02
REMOTE_EXEC = (3, 14)
_LOOK_AGAIN_SECONDS = 0.01
_PAGE = os.sysconf("SC_PAGE_SIZE")
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22
"""``PROT_READ|PROT_WRITE`` and ``MAP_PRIVATE|MAP_ANONYMOUS`` of linux/mman.h."""
_NO_FILE = 2**64 - 1
_FAILED = 2**64 - 4096
_FUNCTIONS = ("mmap", "Py_AddPendingCall", "PyRun_SimpleString")
_LIBRARIES = ("libpython3", "python", "libc.so.6", "libc-2")
_BROUGHT = (
    *("tui_profiler", "msgspec", "numpy", "platformdirs", "psutil"),
    *("pynvml", "amdsmi", "pyzes"),
)
"""What the listener imports, and may not be installed where the program is."""
_BODY = """
import os, sys
def begin(answer, version, folders):
    try:
        try:
            from tui_profiler.probe.watch.injected import listen
        except ImportError:
            if (*sys.version_info[:2], sys.abiflags) != version:
                raise
            sys.path += folders
            try:
                from tui_profiler.probe.watch.injected import listen
                said = listen()
            finally:
                for folder in folders:
                    sys.path.remove(folder)
        else:
            said = listen()
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    with open(answer + ".new", "w") as file:
        file.write(said)
    os.rename(answer + ".new", answer)
"""
_LINE = """try:
 __import__("_thread").start_new_thread(exec, ({body!r}, {{}}))
except KeyboardInterrupt:
 __import__("_thread").interrupt_main()
except BaseException:
 pass
"""
"""Runs in ``__main__`` of the program, on its main thread: it assigns no name, and never raises."""
_VERSION = (*sys.version_info[:2], sys.abiflags)
"""Whose extensions can be loaded there: those of a free-threaded Python have another ABI."""
_REMOTE = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"


def start_listener(pid: int) -> Path:
    """Have a process listen for viewers, and return the path of its socket.

    Raises:
        InjectionError: it cannot be done.
    """
    maps = _checked(pid)
    with tempfile.TemporaryDirectory(prefix="tui-profiler-") as folder:
        answer = Path(folder) / "answer"
        body = f"{_BODY}begin({str(answer)!r}, {_VERSION!r}, {folders()!r})\n"
        line = _LINE.format(body=body)
        version = processes.python_of(maps)
        with _explained(pid):
            is_by_script = version is not None and version >= REMOTE_EXEC
            if is_by_script:
                by_remote_exec(pid, Path(folder) / "line.py", line)
            else:
                _by_pending_call(pid, maps, line)
        said = _answer(pid, answer, maps if is_by_script else "")
    if not said.startswith("/"):
        raise InjectionError(*_not_started(pid, said, version))
    return Path(said)


def _checked(pid: int) -> str:
    """Return the mapped files of a process that is fit."""
    try:
        status = processes.status_of(processes.read(pid, "status"))
    except OSError:
        raise InjectionError(f"there is no process {pid}", "tui-profiler attach --list") from None
    around = processes.apart(pid)
    try:
        maps = processes.read(pid, "maps")
    except OSError:
        maps = ""
    if (why := processes.unfit(pid, status, maps, around)) is not None:
        raise why
    if not maps:
        raise _refused(pid)
    return maps


def _refused(pid: int) -> InjectionError:
    try:
        theirs = processes.status_of(processes.read(pid, "status"))
        around = processes.surroundings(pid)
    except OSError:
        return InjectionError(f"process {pid} has ended", "tui-profiler attach --list")
    ours = processes.status_of(processes.read(os.getpid(), "status"))
    return processes.refusal(ours, theirs, around)


@contextlib.contextmanager
def _explained(pid: int) -> Iterator[None]:
    """Say who has refused, where the kernel does."""
    try:
        yield
    except PermissionError as error:
        raise _refused(pid) from error
    except (ProcessLookupError, FileNotFoundError) as error:
        raise InjectionError(f"process {pid} has ended", "tui-profiler attach --list") from error
    except (CallError, SymbolError, OSError) as error:
        raise InjectionError(f"process {pid} could not be asked: {error}", PREPARED) from error


def by_remote_exec(pid: int, script: Path, line: str) -> None:
    """Have a program of Python 3.14 or newer run a line, by its own interpreter.

    Args:
        pid: of the program.
        script: where the line is written to.
        line: what its main thread is to run.

    Raises:
        PermissionError: the kernel refuses.
        InjectionError: the interpreter refuses: it was started so, or built so.
    """
    script.write_text(line)
    command = [f"/proc/{pid}/exe", "-I", "-S", "-c", _REMOTE, str(pid), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10.0)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if "PermissionError" in last:
            raise PermissionError(errno.EPERM, last)
        raise InjectionError(f"sys.remote_exec of process {pid} refused: {last}", PREPARED)


def _by_pending_call(pid: int, maps: str, line: str) -> None:
    if platform.machine() != "x86_64":
        raise InjectionError(
            f"on {platform.machine()} only Python 3.14 can be attached to unprepared", PREPARED
        )
    found = _functions(pid, maps)
    content = line.encode() + b"\0"
    size = -(-len(content) // _PAGE) * _PAGE
    failed: CallError | None = None
    for _ in range(TRIES):
        try:
            with stopped(pid, _idle_thread(pid)) as thread:
                page = thread.call(
                    found["mmap"], (0, size, _READ_WRITE, _PRIVATE_ANONYMOUS, _NO_FILE, 0)
                )
                if page >= _FAILED:
                    raise OSError(2**64 - page, os.strerror(2**64 - page))
                thread.write(page, content)
                is_full = thread.call(
                    found["Py_AddPendingCall"], (found["PyRun_SimpleString"], page)
                )
            if not is_full & 0xFFFFFFFF:
                return
            failed = CallError("its main thread already has 32 pending calls")
        except CallError as error:
            failed = error
        time.sleep(TRY_AGAIN_SECONDS)
    assert failed is not None
    raise failed


def _functions(pid: int, maps: str) -> dict[str, int]:
    """Return the addresses of what is called there."""
    found: dict[str, int] = {}
    for one in mappings(maps):
        if os.path.basename(one.path).startswith(_LIBRARIES):
            wanted = [name for name in _FUNCTIONS if name not in found]
            # Deleted since (an upgrade): the file of that name is another one.
            if wanted and not one.path.endswith(" (deleted)"):
                found.update(addresses(f"/proc/{pid}/root{one.path}", one.start, wanted))
    missing = [name for name in _FUNCTIONS if name not in found]
    if missing:
        raise SymbolError(f"its files do not define {', '.join(missing)}, or were replaced")
    return found


def _idle_thread(pid: int) -> int:
    """Return a thread that sleeps, and does not block the signal that ends a call; else the main.

    The one whose state says so may run in the next moment: any thread can be stopped.
    """
    fault = 1 << (signal.SIGSEGV - 1)
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        if thread == pid:
            continue
        try:
            fields = dict(
                line.split(":", 1)
                for line in processes.read(pid, f"task/{thread}/status").splitlines()
            )
        except (OSError, ValueError):
            continue
        if fields["State"].split()[0] == "S" and not int(fields["SigBlk"], 16) & fault:
            return thread
    return pid


def _answer(pid: int, path: Path, maps: str) -> str:
    """Wait for the program's answer, and return it.

    Args:
        pid: of the program.
        path: where it is written to.
        maps: of a program that needs a call to run its script; else empty.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    nudge = time.monotonic() + NUDGE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            return path.read_text()
        if not os.path.exists(f"/proc/{pid}"):
            raise InjectionError(f"process {pid} has ended", "tui-profiler attach --list")
        if time.monotonic() >= nudge:
            nudge = time.monotonic() + NUDGE_SECONDS
            with contextlib.suppress(OSError, CallError, SymbolError, InjectionError):
                if maps:
                    _by_pending_call(pid, maps, "pass\n")
                    maps = ""
                with stopped(pid, pid) as main:
                    main.interrupt_lock()
        time.sleep(_LOOK_AGAIN_SECONDS)
    raise InjectionError(
        f"the main thread of process {pid} ran no Python for {ANSWER_SECONDS:.0f} s: "
        "it listens as soon as it does",
        f"tui-profiler attach {pid} later",
    )


def folders() -> list[str]:
    """Return where our packages are, for a program of the same Python that does not have them."""
    found = []
    for name in _BROUGHT:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            folder = origin.parent if origin.name != "__init__.py" else origin.parent.parent
            found.append(str(folder))
    return list(dict.fromkeys(found))


def _not_started(pid: int, said: str, version: tuple[int, int] | None) -> tuple[str, str]:
    first = (said.splitlines() or [""])[0]
    missing = "No module named" in first
    python = "" if version is None else f" (Python {version[0]}.{version[1]})"
    why = f"the environment of process {pid}{python} lacks tui-profiler: {first}"
    with contextlib.suppress(OSError):
        executable = os.readlink(f"/proc/{pid}/exe")
        if missing:
            return why, f"{shutil.which(executable) or executable} -m pip install tui-profiler"
    return f"the listener could not be started in process {pid}: {first}", PREPARED

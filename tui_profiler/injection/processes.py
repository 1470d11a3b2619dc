"""What ``/proc`` tells of a process that is to be attached to, and why the kernel refuses to.

What can be known before is asked before: nothing is tried on a program that is not Python, has no
torch, or could not answer. Why the kernel refused is told afterwards, in the order of its own
checks (``__ptrace_may_access`` of kernel/ptrace.c, then ``yama_ptrace_access_check`` of
security/yama/yama_lsm.c), from text alone.
"""

import os
import pwd
import re
import shlex
from pathlib import Path
from typing import NamedTuple

TRACES = 1 << 19
"""``CAP_SYS_PTRACE`` of linux/capability.h."""
LEAST_PYTHON = (3, 11)
_EXTENSION = re.compile(r"\.cpython-3(\d+)(t?)-")
"""As torch's own extension is named."""
_TORCH = "libtorch_python"
_NAMESPACES = ("pid", "mnt", "user", "ipc")
PREPARED = "tui-profiler enable, and the program again with TUI_PROFILER=1"


class InjectionError(Exception):
    """A program cannot be attached to.

    Args:
        why: one sentence.
        instead: the one command that helps.
    """

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(why)
        self.instead = instead


class Status(NamedTuple):
    """Of ``/proc/PID/status``."""

    name: str
    state: str
    """Its letter: ``T`` is stopped, ``t`` stopped by who traces it, ``Z`` has ended."""
    users: tuple[int, ...]
    """Real, effective, saved, of files."""
    groups: tuple[int, ...]
    tracer: int
    """Process id; 0: none."""
    own_ids: tuple[int, ...]
    """Its process id in each namespace, the innermost last."""
    permitted: int
    effective: int
    """Capabilities, a bit each."""
    seccomp: int
    """2: a filter."""


class Surroundings(NamedTuple):
    """What else the kernel asks."""

    pid: int
    yama: int | None
    """``ptrace_scope``; None where the kernel has no Yama."""
    apart: tuple[str, ...]
    """Namespaces in which the two processes are not together."""
    owner: int
    """User to whom the files of ``/proc/PID`` belong: root, where its memory is closed to its own
    user (``task_dump_owner`` of fs/proc/base.c; the folder itself is always the user's)."""
    is_descendant: bool
    """Whether the program is a child of ours, or a child's."""


def status_of(text: str) -> Status:
    """Read ``/proc/PID/status``."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    numbers = {name: fields.get(name, "").split() for name in ("Uid", "Gid", "NSpid")}
    return Status(
        name=fields.get("Name", "").strip(),
        state=(fields.get("State", "").split() or [""])[0],
        users=tuple(map(int, numbers["Uid"])),
        groups=tuple(map(int, numbers["Gid"])),
        tracer=int(fields.get("TracerPid", "0")),
        own_ids=tuple(map(int, numbers["NSpid"])),
        permitted=int(fields.get("CapPrm", "0"), 16),
        effective=int(fields.get("CapEff", "0"), 16),
        seccomp=int(fields.get("Seccomp", "0")),
    )


def python_of(maps: str) -> tuple[int, int] | None:
    """Return the version of the Python that has loaded extensions; None where none did."""
    found = _EXTENSION.search(maps)
    return (3, int(found[1])) if found else None


def is_free_threaded(maps: str) -> bool:
    """Return whether the Python that has loaded extensions has no GIL."""
    found = _EXTENSION.search(maps)
    return found is not None and found[2] == "t"


def has_torch(maps: str) -> bool:
    """Tell whether torch is loaded."""
    return _TORCH in maps


def unfit(pid: int, status: Status, maps: str, apart: tuple[str, ...]) -> InjectionError | None:
    """Return why a process is not one to try, whoever asks; None where it is.

    Args:
        pid: its id here.
        status: of it.
        maps: of ``/proc/PID/maps``; empty where it cannot be read.
        apart: namespaces in which it is not with us.
    """
    if status.state in ("Z", "X"):
        return InjectionError(f"process {pid} has ended", "tui-profiler attach --list")
    if status.state == "T":
        return InjectionError(f"process {pid} is stopped (SIGSTOP)", f"kill -CONT {pid}")
    if status.tracer:
        return InjectionError(
            f"process {pid} is traced by process {status.tracer} already, a debugger",
            f"detaching process {status.tracer}",
        )
    if "pid" in apart or "mnt" in apart:
        inner = status.own_ids[-1] if status.own_ids else pid
        return InjectionError(
            f"process {pid} is in another {'pid' if 'pid' in apart else 'mount'} namespace "
            "(a container)",
            f"sudo nsenter --target {pid} --all tui-profiler attach {inner}",
        )
    if not maps:
        return None
    version = python_of(maps)
    if "/ld-musl-" in maps:
        return InjectionError(f"process {pid} runs on musl, not on glibc", PREPARED)
    if not has_torch(maps):
        what = "has not loaded torch" if version is not None else "is not Python with torch"
        return InjectionError(f"process {pid} {what}", "tui-profiler attach --list")
    if version is None or version < LEAST_PYTHON:
        # torch is loaded, by an interpreter whose extensions have other names.
        return InjectionError(
            f"process {pid} runs a Python that is not CPython 3.11 or newer", "python -V"
        )
    if is_free_threaded(maps):
        # Not tested: the stopped thread may hold any of the interpreter's per-object locks.
        name = f"python{version[0]}.{version[1]}"
        return InjectionError(
            f"process {pid} runs a free-threaded Python ({name}t), which is not supported",
            f"{name} instead of {name}t",
        )
    return None


def refusal(ours: Status, theirs: Status, around: Surroundings) -> InjectionError:
    """Return who has refused, after the kernel has said no, and the one command that helps."""
    may_trace = bool(ours.effective & TRACES)
    user = theirs.users[0]
    if not may_trace and set(theirs.users[:3]) | set(theirs.groups[:3]) != {
        ours.users[-1],
        ours.groups[-1],
    }:
        named = _name_of(user)
        return InjectionError(
            f"process {around.pid} belongs to user {named}: only this user and root may attach",
            f"sudo -u {shlex.quote(named)} tui-profiler attach {around.pid}",
        )
    if "user" in around.apart:
        return InjectionError(
            f"process {around.pid} is in another user namespace",
            f"sudo nsenter --target {around.pid} --all tui-profiler attach {theirs.own_ids[-1]}",
        )
    if around.yama == 3:
        return InjectionError("Yama allows no process to attach (ptrace_scope is 3)", PREPARED)
    if around.yama == 2 and not may_trace:
        return InjectionError(
            "Yama allows only root to attach (ptrace_scope is 2)",
            "sudo sysctl kernel.yama.ptrace_scope=1",
        )
    if around.yama == 1 and not may_trace and not around.is_descendant:
        return InjectionError(
            "Yama allows to attach only to one's own children (ptrace_scope is 1)",
            "sudo sysctl kernel.yama.ptrace_scope=0",
        )
    if not may_trace and (theirs.permitted & ~ours.permitted or around.owner != user):
        why = "has more capabilities than this command" if around.owner == user else "is protected"
        return InjectionError(
            f"process {around.pid} {why}, which lacks CAP_SYS_PTRACE",
            "docker run --cap-add SYS_PTRACE, or sudo",
        )
    if ours.seccomp == 2:
        return InjectionError(
            "a seccomp filter denies ptrace to this command (a container)",
            "docker run --security-opt seccomp=unconfined, or --cap-add SYS_PTRACE",
        )
    return InjectionError("a security module of the kernel denies ptrace", PREPARED)


def read(pid: int, name: str, proc: Path = Path("/proc")) -> str:
    """Return a file of a process.

    Raises:
        OSError: it is gone, or the kernel refuses.
    """
    return (proc / str(pid) / name).read_text(errors="replace")


def surroundings(pid: int, proc: Path = Path("/proc")) -> Surroundings:
    """Return what the kernel asks beside who both are.

    Raises:
        OSError: it is gone.
    """
    try:
        yama: int | None = int((proc / "sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        yama = None
    owner = (proc / str(pid) / "status").stat().st_uid
    return Surroundings(pid, yama, apart(pid, proc), owner, _is_descendant(pid, proc))


def apart(pid: int, proc: Path = Path("/proc")) -> tuple[str, ...]:
    """Return the namespaces in which a process is not with us; what is not told is left out."""
    found = []
    for name in _NAMESPACES:
        try:
            if (proc / str(pid) / "ns" / name).readlink() != (proc / "self/ns" / name).readlink():
                found.append(name)
        except OSError:
            # Of another user namespace even this is not told, but who is who there is.
            if name == "user" and _text(proc / str(pid) / "uid_map") != _text(
                proc / "self/uid_map"
            ):
                found.append(name)
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _is_descendant(pid: int, proc: Path) -> bool:
    own = os.getpid()
    while pid > 1:
        if pid == own:
            return True
        try:
            pid = int(read(pid, "stat", proc).rpartition(") ")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"

"""A model file that tries what a sandbox must deny, and prints what came of each deed as JSON.

``build`` is called in a worker. Where the deeds may leave traces it is told by the environment.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

HOME = Path(os.environ.get("DEEDS_HOME", ""))
PORT = int(os.environ.get("DEEDS_PORT", "0"))
OTHER = int(os.environ.get("DEEDS_OTHER", "0"))
TERMINAL = os.environ.get("DEEDS_TERMINAL", "")
QUEUE, SEMAPHORES = map(int, os.environ.get("DEEDS_QUEUES", "-1 -1").split())


def build() -> torch.nn.Module:
    print(json.dumps({name: outcome(deed) for name, deed in DEEDS.items()}), flush=True)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())


def outcome(deed: Callable[[], object]) -> str:
    try:
        deed()
    except (OSError, RuntimeError, ImportError) as error:
        return f"refused: {type(error).__name__}: {error}"
    return "done"


def libc(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def system_call(number: int, *arguments: object) -> None:
    libc("syscall", ctypes.c_long(number), *arguments)


def from_file() -> None:
    whole = HOME / "bashrc"
    mapped = torch.from_file(str(whole), shared=True, size=4, dtype=torch.uint8)
    mapped.fill_(120)


def fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def shared_fork() -> None:
    """As ``fork``, by the call that libc uses: its flags are in memory."""
    flags = (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD)
    child = ctypes.CDLL(None, use_errno=True).syscall(435, flags, 88)
    if child < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def datagram() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))


def named_unix(kind: int) -> None:
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.connect(str(HOME / "listening"))


def pair_to_path() -> None:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", str(HOME / "datagrams"))


def tcp(connect: bool) -> None:
    with socket.socket() as one:
        if connect:
            one.connect(("127.0.0.1", PORT))
        else:
            one.bind(("127.0.0.1", 0))


def write_memory() -> None:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    libc("process_vm_readv", OTHER, local, 1, local, 1, 0)


def ptrace() -> None:
    libc("ptrace", 16, OTHER, 0, 0)  # PTRACE_ATTACH


def environment_of_other() -> None:
    Path(f"/proc/{OTHER}/environ").read_bytes()


def run_from_temporary_folder() -> None:
    script = Path(tempfile.gettempdir(), "script")
    script.write_text("#!/bin/sh\nexit 0\n")
    subprocess.run([sys.executable, str(script)], check=True)


def signal_by_descriptor() -> None:
    """Have the kernel signal another process when something is read: ``F_SETOWN``."""
    reading, _ = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, OTHER)


def set_file_flags() -> None:
    """Attributes as ``chattr`` sets them, for which a file need not be open for writing."""
    with (HOME / "bashrc").open("rb") as file:
        fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x80))  # FS_IOC_SETFLAGS, FS_NOATIME_FL


DEEDS: dict[str, Callable[[], object]] = {
    "write in the home folder": lambda: (HOME / "new").write_text("x"),
    "write in the working directory": lambda: Path("deed-canary").write_text("x"),
    "append to .bashrc": lambda: (HOME / "bashrc").open("a").write("x"),
    "open .bashrc for writing": lambda: os.open(HOME / "bashrc", os.O_RDWR),
    "truncate": lambda: os.truncate(HOME / "bashrc", 0),
    "truncate on opening": lambda: os.open(HOME / "bashrc", os.O_RDONLY | os.O_TRUNC),
    "rename": lambda: (HOME / "bashrc").rename(HOME / "moved"),
    "rename out of the temporary folder": lambda: Path(tempfile.mkstemp()[1]).rename(
        HOME / "moved"
    ),
    "rename into the temporary folder": lambda: (HOME / "bashrc").rename(
        Path(tempfile.gettempdir(), "taken")
    ),
    "unlink": (HOME / "bashrc").unlink,
    "make a folder": (HOME / "folder").mkdir,
    "remove a folder": (HOME / "empty").rmdir,
    "hard link": lambda: os.link(HOME / "bashrc", HOME / "linked"),
    "hard link into the temporary folder": lambda: os.link(
        HOME / "bashrc", Path(tempfile.gettempdir(), "linked")
    ),
    "symbolic link": lambda: (HOME / "symbolic").symlink_to("/etc"),
    "make a pipe": lambda: os.mkfifo(HOME / "pipe"),
    "change the mode": lambda: (HOME / "bashrc").chmod(0o777),
    "change the times": lambda: os.utime(HOME / "bashrc", (1, 1)),
    "write into the cache of tui-profiler": lambda: (
        HOME / "cache" / "tui-profiler" / "ceilings-0.json"
    ).write_text("x"),
    "write through from_file": from_file,
    "torch.save": lambda: torch.save({}, HOME / "saved"),
    "run a program": lambda: subprocess.run(["/bin/true"], check=True),
    "replace this process": lambda: os.execv("/bin/true", ["true"]),
    "run a script of the temporary folder": run_from_temporary_folder,
    "os.system": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "fork": fork,
    "fork by clone3": shared_fork,
    "connect TCP": lambda: tcp(connect=True),
    "bind TCP": lambda: tcp(connect=False),
    "send UDP": datagram,
    "connect to a Unix socket": lambda: named_unix(socket.SOCK_STREAM),
    "send to a Unix socket from a pair": pair_to_path,
    "signal another process": lambda: os.kill(OTHER, signal.SIGTERM),
    "ask whether a process can be signalled": lambda: os.kill(OTHER, 0),
    "trace another process": ptrace,
    "read memory of another process": write_memory,
    "read the environment of another process": environment_of_other,
    "open a descriptor of another process": lambda: os.open(f"/proc/{OTHER}/mem", os.O_RDONLY),
    "read another terminal": lambda: os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY),
    "read the terminal": lambda: os.open("/dev/tty", os.O_RDONLY),
    "read another terminal as a descriptor of its process": lambda: os.open(
        f"/proc/{OTHER}/fd/2", os.O_RDONLY | os.O_NOCTTY
    ),
    "io_uring": lambda: system_call(425, 8, ctypes.create_string_buffer(120)),
    "mount": lambda: libc("mount", b"none", str(HOME).encode(), b"tmpfs", 0, None),
    "have another process signalled": signal_by_descriptor,
    "set the flags of a file": set_file_flags,
    "outlive the viewer": lambda: libc("prctl", 1, 0, 0, 0, 0),  # PR_SET_PDEATHSIG
    "remove a message queue": lambda: libc("msgctl", QUEUE, 0, None),  # IPC_RMID
    "send to a message queue": lambda: libc("msgsnd", QUEUE, struct.pack("ql", 1, 0), 8, 0o4000),
    "read a message queue": lambda: libc("msgrcv", QUEUE, bytes(64), 8, 0, 0o4000),
    "change a semaphore": lambda: libc("semctl", SEMAPHORES, 0, 16, 7),  # SETVAL
    "remove a POSIX message queue": lambda: libc("mq_unlink", f"/{HOME.name}".encode()),
    "new user namespace": lambda: libc("unshare", 0x10000000),
}

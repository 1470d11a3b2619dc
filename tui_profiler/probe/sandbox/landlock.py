"""Landlock: the kernel denies this process to change most files and to read devices.

1. It restricts the calling thread and what that starts later, so it is called before there are
   other threads. ``LANDLOCK_RESTRICT_SELF_TSYNC`` (ABI 8) is not relied on.
2. Each right that the kernel knows is handled, and so denied unless a rule grants it. Which rights
   it knows its ABI version says.
3. What was open before stays usable: the socket to the viewer, the pipe of the output.

Source of numbers and structs: ``include/uapi/linux/landlock.h`` of Linux 6.18;
https://docs.kernel.org/userspace-api/landlock.html for what each version denies.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from enum import IntFlag
from pathlib import Path
from typing import Protocol

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The same numbers on every architecture."""
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_CAPABILITY_CALLS = {"x86_64": (125, 126), "aarch64": (90, 91)}
"""``capget`` and ``capset``."""
_CAP_DAC_READ_SEARCH = 1 << 2


class Access(IntFlag):
    """What can be done with files, as the kernel divides it."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


FOLDER = (
    Access.WRITE_FILE
    | Access.REMOVE_DIR
    | Access.REMOVE_FILE
    | Access.MAKE_DIR
    | Access.MAKE_REG
    | Access.MAKE_SYM
    | Access.REFER
    | Access.TRUNCATE
)
"""In a temporary folder: everything but device nodes, sockets, pipes and running what is there."""
READING = Access.READ_FILE | Access.READ_DIR
DEVICE = Access.READ_FILE | Access.WRITE_FILE | Access.TRUNCATE | Access.IOCTL_DEV
_FILE_ONLY = Access.EXECUTE | DEVICE
"""Rights that a rule may grant for what is not a folder."""

_FIRST = Access(sum(1 << bit for bit in range(13)))
_SINCE: Mapping[int, Access] = {2: Access.REFER, 3: Access.TRUNCATE, 5: Access.IOCTL_DEV}
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

NETWORK_ABI = 4
SCOPE_ABI = 6
_LACKS = (
    (2, "linking and renaming between folders (denied altogether)"),
    (3, "truncating of files"),
    (NETWORK_ABI, "TCP"),
    (5, "ioctl on devices"),
    (SCOPE_ABI, "abstract Unix sockets and signals"),
)


class Kernel(Protocol):
    """The two calls that are needed of the C library; ``OSError`` where one failed."""

    def syscall(self, number: int, *arguments: int | bytes | None) -> int:
        """Make a system call."""
        ...

    def prctl(self, option: int, *arguments: int) -> int:
        """Change a property of this process."""
        ...


class CLibrary:
    """The C library of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)

    def syscall(self, number: int, *arguments: int | bytes | None) -> int:
        """Make a system call."""
        return self._checked(self._library.syscall(ctypes.c_long(number), *map(_word, arguments)))

    def prctl(self, option: int, *arguments: int) -> int:
        """Change a property of this process."""
        words = (*arguments, 0, 0, 0, 0)[:4]
        return self._checked(self._library.prctl(option, *map(_word, words)))

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(result)


def _word(value: int | bytes | None) -> object:
    return ctypes.c_ulong(value or 0) if isinstance(value, int | None) else value


def version(kernel: Kernel) -> tuple[int, str]:
    """Return the ABI version of this kernel's Landlock; 0 where there is none, and why."""
    try:
        return kernel.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION), ""
    except OSError as error:
        match error.errno:
            case errno.ENOSYS:
                return (
                    0,
                    "this kernel has no Landlock (Linux 5.13 or later, CONFIG_SECURITY_LANDLOCK)",
                )
            case errno.EOPNOTSUPP:
                return 0, "Landlock was turned off when the kernel started (lsm= has no landlock)"
            case _:
                return 0, f"Landlock cannot be queried: {error.strerror}"


def lacks(abi: int) -> tuple[str, ...]:
    """Return what Landlock of this version does not deny."""
    return tuple(what for since, what in _LACKS if abi < since)


def drop_privileges(kernel: Kernel) -> None:
    """Set ``no_new_privs``, and give up root's capabilities but that of reading any file.

    As root a process may look into others whatever Landlock says (``CAP_PERFMON``, Linux 6.14).
    Files of other users must stay readable: in a container the user is often root.
    """
    kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    calls = _CAPABILITY_CALLS.get(platform.machine())
    if calls is None:
        return
    get, put = calls
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    kernel.syscall(get, header, ctypes.addressof(held))
    # Effective, permitted and inheritable, of capabilities below 32, then of those above.
    _, permitted, *_ = struct.unpack("=6I", held.raw)
    kept = permitted & _CAP_DAC_READ_SEARCH
    kernel.syscall(put, header, struct.pack("=6I", kept, kept, 0, 0, 0, 0))


def restrict(kernel: Kernel, abi: int, granted: Mapping[Path, Access]) -> None:
    """Deny this thread, and all that it starts later, every right but those that are granted.

    ``no_new_privs`` is set already.

    Args:
        kernel: of this process.
        abi: what ``version`` returned, above 0.
        granted: rights below a folder, or of one file; what is not there is passed over.

    Raises:
        OSError: the kernel refused; nothing is restricted then.
    """
    handled = _FIRST
    for since, access in _SINCE.items():
        handled |= access if abi >= since else Access(0)
    attributes = struct.pack("=Q", handled)
    if abi >= NETWORK_ABI:
        attributes += struct.pack("=Q", _BIND_AND_CONNECT_TCP)
    if abi >= SCOPE_ABI:
        attributes += struct.pack("=Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = kernel.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path, access in granted.items():
            _grant(kernel, ruleset, path, access & handled)
        kernel.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(kernel: Kernel, ruleset: int, path: Path, access: Access) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # Not on this machine: then nothing is granted.
    try:
        if not path.is_dir():
            access &= _FILE_ONLY
        # A packed struct: the rights, then the descriptor, without padding behind it.
        kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, place), 0)
    finally:
        os.close(place)

"""A seccomp filter: system calls that a profiler of a model does not need fail.

Landlock speaks of files, TCP and, on newer kernels, signals. This covers what else reaches outside:
programs, processes, all other sockets, other processes' memory, attributes of files, mounts, and
``io_uring``, which makes system calls that no filter sees. Of calls with many uses (``ioctl``,
``fcntl``, ``prctl``) those are denied that change files or terminals, or signal other processes.

1. A denied call fails with an error number, as for a user without the right: code that can do
   without goes on. Only a call of another architecture ends the process.
2. Threads are allowed, processes are not: ``clone`` needs ``CLONE_THREAD``. ``clone3`` has its
   flags in memory, where a filter cannot see them; it fails as on an old kernel, and libc then
   uses ``clone``.
3. CUDA cannot be set up without a Unix socket that others may connect to: with a GPU such may be
   opened and bound. They cannot be connected, and these types cannot send without
   a connection.
4. It holds for the calling thread and what that starts later, and cannot be taken off.

Source: https://docs.kernel.org/userspace-api/seccomp_filter.html; numbers of
``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h`` of Linux 6.18.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tui_profiler.probe.sandbox.landlock import Kernel

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

# Classic BPF: opcode, and the offsets in ``struct seccomp_data``.
_LOAD, _AND, _EQUAL, _NOT_BELOW, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_X32_BIT = 0x40000000

_CLONE_THREAD = 0x00010000
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _TYPE_MASK = 1, 1, 5, 0xF


@dataclass(frozen=True)
class Architecture:
    """A processor architecture as the kernel numbers it, and its system calls."""

    audit: int
    calls: Mapping[str, int]


_COMMON = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "process_mrelease": 448, "fchmodat2": 452,
    "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
_X86_64 = {
    "ioctl": 16, "fcntl": 72, "setpgid": 109, "setsid": 112, "prctl": 157,
    "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42, "bind": 49,
    "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "semget": 64,
    "msgget": 68, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "ptrace": 101,
    "syslog": 103, "utime": 132, "mknod": 133, "pivot_root": 155, "adjtimex": 159, "chroot": 161,
    "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "setxattr": 188, "lsetxattr": 189,
    "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "tkill": 200,
    "clock_settime": 227, "tgkill": 234, "utimes": 235, "mq_open": 240, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "mknodat": 259, "fchownat": 260,
    "futimesat": 261, "fchmodat": 268, "unshare": 272, "utimensat": 280, "rt_sigqueueinfo": 129,
    "rt_tgsigqueueinfo": 297, "prlimit64": 302, "open_by_handle_at": 304, "clock_adjtime": 305,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "execveat": 322, "userfaultfd": 323,
    "semop": 65, "semctl": 66, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "semtimedop": 220,
    "mq_unlink": 241,
}  # fmt: skip
_AARCH64 = {
    "fcntl": 25, "ioctl": 29, "setpgid": 154, "setsid": 157, "prctl": 167,
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
    "fremovexattr": 16, "mknodat": 33, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51,
    "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "quotactl": 60, "utimensat": 88,
    "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "kill": 129, "tkill": 130, "tgkill": 131,
    "rt_sigqueueinfo": 138, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "mq_open": 180, "msgget": 186, "semget": 190,
    "shmget": 194, "shmctl": 195, "shmat": 196, "socket": 198, "socketpair": 199, "bind": 200,
    "connect": 203, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "execve": 221,
    "swapon": 224, "swapoff": 225, "rt_tgsigqueueinfo": 240, "prlimit64": 261,
    "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270,
    "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280, "execveat": 281,
    "userfaultfd": 282, "kexec_file_load": 294, "mq_unlink": 181, "msgctl": 187, "msgrcv": 188,
    "msgsnd": 189, "semctl": 191, "semtimedop": 192, "semop": 193,
}  # fmt: skip

ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(0xC000003E, {**_COMMON, **_X86_64}),
    "aarch64": Architecture(0xC00000B7, {**_COMMON, **_AARCH64}),
}

# Commands, as include/uapi/asm-generic has them, which both architectures use.
_PR_SET_PDEATHSIG = 1
_FCNTL_REFUSED = (8, 10, 15, 1024, 1026)
"""F_SETOWN, F_SETSIG and F_SETOWN_EX signal other processes; F_SETLEASE, F_NOTIFY hold up files."""
_IOCTL_GROUP = 0xFF00
_IOCTL_REFUSED = (
    0x6600, 0x5800, 0x8900, 0x9400, 0xBC00, 0x6F00, 0xF500, 0x6E00, 0x9700, 0xCF00,
)  # fmt: skip
"""Attributes of files (``FS_IOC_SETFLAGS``: a file opened for reading will do), file systems, and
owners of descriptors with networks; then btrfs, bcachefs, OCFS2, F2FS, NILFS2, Ceph and CIFS, of
which the first three make files in a folder open for reading (``BTRFS_IOC_SNAP_CREATE``)."""
_IOCTL_TERMINAL = 0x5400
_IOCTL_PLAIN = (
    0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409, 0x4020940D,
)  # fmt: skip
"""Of terminals: TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX; FICLONE and
FICLONERANGE write to a file that is open for writing."""

_ERRORS = {"execve": errno.EACCES, "execveat": errno.EACCES, "clone3": errno.ENOSYS}
"""Where it is not EPERM."""


def why_not(kernel: Kernel) -> str:
    """Say why a filter cannot be set here; empty where it can."""
    if platform.machine() not in ARCHITECTURES:
        return f"the seccomp filter does not support {platform.machine()}"
    try:
        kernel.prctl(21)  # PR_GET_SECCOMP
    except OSError as error:
        return f"this kernel has no seccomp filter: {error.strerror}"
    return ""


def program(architecture: Architecture, process: int, *, is_for_cuda: bool = False) -> bytes:
    """Return the filter as instructions of classic BPF.

    Args:
        architecture: of the system calls.
        process: the one that is filtered.
        is_for_cuda: let CUDA be set up, by rule 3.
    """
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        # Calls of the x32 ABI have numbers of their own; no other architecture has any up there.
        (_NOT_BELOW, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    for name, number in sorted(architecture.calls.items(), key=lambda item: item[1]):
        refused = (_RETURN, 0, 0, _ERRNO | _ERRORS.get(name, errno.EPERM))
        allowed = _allowed_for_cuda(name) if is_for_cuda else []
        body = [*(allowed or _allowed_if(name, process)), refused]
        code += [(_EQUAL, 0, len(body), number), *body]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _allowed_if(name: str, process: int) -> list[tuple[int, int, int, int]]:
    """Return what allows a call by its arguments, of which the lower 32 bits are compared."""
    allow = (_RETURN, 0, 0, _ALLOW)
    first, second = (_LOAD, 0, 0, _ARGUMENTS), (_LOAD, 0, 0, _ARGUMENTS + 8)
    match name:
        case "kill" | "tgkill":
            return [first, (_EQUAL, 0, 1, process), allow]
        case "prlimit64":
            return [first, (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, process), allow]
        case "clone":
            is_thread = (_AND, 0, 0, _CLONE_THREAD)
            return [first, is_thread, (_EQUAL, 0, 1, _CLONE_THREAD), allow]
        case "socketpair":
            # Of other types either end can be connected to any socket with a path.
            kind = (_AND, 0, 0, _TYPE_MASK)
            is_unix, is_stream = (_EQUAL, 0, 4, _AF_UNIX), (_EQUAL, 0, 1, _SOCK_STREAM)
            return [first, is_unix, second, kind, is_stream, allow]
        case "prctl":
            return [first, (_EQUAL, 1, 0, _PR_SET_PDEATHSIG), allow]
        case "fcntl":
            return [second, *_skipped_if(_FCNTL_REFUSED, 1), allow]
        case "ioctl":
            plain = [second, *_skipped_if(_IOCTL_PLAIN, len(_IOCTL_REFUSED) + 2)]
            groups = (*_IOCTL_REFUSED, _IOCTL_TERMINAL)
            return [*plain, (_AND, 0, 0, _IOCTL_GROUP), *_skipped_if(groups, 1), allow]
        case _:
            return []


def _allowed_for_cuda(name: str) -> list[tuple[int, int, int, int]]:
    """Return what allows a call that CUDA needs and nothing else does."""
    allow = (_RETURN, 0, 0, _ALLOW)
    first, second = (_LOAD, 0, 0, _ARGUMENTS), (_LOAD, 0, 0, _ARGUMENTS + 8)
    match name:
        case "socket":
            kind, is_unix = (_AND, 0, 0, _TYPE_MASK), (_EQUAL, 0, 5, _AF_UNIX)
            is_stream, is_packets = (_EQUAL, 1, 0, _SOCK_STREAM), (_EQUAL, 0, 1, _SOCK_SEQPACKET)
            return [first, is_unix, second, kind, is_stream, is_packets, allow]
        case "bind":
            return [allow]
        case _:
            return []


def _skipped_if(values: tuple[int, ...], count: int) -> list[tuple[int, int, int, int]]:
    """Return what skips ``count`` instructions behind it where what was loaded is one of these."""
    most = len(values) - 1
    return [(_EQUAL, most - place + count, 0, value) for place, value in enumerate(values)]


def install(kernel: Kernel, *, is_for_cuda: bool = False) -> None:
    """Filter the system calls of this thread, and of all that it starts later.

    ``no_new_privs`` is set already.

    Args:
        kernel: of this process.
        is_for_cuda: as of ``program``.
    """
    code = program(ARCHITECTURES[platform.machine()], os.getpid(), is_for_cuda=is_for_cuda)
    held = ctypes.create_string_buffer(code, len(code))
    # ``struct sock_fprog``: the number of instructions, padding, and where they are.
    described = struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
    header = ctypes.create_string_buffer(described, len(described))
    kernel.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))

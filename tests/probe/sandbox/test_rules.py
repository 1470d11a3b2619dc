"""What the sandbox asks of the kernel, over kernels that are not here; and who is confined."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path

import pytest

from tui_profiler.messages import CountWith, ExportOnnx, ListModels, LoadSpec, Start
from tui_profiler.probe.sandbox import landlock, seccomp
from tui_profiler.probe.sandbox.confinement import untrusted_input
from tui_profiler.probe.sandbox.landlock import DEVICE, FOLDER, READING, Access

CREATE, ADD, RESTRICT = 444, 445, 446


class OtherKernel:
    """A kernel with another version of Landlock; keeps what it was asked."""

    def __init__(self, abi: int = 0, error: int = errno.ENOSYS) -> None:
        self.abi, self.error = abi, error
        self.attributes = b""
        self.rules: list[tuple[int, str]] = []
        self.calls: list[int] = []

    def syscall(self, number: int, *arguments: int | bytes | None) -> int:
        self.calls.append(number)
        if not self.abi:
            raise OSError(self.error, os.strerror(self.error))
        if number == CREATE and arguments[0] is None:
            return self.abi
        if number == CREATE:
            assert isinstance(arguments[0], bytes)
            self.attributes = arguments[0]
            return os.open(os.devnull, os.O_RDONLY)
        if number == ADD:
            assert isinstance(arguments[2], bytes)
            access, place = struct.unpack("=Qi", arguments[2])
            self.rules.append((access, os.readlink(f"/proc/self/fd/{place}")))
        return 0

    def prctl(self, option: int, *arguments: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("abi", "words", "highest", "lacking"),
    [(1, 1, 12, 5), (2, 1, 13, 4), (3, 1, 14, 3), (4, 2, 14, 2), (5, 2, 15, 1), (6, 3, 15, 0),
     (7, 3, 15, 0), (99, 3, 15, 0)],
)  # fmt: skip
def test_each_version_is_asked_for_what_it_knows_and_no_more(
    tmp_path: Path, abi: int, words: int, highest: int, lacking: int
) -> None:
    kernel = OtherKernel(abi)
    file = tmp_path / "file"
    file.touch()
    missing = tmp_path / "missing"
    granted = {tmp_path: FOLDER, file: DEVICE | READING | FOLDER, missing: FOLDER}
    landlock.restrict(kernel, abi, granted)
    asked = struct.unpack(f"={words}Q", kernel.attributes)
    assert asked[0].bit_length() - 1 == highest
    assert asked[0] & READING == READING
    assert asked[1:] == (0b11,) * (words - 1)
    # The kernel refuses rights that the ruleset does not handle, and those of folders for a file.
    assert [place for _, place in kernel.rules] == [str(tmp_path), str(file)]
    assert all(access and not access & ~asked[0] for access, _ in kernel.rules)
    assert not kernel.rules[0][0] & (Access.EXECUTE | Access.MAKE_CHAR | Access.MAKE_SOCK)
    assert not kernel.rules[1][0] & (Access.MAKE_REG | Access.READ_DIR | Access.REMOVE_FILE)
    assert kernel.calls[-1] == RESTRICT
    assert len(landlock.lacks(abi)) == lacking


@pytest.mark.parametrize(
    ("error", "words"),
    [(errno.ENOSYS, "no Landlock"), (errno.EOPNOTSUPP, "turned off"), (errno.EPERM, "permitted")],
)
def test_a_kernel_without_landlock_has_its_reason(error: int, words: str) -> None:
    abi, why = landlock.version(OtherKernel(error=error))
    assert abi == 0
    assert words in why


HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


@pytest.mark.parametrize("name", HEADERS)
def test_numbers_of_system_calls_are_those_of_the_kernels_headers(name: str) -> None:
    try:
        text = Path(HEADERS[name]).read_text()
    except FileNotFoundError:
        pytest.skip("the kernel's headers are not installed")
    found = {
        call: int(number)
        for call, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
    }
    ours = seccomp.ARCHITECTURES[name].calls
    known = {call: number for call, number in ours.items() if call in found}
    assert {call: found[call] for call in known} == known
    assert len(known) > len(ours) - 6  # Headers may be older than the newest calls.


PROCESS = 4321
THREAD = 0x00010000


@pytest.mark.parametrize("name", sorted(seccomp.ARCHITECTURES))
@pytest.mark.parametrize(
    ("call", "arguments", "verdict"),
    [
        ("execve", (), errno.EACCES),
        ("execveat", (), errno.EACCES),
        ("clone3", (), errno.ENOSYS),
        ("clone", (17,), errno.EPERM),
        ("clone", (0x3D0F00 | THREAD,), 0),
        ("kill", (PROCESS, 15), 0),
        ("kill", (PROCESS + 1, 15), errno.EPERM),
        ("kill", (2**32 - 1, 9), errno.EPERM),
        ("tgkill", (PROCESS, 5, 6), 0),
        ("tgkill", (1, 1, 9), errno.EPERM),
        ("tkill", (PROCESS, 9), errno.EPERM),
        ("prlimit64", (0, 7), 0),
        ("prlimit64", (PROCESS, 7), 0),
        ("prlimit64", (1, 7), errno.EPERM),
        ("socketpair", (1, 1 | 0o2000000), 0),
        ("socketpair", (1, 2), errno.EPERM),
        ("socketpair", (30, 1), errno.EPERM),
        ("socket", (1, 1), errno.EPERM),
        ("socket", (2, 2), errno.EPERM),
        ("ptrace", (16, 1), errno.EPERM),
        ("io_uring_setup", (), errno.EPERM),
        ("fchmodat", (), errno.EPERM),
        ("bpf", (), errno.EPERM),
        ("prctl", (1, 0), errno.EPERM),
        ("prctl", (15, 0), 0),
        *((("fcntl", (3, command), errno.EPERM)) for command in (8, 10, 15, 1024, 1026)),
        *((("fcntl", (3, command), 0)) for command in (1, 2, 3, 4, 1030)),
        # TIOCSTI, TIOCLINUX, TCSETS, FS_IOC_SETFLAGS, FS_IOC_ENABLE_VERITY, FSSETXATTR, SIOCSPGRP.
        *(
            (("ioctl", (3, command), errno.EPERM))
            for command in (0x5412, 0x541C, 0x5402, 0x40086602, 0x40806685, 0x401C5820, 0x8902)
        ),
        # BTRFS_IOC_SNAP_CREATE, _SUBVOL_CREATE, _SNAP_DESTROY, BCH_IOCTL_SUBVOLUME_CREATE,
        # OCFS2_IOC_REFLINK, F2FS_IOC_SET_PIN_FILE: no file need be open for writing.
        *(
            (("ioctl", (3, command), errno.EPERM))
            for command in (0x50009401, 0x5000940E, 0x5000940F, 0x4020BC10, 0x40186F04, 0x4004F50D)
        ),
        # FICLONE and FICLONERANGE: the file that is written to is.
        *((("ioctl", (3, command), 0)) for command in (0x40049409, 0x4020940D)),
        *(((call, (1,), errno.EPERM)) for call in ("msgctl", "msgsnd", "semctl", "mq_unlink")),
        # TCGETS, FIOCLEX, and of NVIDIA's drivers.
        *((("ioctl", (3, command), 0)) for command in (0x5401, 0x5451, 0xC020462A, 0x30000001, 25)),
        ("setpgid", (0, 1), errno.EPERM),
        ("setsid", (), errno.EPERM),
    ],
)
def test_the_filter_judges_each_call(
    name: str, call: str, arguments: tuple[int, ...], verdict: int
) -> None:
    architecture = seccomp.ARCHITECTURES[name]
    code = seccomp.program(architecture, PROCESS)
    said = judged(code, architecture.audit, architecture.calls[call], arguments)
    assert said == (0x7FFF0000 if verdict == 0 else 0x00050000 | verdict)


@pytest.mark.parametrize("name", sorted(seccomp.ARCHITECTURES))
@pytest.mark.parametrize(
    ("call", "arguments", "error"),
    [
        ("socket", (1, 1 | 0o2000000), 0),
        ("socket", (1, 5), 0),
        ("socket", (1, 2), errno.EPERM),
        ("socket", (2, 1), errno.EPERM),
        ("socket", (16, 3), errno.EPERM),
        ("bind", (), 0),
        ("connect", (), errno.EPERM),
        ("socketpair", (1, 2), errno.EPERM),
        ("kill", (1,), errno.EPERM),
    ],
)
def test_with_cuda_a_unix_socket_may_be_opened_and_none_be_connected(
    name: str, call: str, arguments: tuple[int, ...], error: int
) -> None:
    architecture = seccomp.ARCHITECTURES[name]
    code = seccomp.program(architecture, PROCESS, is_for_cuda=True)
    said = judged(code, architecture.audit, architecture.calls[call], arguments)
    assert said == (0x7FFF0000 if error == 0 else 0x00050000 | error)


def test_other_calls_pass_and_other_architectures_end_the_process() -> None:
    architecture = seccomp.ARCHITECTURES["x86_64"]
    code = seccomp.program(architecture, PROCESS)
    denied = set(architecture.calls.values())
    for number in set(range(600)) - denied:
        assert judged(code, architecture.audit, number, ()) == 0x7FFF0000
    i386 = 0x40000003
    assert judged(code, i386, 0, ()) == 0x80000000
    assert judged(code, architecture.audit, 0x40000000 | 59, ()) == 0x00050000 | errno.EPERM
    assert len(code) // 8 < 4096  # BPF_MAXINSNS


def judged(code: bytes, audit: int, number: int, arguments: tuple[int, ...]) -> int:
    """Run classic BPF as the kernel does, on one system call."""
    words = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    call = struct.pack("=iIQ6Q", number, audit, 0, *words)
    value, place = 0, 0
    while True:
        opcode, if_true, if_false, constant = struct.unpack_from("=HBBI", code, place * 8)
        place += 1
        match opcode:
            case 0x20:
                (value,) = struct.unpack_from("=I", call, constant)
            case 0x54:
                value &= constant
            case 0x15:
                place += if_true if value == constant else if_false
            case 0x35:
                place += if_true if value >= constant else if_false
            case 0x06:
                return int(constant)
            case _:
                raise AssertionError(f"no such instruction: {opcode:#x}")


@pytest.mark.parametrize(
    ("model", "options", "opens"),
    [
        ("model.pt", {}, "model.pt"),
        ("./model.pt", {"trust": True}, ""),
        ("missing.safetensors", {}, "missing.safetensors"),
        ("folder/", {}, "folder/"),
        ("resnet50", {}, ""),
        ("resnet50", {"weights": "DEFAULT"}, "DEFAULT"),
        ("resnet50", {"weights": "IMAGENET1K_V2"}, "IMAGENET1K_V2"),
        ("resnet50", {"weights": "DEFAULT", "trust": True}, ""),
        ("timm:vit_tiny_patch16_224", {"weights": "DEFAULT"}, "DEFAULT"),
        ("timm:vit_tiny_patch16_224", {"weights": "tag"}, "tag"),
        ("resnet50", {"weights": "model.pt"}, "model.pt"),
        ("resnet50", {"weights": "plain"}, "plain"),
        ("resnet50", {"weights": "model.pt", "trust": True}, ""),
        ("timm:vit_tiny_patch16_224", {"weights": "model.pt"}, "model.pt"),
        ("demo:cnn", {}, ""),
        ("demo:cnn", {"weights": "folder/x"}, "folder/x"),
        ("file.py:build", {"weights": "model.pt"}, ""),
        ("package.module:build", {}, ""),
        ("hf:folder", {}, "hf:folder"),
        ("hf:folder", {"weights": "DEFAULT"}, "hf:folder"),
        ("hf:someone/model", {"weights": "DEFAULT"}, "hf:someone/model"),
        ("hf:someone/model", {"weights": "DEFAULT", "trust": True}, ""),
        ("hf:someone/model", {}, "hf:someone/model"),
        ("own.yaml", {}, "own.yaml"),
        ("yolov8n.yaml", {}, ""),
        ("own.yaml", {"trust": True}, ""),
    ],
)
def test_what_came_from_elsewhere_is_opened_in_the_sandbox(
    tmp_path: Path, model: str, options: dict[str, object], opens: str
) -> None:
    for name in ("model.pt", "plain", "own.yaml", "file.py"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    wanted = LoadSpec(model, folder=str(tmp_path), **options)  # type: ignore[arg-type] # its fields
    assert untrusted_input(Start(wanted)) == opens
    assert untrusted_input(CountWith(wanted, "fvcore")) == opens
    assert untrusted_input(ExportOnnx(wanted, "out.onnx")) == opens
    assert untrusted_input(ListModels()) == ""

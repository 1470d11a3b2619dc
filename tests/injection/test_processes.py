"""Who refused to let a program be attached to, and what helps: from texts of ``/proc``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui_profiler.injection import processes
from tui_profiler.injection.processes import Status, Surroundings, refusal, status_of, unfit

USER = """Name:\tpython
State:\tR (running)
Tgid:\t812
NSpid:\t812{inner}
TracerPid:\t{tracer}
Uid:\t{uid}\t{uid}\t{uid}\t{uid}
Gid:\t{uid}\t{uid}\t{uid}\t{uid}
CapPrm:\t{permitted:016x}
CapEff:\t{permitted:016x}
Seccomp:\t{seccomp}
"""
TORCH = (
    "7f10-7f20 r--p 00000000 08:01 12 /e/lib/python3.12/torch/_C.cpython-312-x86_64-linux-gnu.so\n"
    "7f30-7f40 r--p 00000000 08:01 13 /e/lib/python3.12/torch/lib/libtorch_python.so\n"
)
EVERY = (1 << 41) - 1
DOCKER = 0xA80425FB
"""Capabilities of a container of Docker's, without CAP_SYS_PTRACE."""


def status(
    uid: int = 1000, permitted: int = 0, seccomp: int = 0, tracer: int = 0, inner: str = ""
) -> Status:
    return status_of(
        USER.format(uid=uid, permitted=permitted, seccomp=seccomp, tracer=tracer, inner=inner)
    )


def around(
    yama: int | None = None,
    apart: tuple[str, ...] = (),
    owner: int = 1000,
    *,
    is_descendant: bool = False,
) -> Surroundings:
    return Surroundings(812, yama, apart, owner, is_descendant)


@pytest.mark.parametrize(
    ("ours", "theirs", "asked", "who", "instead"),
    [
        (status(1000), status(54321), around(owner=54321), "user #54321", "sudo -u '#54321' "),
        (status(1000), status(0), around(owner=0), "user root", "sudo -u root "),
        (status(), status(), around(yama=1), "Yama", "sudo sysctl kernel.yama.ptrace_scope=0"),
        (status(), status(), around(yama=2), "Yama", "sudo sysctl kernel.yama.ptrace_scope=1"),
        (status(0, EVERY), status(), around(yama=3), "Yama", "TUI_PROFILER=1"),
        (status(), status(), around(yama=3), "Yama", "TUI_PROFILER=1"),
        (status(0, DOCKER), status(0, EVERY), around(owner=0), "CAP_SYS_PTRACE", "--cap-add"),
        (status(), status(), around(owner=0), "CAP_SYS_PTRACE", "sudo"),
        (status(seccomp=2), status(), around(), "seccomp", "seccomp=unconfined"),
        (status(), status(), around(apart=("user",)), "user namespace", "nsenter --target 812"),
        (status(), status(), around(), "security module", "enable"),
        # Yama lets one attach to one's own children; what refuses is then something else.
        (status(), status(), around(yama=1, is_descendant=True), "security module", "enable"),
    ],
)
def test_who_refused_is_named_with_the_command_that_helps(
    ours: Status, theirs: Status, asked: Surroundings, who: str, instead: str
) -> None:
    error = refusal(ours, theirs, asked)
    assert who in str(error)
    assert instead in error.instead


@pytest.mark.parametrize(
    ("theirs", "maps", "apart", "why", "instead"),
    [
        (status()._replace(state="T"), TORCH, (), "is stopped", "kill -CONT 812"),
        (status()._replace(state="Z"), "", (), "has ended", "--list"),
        (status(tracer=77), TORCH, (), "traced by process 77", "process 77"),
        (status(inner="\t5"), TORCH, ("pid", "mnt"), "container", "--all tui-profiler attach 5"),
        (status(), TORCH, ("mnt",), "mount namespace", "nsenter"),
        (status(), "7f-8f r--p 0 08:01 1 /usr/bin/sleep\n", (), "is not Python", "--list"),
        (status(), TORCH.splitlines()[0], (), "has not loaded torch", "--list"),
        (status(), f"{TORCH}1-2 r-xp 0 0:0 1 /lib/ld-musl-x86_64.so.1", (), "musl", "enable"),
        (status(), TORCH.replace("-312-", "-310-"), (), "3.11 or newer", ""),
        (status(), TORCH.replace("cpython-312", "pypy311-pp73"), (), "not CPython", ""),
        (status(), TORCH.replace("-312-", "-314t-"), (), "free-threaded", "python3.14 instead"),
    ],
)
def test_what_cannot_be_attached_to_is_refused_before_anything_is_tried(
    theirs: Status, maps: str, apart: tuple[str, ...], why: str, instead: str
) -> None:
    error = unfit(812, theirs, maps, apart)
    assert error is not None
    assert why in str(error)
    assert instead in error.instead


def test_a_program_with_torch_is_fit_and_so_is_one_whose_files_are_not_told() -> None:
    assert unfit(812, status(), TORCH, ()) is None
    assert unfit(812, status(), "", ()) is None
    assert processes.python_of(TORCH) == (3, 12)


def test_this_process_is_read_as_the_kernel_has_it() -> None:
    found = status_of(processes.read(os.getpid(), "status"))
    assert found.users[:2] == (os.getuid(), os.geteuid())
    assert found.own_ids[-1] == os.getpid()
    assert found.tracer == 0
    assert processes.apart(os.getpid()) == ()
    there = processes.surroundings(os.getpid())
    assert there.is_descendant
    assert not processes.surroundings(os.getppid()).is_descendant


def test_another_user_namespace_is_seen_where_its_name_is_not_told(tmp_path: Path) -> None:
    for name, users in (("self", "0 1000 1\n"), ("9", "0 0 4294967295\n"), ("8", "0 1000 1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "uid_map").write_text(users)
    assert processes.apart(9, tmp_path) == ("user",)
    assert processes.apart(8, tmp_path) == ()


def test_a_process_that_closed_its_memory_is_said_to_be_protected() -> None:
    code = (
        "import ctypes, os\n"
        "os.geteuid() or (os.setgroups([]), os.setgid(54321), os.setuid(54321))\n"
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"  # PR_SET_DUMPABLE
        "print(flush=True)\n"
        "input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        theirs = status_of(processes.read(child.pid, "status"))
        error = refusal(theirs, theirs, processes.surroundings(child.pid))
        child.kill()
    assert "is protected" in str(error)
    assert "sudo" in error.instead


def test_yama_is_read_where_it_is(tmp_path: Path) -> None:
    scope = tmp_path / "sys/kernel/yama/ptrace_scope"
    scope.parent.mkdir(parents=True)
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "status").touch()
    assert processes.surroundings(9, tmp_path).yama is None
    scope.write_text("2\n")
    assert processes.surroundings(9, tmp_path).yama == 2

"""The tests that may be skipped, and on which machines.

A test that skips where it could run is a hole that no one sees. So that each skip is argued here, a
skip that is not in the table, or whose machine does have what the test needs, fails the run: this
module is a plugin of pytest.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from ctypes.util import find_library
from pathlib import Path
from typing import NamedTuple

import pytest


class Allowed(NamedTuple):
    """A skip that is allowed: where, with which reason, and while what holds."""

    files: str
    """A regular expression for the path below ``tests/``."""
    reason: str
    """A regular expression for the reason that pytest prints."""
    holds: Callable[[], bool]
    """Whether this machine lacks what the test needs, asked in another way than the test's."""


def _no_program(*names: str) -> Callable[[], bool]:
    return lambda: not any(map(shutil.which, names))


def _no_path(path: str) -> Callable[[], bool]:
    return lambda: not Path(path).exists()


def _no_module(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is None


def _no_type(kind: str) -> Callable[[], bool]:
    """Say whether the installed transformers is older than one of its types of model."""
    return lambda: (
        importlib.util.find_spec("transformers") is None
        or importlib.util.find_spec(f"transformers.models.{kind}") is None
    )


def _fails(*code: str) -> Callable[[], bool]:
    command = [sys.executable, "-c", "\n".join(code)]
    return functools.cache(
        lambda: bool(subprocess.run(command, capture_output=True, check=False).returncode)
    )


def _no_faketime() -> bool:
    return not any(Path("/usr").glob("lib*/**/libfaketime.so*")) and not find_library("faketime")


def _unshare_fails(*command: str) -> bool:
    if shutil.which("unshare") is None:
        return True
    return bool(subprocess.run(["unshare", *command], capture_output=True, check=False).returncode)


def _no_mount() -> bool:
    own_mounts = ("--user", "--map-root-user", "--mount")
    return _unshare_fails(*own_mounts, "mount", "-t", "tmpfs", "none", "/mnt")


def _no_user_namespace() -> bool:
    return _unshare_fails("--user", "true")


def _no_process_namespace() -> bool:
    return _unshare_fails("--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true")


def _no_memory_group() -> bool:
    """Return whether no group below this process's can be limited in memory."""
    root = Path("/sys/fs/cgroup")
    if (root / "memory").is_dir():
        return not os.access(root / "memory", os.W_OK)
    own = next((x[3:] for x in _text("/proc/self/cgroup").split("\n") if x[:3] == "0::"), "/")
    group = root / own.lstrip("/")
    given = _text(str(group / "cgroup.subtree_control")).split()
    return not os.access(group, os.W_OK) or "memory" not in given


def _no_cpu_group() -> bool:
    """Return whether no group of the hierarchy's root can be limited in CPU time."""
    root = Path("/sys/fs/cgroup")
    if (root / "cpu").is_dir():
        return not os.access(root / "cpu", os.W_OK)
    return (
        not os.access(root, os.W_OK)
        or "cpu" not in _text(str(root / "cgroup.subtree_control")).split()
    )


def _system_call(numbers: Mapping[str, int], *arguments: int | None) -> tuple[int, int]:
    """Return the result and the errno of a system call, by its number on each architecture."""
    library = ctypes.CDLL(None, use_errno=True)
    number = numbers.get(platform.machine())
    if number is None:
        return -1, errno.ENOSYS
    return library.syscall(number, *arguments), ctypes.get_errno()


def _no_perf_event() -> bool:
    # Without attributes it fails with EFAULT, where it is permitted at all.
    _, error = _system_call({"x86_64": 298, "aarch64": 241}, None, 0, -1, -1, 0)
    level = _text("/proc/sys/kernel/perf_event_paranoid").strip() or "4"
    return error in (errno.EPERM, errno.EACCES, errno.ENOSYS) or (
        os.geteuid() != 0 and int(level) > 2
    )


def _no_landlock_or_filter() -> bool:
    abi, _ = _system_call({"x86_64": 444, "aarch64": 444}, None, 0, 1)
    return abi < 1 or "Seccomp:" not in _text("/proc/self/status")


def _no_storage() -> bool:
    # Major 0: tmpfs, overlayfs, file systems of the network.
    return not os.major(os.stat(tempfile.gettempdir()).st_dev) or not _text("/proc/self/io")


ALLOWED: Sequence[Allowed] = (
    Allowed(
        "probe/measure/energy/test_rapl",
        "no RAPL here",
        _no_path("/sys/class/powercap/intel-rapl:0/energy_uj"),
    ),
    Allowed("verbs/test_zoo", "Ray is not installed", _no_module("ray")),
    Allowed("verbs/test_zoo", "Ray is installed", lambda: not _no_module("ray")()),
    Allowed("end_to_end/test_terminals", "GNU screen is not installed", _no_program("screen")),
    Allowed("(end_to_end|screens)/", "tmux is not installed", _no_program("tmux")),
    Allowed(
        "end_to_end/test_web",
        "no Chromium on this machine",
        _no_program("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"),
    ),
    Allowed("injection/test_inject", "no Python 3.14 is installed", _no_program("python3.14")),
    Allowed("injection/", "x86-64 only", lambda: os.uname().machine != "x86_64"),
    Allowed("gpus/test_amd", "amdsmi is not installed", _no_module("amdsmi")),
    Allowed("gpus/test_intel", "pyzes is not installed", _no_module("pyzes")),
    Allowed("gpus/test_(nvml|amd|intel)", "no C compiler", _no_program("cc", "gcc", "clang")),
    Allowed("probe/measure/clock/test_clock_compile", "inductor needs a C", _no_program("g++")),
    Allowed("", "libfaketime is not installed", _no_faketime),
    Allowed("", "this system has no /dev/full|no device that is full", _no_path("/dev/full")),
    Allowed("connection/test_sockets", "no user namespace", _no_user_namespace),
    Allowed("end_to_end/run/test_signals", "no process namespace", _no_process_namespace),
    Allowed(
        "probe/measure/devices/test_throttling",
        "no control group can be limited",
        _no_cpu_group,
    ),
    Allowed("test_control_group", "no control group|no memory limit", _no_memory_group),
    Allowed(
        "probe/(watch/test_forwards|measure/step/test_training_programs)|source/test_training_scripts",
        "lightning is not installed",
        _no_module("lightning"),
    ),
    Allowed(
        "source/test_training_scripts",
        "torch(tune|ao) is not installed",
        lambda: _no_module("torchtune")() or _no_module("torchao")(),
    ),
    Allowed(
        "probe/measure/step/test_training_programs",
        "accelerate is not installed",
        _no_module("accelerate"),
    ),
    Allowed(
        "(test_private_files|connection/test_sockets|source/test_cached_tree|probe/watch/test_sockets)",
        "only root can",
        lambda: os.geteuid() != 0,
    ),
    Allowed("recording/test_writer", "no file system can be mounted", _no_mount),
    Allowed("probe/measure/devices/test_perf_counters", "", _no_perf_event),
    Allowed(
        "probe/sandbox/test_rules",
        "the kernel's headers are not installed",
        lambda: (
            not all(
                map(
                    os.path.exists,
                    (
                        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
                        "/usr/include/asm-generic/unistd.h",
                    ),
                )
            )
        ),
    ),
    Allowed(
        "(probe/sandbox/test_sandbox|probe/test_downloads|attacks/test_operator_calls)",
        "Landlock|seccomp",
        _no_landlock_or_filter,
    ),
    Allowed(
        "probe/measure/devices/test_disk_network", "the temporary folder is no storage", _no_storage
    ),
    Allowed(
        "probe/trace/test_measured_peak",
        "tried on these only",
        lambda: platform.machine() != "x86_64" or "avx2" not in _text("/proc/cpuinfo"),
    ),
    Allowed(
        "probe/(process/test_own_socket|watch/test_(observer|model_choice)|measure/step/test_outside)",
        "Python runs without the GIL",
        _fails("import sys, torch", "assert getattr(sys, '_is_gil_enabled', lambda: True)()"),
    ),
    # Libraries of the extra [test]: a plain installation of the package has none of them.
    Allowed(
        "probe/load/test_(optional_libraries|ultralytics)",
        "ultralytics",
        _fails("import ultralytics"),
    ),
    Allowed("probe/", "transformers", _no_module("transformers")),
    *(
        Allowed("probe/load/test_hugging_face", rf"transformers\.models\.{kind}\b", _no_type(kind))
        for kind in ("gemma4", "glmga", "jev", "lightglue", "paddleocr_vl", "video_llama_3")
    ),
    Allowed(
        "(probe/load/test_(timm|optional)|system/test_library_names|screens/start/test_start)",
        "timm",
        _no_module("timm"),
    ),
    Allowed("end_to_end/test_web", r"the extra \[web\]", _no_module("textual_serve")),
    Allowed("archive/test_second_opinion", "fickling is not", _no_module("fickling")),
)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def why_not(file: str, reason: str) -> str:
    """Return why a skip is not allowed, or an empty text.

    Args:
        file: Path of the test's file below ``tests/``.
        reason: As pytest prints it.
    """
    allowed = [
        one for one in ALLOWED if re.match(one.files, file) and re.search(one.reason, reason)
    ]
    if not allowed:
        return "not in the table of tests/skips.py"
    return "" if any(one.holds() for one in allowed) else "this machine has what the test needs"


class _Skips:
    """Fails a run in which a test was skipped that this machine can run."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not hasattr(report, "wasxfail"):
            self._look_at(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._look_at(report)

    def _look_at(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped:
            return
        assert isinstance(report.longrepr, tuple)
        _, _, file = report.nodeid.split("::")[0].partition("/")
        if why := why_not(file, report.longrepr[2].removeprefix("Skipped: ")):
            self._found[report.nodeid] = f"{report.longrepr[2]} ({why})"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._found:
            terminalreporter.section("skipped, and must not be")
        for test, why in self._found.items():
            terminalreporter.write_line(f"{test}: {why}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # With pytest-xdist, once: where reports are collected.
        config.pluginmanager.register(_Skips())

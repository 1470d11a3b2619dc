"""A program that was never prepared listens, and is otherwise as before."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from screens.start.programs import choose
from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.viewer import Viewer, wait_until
from tui_profiler.connection.sockets import place_at
from tui_profiler.injection.inject import folders, start_listener
from tui_profiler.injection.processes import InjectionError
from tui_profiler.source.attached import AttachError, unprepared

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="threads are called on x86-64 only"
)
SERVES = """
import hashlib
model, x = Net().train(), torch.ones(3, 8)
sums = hashlib.sha256()
more, count = True, 0
def answer():
    global more
    sys.stdin.readline()
    more = False
threading.Thread(target=answer, daemon=True).start()
out, before = None, set()
before = set(globals())
say(os.getpid())
while more or count < 20_000:
    with torch.no_grad():
        out = model(x)
    count += 1
    if count <= 20_000:
        sums.update(out.numpy().tobytes())
say(sums.hexdigest(), sorted(set(globals()) - before), sys.getswitchinterval(),
    [type(one).__name__ for one in sys.meta_path if "Resting" in type(one).__name__],
    own_threads())
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made


def test_an_unprepared_program_shows_its_model_and_computes_the_same(folder: Path) -> None:
    with WatchedProgram(SERVES, folder) as alone:
        alone.said()
        alone.hears("end")
        expected = alone.said()
    with WatchedProgram(SERVES, folder) as running:
        running.said()
        path = start_listener(running.child.pid)
        assert path.parent == folder
        place = place_at(path)
        assert place is not None
        with Viewer(place) as viewer:
            shown = viewer.until(lambda session: session.tree is not None and session.timings)
            assert shown.model is not None
            assert shown.model.type == "Net"
        running.hears("end")
        said = running.said()
        assert running.child.wait(240) == 0
        assert running.complaint() == ""
    assert said[:4] == expected[:4]
    assert "tui-profiler" in said[4]
    assert expected[4] == []
    assert list(folder.iterdir()) == []


def test_a_main_thread_that_only_waits_is_woken(folder: Path) -> None:
    code = """
    model, x = Net().eval(), torch.ones(3, 8)
    def serve():
        while True:
            model(x)
    threading.Thread(target=serve, daemon=True).start()
    say("ready")
    threading.Thread(target=sys.stdin.readline).start()
    threading.Lock().acquire()
    locked = threading.Lock()
    locked.acquire()
    locked.acquire()
    """
    with WatchedProgram(code, folder) as running:
        running.said()
        found = choose(str(running.child.pid))
        assert found.program is not None
        assert found.program.pid == running.child.pid
        # It listens now: neither a second listener nor a second socket is made.
        assert choose(str(running.child.pid)).place == found.place
        assert start_listener(running.child.pid) == found.place.path
        assert len(list(folder.glob("*.sock"))) == 1


def test_what_is_no_program_of_torchs_is_refused_in_words(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = Path(f"/proc/{child.pid}/comm")
        wait_until(lambda: "python" in name.read_text())
        with pytest.raises(InjectionError, match="torch"):
            start_listener(child.pid)
        child.send_signal(signal.SIGSTOP)
        wait_until(lambda: " T " in Path(f"/proc/{child.pid}/stat").read_text())
        with pytest.raises(AttachError, match="is stopped") as stopped:
            unprepared(child.pid)
        assert stopped.value.instead == f"kill -CONT {child.pid}"
        child.kill()
    with pytest.raises(InjectionError, match="no process"):
        start_listener(child.pid)


def test_an_environment_without_us_is_told_how_to_have_us(folder: Path) -> None:
    code = """
    import importlib.abc
    class None_(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "msgspec":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    for name in [one for one in sys.modules if one.partition(".")[0] == "msgspec"]:
        del sys.modules[name]
    sys.meta_path.insert(0, None_())
    say("ready")
    while True:
        time.sleep(0.01)
    """
    with WatchedProgram(code, folder) as running:
        running.said()
        with pytest.raises(InjectionError, match="lacks tui-profiler") as refused:
            start_listener(running.child.pid)
        assert refused.value.instead.endswith("-m pip install tui-profiler")
        assert running.child.poll() is None


def test_the_libraries_of_all_makers_of_gpus_are_brought_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / f"of_{name}" for name in ("amdsmi", "pyzes")]
    for place in places:
        package = place / place.name.removeprefix("of_")
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        monkeypatch.syspath_prepend(place)
    assert {*map(str, places)} < {*folders()}


ATTACHES = """
import ctypes, os, struct, sys
from tui_profiler.injection.inject import start_listener
from tui_profiler.injection.processes import InjectionError
library = ctypes.CDLL(None)
if sys.argv[2] == "user":
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
if sys.argv[2] == "capability":
    library.prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE: gone after an exec.
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[3], sys.argv[1], ""])
if sys.argv[2] == "seccomp":
    # Load the number of the call; is it ptrace, process_vm_readv or _writev? EPERM : allow.
    asked = [(0x15, 0, 1, 101), (6, 0, 0, 0x50001), (0x15, 0, 1, 310), (6, 0, 0, 0x50001)]
    asked += [(0x15, 0, 1, 311), (6, 0, 0, 0x50001)]
    parts = [(0x20, 0, 0, 0), *asked, (6, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("HBBI", *one) for one in parts)
    room = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(parts), ctypes.addressof(room))
    library.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    assert library.prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
try:
    print(start_listener(int(sys.argv[1])))
except InjectionError as error:
    print(error, error.instead, sep=": ")
"""


def test_what_the_kernel_refuses_is_told_by_what_refuses(folder: Path) -> None:
    with WatchedProgram("say('ready')\nwhile True: time.sleep(0.01)", folder) as running:
        running.said()
        pid = running.child.pid

        def said(why: str) -> str:
            command = [sys.executable, "-c", ATTACHES, str(pid), why, ATTACHES]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
            return done.stdout

        if os.geteuid() == 0:
            assert "user root: only this user and root may attach: sudo -u root " in said("user")
            assert "CAP_SYS_PTRACE: docker run --cap-add SYS_PTRACE" in said("capability")
        assert "seccomp filter denies ptrace" in said("seccomp")
        assert list(folder.iterdir()) == []
        assert running.child.poll() is None


@pytest.mark.skipif(shutil.which("python3.14") is None, reason="no Python 3.14 is installed")
def test_remote_exec_of_the_programs_own_python_runs_the_line(tmp_path: Path) -> None:
    from tui_profiler.injection.inject import by_remote_exec

    written = tmp_path / "written"
    code = "import time\nprint(flush=True)\nwhile True: time.sleep(0.01)"
    with subprocess.Popen(["python3.14", "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()  # Until then it has no main thread to ask.
            by_remote_exec(
                child.pid, tmp_path / "line.py", f"open({str(written)!r}, 'w').close()\n"
            )
            wait_until(written.exists)
        finally:
            child.kill()

"""The sandbox of a worker that opens a file without ``--trust``, in real workers."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.worker import Conversation, spec
from tui_profiler.messages import ExportOnnx, LoadSpec, Printed, Try, Wish
from tui_profiler.probe.load.load import load
from tui_profiler.probe.sandbox import landlock, seccomp
from tui_profiler.probe.sandbox.broker import CONFINED, remove_folder
from tui_profiler.probe.sandbox.confinement import NO_COMPILER, SWITCH
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.one_request import onnx

ABI, WHY_NO_LANDLOCK = landlock.version(landlock.CLibrary())
WHY_NO_FILTER = seccomp.why_not(landlock.CLibrary())
pytestmark = pytest.mark.skipif(
    not ABI or bool(WHY_NO_FILTER), reason=WHY_NO_LANDLOCK or WHY_NO_FILTER
)
HOSTILE = Path(__file__).with_name("hostile_model.py")
HOSTILE_TRIAL = Path(__file__).with_name("hostile_trial.py")


class Confined(Conversation):
    """As any worker, but confined whatever it is asked: what it runs can be code of the test."""

    def __init__(self, wanted: LoadSpec, environment: dict[str, str]) -> None:
        super().__init__(wanted, arguments=(CONFINED,), environment=environment)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with what a deed could spoil."""
    (tmp_path / "bashrc").write_text("# mine, not yours\n")
    (tmp_path / "bashrc").chmod(0o600)
    (tmp_path / "empty").mkdir()
    (tmp_path / "cache" / "tui-profiler").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def terminal() -> Iterator[int]:
    """Another terminal of the user's, in which something was typed."""
    keyboard, shell = os.openpty()
    os.write(keyboard, b"a password\n")
    yield shell
    os.close(keyboard)
    os.close(shell)


@pytest.fixture
def other(terminal: int) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the user's, in that terminal."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=terminal) as process:
        yield process
        process.kill()


@pytest.fixture
def listening() -> Iterator[int]:
    """A port at which a deed could arrive."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def queues(home: Path) -> Iterator[tuple[int, int]]:
    """A message queue with a message, and semaphores, of System V; and a POSIX message queue."""
    libc = ctypes.CDLL(None, use_errno=True)
    queue, semaphores = libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600)
    posix = libc.mq_open(f"/{home.name}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
    assert min(queue, semaphores, posix) >= 0, os.strerror(ctypes.get_errno())
    libc.msgsnd(queue, struct.pack("ql", 1, 0), 8, 0)
    yield queue, semaphores
    libc.msgctl(queue, 0, None)
    libc.semctl(semaphores, 0, 0)
    libc.mq_unlink(f"/{home.name}".encode())
    os.close(posix)


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where temporary folders are made."""
    return tmp_path_factory.mktemp("tmp")


async def test_every_forbidden_deed_is_refused_and_the_model_is_measured(
    home: Path,
    place: Path,
    other: subprocess.Popen[bytes],
    terminal: int,
    listening: int,
    queues: tuple[int, int],
) -> None:
    before = snapshot(home)
    told = {
        "DEEDS_HOME": str(home),
        "DEEDS_PORT": str(listening),
        "DEEDS_OTHER": str(other.pid),
        "DEEDS_TERMINAL": os.ttyname(terminal),
        "DEEDS_QUEUES": f"{queues[0]} {queues[1]}",
        "TMPDIR": str(place),
    }
    worker = Confined(spec(f"{HOSTILE}:build", home, seconds=0.3), told)
    await worker.until(lambda s: s.timings is not None or s.failure is not None)
    assert worker.session.failure is None
    hello = worker.session.hello
    assert hello is not None
    assert hello.sandbox is not None
    assert (hello.sandbox.kind, hello.sandbox.landlock_abi) == ("landlock+seccomp", ABI)
    assert confined_by_kernel(worker.source.pid)
    assert len(content(place)) == 1  # The temporary folder of the worker.
    await worker.close()
    printed = "".join(m.text for m in worker.heard if isinstance(m, Printed))
    outcomes = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert len(outcomes) >= 40
    lacking = {"truncate", "truncate on opening"} if ABI < 3 else set()
    assert {deed for deed, came in outcomes.items() if came == "done"} <= lacking, outcomes
    if not lacking:
        assert snapshot(home) == before
    assert other.poll() is None
    emptied(place)


def test_without_a_sandbox_the_same_deeds_are_done(
    home: Path, other: subprocess.Popen[bytes], terminal: int, queues: tuple[int, int]
) -> None:
    """What makes the test above one that can fail."""
    told = {
        "DEEDS_HOME": str(home),
        "DEEDS_OTHER": str(other.pid),
        "DEEDS_TERMINAL": os.ttyname(terminal),
        "DEEDS_QUEUES": f"{queues[0]} {queues[1]}",
    }
    deeds = [
        *("write in the home folder", "make a folder", "hard link", "write through from_file"),
        *("truncate", "rename", "run a program", "fork", "fork by clone3", "bind TCP"),
        *("ask whether a process can be signalled", "read the environment of another process"),
        *("send to a message queue", "read a message queue", "remove a message queue"),
        *("change a semaphore", "remove a POSIX message queue"),
        *("read another terminal", "read another terminal as a descriptor of its process"),
    ]
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import hostile_model as hostile;"
        "print(json.dumps([hostile.outcome(hostile.DEEDS[name]) for name in sys.argv[2:]]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(HOSTILE.parent), *deeds],
        env={**os.environ, **told},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout.splitlines()[-1]) == ["done"] * len(deeds)


async def test_a_file_is_opened_confined_and_its_trials_are_too(
    tmp_path: Path, place: Path
) -> None:
    """Weights from elsewhere over a model of ours: everything goes on, but the compiler."""
    cache = tmp_path / "cache"
    environment = {"XDG_CACHE_HOME": str(cache), "TMPDIR": str(place)}
    wanted = spec("demo:cnn", tmp_path, weights="weights.pt", ceilings=True)
    torch.save(load(spec("demo:cnn")).model.state_dict(), tmp_path / "weights.pt")
    worker = Conversation(wanted, environment=environment)
    await worker.until(lambda s: s.timings is not None or s.failure is not None)
    assert worker.session.failure is None
    assert worker.session.hello is not None
    assert worker.session.hello.sandbox is not None
    # Measured by a process outside, for the cache that this one cannot write.
    assert worker.session.ceilings is not None
    assert len(list(cache.rglob("ceilings-*.json"))) == 1
    for kind in ("compile", "inference-mode"):
        worker.source.send(Try(Wish(kind, seconds=0.2)))
    await worker.until(lambda s: len(s.trials) == 2)
    compiled, tried = worker.session.trials
    assert (compiled.outcome, compiled.why) == ("impossible", NO_COMPILER)
    assert tried.outcome == "measured", tried.why
    await worker.close()
    emptied(place)


async def test_what_a_worker_asks_of_a_trial_gets_it_nowhere(home: Path, place: Path) -> None:
    """The request of a trial is written by the worker, so that it is as hostile as the worker."""
    before = snapshot(home)
    told = {"DEEDS_HOME": str(home), "TMPDIR": str(place), "XDG_CACHE_HOME": str(home / "cache")}
    worker = Confined(spec(f"{HOSTILE_TRIAL}:build", home, seconds=0.1), told)
    await worker.until(lambda s: s.timings is not None or s.failure is not None)
    assert worker.session.failure is None
    await worker.close()
    printed = "".join(m.text for m in worker.heard if isinstance(m, Printed))
    outcomes = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert snapshot(home) == before
    # Nothing but a trial is started, and that can do what any worker can, and no more.
    nothing = "deeds: 5, done: []"
    assert outcomes == {"onnx": "refused", "start": "refused", "trial": nothing}
    emptied(place)


async def test_an_onnx_file_comes_out_of_the_sandbox(tmp_path: Path, place: Path) -> None:
    """The one file that was asked for, and nothing else beside it."""
    exported = torch.export.export(linear(), (torch.ones(2, 8),))
    torch.export.save(exported, tmp_path / "linear.pt2")
    request = ExportOnnx(spec("linear.pt2", tmp_path), "out.onnx")
    source = Spawned(worker_command(), first=[request], environment={"TMPDIR": str(place)})
    session = await onnx(source, lambda _: None)
    assert session.failure is None
    assert session.hello is not None
    assert session.hello.sandbox is not None
    assert session.exported is not None
    assert session.exported.files == ("out.onnx",)
    emptied(place)
    assert content(tmp_path) == ["linear.pt2", "out.onnx"]


@pytest.mark.parametrize(
    ("switch", "kind"), [("off", None), ("landlock", "landlock"), ("seccomp", "seccomp")]
)
async def test_the_switch_for_debugging_says_what_is_off(
    tmp_path: Path, switch: str, kind: str | None
) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "weights.pt")
    worker = Conversation(spec("weights.pt", tmp_path), environment={SWITCH: switch})
    session = await worker.until(lambda s: s.tree is not None and s.loop is not None)
    assert session.hello is not None
    if kind is None:
        assert session.hello.sandbox is None
        assert f"{SWITCH}=off" in session.hello.why_no_sandbox
    else:
        assert session.hello.sandbox is not None
        assert session.hello.sandbox.kind == kind
        assert any(f"{SWITCH}={switch}" in lacking for lacking in session.hello.sandbox.lacks)
    await worker.close()


def test_the_broker_refuses_what_is_not_an_order_and_delivers_files_only(tmp_path: Path) -> None:
    """What it is told comes from hostile code. It is forked from a process with one thread."""
    folder, made = tmp_path / "folder", tmp_path / ".onnx-made"
    folder.mkdir()
    made.mkdir()
    ended = run_python(BROKER_ORDERS, str(folder), str(made), str(tmp_path / "out.onnx"))
    outcomes = json.loads(ended)
    assert outcomes.pop("deliver a file") == "done"
    assert set(outcomes.values()) == {"refused"}, outcomes
    assert (tmp_path / "out.onnx").read_text() == "made"
    until_gone(folder)
    until_gone(made)
    assert content(tmp_path) == ["out.onnx"]


BROKER_ORDERS = """
import json, os, socket, sys
from pathlib import Path
from tui_profiler.probe.sandbox import broker
from tui_profiler.probe.sandbox.broker import BrokerError, Delivery
folder, made, path = map(Path, sys.argv[1:])
wire, _ = socket.socketpair()
served = broker.start(folder, Delivery(made, path), wire.fileno())
came = {}
def tried(name, deed):
    try:
        deed()
        came[name] = "done"
    except (BrokerError, OSError):
        came[name] = "refused"
for order in (b"calibrate cpu; 1", b"calibrate ../x 1", b"calibrate cpu -1", b"calibrate cpu 1 ",
              b"trial", b"shell", b"\\0", b"x" * 4000, b"deliver"):
    tried(repr(order[:20]), lambda: served._ask(order))
(made / "out.onnx").symlink_to("/etc/passwd")
tried("deliver a link", served.deliver)
(made / "out.onnx").unlink()
(made / "out.onnx").mkdir()
tried("deliver a folder", served.deliver)
(made / "out.onnx").rmdir()
(made / "out.onnx").write_text("made")
(made / "other").write_text("not asked for")
tried("deliver a file", served.deliver)
print(json.dumps(came))
"""


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())


def run_python(code: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return ran.stdout


def confined_by_kernel(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(re.search(r"NoNewPrivs:\s+1\n", status) and re.search(r"Seccomp:\s+2\n", status))


def content(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def emptied(folder: Path, seconds: float = 60) -> None:
    """Wait until the broker has tidied up; it does so when the worker has ended."""
    until = time.monotonic() + seconds
    while content(folder):
        assert time.monotonic() < until, content(folder)
        time.sleep(0.02)


def until_gone(folder: Path, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while folder.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        held = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, held)
    return found


@pytest.mark.parametrize("depth", [1, 20])
def test_a_worker_that_fills_its_temporary_folder_is_ended(tmp_path: Path, depth: int) -> None:
    # 20 folders with long names deep, no path leads to the file.
    code = (
        "import os, sys, time; from pathlib import Path;"
        "from tui_profiler.probe.sandbox.broker import start; folder = Path(sys.argv[1]);"
        "broker = start(folder, None, os.open(os.devnull, os.O_RDONLY), most_bytes=1 << 20);"
        "os.chdir(folder); inner = 'd' * 250;"
        f"[(os.mkdir(inner), os.chdir(inner)) for _ in range({depth})];"
        "Path('file').write_bytes(bytes(2 << 20));"
        "time.sleep(600)"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == -signal.SIGKILL
    assert "has more than 1 MiB, 100,000 files or folders too deep to list" in ran.stdout
    emptied(tmp_path)


def test_folders_that_are_deep_or_cannot_be_listed_are_removed(tmp_path: Path) -> None:
    folder, inner = tmp_path / "folder", tmp_path / "folder" / "inner"
    (inner / "inner").mkdir(parents=True)
    (inner / "file").write_text("x")
    (tmp_path / "kept").write_text("x")
    (inner / "link").symlink_to(tmp_path)
    for path in (inner / "inner", inner):
        path.chmod(0)
    deep = "import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(2000)]"
    subprocess.run([sys.executable, "-c", deep], cwd=folder, check=True)
    remove_folder(folder)
    assert content(tmp_path) == ["kept"]

"""``run``: a user's script, unchanged, with and without the explorer."""

from __future__ import annotations

import json
import os
import py_compile
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import jsonschema
import psutil
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND, alternate_screen_is_left
from tests.viewer import wait_until
from tui_profiler.source.output_buffer import Buffer
from tui_profiler.source.torch_processes import TorchProcesses

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
SCHEMA = json.loads(Path("docs/report.schema.json").read_text(encoding="utf-8"))

SHORT = """
import sys, torch
def main():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    for _ in range(int(sys.argv[1])):
        print(net(torch.randn(4, 8)).detach().double().sum().item().hex())
main()  # Its model is gone before the script ends.
"""
TRAINS = """
import inspect, multiprocessing, os, pickle, sys
if __name__ == "__main__":
    print(sys.flags, sys.orig_argv[1:], sys.path, sorted(os.environ.items()))

def length(data):
    return len(data)

if __name__ == "__main__":  # What it spawns imports the script too, and no torch.
    os.environ["OMP_NUM_THREADS"] = "2"  # Read when torch is imported.
    import torch

    class Net(torch.nn.Module):
        width: int = 16
        def __init__(self):
            super().__init__()
            self.features = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16))
            self.head = torch.nn.Linear(16, 2)
        def forward(self, x):
            return self.head(torch.relu(self.features(x)))

    print(sys.argv[1:], __name__, __file__, __loader__.name, Net.__annotations__)
    print(torch.get_num_threads(), sorted(os.environ), type(torch.__spec__), len(sys.meta_path))
    torch.manual_seed(0)
    net = Net()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(int(sys.argv[1])):
        net(torch.randn(4, 8)).square().mean().backward()
        optimiser.step()
    print(torch.rand(1).item(), sum(float(t.double().sum()) for t in net.state_dict().values()))
    if "spawn" in sys.argv:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(length, [pickle.dumps(net)]))
    if not (child := os.fork()):
        sys.exit("ended in a child")
    print(os.waitpid(child, 0)[1], flush=True)
    os.chdir("/")
    print(inspect.getsource(length))
    sys.exit(5)
"""
SAVES = """
import sys, torch
net = torch.nn.Linear(8, 8)
try:
    net(torch.zeros(1, 8))
    print("begun", flush=True)
    while True:
        net(torch.zeros(1, 8))
except KeyboardInterrupt:
    print("saved")
    sys.exit(7)
"""
RUNS_ON = """
import sys, time, torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
print("the script has begun")
while True:
    net(torch.zeros(1, 8))
    time.sleep(0.002)
    if len(sys.argv) > 1:
        try:
            open(sys.argv[1]).close()
        except FileNotFoundError:
            continue
        print("the script has ended")
        sys.exit(9)
"""


DESCRIBES = """
import os, sys
names = sorted(name for name in globals() if name.startswith("__"))
print(sys.argv, sys.path[0], sys.orig_argv[1:], names, __builtins__, __name__, __doc__)
print(globals().get("__file__"), getattr(__spec__, "name", None))
print(getattr(__loader__, "__name__", type(__loader__)))
print(sys.modules["__main__"].__dict__ is globals(), sys.stdin.read())
"""
REPLACES_CLOCKS = """
import time
real_sleep, real_clock, seconds = time.sleep, time.perf_counter, [1e9]
def replaced():
    seconds[0] -= 3600.0
    return seconds[0]
names = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
for name in names:
    setattr(time, name, replaced)
    setattr(time, f"{name}_ns", lambda: int(replaced() * 1e9))
time.sleep = lambda seconds: None
import torch
class Slow(torch.nn.Module):
    def forward(self, x):
        real_sleep(0.02)
        return x
net = torch.nn.Sequential(torch.nn.Linear(4, 4), Slow())
took = []
for _ in range(60):
    began = real_clock()
    net(torch.ones(1, 4))
    took.append(real_clock() - began)
print(min(took), max(took))
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return path


def run(
    *arguments: object, folder: Path | None = None, given: str = "", passed: tuple[int, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return started([*COMMAND, "run", *map(str, arguments)], folder, given, passed)


def plain(
    *arguments: object, folder: Path | None = None, given: str = "", passed: tuple[int, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return started([sys.executable, *map(str, arguments)], folder, given, passed)


def started(
    command: list[str], folder: Path | None, given: str, passed: tuple[int, ...]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
        cwd=folder,
        input=given,
        pass_fds=passed,
    )


def test_a_script_does_under_us_what_it_does_alone(tmp_path: Path) -> None:
    path, report = os.path.relpath(script(tmp_path, TRAINS)), tmp_path / "report.json"
    for ours in ("tui_profiler", "psutil", "platformdirs"):  # Of its folder it is the script's.
        (tmp_path / f"{ours}.py").write_text("print('this is not ours to run')\n")

    alone = plain(path, "100", "spawn")
    watched = run("--format", "json", "--output", report, path, "100", "spawn")

    assert "['100', 'spawn'] __main__" in alone.stdout
    assert watched.stdout == alone.stdout
    assert "ended in a child" in watched.stderr
    assert watched.returncode == alone.returncode == 5
    found = json.loads(report.read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    assert found["total_macs"] == 4 * (8 * 16 + 16 * 2)
    assert found["inputs"][0]["shape"] == [4, 8]
    assert found["latency"]["p50_s"] > 0
    step, root = found["step"], found["layers"][0]["timing"]
    assert (step["ended_by"], step["optimizers"]) == ("optimizer", ["SGD"])
    assert step["recorded"] <= step["count"] < 100  # The first forward was recorded for costs.
    if not step["recorded"]:  # Beside other programs none of so few may be within the budget.
        assert step["mean_s"] is None
        return
    parts = {name: part["mean_s"] for name, part in step["parts"].items() if part is not None}
    assert set(parts) == {"forward", "backward", "optimizer", "other"}
    assert sum(parts.values()) == pytest.approx(step["mean_s"])
    assert found["unavailable"]["step.parts.data"] == "no DataLoader was seen"
    assert 0 < root["backward_mean_s"] <= parts["backward"] * 1.01


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What three forwards print where nobody watches, a line each."""
    return plain(script(tmp_path_factory.mktemp("alone"), SHORT), 3).stdout.splitlines()


@pytest.mark.parametrize("forwards", [1, 2, 3])
def test_a_script_shorter_than_the_warm_up_has_cold_times(
    tmp_path: Path, outputs: list[str], forwards: int
) -> None:
    path, report = script(tmp_path, SHORT), tmp_path / "report.json"
    watched = run("--format", "json", "--output", report, path, forwards)
    assert watched.returncode == 0
    assert watched.stdout.splitlines() == outputs[:forwards]  # Bit for bit.
    found = json.loads(report.read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    latency, modules = found["latency"], [one for one in found["layers"] if one["kind"] == "module"]
    if forwards == 1:
        assert latency is None
        assert "with the recording: the script ended" in found["unavailable"]["latency"]
        assert all(one.get("timing") is None for one in modules)
    else:
        counted = (latency["cold"], latency["forwards"], latency["warmup_forwards"])
        assert counted == (True, forwards - 1, 0)
        assert latency["p50_s"] > 0
        assert all(one["timing"]["per_forward_s"] > 0 for one in modules)


@pytest.mark.usefixtures("interrupts_arrive")
def test_without_the_explorer_an_interrupt_is_the_scripts(tmp_path: Path) -> None:
    path, report = script(tmp_path, SAVES), tmp_path / "report.json"
    command = [*COMMAND, "run", "--format", "json", "--output", str(report), str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        os.killpg(running.pid, signal.SIGINT)  # As the terminal does, to all of them.
        assert running.stdout.read() == "saved\n"
    assert running.returncode == 7
    assert json.loads(report.read_text(encoding="utf-8"))["total_macs"] == 64


def test_operators_of_a_script_are_timed_on_its_own_forwards_and_figures_stay_when_it_ends(
    start: Start, tmp_path: Path
) -> None:
    path, flag = script(tmp_path, RUNS_ON), tmp_path / "end"
    terminal = start("run", str(path), str(flag))
    terminal.wait_for("● live")
    terminal.send("a}")
    terminal.wait_for(lambda shown: any(is_timed(line) for line in shown.splitlines()))
    terminal.send("L")
    shown = terminal.wait_for("the script has begun")
    assert "USDT" not in shown  # torch's profiler is silent in the script's output
    terminal.send("\x1b")
    terminal.wait_for("● live")
    flag.touch()
    terminal.wait_for("script failed")
    terminal.wait_for("exit code 9")
    assert "Linear" in terminal.text()
    terminal.send("q")
    assert terminal.wait_for_exit() == 9


def is_timed(line: str) -> bool:
    """Tell whether a row of an operator shows a time: it has the unit of the column's head."""
    return "addmm" in line and bool(re.search(r"\d\.\d+", line[:70]))


def test_when_a_model_is_gone_the_next_one_is_looked_at(tmp_path: Path) -> None:
    text = """
    import time, torch
    def run(net, forwards):  # Takes longer where the machine is busy, as looking at it does.
        for _ in range(forwards):
            net(torch.zeros(1, 8))
            time.sleep(0.001)
    run(torch.nn.Sequential(torch.nn.Linear(8, 4)), 1_000)
    run(torch.nn.Sequential(torch.nn.Linear(8, 64)), 4_000)
    """
    path, report = script(tmp_path, textwrap.dedent(text)), tmp_path / "report.json"

    watched = run("--format", "json", "--output", report, path)

    assert watched.returncode == 0
    assert json.loads(report.read_text(encoding="utf-8"))["total_macs"] == 8 * 64


def test_what_a_script_raises_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    path = script(tmp_path, "def fall():\n    raise ValueError('of its own')\n\nfall()\n")

    alone, watched = plain(path), run("--format", "table", path)

    assert watched.returncode == alone.returncode == 1
    assert alone.stderr in watched.stderr
    assert "it called no model before it failed: ValueError: of its own" in watched.stderr


def test_a_module_is_run_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    text = "import sys, torch\nfrom . import __name__ as p\nprint(p, sys.argv[1:])\n"
    model = "torch.nn.Linear(3, 5)(torch.ones(2, 3))\n"
    (tmp_path / "package" / "begin.py").write_text(text + model, encoding="utf-8")

    watched = run("--format", "table", "-m", "package.begin", "--its", "own", folder=tmp_path)

    assert watched.returncode == 0
    assert watched.stdout == "package ['--its', 'own']\n"
    assert "30 MAC" in watched.stderr  # 2 rows of 3 x 5, of the only forward there was


@pytest.mark.parametrize(
    ("named", "given"),
    [
        (("script.py", "a"), "of its own"),
        (("-c", DESCRIBES, "a", "-m"), "of its own"),
        (("-", "a"), DESCRIBES),
        (("-m", "script", "a"), "of its own"),
        (("folder", "a"), "of its own"),
        (("packed.bin", "a"), "of its own"),
        (("compiled.pyc", "a"), "of its own"),
    ],
)
def test_a_script_is_main_as_python_has_it(
    tmp_path: Path, named: tuple[str, ...], given: str
) -> None:
    script(tmp_path, DESCRIBES)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(DESCRIBES, encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "packed.bin", "w") as packed:
        packed.writestr("__main__.py", DESCRIBES)
    py_compile.compile(str(tmp_path / "script.py"), str(tmp_path / "compiled.pyc"))

    alone = plain(*named, folder=tmp_path, given=given)
    watched = run("--format", "json", *named, folder=tmp_path, given=given)

    assert "<module 'builtins' (built-in)>" in alone.stdout
    assert watched.stdout == alone.stdout


def test_a_script_and_its_files_may_be_what_a_shell_has_opened(tmp_path: Path) -> None:
    # As in: python <(echo CODE) 3< FILE
    code, source = os.pipe()
    os.write(source, DESCRIBES.encode() + b"print(os.read(int(sys.argv[1]), 99))\n")
    os.close(source)
    (tmp_path / "data").write_bytes(b"of the file")
    with open(code, "rb"), (tmp_path / "data").open("rb") as data:
        number = data.fileno()
        watched = run(
            *("--format", "json", f"/dev/fd/{code}", number), passed=(code, number), given="in"
        )

    assert f"['/dev/fd/{code}', '{number}'] /dev/fd [" in watched.stdout
    assert watched.stdout.endswith("in\nb'of the file'\n")
    assert "it called no model" in watched.stderr


def test_the_recording_of_a_script_that_a_signal_ends_is_whole(tmp_path: Path) -> None:
    recording = tmp_path / "run.rec"
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    watched = run("--format", "json", "--record", recording, "-c", code)

    assert watched.returncode == -signal.SIGTERM
    read = started([*COMMAND, "report", str(recording)], None, "", ())
    assert "ended by SIGTERM" in read.stderr
    assert "cut off" not in read.stderr


@pytest.mark.parametrize(("printed", "rows"), [("bar 100 %", 2), ("bar 100 %\\n", 2), ("", 1)])
def test_without_the_explorer_the_report_begins_a_line(
    start: Start, printed: str, rows: int
) -> None:
    code = f'import sys; sys.stdout.write("{printed}")'
    terminal = start("run", "--format", "table", "-c", code)
    assert terminal.wait_for_exit() == 0
    shown = terminal.text().rstrip().splitlines()
    assert [row.rstrip() for row in shown] == [
        *["bar 100 %"][: rows - 1],
        "-c: no figures: it called no model",
    ]


def test_code_that_raises_has_failed_as_python_shows_it() -> None:
    alone, watched = plain("-c", "1 / 0"), run("--format", "json", "-c", "1 / 0")

    assert watched.returncode == alone.returncode == 1
    # Python 3.13 and later also show the line of the code, which only Python itself can register.
    first, *_, last = alone.stderr.strip().splitlines()
    assert f'{first}\n  File "<string>", line 1, in <module>\n' in watched.stderr
    assert f"{last}\n" in watched.stderr
    assert "-c: no figures: it called no model before it failed: ZeroDivision" in watched.stderr


def test_times_are_of_the_real_clock_where_a_script_replaces_it(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    watched = run("--format", "json", "--output", report, script(tmp_path, REPLACES_CLOCKS))

    least, most = map(float, watched.stdout.split())  # By the real clock, in the script.
    found = json.loads(report.read_text(encoding="utf-8"))
    assert least >= 0.02  # It was measured at all.
    assert 0.02 <= found["latency"]["p50_s"] <= most
    assert all(stage["seconds"] >= 0 for stage in found["stages"])


@pytest.mark.parametrize(
    "named", [("missing.py",), ("-m", "not_there_at_all"), ("-m", "-c", "print()")]
)
def test_a_script_that_is_not_there_is_a_bad_argument(named: tuple[str, ...]) -> None:
    watched = run("--format", "table", *named)

    assert watched.returncode == 2
    assert "There is no" in watched.stderr or "exclude each other" in watched.stderr


@pytest.mark.parametrize("last", ["the script has ended\\n", "\\rbar 100 %"])
def test_a_script_can_be_left_to_the_terminal(start: Start, tmp_path: Path, last: str) -> None:
    text = RUNS_ON.replace('"the script has ended"', f'"{last}", end=""')
    path, flag = script(tmp_path, text), tmp_path / "end"
    terminal = start("run", str(path), str(flag))
    terminal.wait_for("● live")
    terminal.send("L")
    terminal.wait_for("the script has begun")
    terminal.send("\x1b")
    terminal.wait_for("● live")
    terminal.send("q")
    terminal.wait_for("stop it")
    terminal.send("\x1b")
    terminal.wait_for(lambda shown: "stop it" not in shown)
    terminal.send("q")
    terminal.wait_for("stop it")
    terminal.send("l")
    terminal.wait_for(lambda _: alternate_screen_is_left(bytes(terminal.raw)))
    assert terminal.is_alive()
    flag.touch()
    assert terminal.wait_for_exit() == 9
    # What is said after it is on a line of its own.
    ended = last.encode().decode("unicode_escape").strip()
    assert f"{ended}\r\nscript.py: ".encode() in terminal.raw.replace(
        str(tmp_path).encode() + b"/", b""
    )
    assert terminal.modes_are_restored()


def test_a_script_can_be_stopped(start: Start, tmp_path: Path) -> None:
    terminal = start("run", str(script(tmp_path, RUNS_ON)))
    terminal.wait_for("● live")
    workers = terminal.workers()
    terminal.send("q")
    terminal.wait_for("stop it")
    terminal.send("s")
    assert terminal.wait_for_exit() == 128 + 15
    assert terminal.modes_are_restored()
    psutil.wait_procs(workers, timeout=240)
    assert not any(worker.is_running() for worker in workers)


def test_a_script_that_raises_has_failed_in_its_own_words(start: Start, tmp_path: Path) -> None:
    raised = "'loss is \\x1b[31mnan:\\n  see the log'"  # In several lines, as torch's are.
    text = f"print('a line before')\nimport unittest\nunittest.TestCase().fail({raised})\n"
    terminal = start("run", str(script(tmp_path, text)))
    terminal.wait_for("script failed")
    shown = terminal.wait_for("AssertionError: loss is")
    assert "finished" not in shown
    assert "script.py:3" in shown  # Not the line of the library that raised.
    terminal.wait_for(lambda shown: "restart" not in shown)  # The last row follows the first.
    terminal.send("\x12")
    terminal.wait_for("start it again in a shell")
    terminal.send("q")
    assert terminal.wait_for_exit() == 1
    left = bytes(terminal.raw).rpartition(b"\x1b[?1049l")[2].decode()
    assert "a line before\r\n" in left
    assert "script.py: AssertionError: loss is nan: see the log (exit code 1)" in left
    assert "\x1b[31m" not in left
    (kept,) = re.findall(r"output kept in (\S+\.log)", left)
    assert "a line before" in Path(kept).read_text(encoding="utf-8")
    assert Path(kept).stat().st_mode & 0o777 == 0o600


def test_a_script_does_not_wait_for_an_explorer_that_is_stuck(tmp_path: Path) -> None:
    """A terminal that takes no more bytes holds up the event loop."""
    flag = tmp_path / "printed"
    prints = script(
        tmp_path,
        f"""
print("first", flush=True)
for number in range(4_000):
    print(number, "x" * 1_000)
open({str(flag)!r}, "w").close()
""",
    )
    explores = f"""
import asyncio, os, time
from pathlib import Path
from tui_profiler.messages import Printed
from tui_profiler.source.script import Script
script = Script(({str(prints)!r},), started_at=time.time(), budget=0.01)
async def explore():
    heard = ""
    async for message in script.messages():
        heard += message.text if isinstance(message, Printed) else ""
        while not os.path.exists({str(flag)!r}):
            time.sleep(0.01)
    assert heard.startswith("first"), heard[:100]
asyncio.run(explore())
script.let_go()
script.follow()
assert script.wait() == 0
assert script.log.path.read_text().splitlines()[-1].startswith("3999 x")
print(script.log.path.stat().st_size)
"""
    explored = subprocess.run(
        [sys.executable, "-c", explores],
        stdout=subprocess.PIPE,
        text=True,
        timeout=240,
        check=True,
        env={**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path)},
    )
    *shown, size = explored.stdout.splitlines()
    assert [line.split()[0] for line in shown] == [str(number) for number in range(3980, 4000)]
    assert int(size) == len("first\n") + sum(len(f"{n} {'x' * 1000}\n") for n in range(4000))


def test_a_script_does_not_wait_for_a_run_that_is_stopped(tmp_path: Path) -> None:
    """SIGSTOP cannot be passed on; 4 MB are more than any pipe has room for."""
    go, flag = tmp_path / "go", tmp_path / "printed"
    prints = script(
        tmp_path,
        f"""
import os, time
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
for number in range(4_000):
    print(number, "x" * 1_000)
open({str(flag)!r}, "w").close()
""",
    )
    explores = f"""
import time
from tui_profiler.source.script import Script
script = Script(({str(prints)!r},), started_at=time.time(), budget=0.01)
print("begun", flush=True)
script.let_go()
script.follow()
assert script.wait() == 0
kept = script.log.path.read_text().splitlines()
assert [line.split()[0] for line in kept] == [str(number) for number in range(4_000)]
script.end()
"""
    with subprocess.Popen(
        [sys.executable, "-c", explores],
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path)},
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        running.send_signal(signal.SIGSTOP)
        go.touch()
        wait_until(flag.exists)
        assert psutil.Process(running.pid).status() == psutil.STATUS_STOPPED
        running.send_signal(signal.SIGCONT)
        said = running.stdout.read()
    assert running.returncode == 0
    assert said.splitlines()[-1].startswith("3999 x")


def test_a_script_that_has_hung_up_is_given_time_to_end(tmp_path: Path) -> None:
    """A machine that is busy needs seconds to end Python with torch."""
    go = tmp_path / "go"
    ends_late = script(
        tmp_path,
        f"""
import contextlib, os, socket, sys, time
for number in range(3, 64):
    with contextlib.suppress(OSError):  # One of them is the wire.
        socket.socket(fileno=number).shutdown(socket.SHUT_RDWR)
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
sys.exit(9)
""",
    )
    explores = f"""
import asyncio, time
from tui_profiler.source.script import Script
script = Script(({str(ends_late)!r},), started_at=time.time(), budget=0.01)
async def explore():
    async def follow():
        async for _ in script.messages():
            pass
    following = asyncio.create_task(follow())
    while script.is_running:
        await asyncio.sleep(0.01)
    await script.close()  # The explorer is left.
    following.cancel()
asyncio.run(explore())
open({str(go)!r}, "w").close()
script.follow()
print(script.end())
"""
    left = subprocess.run(
        [sys.executable, "-c", explores],
        stdout=subprocess.PIPE,
        text=True,
        timeout=240,
        check=True,
        env={**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path)},
    )
    assert left.stdout == "9\n"


def test_output_beyond_the_buffer_is_dropped_from_its_beginning_and_said() -> None:
    (source, prints), (reads, target) = os.pipe(), os.pipe()
    buffer = Buffer(source, target, most_bytes=100_000)
    for number in range(50):
        os.write(prints, b"%03d" % number + b"x" * 9_997)
        assert buffer.read()
    os.close(prints)
    assert not buffer.read()
    assert buffer.is_over
    passed = b""
    while buffer.has_something:
        buffer.write()
        passed += os.read(reads, 1 << 20)
    said, _, rest = passed.removeprefix(b"\n").partition(b"\n")
    assert said == b"[tui-profiler: 400,000 bytes of output were dropped here]"
    assert rest.startswith(b"040x")
    assert len(rest) == 100_000
    for one in (source, reads, target):
        os.close(one)


def test_children_that_run_torch_are_named(tmp_path: Path) -> None:
    text = """
    import multiprocessing, os, sys, time
    def work(pids):
        import torch
        pids.put(os.getpid())
        time.sleep(600)
    if __name__ == "__main__":
        context = multiprocessing.get_context("spawn")
        pids = context.Queue()
        children = [context.Process(target=work, args=(pids,)) for _ in range(2)]
        for child in children:
            child.start()
        print(sorted(pids.get() for _ in children), flush=True)
        sys.stdin.read()
        for child in children:
            child.kill()
    """
    command = [*COMMAND, "run", "--format", "table", str(script(tmp_path, textwrap.dedent(text)))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        pids = json.loads(running.stdout.readline())
        seen, parent = TorchProcesses(psutil.Process(running.pid).pid), psutil.Process(running.pid)
        while (found := seen.new()) is None or found.count < 2:
            assert parent.is_running()
        _, told = running.communicate("", timeout=240)
    assert sorted(found.pids) == pids
    assert "2 child processes have torch loaded" in told
    assert all(str(pid) in told for pid in pids)


def test_keys_act_after_a_stop_that_left_no_time_to_give_the_terminal_back(
    start: Start, tmp_path: Path
) -> None:
    path, flag = script(tmp_path, RUNS_ON), tmp_path / "end"
    terminal = start("run", str(path), str(flag))
    terminal.wait_for("● live")
    os.kill(terminal.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, terminal.pid, os.WSTOPPED | os.WNOWAIT)
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.send("L")
    terminal.wait_for("the script has begun")
    flag.touch()

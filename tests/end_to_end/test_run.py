"""``run``: a user's script, unchanged, with and without the explorer."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import jsonschema
import psutil
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND, alternate_screen_is_left

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
SCHEMA = json.loads(Path("docs/report.schema.json").read_text(encoding="utf-8"))

TRAINS = """
import inspect, multiprocessing, os, pickle, sys
if __name__ == "__main__":
    print(sys.flags, sys.orig_argv[1:], sys.path, sorted(os.environ.items()))
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

def length(net):
    return len(pickle.dumps(net))

if __name__ == "__main__":
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
            print(pool.map(length, [net]))
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


def script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return path


def run(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
        cwd=folder,
    )


def plain(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
    )


def test_a_script_does_under_us_what_it_does_alone(tmp_path: Path) -> None:
    path, report = os.path.relpath(script(tmp_path, TRAINS)), tmp_path / "report.json"
    for ours in ("tui_profiler", "psutil", "platformdirs"):  # Of its folder it is the script's.
        (tmp_path / f"{ours}.py").write_text("print('this is not ours to run')\n")

    alone = plain(path, "200", "spawn")
    watched = run("--format", "json", "--output", report, path, "200", "spawn")

    assert "['200', 'spawn'] __main__" in alone.stdout
    assert watched.stdout == alone.stdout
    assert "ended in a child" in watched.stderr
    assert watched.returncode == alone.returncode == 5
    found = json.loads(report.read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    assert found["total_macs"] == 4 * (8 * 16 + 16 * 2)
    assert found["inputs"][0]["shape"] == [4, 8]
    assert found["latency"]["p50_s"] > 0


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


def test_a_script_is_hung_up_on_when_the_profiler_is_killed(start: Start, tmp_path: Path) -> None:
    terminal = start("run", str(script(tmp_path, RUNS_ON)))
    terminal.wait_for("● live")
    (running,) = terminal.workers()
    os.kill(terminal.pid, signal.SIGKILL)
    psutil.wait_procs([running], timeout=240)
    assert not running.is_running()


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
    terminal.wait_for("finished")
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
    assert "it called no model" in watched.stderr


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


@pytest.mark.parametrize("named", [("missing.py",), ("-m", "not_there_at_all")])
def test_a_script_that_is_not_there_is_a_bad_argument(named: tuple[str, ...]) -> None:
    watched = run("--format", "table", *named)

    assert watched.returncode == 2
    assert "There is no" in watched.stderr


def test_a_script_can_be_left_to_the_terminal(start: Start, tmp_path: Path) -> None:
    path, flag = script(tmp_path, RUNS_ON), tmp_path / "end"
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
    assert b"the script has ended" in terminal.raw
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

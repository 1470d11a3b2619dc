"""``run``: other viewers of a script, and the processes that it starts."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.run.test_run import ENVIRONMENT, plain, run
from tests.end_to_end.terminal import COMMAND
from tests.probe.watch.watched_program import sockets_folder
from tests.viewer import Viewer, wait_until
from tui_profiler.connection.sockets import Place, places

FORKS = """
import os, sys, time, torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
child = os.fork()
if not child:
    net = torch.nn.Linear(8, 8)
while not os.path.exists(sys.argv[1]):
    net(torch.zeros(1, 8))
    time.sleep(0.002)
if child:
    os.waitpid(child, 0)
    print("ended")
sys.exit(5 if child else 0)
"""

STARTS = """
import os, subprocess, sys
from multiprocessing import get_context

def shown():
    # SHLVL and _ are of the shell that os.system starts.
    seen = {k: v for k, v in os.environ.items() if k not in ("SHLVL", "_", "PWD", "OLDPWD")}
    print(sorted(seen.items()), sys.path, sys.flags, "own" in sys.modules, flush=True)

if __name__ == "__main__" and "child" not in sys.argv:
    shown()
    child = [sys.executable, __file__, "child"]
    subprocess.run(child)
    subprocess.run(child, env={**os.environ, "RANK": "1"})
    os.system(" ".join(child))
    process = get_context("spawn").Process(target=shown)
    process.start()
    process.join()
    os.environ["PYTHONPATH"] = "/else"
    subprocess.run(child)
    del os.environ["PYTHONPATH"]
    subprocess.run(child)
    print([name for name in vars(sys.modules.get("sitecustomize", sys)) if name == "MINE"])
elif __name__ == "__main__":
    shown()
    subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH'))"])
"""
SPAWNS = """
import os, subprocess, sys, time
from multiprocessing import get_context

def work(stop):
    import torch
    net = torch.nn.Linear(8, 8)
    while not os.path.exists(stop):
        net(torch.zeros(1, 8))
        time.sleep(0.002)

if __name__ == "__main__" and "child" not in sys.argv:
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}
    rank = subprocess.Popen([sys.executable, __file__, sys.argv[1], "child"], env=environment)
    process = get_context("spawn").Process(target=work, args=(sys.argv[1],))
    process.start()
    process.join()
    print(process.exitcode, rank.wait())
elif __name__ == "__main__":
    work(sys.argv[1])
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made


@contextmanager
def running(
    text: str, folder: Path, *arguments: str
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a script until a file is there; its path comes with the process."""
    script, stop = folder / "train.py", folder / "stop"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    command = [*COMMAND, "run", "--format", "json", "--output", str(folder / "report.json")]
    environment = {**ENVIRONMENT, "TUI_PROFILER_DIR": str(folder)}
    with subprocess.Popen(
        [*command, str(script), str(stop), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
    ) as program:
        try:
            yield program, stop
        finally:
            stop.touch()
            program.kill()


def until(count: int) -> list[Place]:
    """Wait until so many processes listen; each has one socket."""
    wait_until(lambda: len({one.pid for one in places()}) >= count)
    return places()


def test_a_script_and_its_fork_are_seen_by_other_viewers(folder: Path) -> None:
    with running(FORKS, folder) as (program, stop):
        seen = {}
        for place in until(2):
            assert place.name == "train.py"
            viewer = Viewer(place)
            session = viewer.until(lambda found: found.tick is not None and found.tick.forwards)
            assert session.tree is not None
            seen[session.tree.nodes[0].type] = place.pid
            viewer.socket.close()
        assert set(seen) == {"Sequential", "Linear"}
        again = Viewer(next(one for one in places() if one.pid == seen["Sequential"]))
        assert again.until(lambda found: found.tree).tree.nodes[0].type == "Sequential"
        stop.touch()
        last = again.until(lambda found: found.loop is not None and found.loop.detail)
        assert last.loop.detail == "the script ended"
        assert program.wait(240) == 5
        assert program.stdout.read() == "ended\n"
    assert not places()
    assert json.loads((folder / "report.json").read_text())["total_macs"] == 64


@pytest.mark.parametrize("own_path", [None, "", "MADE"])
def test_a_script_and_what_it_starts_see_the_same_environment_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_path: str | None
) -> None:
    monkeypatch.delitem(ENVIRONMENT, "PYTHONPATH", raising=False)
    if own_path == "":  # As containers have it: the working directory is not on the path.
        monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", "")
    if own_path:  # The user's own, which is found through PYTHONPATH as ours is.
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['own'] = MINE = sys\n")
        monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", f"{tmp_path}:/nowhere")
    script = tmp_path / "starts.py"
    script.write_text(STARTS)
    alone = plain(script)
    watched = run("--format", "json", script)
    assert alone.stdout.count("\n") == 13
    assert watched.stdout == alone.stdout
    assert not alone.stderr
    assert watched.stderr == f"{script}: no figures: it called no model\n"


def test_what_a_script_spawns_and_starts_with_its_own_environment_listens(folder: Path) -> None:
    with running(SPAWNS, folder) as (program, stop):
        ranks = set()
        for place in until(2):
            viewer = Viewer(place)
            session = viewer.until(lambda found: found.tree)
            assert session.tree.nodes[0].type == "Linear"
            assert session.hello.program.name == "train.py"
            ranks.add(session.hello.program.rank)
        assert ranks == {None, 1}
        stop.touch()
        assert program.stdout.read() == "0 0\n"
        assert program.wait(240) == 0
    assert not places()


def test_the_explorer_lists_the_processes_of_a_script_and_shows_one(
    start: Start, folder: Path
) -> None:
    script, stop = folder / "train.py", folder / "stop"
    script.write_text(FORKS, encoding="utf-8")
    environment = {"TUI_PROFILER_DIR": str(folder)}
    terminal = start("run", str(script), str(stop), environment=environment)
    terminal.wait_for("Sequential")
    terminal.send("R")
    terminal.wait_for("2 processes of the script with torch")
    terminal.send("j\r")
    shown = terminal.wait_for("● live")
    assert "Sequential" not in shown
    terminal.send("R")
    terminal.wait_for("2 processes of the script with torch")
    terminal.send("q")  # Asks, as in the explorer, with the script in it.
    terminal.wait_for("the script is running")
    terminal.wait_for("Sequential")
    terminal.send("\x1b")
    stop.touch()
    terminal.wait_for("script failed")
    terminal.send("q")
    assert terminal.wait_for_exit() == 5

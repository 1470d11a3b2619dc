"""``run``: other viewers of a script, and the processes that it starts."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.run.test_run import ENVIRONMENT
from tests.end_to_end.terminal import COMMAND
from tests.probe.watch.watched_program import sockets_folder
from tests.viewer import Viewer, wait_until
from tui_profiler.connection.rendezvous import Place, places

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

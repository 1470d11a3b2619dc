"""Nothing is imported or compiled in a program once ``watch`` has returned."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.terminal import COMMAND
from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.viewer import Viewer, place_of
from tui_profiler.messages import Pause, Step, Stop, TraceAgain
from tui_profiler.session import Session

LISTENS = """
unasked, hears = [], True
def hear(event, arguments):
    if hears and event in ("import", "compile", "exec"):
        unasked.append([event, threading.current_thread().name, str(arguments[0])[:80]])
"""
"""Audit events of all threads of the program; its own do nothing of the sort meanwhile."""
MODELS = """
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 16)
        self.convolution = nn.Conv1d(16, 16, 3, padding=1)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.recurrent = nn.LSTM(16, 16, batch_first=True)
    def forward(self, tokens):
        x = self.convolution(self.embedding(tokens).transpose(1, 2)).transpose(1, 2)
        return self.recurrent(self.encoder(x))[0].topk(2).values.sum().item()

net, x, other, tokens = Net(), torch.randn(3, 8), Other(), torch.arange(8)[None]
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def step():
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        other(tokens)
"""
WATCHED = (
    LISTENS
    + MODELS
    + """
step()
handles = [tui_profiler.watch(net, "net", grace_seconds=0.0), tui_profiler.watch(other, "other")]
before = set(sys.modules)
sys.addaudithook(hear)
say("ready")
done = threading.Event()
def wait_for_the_end():
    sys.stdin.readline()
    done.set()
waiting = threading.Thread(target=wait_for_the_end)
waiting.start()
while not done.is_set():
    step()
    time.sleep(0.002)
waiting.join()
hears = False
say(unasked, sorted(set(sys.modules) - before))
"""
)
SCRIPT = (
    """
import json, sys, threading, time
import torch
from torch import nn
torch.set_num_threads(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)
    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
"""
    + LISTENS
    + MODELS
    + """
optimizer.step()  # torch compiles an annotation in the first one.
before = set(sys.modules)
sys.addaudithook(hear)
end = time.monotonic() + 6
while time.monotonic() < end:
    step()
    time.sleep(0.002)
hears = False
with open(sys.argv[1], "w") as to:
    json.dump([unasked, sorted(set(sys.modules) - before)], to)
"""
)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made


def has_times(session: Session) -> bool:
    return session.timings is not None and session.timings.tick.forwards > 5


def test_nothing_is_imported_or_compiled_for_viewers_once_it_is_watched(folder: Path) -> None:
    with WatchedProgram(WATCHED, folder) as program:
        assert program.said() == ["ready"]
        with Viewer(place_of("net")) as first:
            first.until(lambda s: has_times(s) and s.sample is not None)
            for request in (TraceAgain(), Pause(), Step(), Stop()):
                first.ask(request)
            with Viewer(place_of("net")) as second, Viewer(place_of("other")) as of_other:
                second.until(has_times)
                of_other.until(has_times)
            first.ask(TraceAgain())
            heard = len(first.heard)
            first.until(lambda s: has_times(s) and len(first.heard) > heard + 8)
        rubbish = Viewer(place_of("net"), looks=False)
        rubbish.socket.sendall(b"\x00\x00\x00\x03abc")
        rubbish.until(lambda _: rubbish.is_hung_up_on)
        with Viewer(place_of("net")) as again:
            again.until(has_times)
        program.hears("end")
        assert program.said() == [[], []]


def test_nothing_is_imported_or_compiled_in_a_script_once_it_has_torch(tmp_path: Path) -> None:
    script, found, report = (tmp_path / name for name in ("script.py", "found", "report"))
    script.write_text(SCRIPT, encoding="utf-8")
    ran = subprocess.run(
        [*COMMAND, "run", "--format", "json", "--output", str(report), str(script), str(found)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0
    assert json.loads(report.read_text(encoding="utf-8"))["latency"]["p50_s"] > 0
    assert json.loads(found.read_text(encoding="utf-8")) == [[], []]

"""A real worker over a real socket: stages, tree, figures, requests, and every way to fail."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.worker import Conversation, spec
from tui_profiler.connection.wire import message_decoder
from tui_profiler.messages import (
    LoopState,
    Pause,
    Resume,
    SetBatch,
    StageDone,
    StageStarted,
    Step,
    Stop,
    Tick,
    TraceDone,
)
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.worker.worker import Worker
from tui_profiler.session import Session

ROOT = Path(__file__).parents[3]
SLOW_ENOUGH = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
"""


def is_live(session: Session) -> bool:
    return session.tick is not None and session.tick.forwards > 0


def has_failed(session: Session) -> bool:
    return session.failure is not None


def has_ended(session: Session) -> bool:
    return session.ended is not None


async def test_a_model_goes_live_pauses_steps_and_goes_on_with_another_batch_size() -> None:
    talk = Conversation(spec("demo:cnn"))
    first = await talk.until(is_live)
    stages = [m.stage for m in talk.heard if isinstance(m, StageDone)]
    assert stages[:4] == ["worker", "import torch", "load model", "trace"]
    assert stages[-1] == "first run"
    assert first.tree is not None
    assert first.timings is not None
    root = first.timings.of(0)
    assert root is not None
    assert root.per_forward > 0
    measured = [first.timings.per_forward(i) for i in first.tree.children(0)]
    assert 0 < sum(t for t in measured if t is not None) <= root.per_forward * 1.05

    await pauses_and_goes_on(talk)

    talk.source.send(SetBatch(3))
    second = await talk.until(lambda s: s.tree is not first.tree and is_live(s))
    assert second.tree is not None
    assert second.model is not None
    assert second.model.batch == 3
    assert second.tree.costs[0].macs == 3 * first.tree.costs[0].macs

    talk.source.send(Stop())
    session = await talk.until(has_ended)
    assert session.ended is not None
    assert session.ended.code == 0


async def pauses_and_goes_on(talk: Conversation) -> None:
    await talk.ask(Pause(), "paused")
    talk.source.send(Step())
    ticks = len([m for m in talk.heard if isinstance(m, Tick)])
    await talk.until(lambda _: len([m for m in talk.heard if isinstance(m, Tick)]) > ticks)
    held = talk.session.tick
    assert held is not None
    talk.source.send(Step())
    await talk.until(lambda s: s.tick is not None and s.tick.forwards == held.forwards + 1)
    await talk.ask(Resume(), "running")
    await talk.until(lambda s: s.tick is not None and s.tick.forwards > held.forwards + 3)


def test_a_stage_was_told_before_it_begins() -> None:
    ours, theirs = socket.socketpair()
    link = Link(ours, on_close=lambda: None)
    worker, decoder = Worker(link), message_decoder()
    theirs.setblocking(False)
    for _ in range(300):
        with worker.stage("load model"):
            heard = list(decoder.feed(theirs.recv(65536)))  # Raises where nothing came yet.
            assert isinstance(heard[-1], StageStarted)
    link.close()


async def test_so_many_forwards_as_asked_for_are_run(tmp_path: Path) -> None:
    # It counts its own forwards, and is slow enough for bare ones and operator windows.
    counting = SLOW_ENOUGH.replace(
        "        return self.second",
        "        if type(x) is torch.Tensor:\n"
        "            with open('count', 'ab') as file:\n"
        "                file.write(b'.')\n"
        "            end = time.perf_counter() + 0.04\n"
        "            while time.perf_counter() < end:\n"
        "                pass\n"
        "        return self.second",
    )
    (tmp_path / "net.py").write_text(
        f"import time\n{counting}".replace("'count'", repr(str(tmp_path / "count")))
    )
    talk = Conversation(spec("net.py:Net", tmp_path, forwards=40))
    session = await talk.until(lambda s: s.loop is not None and s.loop.state == "finished")
    assert session.tick is not None
    assert 0 < session.tick.forwards + session.tick.warmup_forwards < 40
    first_run = 1
    assert len((tmp_path / "count").read_bytes()) == 40 + first_run
    await talk.close()


async def test_torch_is_imported_without_the_collector(tmp_path: Path) -> None:
    told = 'import gc\nraise ImportError(f"the collector is on: {gc.isenabled()}")\n'
    (tmp_path / "torch.py").write_text(told)
    talk = Conversation(spec("demo:cnn"), environment={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    session = await talk.until(has_failed)
    assert session.failure is not None
    assert session.failure.what == "ImportError: the collector is on: False"
    await talk.close()


async def test_on_paper_only_nothing_is_run() -> None:
    talk = Conversation(spec("demo:cnn", run=False))
    session = await talk.until(lambda s: s.loop is not None and s.loop.state == "finished")
    assert session.tree is not None
    assert session.tick is None
    assert not any(isinstance(m, LoopState) and m.state == "running" for m in talk.heard)
    await talk.close()


async def test_a_factory_that_does_not_work_is_said(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def build(): raise ValueError('no such width')")
    talk = Conversation(spec("net.py:build", tmp_path))
    session = await talk.until(has_failed)
    assert session.failure is not None
    assert "no such width" in session.failure.what + session.failure.why + session.failure.likely
    await talk.close()


async def test_a_forward_that_raises_names_the_module_the_line_and_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Inner(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        raise ValueError('bad luck')\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = torch.nn.Linear(4, 4)\n"
        "        self.inner = Inner()\n"
        "    def forward(self, x):\n"
        "        return self.inner(self.fc(x))\n"
    )
    talk = Conversation(spec("net.py:Net", tmp_path))
    session = await talk.until(has_failed)
    assert session.failure is not None
    assert "bad luck" in session.failure.what
    assert session.failure.where == "inner"
    assert session.failure.at.endswith("net.py:4")
    assert any("--input" in remedy.command for remedy in session.failure.remedies)
    await talk.close()


async def test_a_model_that_prints_megabytes_is_still_live(tmp_path: Path) -> None:
    printing = SLOW_ENOUGH.replace(
        "        return self.second", "        print('x' * 100_000)\n        return self.second"
    )
    (tmp_path / "net.py").write_text(printing)
    talk = Conversation(spec("net.py:Net", tmp_path))
    session = await talk.until(lambda s: is_live(s) and s.log.dropped_bytes > 0)
    assert session.log.lines or session.log.partial
    await talk.close()


async def test_a_model_that_kills_its_process_is_told_apart(tmp_path: Path) -> None:
    # Other deaths: tests/source/test_spawned.py.
    death = "import os; os.kill(os.getpid(), 9)"
    (tmp_path / "net.py").write_text(
        SLOW_ENOUGH.replace(
            "        return self.second", f"        {death}\n        return self.second"
        )
    )
    talk = Conversation(spec("net.py:Net", tmp_path))
    session = await talk.until(has_ended)
    assert session.ended is not None
    assert session.ended.code == -signal.SIGKILL
    assert not session.ended.expected


async def test_a_model_that_wants_too_much_memory_says_how_much(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        SLOW_ENOUGH.replace(
            "        return self.second",
            "        self.big = torch.empty(1 << 50) if type(x) is torch.Tensor else x\n"
            "        return self.second",
        )
    )
    talk = Conversation(spec("net.py:Net", tmp_path))
    session = await talk.until(has_failed)
    assert session.failure is not None
    assert "GiB" in session.failure.what
    await talk.close()


async def test_a_forward_that_never_returns_still_has_a_heartbeat(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        SLOW_ENOUGH.replace(
            "        return self.second",
            "        if type(x) is torch.Tensor:\n"
            "            while True: pass\n"
            "        return self.second",
        )
    )
    talk = Conversation(spec("net.py:Net", tmp_path))
    session = await talk.until(lambda s: s.forward_seconds > 1.0)
    assert session.tree is not None
    assert any(isinstance(m, TraceDone) for m in talk.heard)
    await talk.close()

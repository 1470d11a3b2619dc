"""What is recorded of a real worker is, opened again, the session that was live."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.recorded_source import Recorded
from tests.recording.files import HEADER, plain, timed
from tests.small_model import MEASURED, TRACED
from tests.worker import spec
from tui_profiler.messages import Ended, Failed, LoopState, Message, Start, TrainSpec
from tui_profiler.queries.training.values import first_nan, nan_words
from tui_profiler.recording.reader import open_recording
from tui_profiler.recording.writer import Writer, create
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session
from tui_profiler.source.recorded import last_session
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.record import STOPPED, record


async def recorded(
    path: Path, messages: tuple[Message, ...], *, is_stopped: bool = False, ends: bool = False
) -> tuple[Session, str, list[str]]:
    """Record what a probe says and return the session, why it ended, and its progress."""
    writer = Writer(create(str(path)), HEADER)
    stop, lines = asyncio.Event(), list[str]()
    if is_stopped:
        asyncio.get_running_loop().call_later(0.05, stop.set)
    source = Recorded(messages, ends=ends)
    session, why = await record(source, writer, stop, now=lambda: 1.0, progress=lines.append)
    writer.close(why, 1.0)
    return session, why, lines


def assert_same(found: Session, wanted: Session) -> None:
    for name in wanted.__struct_fields__:
        if name != "hello":  # A recording accepts other requests.
            assert repr(plain(getattr(found, name))) == repr(plain(getattr(wanted, name))), name


async def test_a_real_worker_recorded_is_the_live_session(tmp_path: Path) -> None:
    writer = Writer(create(str(tmp_path / "a.rec")), HEADER)
    source = Spawned(worker_command(), first=[Start(spec("demo:cnn", forwards=200))])
    live, why = await record(
        source, writer, asyncio.Event(), now=lambda: 0.0, progress=lambda line: None
    )
    writer.close(why, 0.0)
    found, said = last_session(tmp_path / "a.rec")
    assert why == "200 forwards were requested"
    assert live.tree is not None
    assert live.timings is not None
    assert_same(found, live)
    assert len(said) == 1  # Where it comes from, and no damage.


async def test_every_message_is_kept_until_enough_was_run(tmp_path: Path) -> None:
    session, why, lines = await recorded(tmp_path / "a.rec", (*MEASURED, *MEASURED))
    assert why == "3 s were requested"
    assert session.tree is not None
    assert any(line.startswith("import torch: ") for line in lines)
    recording = open_recording(tmp_path / "a.rec")
    assert len(recording.entries) == len(MEASURED) + 2


async def test_a_stop_ends_it_with_what_was_there(tmp_path: Path) -> None:
    running = (*TRACED, LoopState("running", 5.0, 1))
    session, why, _ = await recorded(tmp_path / "a.rec", running, is_stopped=True)
    found, _ = last_session(tmp_path / "a.rec")
    assert why == STOPPED
    assert_same(found, session)


@pytest.mark.parametrize(
    ("last", "said"),
    [(Failed("first run", "no"), "first run failed"), (Ended(-9, False), "the worker ended")],
)
async def test_a_failure_is_recorded_too(tmp_path: Path, last: Message, said: str) -> None:
    session, why, _ = await recorded(tmp_path / "a.rec", (*TRACED, last))
    found, _ = last_session(tmp_path / "a.rec")
    assert why == said
    assert_same(found, session)


async def test_a_write_that_fails_ends_it_and_closes_the_source(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    writer = Writer(theirs, HEADER)
    source = Recorded([message for message, _ in timed(MEASURED)])
    _, why = await record(
        source, writer, asyncio.Event(), now=lambda: 0.0, progress=lambda line: None
    )
    writer.close(why, 0.0)
    assert why == "Broken pipe"
    assert (writer.frames, source.left > 0) == (0, True)


NAN = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, is_wrong):
        super().__init__()
        self.linear, self.is_wrong = nn.Linear(8, 8), is_wrong
    def forward(self, x):
        x = self.linear(x)
        return (x - x) / (x - x) if self.is_wrong else x

def build():
    return nn.Sequential(Block(False), Block(True), Block(False))
"""


async def test_the_first_nan_of_a_training_worker_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NAN)
    writer = Writer(create(str(tmp_path / "a.rec")), HEADER)
    wanted = spec("net.py:build", tmp_path, inputs=("4,8",), train=TrainSpec(), seconds=2.0)
    source = Spawned(worker_command(), first=[Start(wanted)])
    live, why = await record(
        source, writer, asyncio.Event(), now=lambda: 0.0, progress=lambda line: None
    )
    writer.close(why, 0.0)
    session, _ = last_session(tmp_path / "a.rec")
    assert why == "2 s were requested"
    found = first_nan(session)
    assert found is not None
    assert session.tree is not None
    assert (session.tree.nodes[found.node].path, found.kind) == ("1", "activation")
    assert found.share == 1.0
    assert nan_words(session) == nan_words(live)
    text = "\n".join(table(live, columns=160))
    assert f"NaN first seen at step {found.step} in the output of 1, 100 % of it" in text

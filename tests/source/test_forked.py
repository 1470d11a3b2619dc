"""Workers forked from one process: what they say, how they end, and what a fork is refused for."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import psutil
import pytest

from tui_profiler.messages import Ended, Hello, LoadSpec, Message, Start, Stop
from tui_profiler.source.forked import Forked, Template, TemplateError

Said: TypeAlias = tuple[list[Message], Ended]


async def all_of(source: Forked, at_hello: Callable[[int], None] = lambda pid: None) -> Said:
    """Return what a worker says to its end; ``at_hello`` gets its number when it has begun."""
    said: list[Message] = []
    async with asyncio.timeout(30):
        async for message in source.messages():
            said.append(message)
            if isinstance(message, Hello):
                at_hello(message.pid)
    ended = said[-1]
    assert isinstance(ended, Ended)
    return said, ended


async def test_a_forked_worker_speaks_hears_and_ends_as_one_that_is_started() -> None:
    with Template(()) as template:
        template.wait()
        said, ended = await all_of(Forked(template, [Stop()]))
    pids = [one.pid for one in said if isinstance(one, Hello)]
    assert (ended.code, ended.expected, [ended.pid]) == (0, False, pids)


async def test_one_that_is_killed_says_so_and_others_live_and_the_next_is_forked() -> None:
    with Template(()) as template:
        template.wait()
        waiting = Forked(template)
        broken = Forked(template, [Start(LoadSpec("./missing.pt"))])
        _, ended = await all_of(broken, lambda pid: os.kill(pid, signal.SIGSEGV))
        assert (ended.code, ended.expected) == (-signal.SIGSEGV, False)
        assert ended.last_line  # The stack, which faulthandler prints.
        _, ended = await all_of(Forked(template, [Stop()]))
        assert ended.code == 0
        assert psutil.Process(waiting.pid).is_running()
        await waiting.close()
        assert not psutil.pid_exists(waiting.pid)


async def test_leaving_the_template_ends_all_that_it_forked() -> None:
    with Template(()) as template:
        template.wait()
        child = Forked(template)
        assert psutil.Process(child.pid).is_running()
    _, ended = await all_of(child)
    assert ended.code == -signal.SIGKILL
    with pytest.raises(TemplateError, match="has ended"):
        Forked(template)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "import threading as t\nt.Thread(target=t.Event().wait, daemon=True).start()",
            "what was imported started 1 threads",
        ),
        ("raise ImportError", "the import ended the process"),
    ],
)
def test_what_cannot_be_forked_safely_is_not(
    source: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Template(["imported"]) as template, pytest.raises(TemplateError, match=why):
        template.wait()

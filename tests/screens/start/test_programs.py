"""Which running programs are attached to, and which are only listed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from screens.cli.mcp.tools import NoAnswerError, Tools
from screens.start.programs import choose_listening
from tests.probe.watch.watched_program import sockets_folder
from tui_profiler.connection.sockets import Place, is_in_own_directory
from tui_profiler.source.attached import AttachError


@pytest.fixture
def unprepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    with sockets_folder() as folder:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(folder))
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            yield program
            assert program.stdin is not None
            program.stdin.close()


def state(pid: int) -> tuple[set[str], int]:
    """Return the files that a process has mapped, and how many threads it has."""
    folder = Path(f"/proc/{pid}")
    mapped = {line.split()[-1] for line in (folder / "maps").read_text().splitlines()}
    return mapped, len(list((folder / "task").iterdir()))


async def test_an_agent_starts_no_listener_in_a_program(
    unprepared: subprocess.Popen[bytes],
) -> None:
    before = state(unprepared.pid)

    for pid in (unprepared.pid, 1):
        with pytest.raises(NoAnswerError, match=f"process {pid} is not watched"):
            await Tools().summary(f"program:{pid}")

    assert state(unprepared.pid) == before


def test_the_remedy_is_the_command_that_starts_one(unprepared: subprocess.Popen[bytes]) -> None:
    with pytest.raises(AttachError) as caught:
        choose_listening(str(unprepared.pid))
    assert caught.value.instead == f"tui-profiler attach {unprepared.pid}"


def test_a_socket_in_another_directory_than_this_shells_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TUI_PROFILER_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def at(folder: Path) -> Place:
        return Place(folder / "7-0-net.sock", 7, 0, "net")

    assert is_in_own_directory(at(tmp_path / "tui-profiler"))
    assert not is_in_own_directory(at(Path("/tmp/tui-profiler-0")))

    monkeypatch.setenv("TUI_PROFILER_DIR", str(tmp_path / "here"))
    assert is_in_own_directory(at(tmp_path / "here"))

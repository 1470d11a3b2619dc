"""``run --serving``: the server is beside other processes and ranks of the script too."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.app.run_app import RunApp
from screens.explorer.screen import ExplorerScreen
from screens.start.processes import ProcessesScreen
from screens.views.ranks.screen import RanksScreen
from tests.probe.watch.watched_program import sockets_folder
from tests.screens.screen_text import screen_text
from tests.screens.views.test_ranks import until
from tests.serving.answers import answer, say, serving
from tui_profiler.connection.wire import encode
from tui_profiler.messages import WIRE_VERSION, Hello, LoadSpec, Program, ServingFigures
from tui_profiler.serving.address import address
from tui_profiler.source.script import Script
from tui_profiler.source.serving import WithServing

SCRIPT = """
import subprocess, sys
children = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(2)]  # End with it.
print(*[one.pid for one in children], file=open(sys.argv[1], "w"), flush=True)
children[0].wait()
"""
ALONE = Program("odd", 1, "x", 0.0, 0.0)


@contextlib.contextmanager
def listening(path: Path, program: Program) -> Iterator[None]:
    """Answer everyone meanwhile, as a program of that process would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        kept: list[socket.socket] = []

        def answers() -> None:
            with contextlib.suppress(OSError):  # It is closed.
                while True:
                    connected, _ = listener.accept()
                    kept.append(connected)
                    connected.sendall(encode(Hello(WIRE_VERSION, 1, (), "", program)))

        threading.Thread(target=answers, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        for one in kept:
            one.close()


@pytest.mark.parametrize("are_ranks", [False, True])
async def test_a_server_is_beside_other_processes_and_ranks_of_a_script(
    are_ranks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = ["vllm-0.32"]

    def answers(handler: BaseHTTPRequestHandler) -> None:
        say(handler, answer(release[0], 1))

    file, pids = tmp_path / "script.py", tmp_path / "pids"
    file.write_text(SCRIPT)
    started_at = time.time()
    with contextlib.ExitStack() as stack:
        # ``run`` blocks the signals that it forwards to the script; restore the mask afterwards.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, mask)
        folder = stack.enter_context(sockets_folder())
        monkeypatch.setenv("TUI_PROFILER_DIR", str(folder))
        url = stack.enter_context(serving(answers))
        script = Script([str(file), str(pids)], started_at=started_at, budget=0.05)
        source = WithServing(script, address(url), seconds=0.05)
        app = RunApp(source, LoadSpec("script.py", started_at=started_at), script)

        def server() -> ServingFigures | None:
            seen = app.session.serving
            return None if seen is None else seen.figures

        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: server() and pids.exists() and pids.read_text())
            for rank, pid in enumerate(map(int, pids.read_text().split())):
                one = replace(ALONE, rank=rank, ranks=2, run="r") if are_ranks else ALONE
                path = folder / f"{pid}-0-odd.sock"
                stack.enter_context(listening(path, replace(one, pid=pid)))
            await pilot.press("R")
            await open_first(pilot)
            if are_ranks:
                await until(pilot, lambda: isinstance(app.screen, RanksScreen))
                await until(pilot, lambda: app.group.ranks)
                await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, ExplorerScreen))
            assert server() is not None  # At once.
            release[0] = "tgi-3"
            await until(pilot, lambda: getattr(server(), "server", "") == "TGI")
            assert app.session.hello is not None
            assert app.session.hello.program is not None
            assert app.session.hello.program.name == "odd"


async def open_first(pilot: Pilot[int]) -> None:
    """Open the first process of the list."""
    screen = pilot.app.screen
    await until(pilot, lambda: "odd" in screen_text(pilot.app))
    assert isinstance(screen, ProcessesScreen)
    await pilot.press("enter")

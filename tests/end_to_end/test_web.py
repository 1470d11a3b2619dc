"""``--web``: the real server, asked by a real client; and by a real browser where there is one."""

from __future__ import annotations

import asyncio
import base64
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pyte
import pytest

from tests.end_to_end.terminal import COMMAND
from tests.recording.files import fixture, write

pytest.importorskip("textual_serve", reason="the extra [web] is not installed")
import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from screens.web import Door, Pages

DOOR = Door(8000, "secret")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")


class Served:
    """``tui-profiler explore ... --web``, and the address that it printed."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "explore", *arguments, "--web"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        said = ""
        while "http" not in said or not said.endswith("\n"):
            line = self.process.stderr.readline().decode()
            assert line, f"it ended: {said}"
            said += line
        found = re.search(r"http://127\.0\.0\.1:(\d+)/([\w-]+)/", said)
        assert found is not None, said
        self.address, self.port, self.token = found[0], int(found[1]), found[2]

    def programs(self) -> list[psutil.Process]:
        """All that it started, and what that started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(15)

    def close(self) -> None:
        left = self.programs() if self.process.poll() is None else []
        self.process.kill()
        self.process.wait()
        for process in left:
            if process.is_running():
                process.kill()


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[Served] = []

    def begin(*arguments: str) -> Served:
        started.append(Served(*arguments))
        return started[-1]

    yield begin
    for served in started:
        served.close()


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(write(tmp_path / "resnet50.rec", fixture()))


def wait_until(holds: Callable[[], object], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        select.select([], [], [], 0.02)


@pytest.mark.parametrize(
    ("path", "host", "origin", "is_let_in"),
    [
        ("/secret/", "127.0.0.1:8000", "", True),
        ("/secret/ws", "localhost:8000", "http://127.0.0.1:8000", True),
        ("/secret/static/js/textual.js", "127.0.0.1:8000", "http://localhost:8000", True),
        ("/", "127.0.0.1:8000", "", False),
        ("", "127.0.0.1:8000", "", False),
        ("/secre/", "127.0.0.1:8000", "", False),
        ("/secrets/", "127.0.0.1:8000", "", False),
        ("/x/secret/", "127.0.0.1:8000", "", False),
        ("/sécret/", "127.0.0.1:8000", "", False),
        ("/ws", "127.0.0.1:8000", "", False),
        ("/secret/", "evil.example:8000", "", False),
        ("/secret/", "127.0.0.1", "", False),
        ("/secret/", "", "", False),
        ("/secret/ws", "127.0.0.1:8000", "http://evil.example", False),
        ("/secret/ws", "127.0.0.1:8000", "http://127.0.0.1:9000", False),
        ("/secret/ws", "127.0.0.1:8000", "null", False),
    ],
)
def test_who_is_let_in(path: str, host: str, origin: str, is_let_in: bool) -> None:
    assert (DOOR.refusal(path, host, origin) == "") == is_let_in


async def status(
    session: aiohttp.ClientSession, address: str, headers: dict[str, str] | None = None
) -> int:
    async with session.get(address, headers=headers) as response:
        return response.status


async def test_only_the_whole_address_is_answered(serve: Serve, recording: str) -> None:
    served = serve(recording)
    base = f"http://127.0.0.1:{served.port}"
    async with aiohttp.ClientSession() as session:
        async with session.get(served.address) as response:
            page = await response.text()
            assert response.status == 200
            assert "resnet50.rec" in page
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["X-Frame-Options"] == "DENY"
        assert await status(session, f"{base}/{served.token}/static/js/textual.js") == 200
        for refused in ("/", "/ws", "/static/js/textual.js", f"/{served.token[:-1]}/", "/x/"):
            assert await status(session, base + refused) == 403
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert await status(session, served.address, headers) == 403
        for refused, origin in (
            (f"{base}/ws", None),
            (f"{base}/wrong/ws", None),
            (f"{served.address}ws", "http://evil.example"),
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(refused, origin=origin)
            assert caught.value.status == 403
    assert served.programs() == []
    assert served.end() == 0


async def test_it_listens_on_the_loopback_interface_alone(serve: Serve, recording: str) -> None:
    served = serve(recording)
    listening = psutil.Process(served.process.pid).net_connections("inet")
    assert {one.laddr.ip for one in listening} == {"127.0.0.1"}


@asynccontextmanager
async def page(served: Served) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Open the websocket of a page, as the browser does."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{served.address}ws?width=100&height=30") as websocket,
    ):
        yield websocket


async def until(websocket: aiohttp.ClientWebSocketResponse, wanted: str) -> str:
    """Read frames until a screen of that size shows a text."""
    screen = pyte.Screen(100, 30)
    stream = pyte.ByteStream(screen)
    async with asyncio.timeout(240):
        while wanted not in (shown := "\n".join(screen.display)):
            message = await websocket.receive()
            assert message.type is aiohttp.WSMsgType.BINARY, f"{message}\n{shown}"
            stream.feed(message.data)
    return shown


async def test_a_page_shows_the_explorer_and_takes_keys(serve: Serve, recording: str) -> None:
    served = serve(recording)
    async with page(served) as websocket:
        shown = await until(websocket, "layer1")
        assert "resnet50" in shown
        assert len(served.programs()) == 1
        await websocket.send_json(["stdin", "?"])
        await until(websocket, "type to search")
    wait_until(lambda: not served.programs())


async def test_a_page_that_is_left_is_closed(serve: Serve, recording: str) -> None:
    served = serve(recording)
    async with page(served) as websocket:
        await until(websocket, "layer1")
        await websocket.send_json(["stdin", "q"])
        async with asyncio.timeout(240):
            while (await websocket.receive()).type is aiohttp.WSMsgType.BINARY:
                pass
    wait_until(lambda: not served.programs())


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_ends_every_page_and_its_worker(
    serve: Serve, number: signal.Signals, code: int
) -> None:
    served = serve("demo:cnn")
    async with page(served) as websocket:
        await until(websocket, "demo:cnn")
        programs = served.programs()
        assert any("tui_profiler.probe" in " ".join(one.cmdline()) for one in programs)
        assert await asyncio.to_thread(served.end, number) == code
    assert not psutil.wait_procs(programs, timeout=240)[1]


async def test_a_server_that_is_killed_takes_all_with_it(serve: Serve) -> None:
    served = serve("demo:cnn")
    async with page(served) as websocket:
        await until(websocket, "demo:cnn")
        programs = served.programs()
        served.process.kill()
        assert not psutil.wait_procs(programs, timeout=240)[1]


async def test_there_is_a_most_of_pages() -> None:
    async def opened(request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        await websocket.receive()
        return websocket

    door = Door(unused_port(), "secret")
    pages = Pages(door, most=1)
    application = web.Application()
    pages.guard(application)
    application.router.add_get("/secret/ws", opened)
    async with TestServer(application, port=door.port), aiohttp.ClientSession() as session:
        address = f"{door.address}ws"
        async with session.ws_connect(address):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(address)
            assert caught.value.status == 503
        async with session.ws_connect(address):
            pass


async def test_a_hostile_name_is_text_in_the_page(serve: Serve, tmp_path: Path) -> None:
    file = write(tmp_path / "<script>alert(1)\x1b]0;x\x07.rec", fixture())
    served = serve(str(file))
    async with aiohttp.ClientSession() as session, session.get(served.address) as response:
        text = await response.text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "\x1b" not in text


def test_without_the_library_it_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['textual_serve'] = sys.modules['aiohttp'] = None;"
        "from screens.cli import main; sys.exit(main(['demo:cnn', '--web']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'pip install "tui-profiler[web]"' in " ".join(done.stderr.split())


class Browser:
    """A headless Chromium, steered through its own protocol."""

    def __init__(self, program: str, profile: Path) -> None:
        self.process = subprocess.Popen(
            [
                program,
                *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
                *(f"--user-data-dir={profile}", "--window-size=1200,800", "about:blank"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._port_file = profile / "DevToolsActivePort"
        self._number = 0
        wait_until(lambda: self._port_file.exists() and "\n" in self._port_file.read_text(), 60)

    async def pages(self, session: aiohttp.ClientSession) -> list[dict[str, Any]]:
        port = self._port_file.read_text().split("\n")[0]
        async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
            found: list[dict[str, Any]] = await response.json()
            return found

    async def ask(
        self, websocket: aiohttp.ClientWebSocketResponse, method: str, **parameters: object
    ) -> list[dict[str, Any]]:
        """Send a command; gives the events that came before its answer, and the answer last."""
        self._number += 1
        await websocket.send_json({"id": self._number, "method": method, "params": parameters})
        heard: list[dict[str, Any]] = []
        while not heard or heard[-1].get("id") != self._number:
            heard.append(await websocket.receive_json(timeout=240))
        return heard

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    one = Browser(program, tmp_path / "profile")
    yield one
    one.close()


async def test_a_browser_shows_the_explorer(
    serve: Serve, recording: str, browser: Browser, tmp_path: Path
) -> None:
    served = serve(recording)
    screen = pyte.Screen(300, 100)
    stream = pyte.ByteStream(screen)

    def feed(events: list[dict[str, Any]]) -> None:
        for event in events:
            if event.get("method") == "Network.webSocketFrameReceived":
                frame = event["params"]["response"]
                if frame["opcode"] == 2:
                    stream.feed(base64.b64decode(frame["payloadData"]))

    async with aiohttp.ClientSession() as session:
        target = (await browser.pages(session))[0]["webSocketDebuggerUrl"]
        async with session.ws_connect(target, max_msg_size=0) as tools:
            await browser.ask(tools, "Network.enable")
            feed(await browser.ask(tools, "Page.navigate", url=served.address))
            async with asyncio.timeout(240):
                while "layer1" not in "\n".join(screen.display):
                    feed(await browser.ask(tools, "Runtime.evaluate", expression="1"))
                    await asyncio.sleep(0.05)
            answer = (await browser.ask(tools, "Page.captureScreenshot"))[-1]
    picture = base64.b64decode(answer["result"]["data"])
    (tmp_path / "page.png").write_bytes(picture)
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000  # An empty page of this size has a tenth of it.

"""``--web``: the real server, asked by a real client; and by a real browser where there is one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import platformdirs
import psutil
import pyte
import pytest

from tests.end_to_end.terminal import COMMAND
from tests.recording.files import fixture, write

pytest.importorskip("textual_serve", reason="the extra [web] is not installed")
import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from screens.web.server import MOST_PAGES, MOST_SILENT, AccessRules, Pages

DOOR = AccessRules(8000, "secret")
_T = TypeVar("_T")
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
        while "ctrl+C ends all" not in said:
            said += self.process.stderr.readline().decode()
        self.address, self.port, self.token = found[0], int(found[1]), found[2]

    def programs(self) -> list[psutil.Process]:
        """All that it started, and what that started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(15)

    def said(self) -> str:
        """All that it wrote since it told its address; once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

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
        ("/secret/static/textual.js", "127.0.0.1:8000", "http://localhost:8000", True),
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
    assert len(served.token) >= 43, "of 32 random bytes"
    base = f"http://127.0.0.1:{served.port}"
    async with aiohttp.ClientSession() as session:
        async with session.get(served.address) as response:
            page = await response.text()
            assert response.status == 200
            assert "resnet50.rec" in page
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["X-Frame-Options"] == "DENY"
        assert await status(session, f"{base}/{served.token}/static/textual.js") == 200
        for refused in ("/", "/ws", "/static/textual.js", f"/{served.token[:-1]}/", "/x/"):
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


LOADED = re.compile(r"""(?:src|href)\s*=\s*["']([^"']*)|url\(\s*["']?([^"')]*)|@import\s+([^;]*)""")
"""What a page or a style sheet makes a browser load."""


async def test_the_page_loads_nothing_from_another_host(serve: Serve, recording: str) -> None:
    served = serve(recording)
    found: list[str] = []
    async with aiohttp.ClientSession() as session:
        async with session.get(served.address) as response:
            text = await response.text()
            policy = response.headers["Content-Security-Policy"]
        found = ["".join(one) for one in LOADED.findall(text)]
        for address in filter(None, set(found)):
            if address.startswith("data:"):
                continue
            async with session.get(served.address + address) as response:
                assert response.status == 200, address
                loaded = await response.read()
                assert len(loaded) > 1000
                if address.endswith(".css"):
                    assert LOADED.findall(loaded.decode()) == []
    assert {"static/textual.js", "static/xterm.css"} < set(found)
    assert not [one for one in found if "//" in one]
    assert "default-src 'none'" in policy
    sources = set(re.findall(r"[a-z]+://[^ ;]+", policy))
    assert sources == {f"ws://127.0.0.1:{served.port}"}
    assert "*" not in policy


async def test_it_listens_on_the_loopback_interface_alone(serve: Serve, recording: str) -> None:
    served, other = serve(recording), serve(recording)
    assert served.token != other.token
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
    log = Path(platformdirs.user_log_dir("tui-profiler", appauthor=False))
    assert await asyncio.to_thread(lambda: list(log.glob("crash-*"))) == []  # No fault of theirs.


async def test_there_is_a_most_of_pages() -> None:
    async def opened(request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        await websocket.receive()
        return websocket

    door = AccessRules(unused_port(), "secret")
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


BAD_FRAMES = (
    "",
    "{",
    "null",
    "[]",
    "0",
    '"stdin"',
    '["stdin"]',
    '["stdin", 1]',
    '["stdin", ["a"]]',
    '["resize"]',
    '["resize", 3]',
    '["resize", {}]',
    '["resize", {"width": "a", "height": 1}]',
    '["resize", {"width": 1.5, "height": 1e999}]',
    '["ping"]',
    '["ping", {"a": [1]}]',
    '[["stdin"]]',
    '["eval", "x"]',
    "[" * 100_000,
    '["stdin", ' + "9" * 5000 + "]",
    "\ud83d",
)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = write(tmp_path_factory.mktemp("attacked") / "resnet50.rec", fixture())
    served = Served(str(file))
    yield served
    served.close()


def raw_requests(served: Served, *, seed: int, changed: int) -> list[bytes]:
    """Requests that are not what a browser sends: by hand, then cut and changed by chance."""
    base = f"/{served.token}"
    host = f"Host: 127.0.0.1:{served.port}\r\n".encode()
    good = f"GET {base}/ HTTP/1.1\r\n".encode() + host + b"\r\n"
    upgrade = (
        f"GET {base}/ws HTTP/1.1\r\n".encode()
        + host
        + b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    )
    made = [
        b"\r\n" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"G\xffT / HTTP/1.1\r\n\r\n",
        b"GET /\xff\xfe/ HTTP/1.1\r\n" + host + b"\r\n",
        b"GET http://[::1/ HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /%00%ff%zz HTTP/1.1\r\n" + host + b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
        good[:-2] + b"A: " + b"a" * 100_000 + b"\r\n\r\n",
        good[:-2] + b"".join(b"A%d: b\r\n" % i for i in range(20_000)) + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        good[:-2] + b"Origin: \xff\xfe\r\n\r\n",
        good[:-2] + b"Content-Length: -1\r\n\r\n",
        good[:-2] + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        good[:-2] + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        good[:-2] + b"Expect: 200-maybe\r\n\r\n",
        upgrade + b"\r\n",
        upgrade + b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
        upgrade + b"Sec-WebSocket-Key: \xff\r\nSec-WebSocket-Version: 99\r\n\r\n",
        *(
            f"{method} {base}/ HTTP/1.1\r\n".encode() + host + b"\r\n"
            for method in ("POST", "PUT", "DELETE", "TRACE", "CONNECT", "OPTIONS", "PROPFIND")
        ),
        *(
            f"GET {base}/static/{name} HTTP/1.1\r\n".encode() + host + b"\r\n"
            for name in ("", "..", "%2e%2e/server.py", "..%2f..%2fetc", "%00", "a" * 3000, "js")
        ),
    ]
    chance = random.Random(seed)
    for _ in range(changed):
        data = bytearray(chance.choice((good, upgrade + b"\r\n")))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = chance.randrange(1, len(data)) if chance.random() < 0.2 else len(data)
        made.append(bytes(data[:cut]))
    return made


def answer_to(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=240) as connection:
        try:
            # A request that is whole and the last, for a server that waits for more of the first.
            last = b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            connection.sendall(data + last)
            found = bytearray()
            while piece := connection.recv(1 << 16):
                found += piece
        except ConnectionError:  # It hung up before it had read all.
            return b""
        return bytes(found)


async def test_bad_requests_get_a_short_answer_and_no_traceback(attacked: Served) -> None:
    async with page(attacked) as proper:
        await until(proper, "layer1")
        for data, answer in await beside(proper, answered, attacked, 12, 60):
            assert is_short(answer), (data[:200], answer[:500])
        await proper.send_json(["stdin", "?"])
        await until(proper, "type to search")
    wait_until(lambda: not attacked.programs())


def answered(served: Served, seed: int, changed: int) -> list[tuple[bytes, bytes]]:
    requests = raw_requests(served, seed=seed, changed=changed)
    return [(data, answer_to(served.port, data)) for data in requests]


async def beside(
    websocket: aiohttp.ClientWebSocketResponse, work: Callable[..., _T], *arguments: object
) -> _T:
    """Do blocking work while a page is read: one that answers no ping is closed."""

    async def read() -> None:
        while not websocket.closed:
            await websocket.receive()

    reading = asyncio.create_task(read())
    try:
        return await asyncio.to_thread(work, *arguments)
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


def is_short(answer: bytes) -> bool:
    """Whether it is nothing, the page, or a client error without a traceback."""
    status = answer.split(b" ", 2)[1:2]
    return not answer or (
        (status == [b"200"] or (status[0][:1] in b"14" and len(answer) < 9000))
        and b"Traceback" not in answer
        and b'File "' not in answer
    )


async def opened(session: aiohttp.ClientSession, address: str) -> aiohttp.ClientWebSocketResponse:
    """Open a page as soon as there is room: the server may be closing earlier ones."""
    async with asyncio.timeout(240):
        while True:
            try:
                return await session.ws_connect(address)
            except aiohttp.WSServerHandshakeError as error:
                if error.status != 503:
                    raise
            await asyncio.sleep(0.02)


async def close_code_after(served: Served, frame: str | bytes) -> int | None:
    address = f"{served.address}ws?width=-1&height=x"
    async with aiohttp.ClientSession() as session, await opened(session, address) as bad:
        try:
            if isinstance(frame, bytes):
                await bad.send_bytes(frame)
            else:
                data = frame.encode("utf-8", "surrogatepass")
                await bad.send_frame(data, aiohttp.WSMsgType.TEXT)
        except ConnectionError:
            return 1009  # Closed before it was read whole: it is longer than is read.
        async with asyncio.timeout(240):
            while not bad.closed:
                await bad.receive()
        return bad.close_code


async def test_bad_frames_end_their_own_page_only(attacked: Served) -> None:
    frames = (*BAD_FRAMES, b"", b"\xff" * 100, b"\x00" * (5 << 20))
    async with page(attacked) as proper:
        await until(proper, "layer1")
        for first in range(0, len(frames), MOST_PAGES - 1):
            some = frames[first : first + MOST_PAGES - 1]
            codes = await asyncio.gather(*(close_code_after(attacked, one) for one in some))
            for frame, code in zip(some, codes, strict=True):
                assert code in (1002, 1007, 1008, 1009), (frame[:100], code)
            await asyncio.to_thread(wait_until, lambda: len(attacked.programs()) == 1)
        await proper.send_json(["stdin", "?"])
        await until(proper, "type to search")


async def test_an_absurd_size_is_set_to_one_that_a_page_can_have(attacked: Served) -> None:
    address = f"{attacked.address}ws?width=999999999&height=-5"
    async with aiohttp.ClientSession() as session, session.ws_connect(address) as one:
        for width, height in ((10**9, 10**9), (-1, 0), (10**400, 1), (100, 30)):
            await one.send_json(["resize", {"width": width, "height": height}])
        await one.send_json(["resize", {"width": None, "height": None}])
        await until(one, "layer1")
        program = attacked.programs()[0]
        assert program.memory_info().rss < 300e6
    wait_until(lambda: not attacked.programs())


async def test_silent_connections_keep_no_one_out(attacked: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", attacked.port)) for _ in range(MOST_SILENT)]
    try:
        silent[0].sendall(b"GET / HTTP/1.1\r\nHost:")
        async with page(attacked) as websocket:
            await until(websocket, "layer1")
        extra = [socket.create_connection(("127.0.0.1", attacked.port)) for _ in range(8)]
        silent += extra
        silent[0].settimeout(240)
        with contextlib.suppress(ConnectionResetError):  # The oldest is hung up.
            assert await asyncio.to_thread(silent[0].recv, 1) == b""
    finally:
        for one in silent:
            one.close()


def test_silent_connections_accepted_together_are_ended(attacked: Served) -> None:
    """While the server paused the kernel collects them; then it accepts all at once."""
    attacked.process.send_signal(signal.SIGSTOP)
    silent = [socket.create_connection(("127.0.0.1", attacked.port)) for _ in range(80)]
    attacked.process.send_signal(signal.SIGCONT)
    try:
        for one in silent:
            one.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
    finally:
        for one in silent:
            one.close()


def test_nothing_of_all_that_is_a_traceback_in_the_servers_output(attacked: Served) -> None:
    wait_until(lambda: not attacked.programs())
    assert attacked.end() == 0
    assert attacked.said() == ""


def test_without_the_library_it_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['textual_serve'] = sys.modules['aiohttp'] = None;"
        "from screens.cli.main import main; sys.exit(main(['demo:cnn', '--web']))"
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
        """Send a command and return the events that came before its answer, and the answer last."""
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
        note(events)
        for event in events:
            if event.get("method") == "Network.webSocketFrameReceived":
                frame = event["params"]["response"]
                if frame["opcode"] == 2:
                    stream.feed(base64.b64decode(frame["payloadData"]))

    requested: list[str] = []
    complaints: list[str] = []

    def note(events: list[dict[str, Any]]) -> None:
        for event in events:
            match event:
                case {"method": "Network.requestWillBeSent", "params": {"request": request}}:
                    requested.append(request["url"])
                case {"method": "Network.webSocketCreated", "params": {"url": str(url)}}:
                    requested.append(url)
                case {"method": "Log.entryAdded", "params": {"entry": {"level": "error"} as entry}}:
                    complaints.append(entry["text"])

    async with aiohttp.ClientSession() as session:
        target = (await browser.pages(session))[0]["webSocketDebuggerUrl"]
        async with session.ws_connect(target, max_msg_size=0) as tools:
            await browser.ask(tools, "Network.enable")
            await browser.ask(tools, "Log.enable")
            feed(await browser.ask(tools, "Page.navigate", url=served.address))
            async with asyncio.timeout(240):
                while "layer1" not in "\n".join(screen.display):
                    feed(await browser.ask(tools, "Runtime.evaluate", expression="1"))
                    await asyncio.sleep(0.05)
            answer = (await browser.ask(tools, "Page.captureScreenshot"))[-1]
            fonts = await browser.ask(
                tools,
                "Runtime.evaluate",
                expression="[...document.fonts].map(f => f.status).join()",
            )
    hosts = {urlsplit(one).hostname for one in requested if not one.startswith("data:")}
    assert hosts == {"127.0.0.1"}, requested
    assert any(one.startswith("ws://") for one in requested)
    assert not complaints  # Of the policy, or of a file that is not there.
    assert "loaded" in fonts[-1]["result"]["result"]["value"]
    picture = base64.b64decode(answer["result"]["data"])
    (tmp_path / "page.png").write_bytes(picture)
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000  # An empty page of this size has a tenth of it.

"""``--web``: the explorer in a browser, for the user who started it.

1. It listens on the loopback interface only. Other users and programs of this machine reach that
   too: without the random token in the address, neither the page nor the websocket is served.
2. ``Host`` and ``Origin`` must be this server's. Else a page from elsewhere, whose name resolves
   to this address (DNS rebinding), or which opens our websocket, could do what the user can.
3. The page loads nothing from other hosts: terminal, style and fonts are the files that
   textual-serve installs, and ``Content-Security-Policy`` keeps the browser from fetching more.
4. Every open page is a process with a worker; both end with the page, and all of them with the
   server.
5. A request or a websocket message that this page never sends is answered with a short status,
   and ends that connection only. Errors are one line on standard error, never a traceback.

The page talks to Textual's ``WebDriver`` (``textual/drivers/web_driver.py``): packets of a letter
(D data, M JSON), a length of four bytes, and that many bytes. Were the driver's first line, the
letters or the names of the static files changed, no page would show the explorer, and
``tests/end_to_end/test_web.py`` fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
import json
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

import psutil
from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.http import HttpProcessingError
from msgspec import Struct

from tui_profiler.formatting.text import safe

from .driver import WEB_DRIVER

ADDRESS = "127.0.0.1"
MOST_PAGES = 8
"""Open at once: each runs a model."""
MOST_SILENT = 64
"""Connections without a request yet; one more ends the oldest. Any user of the machine can connect,
and without a limit they would use up this process's file descriptors."""
SILENT_SECONDS = 10.0
"""From a connection to the end of its first request's headers."""
GRACE_SECONDS = 5.0
"""For programs and workers, from a signal to their end."""
CLOSE_SECONDS = 0.5
"""For browsers, to close their websockets."""
LEAST_CELLS, MOST_COLUMNS, MOST_ROWS = 2, 1000, 400
"""Of a page; a size outside is set to the nearest one. A size of 10**9 columns would fail."""
MOST_MESSAGE_BYTES = 4 << 20
"""Of a websocket message: the longest text that can be pasted."""
_FONT_SIZES = range(4, 73)
_HEADERS = {
    "Cache-Control": "no-store",
    # Styles: xterm.js writes <style> elements.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; font-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self' ws://{host}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STATIC = (
    *("css/xterm.css", "js/textual.js"),
    *("fonts/RobotoMono-VariableFont_wght.ttf", "fonts/RobotoMono-Italic-VariableFont_wght.ttf"),
)
_READY = b"__GANGLION__\n"
_MOST_LINES_BEFORE = 10
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)


class AccessRules(Struct, frozen=True):
    """What a request must bring."""

    port: int
    token: str

    @property
    def address(self) -> str:
        """Return what to open in a browser."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def refusal(self, path: str, host: str, origin: str) -> str:
        """Return why a request is refused; an empty text where it is not.

        Args:
            path: as asked for.
            host: its header; empty where there is none.
            origin: its header; empty where there is none, as from a program that is not a browser.
        """
        ours = (f"{ADDRESS}:{self.port}", f"localhost:{self.port}")
        if host not in ours:
            return "the Host header names another host"
        if origin and origin not in tuple(f"http://{one}" for one in ours):
            return "the request comes from another site"
        told = path.split("/")[1] if "/" in path else ""
        if not hmac.compare_digest(told.encode(), self.token.encode()):
            return "the address has no valid token: open the one that tui-profiler printed"
        return ""


class Pages:
    """The pages that are open, and the way to end them."""

    def __init__(self, rules: AccessRules, most: int = MOST_PAGES) -> None:
        self._rules = rules
        self._most = most
        self._open: set[asyncio.Task[object]] = set()
        self._silent: dict[Any, asyncio.TimerHandle] = {}
        """Connections (aiohttp's protocols) without a request yet; the oldest first."""

    def guard(self, application: web.Application) -> None:
        """Check every request of an application."""

        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            self._spoke(request.protocol)
            headers = request.headers
            if not all(map(_is_text, (request.raw_path, *headers.values()))):
                return web.Response(status=400, text="The request is not UTF-8.\n")
            why_not = self._rules.refusal(
                request.path, headers.get("Host", ""), headers.get("Origin", "")
            )
            if why_not:
                return web.Response(status=403, text=f"Refused: {why_not}.\n")
            try:
                if headers.get("Upgrade", "").lower() != "websocket":
                    return await handler(request)
                return await self._page(request, handler)
            except (web.HTTPException, ConnectionError):
                raise  # An answer, or a browser that is gone.
            except Exception as error:
                _log.error("request not served: %s", _named(error))
                return web.Response(status=500, text="Internal error.\n")

        application.middlewares.append(web.middleware(guard))

    def connected(self, protocol: Any) -> Any:
        """Note a new connection, which must send a request before long."""
        loop = asyncio.get_running_loop()
        self._silent[protocol] = loop.call_later(SILENT_SECONDS, self._hang_up, protocol)
        # Twice: the event loop connects this protocol's transport between the two.
        loop.call_soon(loop.call_soon, self._limit_silent)
        return protocol

    def _limit_silent(self) -> None:
        # Of connections accepted together some have no transport yet, and would stay open.
        connected = [one for one in self._silent if one.transport is not None]
        for protocol in connected[: max(0, len(connected) - MOST_SILENT)]:
            self._hang_up(protocol)

    def _spoke(self, protocol: object) -> None:
        if timer := self._silent.pop(protocol, None):
            timer.cancel()

    def _hang_up(self, protocol: Any) -> None:
        self._spoke(protocol)
        protocol.force_close()

    async def _page(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if len(self._open) >= self._most:
            return web.Response(status=503, text=f"{self._most} pages are open: close one.\n")
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await handler(request)
        finally:
            self._open.discard(task)

    async def end(self) -> None:
        """End every page, its process and its worker; a browser that is stuck delays nothing."""
        everything = psutil.Process().children(recursive=True)
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(tuple(self._open), timeout=GRACE_SECONDS + 2 * CLOSE_SECONDS)
        for process in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


class Program:
    """The explorer of one page: a process that draws through Textual's ``WebDriver``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input, self._output = process.stdin, process.stdout

    @classmethod
    async def started(cls, command: Sequence[str], columns: int, rows: int) -> Program:
        """Start it; its standard error is this process's."""
        environment = {
            **os.environ,
            "TEXTUAL_DRIVER": WEB_DRIVER,
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "TERM_PROGRAM": "textual",
            "COLUMNS": str(columns),
            "ROWS": str(rows),
        }
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, env=environment, limit=MOST_MESSAGE_BYTES
            )
        )

    async def send(self, letter: bytes, payload: bytes) -> None:
        """Write a packet; does nothing where the program has ended."""
        with contextlib.suppress(ConnectionError):
            self._input.write(letter + len(payload).to_bytes(4, "big") + payload)
            await self._input.drain()

    async def tell(self, kind: str, **values: int) -> None:
        """Send what happened to the page."""
        await self.send(b"M", json.dumps({"type": kind, **values}).encode())

    async def show(self, websocket: web.WebSocketResponse) -> None:
        """Pass on what the program draws until it ends, then close the websocket."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            for _ in range(_MOST_LINES_BEFORE):
                if await self._output.readline() == _READY:
                    break
            while True:
                head = await self._output.readexactly(5)
                payload = await self._output.readexactly(int.from_bytes(head[1:], "big"))
                if head[:1] == b"D":
                    await websocket.send_bytes(payload)
                elif head[:1] == b"M" and json.loads(payload).get("type") == "exit":
                    break
        await websocket.close()

    async def end(self) -> None:
        """Ask the program to quit; kill it where it does not."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self.tell("quit")
                # What it still draws must be read: blocked on a full pipe, it would never quit.
                await self._process.communicate()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def terminate(self) -> None:
        """Ask the program to end, also where it has not begun to read yet."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """End the program and what it started at once."""
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                child.kill()
            self._process.kill()


class _Unexpected(Exception):
    """A websocket message that the page never sends."""


class Site:
    """The page and its websocket."""

    def __init__(self, command: Sequence[str], title: str) -> None:
        """Find the files of the page.

        Args:
            command: run for every page.
            title: of the page.

        Raises:
            ModuleNotFoundError: textual-serve is not installed.
        """
        found = find_spec("textual_serve")
        if found is None or found.origin is None:
            raise ModuleNotFoundError("textual-serve is not installed", name="textual_serve")
        folder = Path(found.origin).parent / "static"
        self._static = {Path(one).name: folder / one for one in _STATIC}
        self._command, self._title = command, title
        self._page = Template((files(__package__) / "web.html").read_text(encoding="utf-8"))

    def application(self) -> web.Application:
        """Return what serves them."""
        application = web.Application()
        application.router.add_get("/", self._index)
        application.router.add_get("/static/{name}", self._file)
        application.router.add_get("/ws", self._websocket)
        return application

    async def _index(self, request: web.Request) -> web.StreamResponse:
        address = f"ws://{request.host}{request.path}ws"
        size = _number(request.query.get("fontsize", ""), 16)
        text = self._page.substitute(
            title=html.escape(self._title),
            websocket=html.escape(address),
            font_size=min(max(size, _FONT_SIZES.start), _FONT_SIZES.stop - 1),
        )
        return web.Response(text=text, content_type="text/html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = self._static.get(request.match_info["name"])
        if path is None:
            raise web.HTTPNotFound(text="There is no such file.\n")
        return web.FileResponse(path)

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(
            heartbeat=15, compress=False, max_msg_size=MOST_MESSAGE_BYTES
        )
        await websocket.prepare(request)
        columns, rows = (_number(request.query.get(n, ""), 0) for n in ("width", "height"))
        program = await Program.started(self._command, *_cells(columns or 80, rows or 24))
        showing = asyncio.create_task(program.show(websocket))
        try:
            await _obey(websocket, program)
        except _Unexpected as error:
            program.kill()
            await websocket.close(code=WSCloseCode.POLICY_VIOLATION, message=str(error).encode())
        except asyncio.CancelledError:
            program.terminate()  # The server ends.
        finally:
            showing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await showing
            await program.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await websocket.close()
        return websocket


async def _obey(websocket: web.WebSocketResponse, program: Program) -> None:
    """Pass on what the page says until it closes.

    Raises:
        _Unexpected: it says what the page never does.
    """
    async for message in websocket:
        if message.type is not WSMsgType.TEXT:
            raise _Unexpected("not a text message")
        try:
            said = json.loads(message.data)
        except (ValueError, RecursionError):
            raise _Unexpected("not JSON") from None
        match said:
            case ["stdin", str(typed)]:
                await program.send(b"D", typed.encode(errors="replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                columns, rows = _cells(width, height)
                await program.tell("resize", width=columns, height=rows)
            case ["resize", {"width": None} | {"height": None}]:
                continue  # A page that is not shown has no size.
            case ["ping", str(at)]:
                await websocket.send_json(["pong", at])
            case ["focus" | "blur" as kind, *_]:
                await program.tell(kind)
            case _:
                raise _Unexpected("not a message of this page")


def _cells(columns: int, rows: int) -> tuple[int, int]:
    """Return a size that a page can have."""
    return (
        min(max(columns, LEAST_CELLS), MOST_COLUMNS),
        min(max(rows, LEAST_CELLS), MOST_ROWS),
    )


def _is_text(text: str) -> bool:
    """Return whether what aiohttp read holds only UTF-8; it keeps other bytes as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(text: str, usual: int) -> int:
    """Return the number that a query names, the usual one where it names none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else usual


class _OneLine(logging.Formatter):
    """Format an error of the server as one line; an invalid request is not an error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() + (f": {_named(error)}" if error else "")
        return f"tui-profiler --web: {safe(said)}"

    def formatException(self, ei: object) -> str:
        """Return nothing: a traceback must not be shown to clients."""
        return ""


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a record is of an error here; a request that is not HTTP is not."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, web.HTTPException | HttpProcessingError | ConnectionError)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _log_in_one_line() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    handler.addFilter(_is_ours)
    for name in (__name__, "aiohttp", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False


def _application(site: Site, rules: AccessRules, pages: Pages) -> web.Application:
    """Return the page below the token, behind the guard."""
    application = web.Application()
    pages.guard(application)
    application.add_subapp(f"/{rules.token}", site.application())

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        host = f"{ADDRESS}:{rules.port}"
        if request.headers.get("Host") == f"localhost:{rules.port}":
            host = f"localhost:{rules.port}"
        response.headers.update({k: v.replace("{host}", host) for k, v in _HEADERS.items()})

    application.on_response_prepare.append(add_headers)
    return application


async def _serve(command: Sequence[str], title: str) -> int:
    listener = socket.create_server((ADDRESS, 0))
    rules = AccessRules(listener.getsockname()[1], secrets.token_urlsafe(32))
    pages = Pages(rules)
    runner = web.AppRunner(
        _application(Site(command, safe(title)), rules, pages),
        access_log=None,
        logger=_log,
        keepalive_timeout=SILENT_SECONDS,
        shutdown_timeout=CLOSE_SECONDS,
    )
    await runner.setup()
    loop = asyncio.get_running_loop()
    answer = runner.server
    assert answer is not None
    server = await loop.create_server(lambda: pages.connected(answer()), sock=listener)

    ended: asyncio.Future[int] = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        code = 0 if number == signal.SIGINT else 128 + number
        loop.add_signal_handler(number, _set, ended, code)
    sys.stderr.write(
        f"{safe(title)} is at {rules.address}\n"
        "Whoever has this address can use it. Every page runs the model; ctrl+C ends all.\n"
    )
    sys.stderr.flush()
    try:
        return await ended
    finally:
        server.close()
        await pages.end()
        await runner.cleanup()


def _set(ended: asyncio.Future[int], code: int) -> None:
    if not ended.done():
        ended.set_result(code)


def serve(arguments: Sequence[str], title: str) -> int:
    """Serve the explorer until ctrl+C; return the exit code, 0 then.

    Args:
        arguments: what was typed after the program's name; the same is run for every page.
        title: of the page.
    """
    _log_in_one_line()
    # -P: a textual.py in the user's folder must not be taken for the library.
    command = [sys.executable, "-P", "-m", "tui_profiler", *arguments]
    return asyncio.run(_serve(command, title), debug=False)  # Debugging adds tracebacks to answers.

"""``--web``: the explorer in a browser, through textual-serve, for the one who started it.

1. It listens on the loopback interface alone. Other users and programs of this machine reach that
   too: nothing is answered, neither page nor websocket, without a random token in the address.
2. ``Host`` and ``Origin`` must be ours. Else a page from elsewhere, whose name was made to point
   here (DNS rebinding), or which opens our websocket, would be as good as the user.
3. Every open page is a process of its own, with a worker of its own; they end with the page, and
   all of them with us.
4. The private name of textual-serve's that we use is ``_make_app``. Were it renamed, ``--web``
   would raise AttributeError before anything is answered.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence

import psutil
from aiohttp import web
from msgspec import Struct
from textual_serve.server import Server

from tui_profiler.text import safe

ADDRESS = "127.0.0.1"
MOST_PAGES = 8
"""Open at once: each runs a model."""
GRACE_SECONDS = 5.0
"""For programs and workers, from a signal to their end."""
FAREWELL_SECONDS = 0.5
"""For browsers, to say goodbye."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door(Struct, frozen=True):
    """What a request must bring."""

    port: int
    token: str

    @property
    def address(self) -> str:
        """Give what to open in a browser."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def refusal(self, path: str, host: str, origin: str) -> str:
        """Say why a request is not answered; an empty text where it is.

        Args:
            path: as asked for.
            host: its header; empty where there is none.
            origin: its header; empty where there is none, as from what is no browser.
        """
        ours = (f"{ADDRESS}:{self.port}", f"localhost:{self.port}")
        if host not in ours:
            return "another host was asked for"
        if origin and origin not in tuple(f"http://{one}" for one in ours):
            return "a page from elsewhere asks"
        told = path.split("/")[1] if "/" in path else ""
        if not hmac.compare_digest(told.encode(), self.token.encode()):
            return "the address lacks the token: take the one that tui-profiler printed"
        return ""


class Pages:
    """The pages that are open, and the way to end them."""

    def __init__(self, door: Door, most: int = MOST_PAGES) -> None:
        self._door = door
        self._most = most
        self._open: set[asyncio.Task[object]] = set()

    def guard(self, application: web.Application) -> None:
        """Let every request of an application go through the door."""

        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            headers = request.headers
            why_not = self._door.refusal(
                request.path, headers.get("Host", ""), headers.get("Origin", "")
            )
            if why_not:
                return web.Response(status=403, text=f"Refused: {why_not}.\n")
            if headers.get("Upgrade", "").lower() != "websocket":
                return await handler(request)
            return await self._page(request, handler)

        application.middlewares.append(web.middleware(guard))

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
        """End every page, its process and its worker; a browser that is stuck holds up nothing."""
        everything = psutil.Process().children(recursive=True)
        for program in psutil.Process().children():
            program.terminate()  # It ends its worker itself.
        _, left = await asyncio.to_thread(psutil.wait_procs, everything, timeout=GRACE_SECONDS)
        for process in left:
            process.kill()
        for task in tuple(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(tuple(self._open), timeout=FAREWELL_SECONDS)


async def _application(server: Server, door: Door, pages: Pages) -> web.Application:
    """Give textual-serve's application below the token, behind the guard."""
    server.console.quiet = True
    application = web.Application()
    pages.guard(application)
    application.add_subapp(f"/{door.token}", await server._make_app())

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)

    application.on_response_prepare.append(add_headers)
    return application


async def _serve(command: Sequence[str], title: str) -> int:
    listener = socket.create_server((ADDRESS, 0))
    door = Door(listener.getsockname()[1], secrets.token_urlsafe(32))
    pages = Pages(door)
    # A shell starts it; by exec it does not stay between us and the program.
    server = Server(f"exec {shlex.join(command)}", ADDRESS, door.port, safe(title))
    runner = web.AppRunner(
        await _application(server, door, pages), access_log=None, shutdown_timeout=FAREWELL_SECONDS
    )
    await runner.setup()
    await web.SockSite(runner, listener).start()

    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        code = 0 if number == signal.SIGINT else 128 + number
        asyncio.get_running_loop().add_signal_handler(number, _set, ended, code)
    sys.stderr.write(
        f"{safe(title)} is at {door.address}\n"
        "Whoever has this address can use it. Every page runs the model; ctrl+C ends all.\n"
    )
    sys.stderr.flush()
    try:
        return await ended
    finally:
        await pages.end()
        await runner.cleanup()


def _set(ended: asyncio.Future[int], code: int) -> None:
    if not ended.done():
        ended.set_result(code)


def serve(arguments: Sequence[str], title: str) -> int:
    """Serve the explorer until ctrl+C; gives the exit code, 0 then.

    Args:
        arguments: what was typed after the program's name; the same is run for every page.
        title: of the page.
    """
    # -P: a textual.py in the user's folder must not be taken for the library.
    return asyncio.run(_serve([sys.executable, "-P", "-m", "tui_profiler", *arguments], title))

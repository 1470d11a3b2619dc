"""One GET of a server's metrics, within limits, on a thread that nothing waits for.

1. The server responds within ``SECONDS`` and ``MOST_BYTES``, or the scrape is given up: a server
   that sends a byte per second, or never ends, costs nothing but one idle thread.
2. Redirects are not followed, proxies are not asked: only the address that was typed is read.
3. The thread is a daemon and is never joined, so that leaving the viewer never waits for a server,
   nor for the resolver, which has no timeout, nor for a response that takes long to parse. A new
   scrape begins only when it has ended.
"""

import asyncio
import http.client
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import TypeVar

from tui_profiler.serving.address import Address
from tui_profiler.serving.scrape import MOST_NAME

_Read = TypeVar("_Read")

SECONDS = 3.0
MOST_BYTES = 4 * 1024 * 1024
"""A vLLM server has about 70 kB per engine."""
_PLAIN = ("text/plain", "application/openmetrics-text", "")
"""Prometheus text format 0.0.4 is the first; a server that says nothing is believed."""
_HEADERS = {
    "Accept": "text/plain;version=0.0.4",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "tui-profiler",
}


class FetchError(Exception):
    """There is no response to parse; the message is a noun phrase or a sentence that says why.

    It may quote the server, which has 64 KiB for each header: it is shown and recorded cut.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why[:MOST_NAME])


class Fetcher:
    """Fetches the text of one address, again and again; one scrape at a time."""

    def __init__(
        self, where: Address, seconds: float = SECONDS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._where = where
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._request: _Request | None = None

    async def fetch(self, read: Callable[[str], _Read]) -> _Read:
        """Return what was read from the text.

        Args:
            read: is given the text, on the thread of the scrape; what it raises is raised here.

        Raises:
            FetchError: there is no text, or it was not read in time.
        """
        late = FetchError(f"no complete response within {self._seconds:g} s")
        if self._request is not None and not self._request.is_over:
            raise late
        loop = asyncio.get_running_loop()
        response: asyncio.Future[_Read] = loop.create_future()
        request = self._request = _Request(self._where, self._seconds, self._most_bytes)

        def work() -> None:
            try:
                tell = partial(_tell, response, read(request.text()))
            except Exception as error:  # Of ``read`` too: a border.
                tell = partial(_fail, response, error)
            finally:
                request.is_over = True
            with suppress(RuntimeError):  # The loop is closed: nobody wants it any more.
                loop.call_soon_threadsafe(tell)

        threading.Thread(target=work, daemon=True, name="serving metrics").start()
        try:
            return await asyncio.wait_for(response, self._seconds)
        except TimeoutError:
            raise late from None
        finally:
            request.cut()


def _tell(response: asyncio.Future[_Read], found: _Read) -> None:
    if not response.done():  # Else it was given up.
        response.set_result(found)


def _fail(response: asyncio.Future[_Read], error: Exception) -> None:
    if not response.done():
        response.set_exception(error)


class _Request:
    """One GET; it can be ended from another thread."""

    def __init__(self, where: Address, seconds: float, most_bytes: int) -> None:
        self._where = where
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._socket: socket.socket | None = None
        """The connection forgets its own when the response begins."""
        self._is_cut = False
        self.is_over = False

    def text(self) -> str:
        """Return the text.

        Raises:
            FetchError: there is none.
        """
        try:
            body = self._body()
        except ssl.SSLCertVerificationError as error:
            raise FetchError(f"certificate verification failed: {error.verify_message}") from None
        except ssl.SSLError as error:
            why = (error.reason or str(error)).replace("_", " ").lower()
            raise FetchError(f"TLS error: {why}") from None
        except TimeoutError:
            raise FetchError("no complete response in time") from None
        except socket.gaierror as error:
            raise FetchError(f"{self._where.host}: {error.strerror}") from None
        except OSError as error:
            raise FetchError((error.strerror or str(error)).lower()) from None
        except (http.client.HTTPException, ValueError) as error:
            raise FetchError(f"invalid or truncated HTTP response ({error})") from None
        if len(body) > self._most_bytes:
            raise FetchError(f"response larger than {self._most_bytes // 1024**2} MiB")
        return body.decode(errors="replace")

    def _body(self) -> bytes:
        kind = http.client.HTTPSConnection if self._where.is_tls else http.client.HTTPConnection
        # Reads all certificates of the system for TLS, 18 to 90 ms: not on the event loop.
        with closing(kind(self._where.host, self._where.port, timeout=self._seconds)) as connection:
            return self._response(connection)

    def _response(self, connection: http.client.HTTPConnection) -> bytes:
        connection.connect()
        self._socket = connection.sock
        if self._is_cut:  # During ``connect``: there was no socket to shut down yet.
            raise TimeoutError
        connection.request("GET", self._where.target, headers=_HEADERS)
        with connection.getresponse() as response:
            _require_text(response)
            body = response.read(self._most_bytes + 1)
            if response.length and len(body) <= self._most_bytes:
                # http.client says nothing: half a number at the end would be a figure.
                raise FetchError("truncated response")
            return body

    def cut(self) -> None:
        """End what another thread waits for; closing would not wake it."""
        self._is_cut = True
        if self._socket is not None:
            with suppress(OSError):
                # That of TLS would first say goodbye.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _require_text(response: http.client.HTTPResponse) -> None:
    if 300 <= response.status < 400:
        where = response.headers.get("Location", "another address")
        raise FetchError(f"HTTP {response.status} redirect to {where}, not followed")
    if response.status != http.client.OK:
        raise FetchError(f"HTTP {response.status} {response.reason}")
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in _PLAIN:
        raise FetchError(f"Content-Type is {kind}, not Prometheus text format")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FetchError("compressed response, not supported")

"""One GET within limits, from a real server that behaves and misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from types import FrameType

import pytest

from tests.serving.answers import PLAIN, answer, say, serving
from tui_profiler.serving.address import address
from tui_profiler.serving.fetch import Fetcher, FetchError, _Request

Answers = Callable[[BaseHTTPRequestHandler], None]
TEXT = answer("vllm-0.32", 1)


def fetched(url: str, seconds: float = 60.0, most_bytes: int = 100_000) -> str:
    return asyncio.run(Fetcher(address(url), seconds, most_bytes).fetch(str))


def why_not(answers: Answers, seconds: float = 60.0) -> str:
    with serving(answers) as url, pytest.raises(FetchError) as raised:
        fetched(url, seconds)
    return str(raised.value)


def test_the_text_is_that_of_the_server() -> None:
    asked: list[tuple[str, str | None]] = []

    def answers(handler: BaseHTTPRequestHandler) -> None:
        asked.append((handler.path, handler.headers["Accept"]))
        say(handler, TEXT)

    with serving(answers) as url:
        assert fetched(url) == TEXT
        assert fetched(url.removesuffix("/metrics")) == TEXT
        assert fetched(f"{url}?name=vllm") == TEXT
    accepted = "text/plain;version=0.0.4"
    paths = ("/metrics", "/metrics", "/metrics?name=vllm")
    assert asked == [(path, accepted) for path in paths]


def test_an_answer_in_chunks_is_whole() -> None:
    """As uvicorn sends it for vLLM."""

    def answers(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Content-Type", PLAIN)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for start in range(0, len(TEXT), 1000):
            part = TEXT[start : start + 1000].encode()
            handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")

    with serving(answers) as url:
        assert fetched(url) == TEXT


def redirect(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "http://169.254.169.254/latest")
    handler.end_headers()


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", PLAIN)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"vllm:num_requests_running 1\n" * 1000)


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", PLAIN)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"vllm:")


def compressed(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", PLAIN)
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()


def not_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (redirect, "HTTP 302 redirect to http://169.254.169.254/latest, not followed"),
        (lambda handler: say(handler, "no", status=500), "HTTP 500 Internal Server Error"),
        (
            lambda handler: say(handler, "<html>", kind="text/html; charset=utf-8"),
            "Content-Type is text/html, not Prometheus text format",
        ),
        (compressed, "compressed response, not supported"),
        (cut_off, "truncated response"),
        (not_http, "invalid or truncated HTTP response (SSH-2.0-OpenSSH_9.6"),
    ],
)
def test_an_answer_that_is_not_wanted_says_why(answers: Answers, why: str) -> None:
    assert why_not(answers).startswith(why)


def far_away(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "x" * 60_000)
    handler.end_headers()


def chatty(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.0 500 " + b"x" * 60_000 + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (far_away, "HTTP 302 redirect to xxx"),
        (chatty, "HTTP 500 xxx"),
        (lambda handler: say(handler, "", kind="x" * 60_000), "Content-Type is xxx"),
        (
            lambda handler: handler.wfile.write(b"x" * 60_000 + b"\r\n"),
            "invalid or truncated HTTP response (xxx",
        ),
    ],
)
def test_a_reason_quotes_a_server_in_short(answers: Answers, why: str) -> None:
    said = why_not(answers)
    assert said.startswith(why)
    assert len(said) <= 200


def test_an_endless_answer_is_given_up() -> None:
    with serving(endless) as url, pytest.raises(FetchError, match="larger than 2 MiB"):
        fetched(url, most_bytes=2 * 1024**2)


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 200 OK\r\n\r\n"])
def test_a_server_that_drips_is_given_up_and_hung_up_on(begins: bytes) -> None:
    """Each byte comes well within any timeout of the socket."""
    over = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(begins)
        with contextlib.suppress(OSError):
            while not over.wait(0.02):
                handler.wfile.write(b"a")
        over.set()

    assert why_not(drip, seconds=0.3) == "no complete response within 0.3 s"
    assert over.wait(60)


def test_leaving_hangs_up_at_once() -> None:
    reached, over = threading.Event(), threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        reached.set()
        handler.connection.recv(1)  # Returns when the other end hangs up.
        over.set()

    async def left(url: str) -> None:
        reading = asyncio.ensure_future(Fetcher(address(url), 600.0).fetch(str))
        await asyncio.to_thread(reached.wait)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    with serving(hang) as url:
        asyncio.run(left(url))
        assert over.wait(60)


def test_a_scrape_that_ends_while_it_connects_sends_no_request() -> None:
    asked: list[str] = []
    with serving(lambda handler: asked.append(handler.path)) as url:
        request = _Request(address(url), 60.0, 100_000)
        request.cut()
        with pytest.raises(FetchError, match="no complete response in time"):
            request.text()
    assert asked == []


def test_leaving_does_not_wait_for_an_answer_that_is_long_to_read() -> None:
    reached, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def read(text: str) -> str:
        reached.set()
        go_on.wait(60)
        over.set()
        return text

    async def left(url: str) -> None:
        reading = asyncio.ensure_future(Fetcher(address(url), 600.0).fetch(read))
        await asyncio.to_thread(reached.wait)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    with serving(lambda handler: say(handler, TEXT)) as url:
        asyncio.run(left(url))
        assert not over.is_set()
        go_on.set()
        assert over.wait(60)


def test_what_cannot_be_read_is_raised() -> None:
    with (
        serving(lambda handler: say(handler, "no number")) as url,
        pytest.raises(ValueError, match="no number"),
    ):
        asyncio.run(Fetcher(address(url), 60.0).fetch(float))


def test_where_nothing_listens_it_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(FetchError, match="connection refused"):
        fetched(f"http://127.0.0.1:{port}/metrics")


def test_a_server_without_tls_says_so() -> None:
    with (
        serving(lambda handler: say(handler, TEXT)) as url,
        pytest.raises(FetchError, match="TLS error: "),
    ):
        fetched(url.replace("http:", "https:"))


def test_certificates_are_not_read_on_the_event_loop() -> None:
    """All those of the system take 18 to 90 ms, at every reading."""
    called: list[str] = []

    def note(frame: FrameType, event: str, called_of: object) -> None:
        if event == "c_call":
            called.append(getattr(called_of, "__name__", ""))

    before = sys.getprofile()
    with serving(lambda handler: say(handler, TEXT)) as url:
        sys.setprofile(note)  # Of this thread alone.
        try:
            with pytest.raises(FetchError):
                fetched(url.replace("http:", "https:"))
        finally:
            sys.setprofile(before)
    assert "start_new_thread" in called or "start_joinable_thread" in called
    assert "set_default_verify_paths" not in called


def test_a_new_reading_waits_for_the_one_before() -> None:
    """A name that is never resolved keeps one thread, not one for each reading."""
    reached, over = threading.Event(), threading.Event()
    asked: list[str] = []

    def hang(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        reached.set()
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n")
        over.wait()

    async def twice(url: str) -> list[str]:
        fetcher = Fetcher(address(url), 600.0)
        first = asyncio.ensure_future(fetcher.fetch(str))
        await asyncio.to_thread(reached.wait)
        with pytest.raises(FetchError) as raised:
            await fetcher.fetch(str)
        first.cancel()
        over.set()
        return [str(raised.value)]

    with serving(hang) as url:
        assert asyncio.run(twice(url)) == ["no complete response within 600 s"]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("127.0.0.1:8000", "not an http"),
        ("ftp://host/metrics", "not an http"),
        ("file:///etc/passwd", "not an http"),
        ("http:///metrics", "not an http"),
        ("http://host:0/", "not an http"),
        ("http://host:99999/", "out of range"),
        ("http://[::1/metrics", "Invalid IPv6"),
        ("http://me:secret@host/metrics", "user and password"),
        ("http://host/a b", "ASCII without spaces"),
        ("http://host/\r\nX: y", "ASCII without spaces"),
        ("http://hôst/", "ASCII without spaces"),
    ],
)
def test_an_address_that_is_none_is_refused(typed: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        address(typed)


def test_an_address_has_the_usual_port_and_path() -> None:
    found = address("https://[::1]")
    assert (found.is_tls, found.host, found.port, found.target) == (True, "::1", 443, "/metrics")

"""A hub of model files on this machine, which says what was asked of it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Endless:
    """A file that goes on as long as somebody reads it, and 64 MiB longer than it should."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self.is_left = False
        """Nobody should read it any more."""
        self.why = ""

    def write(self, stream: BufferedIOBase) -> None:
        """Write it to whoever asks for it."""
        left = 1 << 10
        try:
            while left:
                stream.write(bytes(1 << 16))
                self.begun.set()
                left -= self.is_left
            self.why = "it was read on"
        except OSError:
            self.why = "the other side went"
        self.ended.set()


@contextmanager
def serving(name: str, files: Mapping[str, bytes | Endless]) -> Iterator[tuple[str, list[str]]]:
    """Serve a repository as huggingface_hub asks for one.

    Yields:
        The address, and the names of files as they are asked for.
    """
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(is_head=True)

        def do_GET(self) -> None:
            self._answer(is_head=False)

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, *, is_head: bool) -> None:
            path = self.path.partition("?")[0]
            if path.startswith(f"/api/models/{name}"):
                paths = [{"rfilename": file} for file in files]
                tree = [
                    {"type": "file", "path": file, "size": _size(data), "oid": _digest(data)}
                    for file, data in files.items()
                ]
                said = {"id": name, "sha": _COMMIT, "siblings": paths}
                content = json.dumps(tree if "/tree/" in path else said).encode()
                self._send(content, {"Content-Type": "application/json"}, is_head=is_head)
                return
            file = path.removeprefix(f"/{name}/resolve/").partition("/")[2]
            if file not in files:
                self.send_error(404)
                return
            asked.append(file)
            headers = {"ETag": f'"{_digest(files[file])}"', "X-Repo-Commit": _COMMIT}
            self._send(files[file], headers, is_head=is_head)

        def _send(
            self, content: bytes | Endless, headers: Mapping[str, str], *, is_head: bool
        ) -> None:
            self.send_response(200)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(_size(content)))
            self.end_headers()
            if isinstance(content, Endless):
                if not is_head:
                    content.write(self.wfile)
            elif not is_head:
                self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def _size(data: bytes | Endless) -> int:
    return 1 << 31 if isinstance(data, Endless) else len(data)


def _digest(data: bytes | Endless) -> str:
    told = b"endless" if isinstance(data, Endless) else data
    return hashlib.sha1(told, usedforsecurity=False).hexdigest()

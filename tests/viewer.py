"""A viewer without a screen: it calls, asks to be told, and folds what it hears."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from tui_profiler.connection.sockets import Place, places
from tui_profiler.connection.wire import encode, message_decoder
from tui_profiler.messages import Message, Observe, Request
from tui_profiler.session import EMPTY, Session, apply


def place_of(name: str = "", seconds: float = 240) -> Place:
    """Wait until a model is watched."""
    deadline = time.monotonic() + seconds
    while not (found := [one for one in places() if name in one.name]):
        assert time.monotonic() < deadline, "no such socket"
        select.select([], [], [], 0.005)
    return found[0]


class Viewer:
    """A connection that is read when it is asked to be."""

    def __init__(self, place: Place, *, looks: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(place.path))
        self._decoder = message_decoder()
        self.session: Session = EMPTY
        self.heard: list[Message] = []
        self.is_hung_up_on = False
        if looks:
            self.ask(Observe())

    def ask(self, request: Request) -> None:
        self.socket.sendall(encode(request))

    def listen(self, seconds: float = 0.0) -> None:
        """Take in what has come."""
        while not self.is_hung_up_on and select.select([self.socket], [], [], seconds)[0]:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionError:
                data = b""
            self.is_hung_up_on = not data
            for message in self._decoder.feed(data):
                self.heard.append(message)
                self.session = apply(self.session, message)

    def until(
        self,
        holds: Callable[[Session], object],
        meanwhile: Callable[[], object] = lambda: None,
        seconds: float = 240,
    ) -> Session:
        """Listen, and run the program, until a claim about the session holds."""
        deadline = time.monotonic() + seconds
        while not holds(self.session):
            assert time.monotonic() < deadline, (
                f"in vain: {[type(one).__name__ for one in self.heard[-9:]]}"
            )
            meanwhile()
            self.listen(0.002)
        return self.session

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def wait_until(holds: Callable[[], object], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "in vain"
        select.select([], [], [], 0.005)

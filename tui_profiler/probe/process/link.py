"""The probe's end of the wire, on plain threads.

1. ``send`` never waits: a thread of its own writes. A viewer that stops reading holds up nothing.
2. What is queued is bounded: of a message whose next one says more (ticks, samples, heartbeats)
   only the newest waits; the ones it replaced are counted in ``dropped``.
3. Everything else is sent in order. Its amount is bounded by the model, not by time.
4. When the viewer is gone, ``is_closed`` is set and ``on_close`` is called once.
5. What a viewer asks is read no faster than a person asks: more waits in the socket, and then holds
   up the viewer.
"""

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tui_profiler import messages
from tui_profiler.connection.wire import MAX_REQUEST_BYTES, WireError, encode, request_decoder
from tui_profiler.probe.process.memory_limit import lift
from tui_profiler.probe.process.own_socket import OwnSocket
from tui_profiler.probe.process.yielding import pause
from tui_profiler.system import real_time as time

_REPLACEABLE = (
    messages.Tick,
    messages.OperatorTimes,
    messages.WindowTimes,
    messages.DeviceTimes,
    messages.StepTimes,
    messages.ModeSeen,
    messages.Compilations,
    messages.TrainingStep,
    messages.BackwardOperators,
    messages.Generation,
    messages.Sample,
    messages.Heartbeat,
    messages.Overhead,
    messages.LoopState,
    messages.TrialProgress,
    messages.ParametersProgress,
)
MAX_REQUESTS = 1000
READ_BYTES = 16384
"""Of requests, read at once; what comes after is read at ``REQUEST_BYTES_PER_SECOND``."""
REQUEST_BYTES_PER_SECOND = 16384


class Channel(Protocol):
    """What a loop needs of a conversation: a link, or a list in the same process."""

    is_closed: bool
    dropped: int
    """Messages that a newer one replaced before they were taken."""

    def send(self, message: messages.Message) -> None:
        """Tell it; never waits."""
        ...

    def next_request(self, timeout: float | None = 0.0) -> messages.Request | None:
        """Take the oldest request, as ``Link.next_request``."""
        ...


def drop_analyses(asked: deque[messages.Request]) -> None:
    """Forget the analyses of weights among what was asked: they were stopped before they began."""
    analyses = messages.AnalyseParameters | messages.MeasureSensitivity
    kept = [one for one in asked if not isinstance(one, analyses)]
    asked.clear()
    asked.extend(kept)


def _encoded(message: messages.Message) -> bytes:
    """Return a frame, also when the model has used up the memory limit."""
    try:
        return encode(message)
    except MemoryError:
        lift()
        return encode(message)


def first_request(connected: socket.socket) -> messages.Request | None:
    """Wait for the first request, before there is a link, and so before there are threads.

    Nothing that comes after it is read. Returns None where the viewer hung up, or sent something
    else.
    """
    try:
        header = _exactly(connected, 4)
        length = int.from_bytes(header, "big")
        body = _exactly(connected, length) if length <= MAX_REQUEST_BYTES else b""
        return next(request_decoder().feed(header + body), None)
    except (OSError, WireError):
        return None


def _exactly(connected: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count and (data := connected.recv(count - len(received))):
        received += data
    return received


class Link:
    """A conversation with one viewer over a connected socket."""

    def __init__(
        self,
        connected: socket.socket,
        on_close: Callable[[], None],
        on_request: Callable[[], None] | None = None,
        first: messages.Request | None = None,
    ) -> None:
        """Begin to talk.

        Args:
            connected: is the link's from now on.
            on_close: called once when the viewer is gone, on a thread of the link.
            on_request: called when requests have come, on a thread of the link.
            first: a request that was read already.
        """
        self._socket = OwnSocket(connected)
        self._on_close = on_close
        self._on_request = on_request
        self._changed = threading.Condition()
        self._outgoing: deque[messages.Message] = deque()
        self._sending = False
        self._requests: deque[messages.Request] = deque(
            () if first is None else (first,), MAX_REQUESTS
        )
        self.is_closed = False
        self.dropped = 0
        """Messages that a newer one replaced before the viewer took them."""
        self._writing_is_over = threading.Event()
        threading.Thread(target=self._write, name="tui-profiler-write", daemon=True).start()
        threading.Thread(target=self._read, name="tui-profiler-read", daemon=True).start()

    def send(self, message: messages.Message) -> None:
        """Queue a message; never waits."""
        with self._changed:
            if isinstance(message, _REPLACEABLE):
                self._replace(message)
            else:
                self._outgoing.append(message)
            self._changed.notify_all()

    def _replace(self, message: messages.Message) -> None:
        kind = type(message)
        # At most one of each kind waits, so this looks at few messages unless a tree is under way.
        for index in range(len(self._outgoing) - 1, -1, -1):
            if type(self._outgoing[index]) is kind:
                del self._outgoing[index]
                self.dropped += 1
                break
        self._outgoing.append(message)

    def next_request(self, timeout: float | None = 0.0) -> messages.Request | None:
        """Take the oldest request; wait up to ``timeout`` seconds for one (None: until one comes).

        Return None when none came in time or the viewer is gone.
        """
        with self._changed:
            if not self._requests and not self.is_closed and timeout != 0.0:
                self._changed.wait_for(lambda: self._requests or self.is_closed, timeout)
            return self._requests.popleft() if self._requests else None

    @property
    def has_requests(self) -> bool:
        """Whether the viewer has asked for something that was not taken yet."""
        return bool(self._requests)

    @property
    def waiting(self) -> int:
        """How many messages the viewer has not taken yet."""
        return len(self._outgoing)

    def flush(self, timeout: float) -> bool:
        """Wait until everything queued was written, at most ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(
                lambda: (not self._outgoing and not self._sending) or self.is_closed, timeout
            )

    def close(self) -> None:
        """Hang up."""
        self._socket.hang_up()
        self._closed()

    def abandon(self) -> None:
        """Forget the conversation in a forked child: hanging up would end it in the parent."""
        self.is_closed = True
        self._socket.close()

    def _closed(self) -> None:
        with self._changed:
            if self.is_closed:
                return
            self.is_closed = True
            self._outgoing.clear()
            self._changed.notify_all()
        self._on_close()

    def _write(self) -> None:
        try:
            self._write_messages()
        finally:
            self._writing_is_over.set()

    def _write_messages(self) -> None:
        while True:
            with self._changed:
                self._sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._outgoing or self.is_closed)
                if self.is_closed:
                    return
                message = self._outgoing.popleft()
                self._sending = True
            try:
                self._socket.send_all(_encoded(message))
            except WireError:
                self.dropped += 1  # Longer than a frame may be: names or a text without end.
            except OSError:
                self._closed()
                return

    def _read(self) -> None:
        decoder, allowance = request_decoder(), float(READ_BYTES)
        read_at = time.monotonic()
        try:
            while data := self._socket.receive(READ_BYTES):
                self._take(list(decoder.feed(data)))
                now = time.monotonic()
                earned = (now - read_at) * REQUEST_BYTES_PER_SECOND
                allowance = min(allowance + earned, READ_BYTES) - len(data)
                read_at = now
                if allowance < 0:
                    pause(-allowance / REQUEST_BYTES_PER_SECOND)
        except (OSError, WireError):
            pass  # Either way there is no one to talk to any more.
        self.close()  # Who only listens no more may still hold up a write.
        self._writing_is_over.wait()
        self._socket.close()

    def _take(self, requests: list[messages.Request]) -> None:
        with self._changed:
            self._requests.extend(requests)
            self._changed.notify_all()
        if requests and self._on_request is not None:
            self._on_request()

"""The probe's end of the wire: never waits, bounded, tells what it dropped."""

from __future__ import annotations

import socket
import threading
import time

from tui_profiler.connection.wire import encode, message_decoder
from tui_profiler.messages import Heartbeat, Hello, Message, Pause, Resume
from tui_profiler.probe.process.link import Link


def link_with_peer(small: bool = False) -> tuple[Link, socket.socket, threading.Event]:
    ours, theirs = socket.socketpair()
    if small:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    closed = threading.Event()
    return Link(ours, closed.set), theirs, closed


def read_all(peer: socket.socket, wanted: int) -> list[Message]:
    peer.settimeout(120)
    decoder, got = message_decoder(), []
    while len(got) < wanted:
        got += list(decoder.feed(peer.recv(65536)))
    return got


def test_messages_arrive_in_order() -> None:
    link, peer, _ = link_with_peer()
    sent = [Hello(1, number, ()) for number in range(500)]
    for message in sent:
        link.send(message)
    assert read_all(peer, 500) == sent


def test_a_viewer_that_does_not_read_gets_the_newest_and_the_rest_is_counted() -> None:
    link, peer, _ = link_with_peer(small=True)
    # More than any socket buffer holds, so that the writer is stuck while heartbeats come.
    blocks = [Hello(1, number, ("x" * 100_000,)) for number in range(20)]
    for block in blocks:
        link.send(block)
    for number in range(1000):
        link.send(Heartbeat(float(number), 0.0))
    assert link.dropped == 999
    assert read_all(peer, 21)[-1] == Heartbeat(999.0, 0.0)


def test_requests_come_one_by_one() -> None:
    link, peer, _ = link_with_peer()
    peer.sendall(encode(Pause()) + encode(Resume()))
    assert link.next_request(120) == Pause()
    assert link.next_request(120) == Resume()
    assert link.next_request() is None


def test_requests_beyond_the_first_16_kib_are_read_at_16_kib_per_second() -> None:
    link, peer, _ = link_with_peer()
    one = encode(Pause())
    began = time.monotonic()
    peer.sendall(one * (3 * 16384 // len(one)) + encode(Resume()))
    while link.next_request(120) != Resume():  # The oldest are dropped, the last one never is.
        assert time.monotonic() - began < 120
    # The third piece of 16 KiB is read after the second was paid for.
    assert time.monotonic() - began > 0.9


def test_a_viewer_that_hangs_up_closes_the_link() -> None:
    link, peer, closed = link_with_peer()
    peer.close()
    assert closed.wait(120)
    assert link.is_closed
    assert link.next_request(timeout=None) is None


def test_rubbish_closes_the_link() -> None:
    _, peer, closed = link_with_peer()
    peer.sendall(b"\xff" * 64)
    assert closed.wait(120)

"""A socket whose number the program has taken is not written to, read or closed."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tui_profiler.probe.process.interpreter_lock import is_locked
from tui_profiler.probe.process.own_socket import OwnSocket


class WithoutCookies(socket.socket):
    """As in gVisor."""

    def getsockopt(self, *asked: int) -> bytes:  # type: ignore[override] # of one kind
        os.fstat(self.fileno())
        raise OSError(errno.ENOPROTOOPT, "Protocol not available")


def pair(kind: type[socket.socket] = socket.socket) -> tuple[OwnSocket, socket.socket]:
    ours, theirs = socket.socketpair()
    return OwnSocket(kind(fileno=ours.detach())), theirs


USES: dict[str, Callable[[OwnSocket], object]] = {
    "send": lambda own: own.send(b"ours"),
    "send_all": lambda own: own.send_all(b"ours"),
    "receive": lambda own: own.receive(16),
}


@pytest.mark.parametrize("kind", [socket.socket, WithoutCookies])
@pytest.mark.parametrize("use", USES)
def test_what_the_program_opened_under_the_number_is_left_alone(
    use: str, kind: type[socket.socket]
) -> None:
    own, _ = pair(kind)
    programs, peer = socket.socketpair()
    with programs, peer:
        peer.sendall(b"theirs")
        number = own.fileno()
        os.dup2(programs.fileno(), number)
        assert not own.is_ours
        own.hang_up()
        with pytest.raises(OSError, match="closed"):
            USES[use](own)
        own.close()
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(16)
        assert os.read(number, 16) == b"theirs"
        os.close(number)  # It was open.


@pytest.mark.parametrize("kind", [socket.socket, WithoutCookies])
def test_a_file_under_the_number_stays_open(kind: type[socket.socket]) -> None:
    own, _ = pair(kind)
    number, (read, write) = own.fileno(), os.pipe()
    os.dup2(write, number)
    own.close()
    del own
    os.write(number, b"theirs")
    assert os.read(read, 16) == b"theirs"
    for one in (number, read, write):
        os.close(one)


@pytest.mark.parametrize("kind", [socket.socket, WithoutCookies])
def test_a_number_that_is_closed_is_not_ours(kind: type[socket.socket]) -> None:
    own, _ = pair(kind)
    os.close(own.fileno())
    assert not own.is_ours
    own.hang_up()
    own.close()
    own.close()


@pytest.mark.parametrize("kind", [socket.socket, WithoutCookies])
def test_more_than_the_kernel_holds_is_written_while_it_is_read(kind: type[socket.socket]) -> None:
    own, theirs = pair(kind)
    content = os.urandom(4 << 20)
    code = "import sys; own = sys.stdin.buffer; print(len(own.read()), flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=-1) as reader:
        theirs.close()
        own.send_all(content)
        own.hang_up()
        assert reader.communicate(timeout=120)[0].split() == [b"%d" % len(content)]
    own.close()
    assert own.fileno() == -1


@pytest.mark.skipif(not is_locked(), reason="Python runs without the GIL")
def test_no_byte_goes_into_what_takes_the_number_in_the_middle_of_writing() -> None:
    keeping_the_interpreter = ctypes.PyDLL(None, use_errno=True)
    for _ in range(300):
        own, theirs = pair()
        number = own.fileno()
        programs, peer = socket.socketpair()

        def write(own: OwnSocket = own) -> None:
            with contextlib.suppress(OSError):
                while True:
                    with contextlib.suppress(BlockingIOError):
                        own.send(b"ours")

        writer = threading.Thread(target=write)
        writer.start()
        theirs.recv(4)
        # Not os.dup2, which gives up the interpreter: then it may come between two system calls.
        assert keeping_the_interpreter.dup2(programs.fileno(), number) == number
        writer.join()
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(16)
        for end in (theirs, programs, peer):
            end.close()
        os.close(number)


def test_a_program_that_ends_by_sigpipe_does_not_end_by_a_viewer_that_hangs_up() -> None:
    code = """
import signal, socket
from tui_profiler.probe.process.own_socket import OwnSocket
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
ours, theirs = socket.socketpair()
own = OwnSocket(ours)
theirs.close()
try:
    own.send_all(b"ours")
except BrokenPipeError:
    print("went on")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "went on\n"


def test_messages_leave_no_garbage_in_cycles() -> None:
    """In a program that disables garbage collection it would stay."""
    own, peer = pair()
    sizes = range(2_000, 2_100)
    with peer:
        own.send_all(b"x")
        peer.sendall(b"x")
        own.receive(4_096)
        peer.recv(1)
        gc.collect()
        gc.disable()
        try:
            for size in sizes:
                own.send_all(bytes(size))
                assert len(peer.recv(size, socket.MSG_WAITALL)) == size
                peer.sendall(b"x")
                assert own.receive(4_096) == b"x"
            assert gc.collect() < len(sizes)
        finally:
            gc.enable()
            own.close()


def test_a_long_message_arrives_whole_and_in_order() -> None:
    own, peer = pair()
    content = os.urandom(3 * 256 * 1024 + 17)
    with peer, ThreadPoolExecutor(1) as executor:
        sending = executor.submit(own.send_all, content)
        assert peer.recv(len(content), socket.MSG_WAITALL) == content
        sending.result()
        own.close()

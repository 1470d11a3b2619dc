"""``python -P -m tui_profiler.probe.fork_server FD MODULE...``: forks workers that have imported.

1. It has one thread, and no GPU is touched, when it forks: a fork copies the thread that forks
   alone, and locks that others hold would stay held. Where an import started threads it says so,
   and forks nothing.
2. A worker is a child of its own session, as one that is started by itself: what ends it ends
   nothing else.
3. The kernel ends it when whoever started it goes, and then all its children.
"""

import contextlib
import gc
import importlib
import os
import selectors
import socket
import sys
import traceback
from typing import NoReturn

from tui_profiler.probe.__main__ import end_with_parent
from tui_profiler.probe.__main__ import main as serve

READY = b"ready"
"""Said once; anything else is the reason why not."""
PID = b"pid "
"""Begins what a child says of itself; its exit code follows it when it has ended."""


class _Forks:
    """Forks a child for each order, and tells how it ended.

    An order is one byte with three descriptors: the wire of the child, what it prints into, and
    where it is told how it began and ended.
    """

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ)
        self._number = os.getpid()
        self._children: dict[int, tuple[int, int]] = {}
        """By a descriptor of the process: its number, and where its end is told."""

    def serve(self) -> None:
        """Carry out orders until whoever gives them is gone."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._orders:
                    self._bury(key.fd)
                elif not self._obey():
                    return

    def _obey(self) -> bool:
        """Fork a child; False where no more orders come."""
        order, descriptors, _, _ = socket.recv_fds(self._orders, 1, 3)
        if not order:
            return False
        wire, output, told = descriptors
        try:
            number = os.fork()
        except OSError:  # No memory, or too many processes: whoever asked hears nothing of a child.
            os.close(told)
        else:
            if number == 0:
                self._be_child(wire, output, told)
            watched = os.pidfd_open(number)
            self._children[watched] = number, told
            self._selector.register(watched, selectors.EVENT_READ)
        os.close(wire)
        os.close(output)
        return True

    def _bury(self, watched: int) -> None:
        number, told = self._children.pop(watched)
        self._selector.unregister(watched)
        os.close(watched)
        _, status = os.waitpid(number, 0)
        with contextlib.suppress(BrokenPipeError):  # Whoever asked has gone.
            os.write(told, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(told)

    def _be_child(self, wire: int, output: int, told: int) -> NoReturn:
        try:
            end_with_parent()
            if os.getppid() != self._number:
                os._exit(1)  # The template went before the kernel was told.
            os.setsid()
            self._selector.close()
            self._orders.close()
            for watched, (_, others) in self._children.items():
                os.close(watched)
                os.close(others)
            for standard in (1, 2):
                os.dup2(output, standard)
            os.close(output)
            os.write(told, PID + b"%d" % os.getpid())
            os.close(told)
            serve(wire)
        except BaseException:  # It must never go on as the template.
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)


def why_not() -> str:
    """Say why this process must not be forked; empty where it may."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"what was imported started {threads - 1} threads"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "what was imported uses the GPU"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"this kernel cannot tell that a child ended: {error.strerror}"
    return ""


def main(descriptor: int, modules: list[str]) -> None:
    """Import, say whether it can begin, and fork until whoever asked is gone."""
    end_with_parent()
    orders = socket.socket(fileno=descriptor)
    for module in modules:
        importlib.import_module(module)
    reason = why_not()
    orders.sendall(reason.encode() or READY)
    if reason:
        return
    gc.collect()
    gc.freeze()  # What is there is never garbage, and looking at it would copy its pages.
    _Forks(orders).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

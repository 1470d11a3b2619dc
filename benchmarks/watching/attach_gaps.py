"""How long a program that was never prepared stands still while it is attached to.

    python -m benchmarks.watching.attach_gaps [--attaches 1000] [--layers 20] [--quiet-seconds 1]

Each attach is to a process of its own, forked from one that has imported torch and nothing of ours.
Its main thread runs forwards, and notes every gap between two of them. Compared are the longest gap
while the listener is started, the longest until the first tree is shown, and the longest in an
equally long time before the attach in the same process: other programs on the machine cause gaps
too. So beside each gap is the time in it without waiting for a core. Who holds the interpreter
waits for a core as well: on an idle machine a gap is at most the CPU time of all threads of the
process in it, so that is the third figure, where it is the smaller one. The outputs of the first
forwards are compared bit for bit with those of a process left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import NamedTuple

OUTPUTS = 3000
"""Forwards whose outputs are compared: they go on after the first tree, or are made up for."""
TREE_SECONDS = 120.0


class Longest(NamedTuple):
    """The longest gaps of a time, seconds."""

    whole: float
    """All that is between two forwards."""
    on_core: float
    """Without what the thread waited for a core (``schedstat``)."""
    working: float
    """The smaller of that and the CPU time of the process."""


class Attach(NamedTuple):
    """Seconds of one attach."""

    took_listener: float
    took_tree: float
    quiet_before_listener: Longest
    listener: Longest
    quiet_before_tree: Longest
    tree: Longest
    digest: str


def main() -> None:
    """Measure, and print the distributions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attaches", type=int, default=50)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--quiet-seconds", type=float, default=1.0)
    options = parser.parse_args()
    ours, theirs = socket.socketpair()
    template = os.fork()
    if template == 0:
        ours.close()
        _fork_programs(theirs, options.layers)
        os._exit(0)
    theirs.close()
    with tempfile.TemporaryDirectory(prefix="tp-") as folder:
        os.environ["TUI_PROFILER_DIR"] = folder
        try:
            alone = _alone(ours)
            done = []
            for index in range(options.attaches):
                done.append(_attached(ours, options.quiet_seconds))
                if sys.stderr.isatty():
                    print(f"\r{index + 1} of {options.attaches}", end="", file=sys.stderr)
        finally:
            ours.close()
            os.kill(template, signal.SIGKILL)
            os.waitpid(template, 0)
    _print(done, alone)


def _fork_programs(orders: socket.socket, layers: int) -> None:
    """Be the process that has imported torch; fork a program for each descriptor that arrives."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        folder, descriptors, _, _ = socket.recv_fds(orders, 256, 1)
        if not folder:
            return
        descriptor = descriptors[0]
        if os.fork() == 0:
            orders.close()
            os.environ["TUI_PROFILER_DIR"] = folder.decode()
            _program(socket.socket(fileno=descriptor), layers)
            os._exit(0)
        os.close(descriptor)


def _program(link: socket.socket, layers: int) -> None:
    """Be the program: forwards until a byte arrives, then the gaps and a digest are sent."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(layers))).eval()
    x, digest, count = torch.randn(8, 64), hashlib.sha256(), 0
    gaps: list[tuple[float, float, float, float]] = []
    counters = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    waited = 0.0
    is_over: list[bytes] = []
    threading.Thread(target=lambda: is_over.append(link.recv(1)), daemon=True).start()
    link.sendall(f"{os.getpid()}\n".encode())
    last, used = time.perf_counter(), time.process_time()
    with torch.no_grad():
        while not is_over or count < OUTPUTS:
            out = model(x)
            x = out * 8 if count % 64 else torch.randn(8, 64)
            count += 1
            if count <= OUTPUTS:
                digest.update(out.numpy().tobytes())
            waited, before = int(os.pread(counters, 64, 0).split()[1]) / 1e9, waited
            cpu, used = -used, time.process_time()
            now = time.perf_counter()
            if now - last > 0.0005:
                on_core = max(now - last - (waited - before), 0.0)
                gaps.append((now, now - last, on_core, min(on_core, cpu + used)))
            last = now
    link.sendall(json.dumps((digest.hexdigest(), gaps)).encode())
    link.close()


class _Running:
    """A program, seen from here."""

    def __init__(self, calls: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            folder = os.environ["TUI_PROFILER_DIR"].encode()
            socket.send_fds(calls, [folder], [theirs.fileno()])
        self._link = ours
        self.pid = int(ours.recv(32))

    def end(self) -> tuple[str, list[tuple[float, float, float, float]]]:
        """End it; return the digest of its outputs, and its gaps.

        Of each: when it ended, and its three figures.
        """
        self._link.sendall(b".")
        parts = []
        while part := self._link.recv(1 << 20):
            parts.append(part)
        self._link.close()
        digest, gaps = json.loads(b"".join(parts))
        return digest, gaps


def _alone(calls: socket.socket) -> str:
    return _Running(calls).end()[0]


def _attached(calls: socket.socket, quiet_seconds: float) -> Attach:
    from tests.viewer import Viewer
    from tui_profiler.connection.sockets import place_at
    from tui_profiler.injection.inject import start_listener

    program = _Running(calls)
    time.sleep(quiet_seconds + 0.2)  # Its first forwards are slower.
    began = time.perf_counter()
    place = place_at(start_listener(program.pid))
    listens = time.perf_counter()
    assert place is not None
    with Viewer(place) as viewer:
        viewer.until(lambda session: session.tree is not None, seconds=TREE_SECONDS)
        shown = time.perf_counter()
    digest, gaps = program.end()

    def longest(begin: float, end: float) -> Longest:
        inside = [one for one in gaps if one[0] > begin and one[0] - one[1] < end]
        return Longest(*(max((one[place] for one in inside), default=0.0) for place in (1, 2, 3)))

    took_listener, took_tree = listens - began, shown - listens
    return Attach(
        took_listener,
        took_tree,
        longest(began - min(took_listener, quiet_seconds), began),
        longest(began, listens),
        longest(began - min(took_tree, quiet_seconds), began),
        longest(listens, shown),
        digest,
    )


def _print(done: list[Attach], alone: str) -> None:
    rows = [
        ("the listener is started, seconds", [one.took_listener for one in done], 1.0),
        ("until the first tree, seconds", [one.took_tree for one in done], 1.0),
    ]
    gaps = (
        ("as long before the listener", [one.quiet_before_listener for one in done]),
        ("while it is started", [one.listener for one in done]),
        ("as long before the first tree", [one.quiet_before_tree for one in done]),
        ("until it is shown", [one.tree for one in done]),
    )
    for name, longest in gaps:
        rows.append((f"longest gap {name}, ms", [one.whole for one in longest], 1e3))
        rows.append(("  without waiting for a core", [one.on_core for one in longest], 1e3))
        rows.append(("  at most, on an idle machine", [one.working for one in longest], 1e3))
    print(f"{len(done)} attaches, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':46}{'p50':>9}{'p90':>9}{'p99':>9}{'max':>9}")
    for name, values, scale in rows:
        ordered = sorted(value * scale for value in values)
        at = (ordered[round(share * (len(ordered) - 1))] for share in (0.5, 0.9, 0.99, 1.0))
        print(f"{name:46}" + "".join(f"{value:9.2f}" for value in at))
    same = sum(one.digest == alone for one in done)
    print(f"outputs of the first {OUTPUTS} forwards identical: {same} of {len(done)}")


if __name__ == "__main__":
    main()

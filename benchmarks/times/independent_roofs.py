"""Roofs by another way: numpy's BLAS and ``copyto``, a process for each core, by CPU time.

    python -m benchmarks.times.independent_roofs THREADS L2_BYTES L3_BYTES

Measures one round of each roof for every line that it reads, and prints the rates as JSON: FLOPs or
bytes per second of all processes together, null where that is not known. No torch, and none of our
code. ``L2_BYTES`` and ``L3_BYTES`` are what one process copies, 0 where there is no such cache.

1. A process for each core, as threads of one would wait for each other's interpreter after every
   short call. They begin together.
2. A piece is timed by CLOCK_THREAD_CPUTIME_ID: waiting for a core is in none of it. The rate is the
   one that the fastest tenth of the pieces reaches, summed over the processes.
3. A copy in a cache takes little longer than its call: the time of a call that copies one number is
   taken from it.
4. Memory is shared: the rate of a piece is what all processes moved meanwhile, and it counts where
   all of them were on a core all the while.
5. Products are OpenBLAS's, with the kernels of AVX-512 where the processor has it: those for Zen do
   without, and reach half of what it can do. They stand against the roof of float32, which is the
   better of torch's products (MKL) and convolutions (oneDNN): so each is the most that one library
   gets out of the cores' arithmetic. What torch's products alone reach is compared with nothing.
6. Pages are of the size that torch's are: numpy asks for larger ones otherwise.
"""

from __future__ import annotations

import bisect
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OPENBLAS", "MKL", "OMP"):
    os.environ[_name + "_NUM_THREADS"] = "1"
os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"
_PROCESSOR = Path("/proc/cpuinfo")
if _PROCESSOR.exists() and " avx512vl" in _PROCESSOR.read_text():
    # SkylakeX stands for all that have it; it needs F, BW, DQ, VL.
    os.environ["OPENBLAS_CORETYPE"] = "SKYLAKEX"

import numpy as np  # noqa: E402 # reads the settings above

_SECONDS = 0.15
_LEAST_PIECES = 10
_MEMORY_BYTES = 1 << 27
_CHUNK_BYTES = 1 << 20
_PIECE_BYTES = 4 << 20
_SIZE = 512
_ON_CORE = 1.05
_CLOCK_NS = 2000
"""What reading the clocks takes at most."""
_TOGETHER = 0.9


class Piece(NamedTuple):
    """One piece of one process; nanoseconds."""

    start: int
    end: int
    took: int
    """Of the core."""
    amount: float
    """FLOPs or bytes."""

    @property
    def on_core(self) -> bool:
        """Whether it never waited for a core."""
        return self.end - self.start <= _ON_CORE * self.took + _CLOCK_NS


Make = Callable[[], tuple[Callable[[], object], float]]


def product() -> tuple[Callable[[], object], float]:
    """Return a product of two float32 matrices, and its FLOPs."""
    left, right = (np.random.rand(_SIZE, _SIZE).astype(np.float32) for _ in range(2))
    out = np.empty_like(left)
    return lambda: np.dot(left, right, out=out), 2.0 * _SIZE**3


def memory() -> tuple[Callable[[], object], float]:
    """Return a copy of one part after another of a buffer larger than the caches, and its bytes."""
    # Both are written: the first touch of a page costs far more than the copy.
    source, target = np.ones(_MEMORY_BYTES // 8), np.ones(_MEMORY_BYTES // 8)
    step, at = _CHUNK_BYTES // 8, 0

    def piece() -> None:
        nonlocal at
        np.copyto(target[at : at + step], source[at : at + step])
        at = (at + step) % len(source)

    return piece, 2.0 * _CHUNK_BYTES


def cache(size: int) -> tuple[Callable[[], object], float]:
    """Return copies of so many bytes again and again, and their bytes."""
    source, target = np.ones(size // 8), np.zeros(size // 8)
    times = max(_PIECE_BYTES // size, 1)

    def piece() -> None:
        for _ in range(times):
            np.copyto(target, source)

    return piece, 2.0 * size * times


def call_seconds() -> float:
    """Return what a call takes that copies one number."""
    source, target = np.ones(1), np.zeros(1)

    def piece() -> None:
        for _ in range(1000):
            np.copyto(target, source)

    return 1e-9 * sorted(one.took for one in timed(piece, 1.0))[1] / 1000


def timed(piece: Callable[[], object], amount: float) -> list[Piece]:
    """Time a piece again and again."""
    clock, found = time.CLOCK_THREAD_CPUTIME_ID, []
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until or len(found) < _LEAST_PIECES:
        start, on_core = time.perf_counter_ns(), time.clock_gettime_ns(clock)
        piece()
        took = time.clock_gettime_ns(clock) - on_core
        found.append(Piece(start, time.perf_counter_ns(), took, amount))
    return found


def work(pipe: Any, begin: Any, l2_bytes: int, l3_bytes: int) -> None:
    """Time what is asked for by name, together with the other processes, until nothing is."""
    made = {"float32": product(), "memory": memory()}
    made |= {name: cache(size) for name, size in (("L2", l2_bytes), ("L3", l3_bytes)) if size}
    call = call_seconds()
    while (name := pipe.recv()) is not None:
        piece, amount = made[name]
        piece()
        begin.wait()
        found = timed(piece, amount)
        if name in ("L2", "L3"):
            less = 1e9 * call * amount / 2 / (l2_bytes if name == "L2" else l3_bytes)
            found = [one._replace(took=max(int(one.took - less), 1)) for one in found]
        pipe.send(found)


def fast(rates: Sequence[float]) -> float | None:
    """Return what the fastest tenth reaches, of enough pieces."""
    if len(rates) < _LEAST_PIECES:
        return None
    return sorted(rates)[-max(len(rates) // 10, 2)]


def together(pieces: Sequence[Sequence[Piece]]) -> list[float]:
    """Return the rate of all processes during each piece by rule 4, in amount per second."""
    found = []
    for at, own in enumerate(pieces):
        others = [*pieces[:at], *pieces[at + 1 :]]
        for one in filter(lambda piece: piece.on_core, own):
            rate, is_shared = one.amount / one.took, True
            for other in others:
                first = bisect.bisect_right(other, (one.start,)) - 1
                met = other[max(first, 0) : bisect.bisect_left(other, (one.end,))]
                shares = [
                    (min(each.end, one.end) - max(each.start, one.start), each)
                    for each in met
                    if each.on_core and each.end > one.start
                ]
                shared = sum(share for share, _ in shares)
                is_shared &= shared >= _TOGETHER * (one.end - one.start)
                rate += sum(share * each.amount / each.took for share, each in shares) / max(
                    shared, 1
                )
            if is_shared:
                found.append(rate * 1e9)
    return found


def round_of(name: str, pipes: Sequence[Any]) -> float | None:
    """Return the rate of one roof in one round."""
    for pipe in pipes:
        pipe.send(name)
    pieces = [pipe.recv() for pipe in pipes]
    if name == "memory":
        return fast(together(pieces))
    rates = [fast([one.amount / one.took * 1e9 for one in own]) for own in pieces]
    return None if None in rates else sum(filter(None, rates))


def main() -> None:
    """Measure a round for each line, until there are no more."""
    threads, l2_bytes, l3_bytes = map(int, sys.argv[1:])
    context = multiprocessing.get_context("fork")
    begin = context.Barrier(threads)
    pipes, processes = [], []
    for _ in range(threads):
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, begin, l2_bytes, l3_bytes))
        process.start()
        pipes.append(ours)
        processes.append(process)
    names = ["float32", "memory", *(["L2"] if l2_bytes else []), *(["L3"] if l3_bytes else [])]
    for _ in sys.stdin:
        print(json.dumps({name: round_of(name, pipes) for name in names}), flush=True)
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(None)
        process.join()


if __name__ == "__main__":
    main()

"""Matrix products, convolutions, copies, empty operators: what a device can do at most.

1. On a processor everything is timed in short pieces on cores of its own (``core_timing.py``), by
   as many threads as torch has, in several rounds (``rounds.py``): so a roof does not depend on
   what else the machine does, and where it may, its quality says so. Each function here returns
   what measures one round.
2. Memory: pieces of two buffers, each four times as large as the last cache, are copied in turn,
   so that a piece has left the caches before it is copied again.
3. Caches: a copy of one size within a level less a copy of a sixteenth of it, timed in turn, so
   that what a call costs apart from moving bytes is in none of them. Of half of it the difference
   would be as small as the noise of both. A cache that one core has for itself by one thread
   alone: waking the others takes as long as what they copy.
4. Products: square matrices of growing size; larger ones come nearer to the peak but are longer
   pieces, of which a busy machine lets none run undisturbed. The best of those that are good; the
   rounds after the first are of that size, and of three quarters of it.
5. Convolutions: 3x3, an image for each thread, without padding; the size is the number of channels.
   Of oneDNN alone, which computes them directly (torch asks for ``convolution_direct``), so that
   they need the FLOPs that are counted. MKL's products use half of the width of AVX-512 on AMD
   processors, and products without instructions for their dtype are slow as well.
6. Where threads wait for cores one thread alone is timed, and its rate times the threads is the
   roof of products and caches: each core has its own arithmetic and its own part of them. Not of
   memory, which the threads share; nor where two threads share a core.

Nothing of the user's is changed: random numbers come from a generator of our own, and gradients are
off for this thread only. On a GPU the work is timed between events on its stream.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from msgspec.structs import replace

from tui_profiler.messages import Cache, RoofQuality, Unknown, known
from tui_profiler.probe.measure.ceilings.core_timing import (
    LEAST,
    MOST_BUSY,
    Pieces,
    WaitClock,
    timed,
    timed_in_turn,
    working_threads,
)
from tui_profiler.probe.measure.ceilings.rounds import Measured, Round
from tui_profiler.probe.measure.devices.machine import allowed_cores, caches, memory, memory_group
from tui_profiler.system.real_time import perf_counter, thread_time, time

SEARCH_SECONDS = 0.15
"""What products of one dtype may take in the first round, about, and convolutions; four times as
long on a busy machine."""
ROUND_SECONDS = 0.03
"""What they may take in any other round."""
COPY_SECONDS = 0.05
"""What copies in one level may take in a round."""
OPERATOR_SECONDS = 0.01
OPERATORS = 200
"""In one piece."""
STREAM_SECONDS = 0.3
"""What one dtype may take on a GPU, about."""
STREAM_REPEATS = 10

_LEAST_SIZE, _FIRST_SIZE, _MOST_SIZE = 32, 128, 8192
_LEAST_CHANNELS, _FIRST_CHANNELS, _MOST_CHANNELS = 16, 64, 128
"""With more channels an image and its result are larger than the L2 cache of a core."""
_IMAGE, _WINDOW = 30, 3
"""Rows and columns."""
_TRIED_SIZES = 2
_CONVERGED = 1.25
"""Twice the size that is at most so many times as fast is as good as the largest."""
_LONG_PIECE = 5e-4
"""Seconds; a time slice of Linux's scheduler is 3 ms."""
_SHORT_PIECE = 3e-4
_MOST_SEARCHES = 2
"""Rounds in which the size of what all threads do is looked for."""
_NOT_SPLIT = 1.2
"""All threads that are at most so many times as fast as one do not share the work."""
_REPEATS = 4
"""Of every product and copy on a GPU; the first, which may still compile or allocate, may be the
worst."""
_LEAST_COPY_BYTES = 64 * 2**20
_CACHES = 4
"""Each buffer is so many times as large as the last cache: STREAM's rule (``stream.c``, McCalpin).
Of twice the cache a part stays in it, which does not replace the oldest first: 45 GB/s were
measured instead of 42.5, and 42 to 43.5 of four times and of sixteen times as much."""
_LEAST_CHUNK_BYTES = 2**20
_PIECE_BYTES = 8 * 2**20
"""What each thread moves in a piece of copies within a cache: about a tenth of a millisecond."""
_THREAD_BYTES = 2**17
"""Torch gives a thread no less of a copy (``at::internal::GRAIN_SIZE``, 32,768 elements)."""
_MEMORY_SHARE = 8
"""At most one part in so many of the free memory is used."""
_BEYOND, _FAR = 1.5, 4
"""A copy within a level is at least so many times as large as the level before it; and so many
times where it fits, as a part of less comes from there now and then."""
_MANY = 100
"""Pieces of one thread: after a wait for a core the caches are cold, so some follow another."""
_LESS = 16
"""The copy whose time is taken from it is so many times smaller: that it is in a nearer cache
makes at most so small a part of the difference."""
Kernel: TypeAlias = Callable[[torch.Tensor, torch.Tensor], object]
_KERNELS: tuple[tuple[str, Kernel], ...] = (
    ("copies", lambda source, target: target.copy_(source)),
    ("negations", lambda source, target: torch.neg(source, out=target)),
)
"""They move the same bytes."""
_CORES = Path("/sys/devices/system/cpu")


def product_rounds(dtype: str, device: torch.device) -> Callable[[], Round]:
    """Return what measures FLOP/s of square matrix products; a multiply-add is two.

    Args:
        dtype: torch's name without prefix.
        device: where.
    """
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        return _without_figure(f"torch has no dtype {dtype}")
    products = _Sizes(
        _Work(
            "products",
            lambda size: 2 * size**3,
            lambda size: _product(kind, size, torch.Generator().manual_seed(0)),
            _LEAST_SIZE,
            _FIRST_SIZE,
            _most_size(kind, device),
        )
    )

    def measure() -> Round:
        if device.type == "cuda":
            return Round(_device_product_rate(kind, device))
        return products.round()

    return _or_why(measure, f"no {dtype} matrix product on {device}")


def convolution_rounds(dtype: str) -> Callable[[], Round]:
    """Return what measures FLOP/s of a processor's convolutions, by rule 5; of ``product_rounds``.

    Args:
        dtype: torch's name without prefix, one that has products.
    """
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        return _without_figure(f"torch has no dtype {dtype}")
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch
    if not (has_onednn and torch.backends.mkldnn.enabled):
        return _without_figure("torch does not use oneDNN")
    convolutions = _Sizes(
        _Work(
            "convolutions",
            convolution_flops,
            lambda channels: convolution(kind, channels),
            _LEAST_CHANNELS,
            _FIRST_CHANNELS,
            _MOST_CHANNELS,
        )
    )
    return _or_why(convolutions.round, f"no {dtype} convolution on cpu")


def convolution_flops(channels: int) -> int:
    """Return the FLOPs of ``convolution``; a multiply-add is two."""
    return 2 * torch.get_num_threads() * (channels * _WINDOW * (_IMAGE - _WINDOW + 1)) ** 2


def convolution(kind: torch.dtype, channels: int) -> Callable[[], object]:
    """Return a 3x3 convolution of an image for each thread, with as many channels in as out."""
    generator = torch.Generator().manual_seed(0)
    # In this order of memory oneDNN copies the weights alone before it begins.
    images, weights = (
        torch.rand(shape, generator=generator).to(kind).to(memory_format=torch.channels_last)
        for shape in (
            (torch.get_num_threads(), channels, _IMAGE, _IMAGE),
            (channels, channels, _WINDOW, _WINDOW),
        )
    )
    return lambda: torch.conv2d(images, weights)


def _or_why(measure: Callable[[], Round], why: str) -> Callable[[], Round]:
    def measured() -> Round:
        try:
            with torch.no_grad():
                return measure()
        except (RuntimeError, NotImplementedError) as error:
            return Round(Measured(Unknown(f"{why}: {_first_line(error)}"), None))

    return measured


def copy_rounds(device: torch.device) -> Callable[[], Round]:
    """Return what measures bytes per second of a copy past the caches, read plus written."""
    size = copy_bytes(last_level_cache_bytes(device), _free_bytes(device))
    if not size:
        return _without_figure("too little free memory for a copy larger than the caches")
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    # Written once beforehand: the first touch of a page costs far more than the copy.
    target = torch.zeros_like(source).copy_(source)
    kernels = cycle(_KERNELS)

    def measure() -> Round:
        if device.type == "cuda":
            seconds = _best(lambda: target.copy_(source), device, STREAM_SECONDS / 2)
            rate = 2 * source.numel() * source.element_size() / seconds
            return Round(Measured(rate, _of_stream()))
        name, kernel = next(kernels)
        with torch.no_grad():
            found = all_together(lambda: _chunked_rate(kernel, source, target))
        return Round(found, name)

    return measure


def copy_bytes(cache: int, free: int) -> int:
    """Return how large a copy past the caches is, 0 where there is too little memory for one.

    Args:
        cache: bytes of the last one.
        free: bytes of memory that are free; there are two buffers.
    """
    size = min(max(_LEAST_COPY_BYTES, _CACHES * cache), free // _MEMORY_SHARE // 2)
    return size if size >= cache else 0


def cache_rounds(cache: Cache, threads: int, beyond: int) -> Callable[[], Round]:
    """Return what measures bytes per second of a copy within one level of caches, by rule 3.

    Args:
        cache: the level.
        threads: that torch has.
        beyond: bytes that fit in the level before it.
    """
    fits = level_bytes(cache, threads)
    # What is copied is half of the working set, the rest where it is copied to. No more than
    # needed: other programs use a part of a cache that is shared.
    large = min(fits // 4, _FAR * beyond) if beyond else fits // 4
    if large < _BEYOND * beyond:
        return _without_figure(
            f"L{cache.level} is not much larger than the level before it, for {threads} threads"
        )
    is_split = large // 2 >= threads * _THREAD_BYTES
    is_own = cache.cores == 1 and cache.count >= threads
    kernels = cycle(_KERNELS)

    def measure() -> Round:
        name, kernel = next(kernels)
        with torch.no_grad():
            if threads > 1 and (is_own or not is_split):
                found = _by_one(lambda: _copies_rate(kernel, large // threads))
            else:
                # One thread alone copies its part of it.
                found = by_all_or_one(
                    lambda: _copies_rate(kernel, large * torch.get_num_threads() // threads)
                )
        return Round(found, name)

    return measure


def level_bytes(cache: Cache, threads: int) -> int:
    """Return what all caches of one level hold that so many threads use."""
    return cache.bytes * min(cache.count, -(-threads // max(cache.cores, 1)))


def operator_rounds(device: torch.device) -> Callable[[], Round]:
    """Return what measures the least time of one operator on one element: dispatch and call."""
    one = torch.ones(1, device=device)

    def run() -> None:
        relu = torch.relu
        for _ in range(OPERATORS):
            relu(one)

    def measure() -> Round:
        with torch.no_grad():
            if device.type == "cuda":
                run()
                seconds = min(_stream_seconds(run, device) for _ in range(STREAM_REPEATS))
                return Round(Measured(seconds / OPERATORS, _of_stream()))
            with _wait_clock(run, 1) as clock:
                pieces = timed(run, clock, OPERATOR_SECONDS, least=_MANY)
        return Round(Measured(pieces.seconds / OPERATORS, pieces.quality(time())))

    return measure


def waits_from() -> str:
    """Say where waiting for a core is read on this machine."""
    with _wait_clock(lambda: None, 1) as clock:
        return clock.source


def last_level_cache_bytes(device: torch.device) -> int:
    """Return the size of the cache nearest to memory; 0 where nothing tells it."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    return max((one.bytes for one in caches(allowed_cores())), default=0)


def has_core_for_each(threads: int, cores: Path = _CORES) -> bool:
    """Return whether so many threads can have a core each; unknown is taken for yes."""
    siblings = {
        (cores / f"cpu{core}" / "topology" / "thread_siblings_list") for core in allowed_cores()
    }
    try:
        return len({file.read_text(encoding="ascii").strip() for file in siblings}) >= threads
    except OSError:
        return len(siblings) >= threads


def by_all_or_one(measure: Callable[[], Measured]) -> Measured:
    """Measure by all threads, and on a machine where they wait for cores by one, by rule 6."""
    by_all, threads = measure(), torch.get_num_threads()
    is_calm = _is_good(by_all) and by_all.quality is not None and by_all.quality.busy <= MOST_BUSY
    if is_calm or threads == 1 or not has_core_for_each(threads):
        return by_all
    by_one = _by_one(measure)
    one, every = known(by_one.figure), known(by_all.figure)
    # Torch does not split every product: float16 without instructions for it is left to one thread.
    # What is slower than one thread was disturbed in a way that its quality did not tell.
    is_split = True
    if _is_good(by_all) and one and every:
        is_split = not 1 / _NOT_SPLIT <= every / (one / threads) <= _NOT_SPLIT
    return by_one if _is_good(by_one) and is_split else by_all


def _by_one(measure: Callable[[], Measured]) -> Measured:
    """Measure by one thread, and return its rate times the threads."""
    threads = torch.get_num_threads()
    found = _of_one(measure)
    rate, quality = known(found.figure), found.quality
    if rate is None or quality is None:
        return found
    return Measured(rate * threads, replace(quality, scaled=f"one thread's rate times {threads}"))


def all_together(measure: Callable[[], Measured]) -> Measured:
    """Measure what all threads share: by all, or not good enough by one."""
    threads, by_all = torch.get_num_threads(), measure()
    if threads == 1 or by_all.quality is None or not by_all.quality.why_not_good:
        return by_all
    by_one = _of_one(measure)
    if by_one.quality is None:
        return by_one
    why = f"one thread's rate; of {threads} together {by_all.quality.why_not_good}"
    return by_one._replace(quality=replace(by_one.quality, why_not_good=why))


def _of_one(measure: Callable[[], Measured]) -> Measured:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        return measure()
    finally:
        torch.set_num_threads(threads)


def _is_good(found: Measured) -> bool:
    return found.quality is not None and not found.quality.why_not_good


def _without_figure(why: str) -> Callable[[], Round]:
    return lambda: Round(Measured(Unknown(why), None))


def _copies_rate(kernel: Kernel, large: int) -> Measured:
    """Measure copies of two sizes of which the larger one fills a cache, by rule 3."""
    threads = torch.get_num_threads()
    # Torch gives all threads a part of both.
    small = max(large // _LESS, threads * _THREAD_BYTES if threads > 1 else 4)
    short, long = _copies(kernel, (small, large))
    return difference_rate(large - small, short, long)


def difference_rate(more: int, short: Pieces, long: Pieces) -> Measured:
    """Return what a copy moves apart from what each call costs; its quality is the worse of both.

    Args:
        more: bytes that the larger of two copies reads more than the other, and writes.
        short: of the smaller copy.
        long: of the larger one.
    """
    seconds = long.seconds - short.seconds
    if seconds <= 0:
        return Measured(Unknown("larger copies do not take longer"), None)
    worse = max(short, long, key=lambda pieces: (bool(pieces.why_not_good), pieces.busy))
    return Measured(2 * more / seconds, worse.quality(time()))


@contextmanager
def _wait_clock(work: Callable[[], object], threads: int) -> Iterator[WaitClock]:
    clock = WaitClock(working_threads(work, threads))
    try:
        yield clock
    finally:
        clock.close()


def _pieces(piece: Callable[[], object], budget_seconds: float, least: int = LEAST) -> Pieces:
    with _wait_clock(piece, torch.get_num_threads()) as clock:
        return timed(piece, clock, budget_seconds, least if clock.is_alone else LEAST)


class _Work(NamedTuple):
    """Arithmetic of one dtype, of any size."""

    name: str
    flops: Callable[[int], int]
    make: Callable[[int], Callable[[], object]]
    least: int
    first: int
    most: int


class Tried(NamedTuple):
    """A size that was timed."""

    size: int
    rate: float
    """FLOP/s."""
    pieces: Pieces


class _Sizes:
    """Arithmetic of sizes that the first rounds find."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._round = 0
        self._sizes: dict[int, int] = {}
        """By the number of threads."""
        self._failed: dict[int, Measured] = {}
        """Likewise, of the searches that found no good size."""

    def round(self) -> Round:
        self._round += 1
        name = self._work.name
        if self._round % 2 == 0:
            name += " of three quarters of the size"
        return Round(by_all_or_one(self._measured), name)

    def _measured(self) -> Measured:
        threads = torch.get_num_threads()
        if threads not in self._sizes:
            if self._round > _MOST_SEARCHES and threads in self._failed:
                return self._failed[threads]
            return self._searched(threads)
        size = self._sizes[threads]
        if self._round % 2 == 0 and size > self._work.first // 2:
            size = size * 3 // 4
        pieces = _pieces(self._work.make(size), ROUND_SECONDS)
        return Measured(self._work.flops(size) / pieces.seconds, pieces.quality(time()))

    def _searched(self, threads: int) -> Measured:
        size, measured = fastest_size(_sizes_tried(self._work), self._work.name)
        if _is_good(measured):
            self._sizes[threads] = size
        else:
            self._failed[threads] = measured
        return measured


def _sizes_tried(work: _Work) -> list[Tried]:
    size, left = min(work.first, work.most), SEARCH_SECONDS
    piece = work.make(size)
    while size > work.least and _least_cpu_seconds(piece) > _LONG_PIECE:
        size //= 2
        piece = work.make(size)
    found: list[Tried] = []
    while True:
        began = perf_counter()
        pieces = _pieces(piece, left / 4)
        found.append(Tried(size, work.flops(size) / pieces.seconds, pieces))
        size *= 2
        if size > work.most or (pieces.why_not_good and len(found) > _TRIED_SIZES):
            break
        piece = work.make(size)
        left -= perf_counter() - began
        if _REPEATS * _least_cpu_seconds(piece, left / 8) > left / 4:
            break
    return found


def fastest_size(tried: Sequence[Tried], name: str) -> tuple[int, Measured]:
    """Return the best of the sizes that are good, where a larger one would be no better.

    Args:
        tried: from the smallest one on.
        name: of what was timed, in plural.
    """
    good = [each for each in tried if not each.pieces.why_not_good]
    best = max(good or tried, key=lambda each: each.rate)
    quality = best.pieces.quality(time())
    still_grows = len(good) < 2 or good[-1].rate > _CONVERGED * good[-2].rate
    if good and still_grows and tried[-1].pieces.why_not_good:
        why = tried[-1].pieces.why_not_good
        quality = replace(quality, why_not_good=f"larger {name} may be faster: {why}")
    return best.size, Measured(best.rate, quality)


def _product(kind: torch.dtype, size: int, generator: torch.Generator) -> Callable[[], object]:
    # Random, because a GPU draws less power on constants, and runs faster than it ever will.
    left, right = (
        torch.rand(size, size, generator=generator, device=generator.device).to(kind)
        for _ in range(2)
    )
    out = torch.empty_like(right)
    return lambda: torch.mm(left, right, out=out)


def _most_size(kind: torch.dtype, device: torch.device) -> int:
    return min(_MOST_SIZE, int((_free_bytes(device) / _MEMORY_SHARE / 3 / kind.itemsize) ** 0.5))


def _chunked_rate(kernel: Kernel, source: torch.Tensor, target: torch.Tensor) -> Measured:
    size = source.numel() * source.element_size()
    chunk = _LEAST_CHUNK_BYTES
    while True:
        pairs = list(
            zip(torch.split(source, chunk // 4), torch.split(target, chunk // 4), strict=True)
        )
        pairs = [pair for pair in pairs if pair[0].numel() * 4 == chunk]
        move = _in_turn(kernel, pairs)
        # Many threads move a small piece faster than they start.
        if 2 * chunk > size or _least_cpu_seconds(move) >= _SHORT_PIECE:
            break
        chunk *= 2
    pieces = _pieces(move, COPY_SECONDS)
    return Measured(2 * chunk / pieces.seconds, pieces.quality(time()))


def _in_turn(
    kernel: Kernel, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> Callable[[], object]:
    turn = 0

    def move() -> None:
        nonlocal turn
        source, target = pairs[turn]
        turn = (turn + 1) % len(pairs)
        kernel(source, target)

    return move


def _copies(kernel: Kernel, sizes: Sequence[int]) -> list[Pieces]:
    """Time one copy of each of some sizes that are in a cache, in turn; a piece is several."""
    moves = [_moves(kernel, size) for size in sizes]

    def every() -> None:
        for move, _ in moves:
            move()

    with _wait_clock(every, torch.get_num_threads()) as clock:
        # A difference of two times needs each to be steady.
        least = _MANY if clock.is_alone else LEAST
        timed = timed_in_turn([move for move, _ in moves], clock, COPY_SECONDS, least)
    return [
        pieces._replace(seconds=pieces.seconds / repeats)
        for pieces, (_, repeats) in zip(timed, moves, strict=True)
    ]


def _moves(kernel: Kernel, size: int) -> tuple[Callable[[], object], int]:
    source = torch.ones(max(size // 4, 1))
    target = torch.zeros_like(source)
    repeats = max(_PIECE_BYTES * torch.get_num_threads() // (2 * size), 1)

    def piece() -> None:
        for _ in range(repeats):
            kernel(source, target)

    return piece, repeats


def _least_cpu_seconds(action: Callable[[], object], most_seconds: float = 1.0) -> float:
    """Return about what an action takes, from the CPU time of this thread in a few of them.

    The first may still compile or allocate; waiting for a core is in none of them.
    """
    seconds: list[float] = []
    began = perf_counter()
    while len(seconds) < _REPEATS and (not seconds or perf_counter() - began < most_seconds):
        start = thread_time()
        action()
        seconds.append(thread_time() - start)
    return max(min(seconds), 1e-7)


def _device_product_rate(kind: torch.dtype, device: torch.device) -> Measured:
    # Larger products come closer to the peak, but on a slow dtype one of them would take minutes:
    # each size is tried only if the one before it says that there is time.
    generator = torch.Generator(device).manual_seed(0)
    most = _most_size(kind, device)
    best, size, left = 0.0, min(2 * _FIRST_SIZE, most), STREAM_SECONDS
    while True:
        began = perf_counter()
        seconds = _best(_product(kind, size, generator), device, left)
        best = max(best, 2 * size**3 / seconds)
        left -= perf_counter() - began
        if size >= most or 8 * seconds * _REPEATS > left:
            return Measured(best, _of_stream())
        size = min(2 * size, most)


def _of_stream() -> RoofQuality:
    """Return the quality of what was timed on a GPU's stream: no thread waits for a core there."""
    return RoofQuality(time(), 0.0, pieces=_REPEATS, undisturbed=_REPEATS)


def _best(action: Callable[[], object], device: torch.device, budget_seconds: float) -> float:
    with torch.no_grad():
        began = perf_counter()
        best = _stream_seconds(action, device)
        for _ in range(_REPEATS - 1):
            if perf_counter() - began > budget_seconds:
                break
            best = min(best, _stream_seconds(action, device))
        return best


def _stream_seconds(action: Callable[[], object], device: torch.device) -> float:
    with torch.cuda.device(device):
        begin: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch
        end: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch
        torch.cuda.synchronize(device)
        begin.record()
        action()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return memory(memory_group()).free_bytes


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

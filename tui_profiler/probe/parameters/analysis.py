"""An analysis of many tensors: several at once, told one by one, stopped at any piece.

1. Threads of their own do the work; torch lets others run while it computes. The thread that called
   waits, tells how far it is, and looks at what is asked meanwhile.
2. One of torch's threads each: the setting is put back afterwards.
3. What one tensor raises is told of that tensor, and ends nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import torch
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages.parameters import Moments, ParameterPart
from tui_profiler.probe.measure.devices.machine import allowed_cores
from tui_profiler.probe.parameters.distribution import histogram
from tui_profiler.probe.parameters.pruning import channels, pruned, sizes
from tui_profiler.probe.parameters.spectral import spectral
from tui_profiler.probe.parameters.statistics import count_bits, is_narrow, moments, sum_up
from tui_profiler.probe.parameters.storage import compression, quantised, width
from tui_profiler.probe.parameters.values import Subject, Values
from tui_profiler.probe.process.wire_names import writable


class _StoppedError(Exception):
    """Nobody waits for the rest of a tensor."""


def statistics(
    subject: Subject, parts: tuple[ParameterPart, ...], read: Callable[[int], None]
) -> messages.TensorStatistics:
    """Look at a tensor.

    Args:
        subject: has values.
        parts: what is wanted beside the one pass.
        read: is told the bytes of each piece of the one pass, and 0 at times in the parts; may
            raise ``_StoppedError``.

    Raises:
        StoppedError: raised by ``read``.
        OSError: the file cannot be read.
    """
    began = time.perf_counter()
    assert subject.values is not None
    values = subject.values()
    sums, table = (count_bits if is_narrow(values.dtype) else sum_up)(values, read)
    found = _described(
        subject,
        moments=moments(sums, table),
        histogram=histogram(table, sums.minimum, sums.maximum),
        pruned=pruned(table, sums.count),
    )
    if sums.count:
        for part in parts:
            found = _with(part, found, subject, values, lambda: read(0))
    return replace(found, seconds=time.perf_counter() - began)


def _with(
    part: ParameterPart,
    found: messages.TensorStatistics,
    subject: Subject,
    values: Values,
    check: Callable[[], None],
) -> messages.TensorStatistics:
    """Add a part, or why it is not there."""
    assert found.moments is not None
    why = _why_not(part, subject, found.moments, values)
    if why:
        return replace(found, whys=(*found.whys, (part, why)))
    if part == "channels":
        rows = channels(values, sizes(values, check), subject.heads, check)
        return replace(found, channels=rows)
    if part == "spectral":
        return replace(found, spectral=spectral(values, check))
    if part == "compression":
        return replace(found, compression=compression(values))
    moments = found.moments
    largest = max(abs(moments.minimum), abs(moments.maximum))
    # What is not finite is in none of these figures, and no whole number stores it.
    is_finite = not (moments.nans or moments.infinities)
    ways, sampled = quantised(values, largest, check)
    return replace(
        found,
        quantised=ways,
        quantised_on=sampled,
        width=width(ways, subject.dtype, subject.bytes, moments.count)
        if values.rows > 1 and not subject.is_buffer and is_finite
        else None,
    )


def _why_not(part: ParameterPart, subject: Subject, known: Moments, values: Values) -> str:
    if part in ("quantisation", "compression") and subject.dtype.startswith("q"):
        return "it is quantised: the figures are of what its values stand for"
    if part == "channels" and values.rows < 2:
        return "it has fewer than two axes"
    if part == "quantisation" and not values.dtype.is_floating_point:
        return "its values are whole numbers" if not values.dtype.is_complex else "it is complex"
    if part == "quantisation" and not (known.minimum or known.maximum):
        return "all values are 0"
    if part == "spectral" and (known.nans or known.infinities):
        return "it has NaN or infinite values"
    return ""


def _described(subject: Subject, **figures: object) -> messages.TensorStatistics:
    """Return the message of a tensor, with the figures that there are."""
    return messages.TensorStatistics(
        owner=subject.owner,
        name=subject.name,
        shape=subject.shape,
        dtype=subject.dtype,
        bytes=subject.bytes,
        storage_bytes=subject.storage_bytes,
        alignment=subject.alignment,
        is_buffer=subject.is_buffer,
        is_contiguous=subject.is_contiguous,
        shared_with=subject.shared_with,
        **figures,  # type: ignore[arg-type] # each is a field of it
    )


PROGRESS_SECONDS = 0.1
MOST_TENSORS = 20_000
_MOST_REASON = 300


class Analysis:
    """One look at the values of some tensors.

    Args:
        subjects: in the order of the tree.
        weights: where the values came from.
        send: takes what is to be told; never waits.
        now: gives seconds since the command was started.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        weights: str,
        send: Callable[[messages.Message], None],
        now: Callable[[], float],
    ) -> None:
        self._subjects = subjects
        self._weights = weights
        self._send = send
        self._now = now
        self._lock = threading.Lock()
        self._is_stopped = False
        self._bytes = 0
        self._done = 0
        self._looked_at = ""
        self._began = 0.0
        self._next_progress = 0.0

    def run(self, request: messages.AnalyseParameters, is_over: Callable[[], bool]) -> None:
        """Look at every tensor that was asked for.

        Args:
            request: which, and what is wanted of them.
            is_over: asked a few times a second; True ends the analysis.
        """
        self._began = time.perf_counter()
        chosen = [one for one in self._subjects if is_under(one.name, request.under)]
        own = [one for one in chosen if not one.shared_with]
        kept = sorted(own, key=lambda one: -one.bytes)[:MOST_TENSORS]
        left_out = len(own) - len(kept)
        self._send(
            messages.ParametersStarted(
                at=self._now(),
                tensors=len(kept),
                bytes=sum(one.bytes for one in kept),
                is_random=self._weights == "random",
                weights=writable(self._weights),
                under=request.under,
                parts=request.parts,
                left_out=left_out,
            )
        )
        for one in chosen[:MOST_TENSORS]:
            if one.shared_with:
                self._send(_described(one))
        with one_thread_each():
            self._go(kept, request, is_over)
        why = "" if chosen else f"there is no tensor under {request.under}"
        if not self._subjects:
            why = "there are no tensors"
        self._send(
            messages.ParametersDone(
                self._now(), self._seconds(), self._done, self._bytes, self._is_stopped, why
            )
        )

    def _go(
        self,
        kept: Sequence[Subject],
        request: messages.AnalyseParameters,
        is_over: Callable[[], bool],
    ) -> None:
        cores = len(allowed_cores())
        threads = request.threads if 0 < request.threads <= cores else cores
        with ThreadPoolExecutor(threads, "tui-profiler-parameters") as pool:
            futures = [pool.submit(self._look, subject, request) for subject in kept]
            pending: Collection[Future[None]] = futures
            while pending:
                _, pending = wait(pending, PROGRESS_SECONDS / 2)
                self._tell_progress()
                if pending and not self._is_stopped and is_over():
                    self._is_stopped = True  # Those that have not begun end at once.
            for one in futures:
                one.result()

    def _look(self, subject: Subject, request: messages.AnalyseParameters) -> None:
        if self._is_stopped:
            return
        self._looked_at = subject.name
        found = self._of(subject, request)
        if self._is_stopped and found.moments is None and subject.values is not None:
            return
        self._send(found)
        with self._lock:
            self._done += 1

    def _of(
        self, subject: Subject, request: messages.AnalyseParameters
    ) -> messages.TensorStatistics:
        if subject.values is None:
            return _described(subject, why_none=subject.why_none)
        try:
            return statistics(subject, request.parts, self._read)
        except _StoppedError:
            return _described(subject, why_none="it was stopped")
        except (
            Exception
        ) as error:  # Rule 3: a type that torch has no arithmetic for, a file cut off.
            reason = writable(f"{type(error).__name__}: {error}"[:_MOST_REASON])
            return _described(subject, why_none=reason)

    def _read(self, count: int) -> None:
        with self._lock:
            self._bytes += count
        if self._is_stopped:
            raise _StoppedError

    def _tell_progress(self) -> None:
        now = time.perf_counter()
        if now < self._next_progress:
            return
        self._next_progress = now + PROGRESS_SECONDS
        self._send(
            messages.ParametersProgress(
                self._now(), self._seconds(), self._done, self._bytes, self._looked_at
            )
        )

    def _seconds(self) -> float:
        return time.perf_counter() - self._began


def is_under(name: str, under: str) -> bool:
    """Tell whether a full name is of a part of the model."""
    return not under or name == under or name.startswith(f"{under}.")


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let each of our threads compute by itself; put torch's setting back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

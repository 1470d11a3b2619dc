"""Analysis of many tensors: several in parallel, reported one by one, in slices of time.

1. Separate threads work, each on one of torch's threads, in slices of the calling thread
   (``time_slices.py``), which reports progress and otherwise runs a model.
2. One pass over all tensors comes first, more expensive parts after it.
3. An error belongs to its tensor, and does not end the analysis.
4. A tensor that is written to while it is read is read again, once; if it is written to again, it
   has no figures, with the reason. A batch norm in training writes to its buffers without a new
   version: buffers of up to a piece are read whole in one slice. Writes through ``.data`` are not
   detected.
"""

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages.parameters import Moments, ParameterPart
from tui_profiler.probe.measure.devices.machine import allowed_cores
from tui_profiler.probe.parameters.distribution import histogram
from tui_profiler.probe.parameters.pruning import channels, pruned, sizes
from tui_profiler.probe.parameters.spectral import spectral
from tui_profiler.probe.parameters.statistics import count_bits, is_narrow, moments, sum_up
from tui_profiler.probe.parameters.storage import MOST_VALUES, compression, quantised, width
from tui_profiler.probe.parameters.subjects import Subject, is_under
from tui_profiler.probe.parameters.time_slices import Job, SlicedThreads, StoppedError
from tui_profiler.probe.parameters.values import PIECE_VALUES, Values
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.system import real_time as time

CHANGED = "its values changed while they were read"


def statistics(
    subject: Subject, parts: tuple[ParameterPart, ...], read: Callable[[int], None]
) -> messages.TensorStatistics:
    """Return all statistics of a tensor.

    Args:
        subject: with values.
        parts: wanted beside the one pass.
        read: called with the bytes of each piece of the one pass, and with 0 during the parts; may
            raise to stop.

    Raises:
        OSError: the file cannot be read.
    """
    found = one_pass(subject, read)
    return with_parts(found, subject, parts, lambda: read(0))


def one_pass(subject: Subject, read: Callable[[int], None]) -> messages.TensorStatistics:
    """Return moments, histogram and unstructured pruning; arguments as above."""
    began, values = time.perf_counter(), subject.open()
    sums, table = (count_bits if is_narrow(values.dtype) else sum_up)(values, read)
    return replace(
        subject.told,
        moments=moments(sums, table),
        histogram=histogram(table, sums.minimum, sums.maximum),
        pruned=pruned(table, sums.count),
        seconds=time.perf_counter() - began,
    )


def with_parts(
    found: messages.TensorStatistics,
    subject: Subject,
    parts: tuple[ParameterPart, ...],
    check: Callable[[], None],
) -> messages.TensorStatistics:
    """Add parts to the result of the one pass; none where no value is finite."""
    began = time.perf_counter()
    if found.moments is not None and found.moments.count:
        values = subject.open()
        for part in parts:
            found = _with(part, found, subject, values, check)
    return replace(found, pending=(), seconds=found.seconds + time.perf_counter() - began)


def _with(
    part: ParameterPart,
    found: messages.TensorStatistics,
    subject: Subject,
    values: Values,
    check: Callable[[], None],
) -> messages.TensorStatistics:
    """Add a part, or why it is missing."""
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
    # NaN and infinity are in none of these figures, and integers cannot store them.
    is_finite = not (moments.nans or moments.infinities)
    ways, sampled = quantised(values, largest, check)
    return replace(
        found,
        quantised=ways,
        quantised_on=sampled,
        width=width(ways, subject.told.dtype, subject.told.bytes, moments.count)
        if values.rows > 1 and not subject.told.is_buffer and is_finite
        else None,
    )


def _why_not(part: ParameterPart, subject: Subject, known: Moments, values: Values) -> str:
    if part in ("quantisation", "compression") and subject.told.dtype.startswith("q"):
        return "quantised: the figures are of its dequantised values"
    if part == "channels" and values.rows < 2:
        return "fewer than two axes"
    if part == "quantisation" and not values.dtype.is_floating_point:
        return "integers" if not values.dtype.is_complex else "complex values"
    if part == "quantisation" and not (known.minimum or known.maximum):
        return "all values are 0"
    if part == "spectral" and (known.nans or known.infinities):
        return "NaN or infinite values"
    return ""


PROGRESS_SECONDS = 0.1
MOST_TENSORS = 20_000
_MOST_REASON = 300
_PASS_SECONDS = 4e-9
_ROUND_SECONDS = 2.5e-7
_ITERATED_SECONDS = 8e-8
_TENSOR_SECONDS = 2e-3
"""Estimates on one core, per value: the one pass; quantising; iterating the spectral norm; and per
tensor. Only their ratios matter: progress so far gives the speed."""
_ITERATED_FROM = 1 << 15


class Analysis:
    """One analysis of some tensors.

    Args:
        subjects: in the order of the tree.
        weights: source of the values.
        send: sends a message; never blocks.
        now: returns seconds since the start of the command.
        request: which tensors, and which parts.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        weights: str,
        send: Callable[[messages.Message], None],
        now: Callable[[], float],
        request: messages.AnalyseParameters,
    ) -> None:
        self._send = send
        self._now = now
        self._parts = request.parts
        self._lock = threading.Lock()
        self._bytes = self._done = 0
        self._looked_at = ""
        self._began = time.perf_counter()
        self._next_progress = 0.0
        self._worked = 0.0
        """Seconds of slices so far."""
        self._was_stopped = False
        chosen = [one for one in subjects if is_under(one.told.name, request.under)]
        own = [one for one in chosen if not one.told.shared_with]
        largest = sorted(range(len(own)), key=lambda at: -own[at].told.bytes)[:MOST_TENSORS]
        kept = [own[at] for at in sorted(largest)]
        self._whole = sum(sum(_seconds_of(one, request.parts)) for one in kept)
        """Estimated seconds on one core."""
        self._finished = 0.0
        """Of them, done."""
        self._why = "" if chosen else f"no tensors under {request.under}"
        if not subjects:
            self._why = "no tensors"
        send(
            messages.ParametersStarted(
                at=now(),
                tensors=len(kept),
                bytes=sum(one.told.bytes for one in kept),
                is_random=weights == "random",
                weights=writable(weights),
                under=request.under,
                parts=request.parts,
                left_out=len(own) - len(kept),
            )
        )
        for one in chosen[:MOST_TENSORS]:
            if one.told.shared_with:
                send(one.told)
        cores = len(allowed_cores())
        self._cores = request.threads if 0 < request.threads <= cores else cores
        self._threads = SlicedThreads([partial(self._pass, one) for one in kept], self._cores)

    def advance(self, seconds: float, share: float = 1.0) -> bool:
        """Work for so long, and report progress; return whether it is done.

        Args:
            seconds: of all threads in parallel, plus the end of the current pieces.
            share: of the time that goes to such slices.
        """
        began = time.perf_counter()
        is_over = self._threads.work(seconds)
        self._worked += time.perf_counter() - began
        if is_over:
            self._end()
            return True
        if time.perf_counter() >= self._next_progress:
            self.tell(share)
        return False

    def stop(self) -> None:
        """Stop; results so far remain."""
        self._was_stopped = True
        self._threads.stop()
        self._end()

    def _end(self) -> None:
        seconds = time.perf_counter() - self._began
        self._send(
            messages.ParametersDone(
                self._now(), seconds, self._done, self._bytes, self._was_stopped, self._why
            )
        )

    def _pass(self, subject: Subject) -> Job | None:
        """Read a tensor once; return the job of its parts."""
        self._threads.check()
        self._looked_at = subject.told.name
        found, version = self._unchanged(subject)
        has_more = bool(self._parts) and found.moments is not None
        if has_more and _is_small_buffer(subject):
            found, has_more = self._with_parts(subject, found, lambda: None), False
        self._send(replace(found, pending=self._parts if has_more else ()))
        first, further = _seconds_of(subject, self._parts)
        with self._lock:
            self._done += 1
            self._finished += first if has_more else first + further
        return partial(self._further, subject, found, version) if has_more else None

    def _unchanged(self, subject: Subject) -> tuple[messages.TensorStatistics, int]:
        """Return the result of the one pass, and the version of the values."""
        if subject.values is None:
            return replace(subject.told, why_none=subject.why_none), 0
        for _ in range(2):
            version = subject.version()
            read = self._count if _is_small_buffer(subject) else self._read
            found = self._guarded(subject, partial(one_pass, subject, read))
            if subject.version() == version:
                return found, version
        return replace(subject.told, why_none=CHANGED), version

    def _further(self, subject: Subject, found: messages.TensorStatistics, version: int) -> None:
        self._threads.check()
        self._looked_at = subject.told.name
        whole = self._with_parts(subject, found, self._threads.check)
        if subject.version() != version:
            whole = replace(found, whys=tuple((part, CHANGED) for part in self._parts))
        self._send(whole)
        with self._lock:
            self._finished += _seconds_of(subject, self._parts)[1]

    def _with_parts(
        self, subject: Subject, found: messages.TensorStatistics, check: Callable[[], None]
    ) -> messages.TensorStatistics:
        whole = self._guarded(subject, lambda: with_parts(found, subject, self._parts, check))
        if whole.moments is None:  # It raised; the one pass remains.
            return replace(found, whys=tuple((part, whole.why_none) for part in self._parts))
        return whole

    def _guarded(
        self, subject: Subject, look: Callable[[], messages.TensorStatistics]
    ) -> messages.TensorStatistics:
        try:
            return look()
        except StoppedError:
            raise
        except Exception as error:  # Rule 3: a dtype without arithmetic, a truncated file.
            reason = writable(f"{type(error).__name__}: {error}"[:_MOST_REASON])
            return replace(subject.told, why_none=reason)

    def _count(self, count: int) -> None:
        with self._lock:
            self._bytes += count

    def _read(self, count: int) -> None:
        self._count(count)
        self._threads.check()

    def tell(self, share: float) -> None:
        """Report progress, with the share of the time from now on."""
        now = time.perf_counter()
        self._next_progress = now + PROGRESS_SECONDS
        done = self._finished / self._whole if self._whole else 0.0
        # At first: as on the machine of the estimates.
        rate = self._worked / self._finished if self._finished else 1 / self._cores
        self._send(
            messages.ParametersProgress(
                self._now(),
                now - self._began,
                self._done,
                self._bytes,
                self._looked_at,
                done,
                rate * (self._whole - self._finished),
                share,
            )
        )


def _seconds_of(subject: Subject, parts: tuple[ParameterPart, ...]) -> tuple[float, float]:
    """Return the estimated seconds of a tensor on one core: the one pass, its parts."""
    shape = subject.told.shape
    values, rows = math.prod(shape), shape[0] if len(shape) > 1 else 1
    first = _TENSOR_SECONDS + _PASS_SECONDS * values
    further = _ROUND_SECONDS * min(values, MOST_VALUES) if "quantisation" in parts else 0.0
    if "spectral" in parts and rows > 1 and values > _ITERATED_FROM:
        further += _ITERATED_SECONDS * values
    return first, further


def _is_small_buffer(subject: Subject) -> bool:
    """Return whether a forward may write to a tensor, and one piece reads it."""
    return subject.told.is_buffer and math.prod(subject.told.shape) <= PIECE_VALUES

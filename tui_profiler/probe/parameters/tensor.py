"""One tensor from its values to all that is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from tui_profiler.messages import TensorStatistics
from tui_profiler.messages.parameters import Moments, ParameterPart
from tui_profiler.probe.parameters.bit_counts import count_bits, is_narrow
from tui_profiler.probe.parameters.channels import channels, sizes
from tui_profiler.probe.parameters.compression import compression
from tui_profiler.probe.parameters.histogram import histogram
from tui_profiler.probe.parameters.moments import moments
from tui_profiler.probe.parameters.pruning import pruned
from tui_profiler.probe.parameters.quantisation import quantised, width
from tui_profiler.probe.parameters.running_sums import sum_up
from tui_profiler.probe.parameters.spectral import spectral
from tui_profiler.probe.parameters.subject import Subject
from tui_profiler.probe.parameters.values import Values


class StoppedError(Exception):
    """Nobody waits for the rest of a tensor."""


def statistics(
    subject: Subject, parts: tuple[ParameterPart, ...], read: Callable[[int], None]
) -> TensorStatistics:
    """Look at a tensor.

    Args:
        subject: has values.
        parts: what is wanted beside the one pass.
        read: is told the bytes of each piece of the one pass, and 0 at times in the parts; may
            raise ``StoppedError``.

    Raises:
        StoppedError: raised by ``read``.
        OSError: the file cannot be read.
    """
    began = time.perf_counter()
    assert subject.values is not None
    values = subject.values()
    sums, table = (count_bits if is_narrow(values.dtype) else sum_up)(values, read)
    found = described(
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
    found: TensorStatistics,
    subject: Subject,
    values: Values,
    check: Callable[[], None],
) -> TensorStatistics:
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


def described(subject: Subject, **figures: object) -> TensorStatistics:
    """Give the message of a tensor, with the figures that there are."""
    return TensorStatistics(
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

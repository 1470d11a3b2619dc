"""One tensor from its values to all that is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from tui_profiler.messages import TensorStatistics
from tui_profiler.messages.parameters import ParameterPart
from tui_profiler.probe.parameters.moments import moments
from tui_profiler.probe.parameters.subject import Subject


class StoppedError(Exception):
    """Nobody waits for the rest of a tensor."""


def statistics(
    subject: Subject, parts: tuple[ParameterPart, ...], read: Callable[[int], None]
) -> TensorStatistics:
    """Look at a tensor.

    Args:
        subject: has values.
        parts: what is wanted beside the one pass.
        read: is told the bytes of each piece of the one pass; may raise ``StoppedError``.
    """
    began = time.perf_counter()
    assert subject.values is not None
    values = subject.values()
    found = moments(values, read)
    return described(subject, seconds=time.perf_counter() - began, moments=found)


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

"""Events on a stream of CUDA, set and asked with as little as possible around them.

``torch.cuda.Event.record`` makes a new ``Stream`` for each event: at two events a module call that
was most of what timing a model on a GPU cost. Private names used here:

| name | what for | when it is gone |
|---|---|---|
| ``torch._C._CudaEventBase`` | setting an event on a stream that is known | \
``torch.cuda.Event``, about 4 µs slower |
| ``torch._C._cuda_getCurrentStream`` | the stream of the model's device | the same |
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

_Base: Any = getattr(torch._C, "_CudaEventBase", None)
_stream_of = getattr(torch._C, "_cuda_getCurrentStream", None)
_THREAD_LOCAL = 1
"""``CU_STREAM_CAPTURE_MODE_THREAD_LOCAL``."""


class _Streams:
    """The last stream that was current, as torch has it and as ``Stream``."""

    def __init__(self) -> None:
        self._known: tuple[tuple[int, int, int] | None, Any] = None, None

    def current(self, device: int) -> Any:
        """Return the current stream of a device, whichever one is current on this thread."""
        data = _stream_of(device)  # type: ignore[misc]  # asked where it is there
        known, stream = self._known
        if data != known:
            make: Any = torch.cuda.Stream
            stream = make(stream_id=data[0], device_index=data[1], device_type=data[2])
            self._known = data, stream
        return stream


class CudaDevice:
    """A GPU of CUDA's that a model is on: makes events on its streams, and asks about them.

    Args:
        device: index of it. A thread's current device may be another: setting an event there would
            make a context on it.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._streams = _Streams()
        self._class: Any = None

    def event(self) -> Any:
        """Return an event that is not set yet: with ``record``, ``query`` and ``elapsed_time``."""
        if self._class is None:
            self._class = self._make_class()
        return self._class(enable_timing=True)

    def _make_class(self) -> Any:
        """Return the class of its events; a torch without CUDA has no base for it."""
        device, streams = self._device, self._streams
        if _Base is None or _stream_of is None:
            plain: Any = torch.cuda.Event

            def record_plainly(event: Any) -> None:
                plain.record(event, torch.cuda.current_stream(device))

            return type("TimingEvent", (plain,), {"record": record_plainly})

        def record(event: Any) -> None:
            _Base.record(event, streams.current(device))

        return type("TimingEvent", (_Base,), {"record": record})

    def seconds_between(self, began: Any, ended: Any) -> float:
        """Return the time between two events that were reached."""
        return float(began.elapsed_time(ended)) / 1e3

    def is_capturing(self) -> bool:
        """Return whether what is launched on the current stream becomes part of a CUDA graph.

        The current one: also where the current device is another than the model's.
        """
        return torch.cuda.is_current_stream_capturing()

    def asking(self) -> AbstractContextManager[None]:
        """Return what questions about events are asked in, so that they disturb no capture."""
        return _beside_captures()


@contextmanager
def _beside_captures() -> Iterator[None]:
    """Ask about events without ending a capture of a CUDA graph on another thread.

    While one thread captures in the global mode, which is torch's default, a question about an
    event on any other fails, and the capture with it; not on a thread whose own mode is local.

    Source: CUDA Driver API, ``cuThreadExchangeStreamCaptureMode``.
    """
    driver = _driver()
    if driver is None:
        yield
        return
    mode = ctypes.c_int(_THREAD_LOCAL)
    if driver(ctypes.byref(mode)):  # Then it was not exchanged.
        yield
        return
    try:
        yield
    finally:
        driver(ctypes.byref(mode))


class _Driver:
    exchange: Any = None
    is_looked_up = False


def _driver() -> Any:
    """Return the function of the driver; None where it is not loaded, or older than CUDA 10.1."""
    if not _Driver.is_looked_up and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch
        _Driver.is_looked_up = True
        try:
            # With the GIL held: it is asked on the program's threads, where another thread would
            # run first if it were released.
            library = ctypes.PyDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            _Driver.exchange = library.cuThreadExchangeStreamCaptureMode
        except (OSError, AttributeError):
            _Driver.exchange = None
    return _Driver.exchange

"""GPUs asked from a thread of their own, so that a slow driver never holds up a sample.

Opening NVML takes seconds where the driver has to wake the GPUs, and a call can block for as long
as a GPU takes to fall off its bus. At most one question is under way; an answer that comes after
``patience`` is given at the next call.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from queue import SimpleQueue

from tui_profiler.messages import Gpu, Unknown
from tui_profiler.probe.measure.nvml import Nvml

_PATIENCE_SECONDS = 0.05
_CLOSING_SECONDS = 1.0


class GpuWatch:
    """The thread that asks NVML, started by the first question.

    Args:
        device_indices: As for ``Nvml``.
        patience: Seconds that a question waits for its answer.
    """

    def __init__(
        self, device_indices: Sequence[int] | None = None, patience: float = _PATIENCE_SECONDS
    ) -> None:
        self._nvml = Nvml(device_indices)
        self._patience = patience
        self._questions: SimpleQueue[float | None] = SimpleQueue()
        self._answered = threading.Event()
        self._is_asked = False
        self._answer: tuple[Gpu, ...] | Unknown = Unknown("NVIDIA driver still starting")
        self._late = self._answer
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def gpus(self, now: float) -> tuple[Gpu, ...] | Unknown:
        """Give every GPU's figures, or why there are none, within ``patience``.

        Args:
            now: Seconds of a clock that only goes forward.
        """
        if self._is_closed:
            return Unknown("device counters are closed")
        self._start()
        if not self._is_asked:
            self._is_asked = True
            self._answered.clear()
            self._questions.put(now)
        if not self._answered.wait(self._patience):
            return self._late
        self._is_asked = False
        self._late = Unknown("no answer from the NVIDIA driver")
        return self._answer

    def close(self) -> None:
        """End the NVML session and the thread; a driver that hangs is left behind after 1 s."""
        self._is_closed = True
        atexit.unregister(self.close)
        if self._thread is not None:
            self._questions.put(None)
            self._thread.join(_CLOSING_SECONDS)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._ask_when_told, name="tui-profiler-nvml", daemon=True
            )
            self._thread.start()
            atexit.register(self.close)

    def _ask_when_told(self) -> None:
        while (now := self._questions.get()) is not None:
            try:
                self._answer = self._nvml.gpus(now)
            except Exception as error:  # the thread's border: another pynvml may do anything
                self._answer = Unknown(f"NVML failed: {type(error).__name__}: {error}")
            self._answered.set()
        self._nvml.close()

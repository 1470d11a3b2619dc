"""GPUs asked from a thread of their own, so that a slow driver never holds up a sample.

Opening a driver takes seconds where it has to wake the GPUs, and a call can block for as long as a
GPU takes to fall off its bus; the traffic of each NVIDIA GPU's PCIe link alone takes 40 ms. At most
one question is under way; where its answer takes longer than ``patience``, the one before is given
as long as it is young.
"""

import atexit
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

from tui_profiler.gpus.driver import unexpected
from tui_profiler.gpus.gpus import Gpus
from tui_profiler.messages import Unknown

_T = TypeVar("_T")
_PATIENCE_SECONDS = 0.05
_CLOSING_SECONDS = 1.0
YOUNG_SECONDS = 3.0
"""An answer to a question that is no older stands in for one that is late."""


class GpuWatch(Generic[_T]):
    """The thread that asks the drivers, started by the first question.

    Args:
        ask: one of the questions of ``Gpus``.
        device_indices: As for ``Gpus``.
        patience: Seconds that a question waits for its answer.
        cuda_uuids: As for ``Gpus``.
    """

    def __init__(
        self,
        ask: Callable[[Gpus, float], tuple[_T, ...] | Unknown],
        device_indices: Sequence[int] | None = None,
        patience: float = _PATIENCE_SECONDS,
        cuda_uuids: Callable[[], tuple[str, ...] | None] = lambda: None,
    ) -> None:
        self._gpus = Gpus(device_indices, cuda_uuids)
        self._ask = ask
        self._patience = patience
        self._questions: SimpleQueue[float | None] = SimpleQueue()
        self._answered = threading.Event()
        self._is_asked = False
        self._answer: tuple[_T, ...] | Unknown = Unknown("GPU driver still starting")
        self._asked_at = float("-inf")
        self._given: tuple[float, tuple[_T, ...] | Unknown] = (float("-inf"), self._answer)
        self._late = self._answer
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._starting = threading.Lock()
        """Who closes may be another thread than who asks."""

    def answer(self, now: float) -> tuple[_T, ...] | Unknown:
        """Return what every GPU answers, or why none does, within ``patience``.

        Args:
            now: Seconds of a clock that only goes forward.
        """
        if self._is_closed:
            return Unknown("device counters are closed")
        self._start()
        if not self._is_asked:
            self._is_asked = True
            self._asked_at = now
            self._answered.clear()
            self._questions.put(now)
        if not self._answered.wait(self._patience):
            asked_at, answer = self._given
            return answer if now - asked_at <= YOUNG_SECONDS else self._late
        self._is_asked = False
        self._late = Unknown("no answer from the GPU driver")
        self._given = (self._asked_at, self._answer)
        return self._answer

    def close(self) -> None:
        """End the sessions and the thread; a driver that hangs is left behind after 1 s."""
        with self._starting:
            self._is_closed = True
        atexit.unregister(self.close)
        if self._thread is not None:
            self._questions.put(None)
            self._thread.join(_CLOSING_SECONDS)

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None or self._is_closed:
                return
            thread = threading.Thread(
                target=self._ask_when_told, name="tui-profiler-gpus", daemon=True
            )
            thread.start()
            self._thread = thread
        atexit.register(self.close)

    def _ask_when_told(self) -> None:
        while (now := self._questions.get()) is not None:
            try:
                self._answer = self._ask(self._gpus, now)
            except Exception as error:  # the thread's border
                self._answer = unexpected(error)
            self._answered.set()
        self._gpus.close()

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

from tui_profiler.messages import (
    AnalyseParameters,
    Message,
    ParametersDone,
    ParametersProgress,
    ParametersStarted,
    TensorStatistics,
)
from tui_profiler.probe.measure.devices.machine import allowed_cores
from tui_profiler.probe.parameters.subject import Subject
from tui_profiler.probe.parameters.tensor import StoppedError, described, statistics
from tui_profiler.probe.process.wire_names import writable

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
        send: Callable[[Message], None],
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

    def run(self, request: AnalyseParameters, is_over: Callable[[], bool]) -> None:
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
            ParametersStarted(
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
                self._send(described(one))
        with one_thread_each():
            self._go(kept, request, is_over)
        why = "" if chosen else f"there is no tensor under {request.under}"
        if not self._subjects:
            why = "there are no tensors"
        self._send(
            ParametersDone(
                self._now(), self._seconds(), self._done, self._bytes, self._is_stopped, why
            )
        )

    def _go(
        self, kept: Sequence[Subject], request: AnalyseParameters, is_over: Callable[[], bool]
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

    def _look(self, subject: Subject, request: AnalyseParameters) -> None:
        if self._is_stopped:
            return
        self._looked_at = subject.name
        found = self._of(subject, request)
        if self._is_stopped and found.moments is None and subject.values is not None:
            return
        self._send(found)
        with self._lock:
            self._done += 1

    def _of(self, subject: Subject, request: AnalyseParameters) -> TensorStatistics:
        if subject.values is None:
            return described(subject, why_none=subject.why_none)
        try:
            return statistics(subject, request.parts, self._read)
        except StoppedError:
            return described(subject, why_none="it was stopped")
        except (
            Exception
        ) as error:  # Rule 3: a type that torch has no arithmetic for, a file cut off.
            reason = writable(f"{type(error).__name__}: {error}"[:_MOST_REASON])
            return described(subject, why_none=reason)

    def _read(self, count: int) -> None:
        with self._lock:
            self._bytes += count
        if self._is_stopped:
            raise StoppedError

    def _tell_progress(self) -> None:
        now = time.perf_counter()
        if now < self._next_progress:
            return
        self._next_progress = now + PROGRESS_SECONDS
        self._send(
            ParametersProgress(
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

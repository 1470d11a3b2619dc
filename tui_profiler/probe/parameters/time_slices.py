"""Threads that work only in the slices of time that another thread gives them.

1. Between two slices none of them works: ``work`` returns when each has reached a ``check``, so
   that they do not disturb what runs between slices.
2. A slice lasts as long as requested, plus until the current pieces of work end.
3. They are daemons: the process can end while they wait.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

Job: TypeAlias = Callable[[], "Job | None"]


class StoppedError(Exception):
    """The work was stopped."""


class SlicedThreads:
    """Threads that run jobs in order, during slices.

    Args:
        jobs: each is called on one of the threads. The job that one returns runs after all of
            these. They raise nothing but ``StoppedError``.
        threads: number of threads.
    """

    def __init__(self, jobs: Sequence[Job], threads: int) -> None:
        self._first, self._later = deque(jobs), deque[Job]()
        self._changed = threading.Condition()
        self._is_open = self._is_stopped = False
        self._working = 0
        """Threads that are working."""
        self._taken = 0
        """Running jobs."""
        ready = threading.Barrier(threads + 1)
        before = torch.get_num_threads()
        self._threads = [
            threading.Thread(
                target=self._work, args=(ready,), name="tui-profiler-parameters", daemon=True
            )
            for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()
        ready.wait()
        torch.set_num_threads(before)

    def work(self, seconds: float) -> bool:
        """Let them work for so long; return whether all jobs are done."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()
            self._changed.wait_for(self._is_over, seconds)
            self._is_open = False
            self._changed.wait_for(lambda: not self._working)
            is_over = self._is_over()
        if is_over:
            self._join()
        return is_over

    def check(self) -> None:
        """Wait for the next slice, if this one is over; called by jobs between pieces of work.

        Raises:
            StoppedError: the work was stopped.
        """
        if not self._is_open or self._is_stopped:
            with self._changed:
                self._step_out()
                self._step_in()

    def stop(self) -> None:
        """Start no further job, and end the running ones at their next check."""
        with self._changed:
            self._is_stopped = self._is_open = True
            self._first.clear()
            self._later.clear()
            self._changed.notify_all()
            self._changed.wait_for(self._is_over)
        self._join()

    def _join(self) -> None:
        """Wait for their end: an interpreter that ends before them may abort in torch."""
        for thread in self._threads:
            thread.join()

    def _is_over(self) -> bool:
        return not (self._first or self._later or self._taken)

    def _step_out(self) -> None:
        self._working -= 1
        self._changed.notify_all()

    def _step_in(self) -> None:
        self._changed.wait_for(lambda: self._is_open)
        self._working += 1
        if self._is_stopped:
            raise StoppedError

    def _work(self, ready: threading.Barrier) -> None:
        # torch keeps the number of threads per thread, from its first use on.
        torch.set_num_threads(1)
        torch.get_num_threads()
        ready.wait()
        while True:
            with self._changed:
                self._changed.wait_for(self._may_go_on)
                if self._is_over():
                    return
                job = (self._first or self._later).popleft()
                self._taken += 1
                self._working += 1
            following = None
            try:
                following = job()
            except StoppedError:
                pass
            finally:
                with self._changed:
                    if following is not None and not self._is_stopped:
                        self._later.append(following)
                    self._taken -= 1
                    self._step_out()

    def _may_go_on(self) -> bool:
        return self._is_over() or (self._is_open and bool(self._first or self._later))

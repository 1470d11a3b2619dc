"""Threads that work only while another one lets them."""

from __future__ import annotations

import threading

import pytest
import torch

from tui_profiler.probe.parameters.time_slices import Job, SlicedThreads

HOUR = 3600.0


class Counting:
    """A job of many pieces, which counts those that are done."""

    def __init__(self, pieces: int) -> None:
        self.pieces, self.done = pieces, 0
        self.threads: SlicedThreads | None = None

    def __call__(self) -> Job | None:
        for _ in range(self.pieces):
            assert self.threads is not None
            self.threads.check()
            self.done += 1
        return None


def test_between_two_slices_nothing_works() -> None:
    jobs = [Counting(10**9) for _ in range(3)]
    threads = SlicedThreads(jobs, 2)
    for job in jobs:
        job.threads = threads
    assert not threads.work(0.001)
    counted = [job.done for job in jobs]
    busy = sum(range(100_000))  # Time for whoever would not have stopped.
    assert busy
    assert [job.done for job in jobs] == counted
    while not threads.work(0.001) and jobs[0].done == counted[0]:
        pass
    assert jobs[0].done > counted[0]
    threads.stop()
    assert threads.work(HOUR)


def test_what_a_job_gives_is_done_after_the_others() -> None:
    order: list[str] = []

    def job(name: str, following: Job | None = None) -> Job:
        def run() -> Job | None:
            order.append(name)
            return following

        return run

    threads = SlicedThreads([job("a", job("a again")), job("b", job("b again")), job("c")], 1)
    assert order == []  # Nothing before it is let.
    assert threads.work(HOUR)
    assert order == ["a", "b", "c", "a again", "b again"]


def test_a_job_that_is_stopped_ends_at_its_next_check() -> None:
    job, later = Counting(10**9), Counting(1)
    threads = SlicedThreads([job, later], 1)
    job.threads = later.threads = threads
    while not job.done:
        threads.work(0.001)
    threads.stop()
    assert job.done < job.pieces
    assert later.done == 0
    assert not any(one.name == "tui-profiler-parameters" for one in threading.enumerate())


@pytest.mark.parametrize("threads", [1, 3])
def test_each_computes_on_one_thread_and_the_caller_as_before(threads: int) -> None:
    before, found = torch.get_num_threads(), []
    sliced = SlicedThreads([lambda: found.append(torch.get_num_threads())] * 6, threads)
    assert torch.get_num_threads() == before
    assert sliced.work(HOUR)
    assert found == [1] * 6
    assert torch.get_num_threads() == before

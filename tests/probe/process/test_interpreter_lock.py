from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from tui_profiler.probe.process.interpreter_lock import (
    RareLock,
    copied,
    own_variable,
    readable_frames,
)


class Appended(deque[int]):
    """A queue that grows while it is iterated, ``times`` times."""

    times = 3

    def __iter__(self) -> Iterator[int]:
        for one in super().__iter__():
            if self.times:
                self.times -= 1
                self.append(0)
            yield one


def test_a_queue_that_is_appended_to_meanwhile_is_copied_as_it_is_then() -> None:
    assert copied(Appended([1, 2])) == [1, 2, 0, 0, 0]


def test_a_queue_that_threads_append_to_is_copied_whole() -> None:
    queue: deque[int] = deque(range(64), maxlen=64)
    is_over = threading.Event()

    def append() -> None:
        while not is_over.is_set():
            queue.append(queue[-1] + 1)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        found = [copied(queue) for _ in range(2_000)]
    finally:
        is_over.set()
        thread.join()
    assert all(one == list(range(one[0], one[0] + 64)) for one in found)


@pytest.mark.parametrize("is_inherited", [False, True])
def test_a_variable_has_another_value_on_each_thread(is_inherited: bool) -> None:
    variable = own_variable("test", 1, is_inherited=is_inherited)
    seen: list[int] = []
    variable.set(2)
    context = copy_context()

    def look() -> None:
        seen.append(variable.get())
        variable.set(3)

    # ``context.run`` is how a new thread starts if threads inherit context variables.
    arguments = (look,) if is_inherited else ()
    thread = threading.Thread(target=context.run if is_inherited else look, args=arguments)
    thread.start()
    thread.join()
    assert (seen, variable.get()) == ([1], 2)


def test_without_the_lock_no_frame_of_another_thread_is_read() -> None:
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    found = readable_frames(are_locked=lambda: False)
    with_lock = readable_frames(are_locked=lambda: True)
    is_over.set()
    thread.join()
    assert found == {threading.get_ident(): sys._getframe()}
    assert thread.ident in with_lock


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork with threads
def test_a_lock_that_another_thread_holds_is_free_in_a_forked_child() -> None:
    lock, is_held, is_over = RareLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = os.fork()
    if child == 0:  # pragma: no cover - in the child
        with lock:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    is_over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 7
    with lock:
        pass

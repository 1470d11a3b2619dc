from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

import pytest
import torch

from tui_profiler.probe.measure.ceilings.core_timing import (
    ENOUGH,
    LESS_CPU_TIME,
    SCHEDSTAT,
    Pieces,
    WaitClock,
    cpu_nanoseconds,
    timed,
    timed_in_turn,
    working_threads,
)

SLOW, FAST, LONG = 400_000, 50_000, 10**10
"""Nanoseconds."""


class Kernel:
    """A folder like ``/proc/self/task`` with one thread, that waits when it is told to."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "7" / "schedstat"
        self._file.parent.mkdir()
        self._waited = 0
        self.wait(0)

    def wait(self, nanoseconds: int) -> None:
        self._waited += nanoseconds
        # In place: it is held open.
        self._file.write_text(f"1000 {self._waited:<20} 5\n")


def spin(nanoseconds: int) -> None:
    stop = perf_counter_ns() + nanoseconds
    while perf_counter_ns() < stop:
        pass


def in_turn(*actions: Callable[[], object]) -> Callable[[], object]:
    turn = 0

    def piece() -> None:
        nonlocal turn
        turn += 1
        actions[turn % len(actions)]()

    return piece


def test_only_pieces_in_which_no_thread_waited_count(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)

    def disturbed() -> None:
        spin(FAST)
        kernel.wait(LONG)

    clock = WaitClock([7], tmp_path)
    found = timed(in_turn(disturbed, lambda: spin(10 * SLOW)), clock, 0.1, least=40)
    assert clock.source == SCHEDSTAT
    assert found.seconds * 1e9 >= 10 * SLOW
    assert abs(found.undisturbed - found.pieces / 2) <= 1
    assert 0 < found.busy <= 1


def test_a_piece_of_which_a_part_is_waiting_does_not_count(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)

    def disturbed() -> None:
        began = perf_counter_ns()
        spin(10 * SLOW)
        # Less than the piece takes, and above 2 % of it however long this is written.
        kernel.wait(perf_counter_ns() - began)

    found = timed(disturbed, WaitClock([7], tmp_path), 0.0, least=20)
    assert found.undisturbed < found.pieces / 2


def test_of_several_threads_a_piece_takes_the_wall_s_time(tmp_path: Path) -> None:
    Kernel(tmp_path)
    rest = threading.Event()
    found = timed(lambda: rest.wait(0.005), WaitClock([7], tmp_path), 0.0)
    assert not found.is_alone
    assert found.seconds >= 0.005


def of_pieces(tmp_path: Path, *nanoseconds: int) -> Pieces:
    """Time pieces that spin for so long at least, with no thread waiting for a core."""
    Kernel(tmp_path)
    left = iter(nanoseconds)
    clock = WaitClock([7], tmp_path)
    return timed(lambda: spin(next(left)), clock, 0.0, least=len(nanoseconds))


def test_a_time_is_that_of_the_third_fastest_piece(tmp_path: Path) -> None:
    odd = of_pieces(tmp_path, FAST, FAST, *[SLOW] * 20)
    assert odd.seconds * 1e9 >= SLOW
    assert (odd.pieces, odd.undisturbed) == (22, 22)


def test_a_few_fast_pieces_among_slow_ones_are_nearest_to_the_truth(tmp_path: Path) -> None:
    assert of_pieces(tmp_path, *[FAST, SLOW, SLOW, SLOW] * 10).seconds * 1e9 < SLOW


def test_one_long_piece_makes_no_spread(tmp_path: Path) -> None:
    assert of_pieces(tmp_path, 400 * FAST, *[FAST] * 40).spread < 5


@pytest.mark.parametrize("first", [FAST, SLOW])
def test_two_halves_of_which_one_is_slower_differ(tmp_path: Path, first: int) -> None:
    found = of_pieces(tmp_path, *[first] * 20, *[FAST + SLOW - first] * 20)
    assert found.halves > 2
    assert "the two halves of the pieces differ" in found._replace(spread=1.0).why_not_good


def test_what_one_thread_does_alone_is_timed_by_its_cpu_time() -> None:
    clock = WaitClock([threading.get_native_id()])
    rest = threading.Event()

    def piece() -> None:
        spin(FAST)
        rest.wait(0.005)  # As where another program has the core.

    found = timed(piece, clock, 0.05)
    assert (found.is_alone, found.undisturbed) == (True, found.pieces)
    assert FAST * 0.5 <= found.seconds * 1e9 < 5_000_000


def test_pieces_that_are_compared_are_timed_in_turn() -> None:
    done: list[str] = []
    clock = WaitClock([threading.get_native_id()])
    short, long = timed_in_turn(
        [lambda: done.append("short"), lambda: (done.append("long"), spin(SLOW))], clock, 0.02
    )
    assert done[:4] == ["short", "long"] * 2
    assert short.pieces == long.pieces == len(done) / 2
    assert short.seconds < long.seconds


def test_the_time_of_a_piece_is_that_which_a_tenth_reaches(tmp_path: Path) -> None:
    Kernel(tmp_path)
    # By wall time, of which a busy machine only adds: 5 of 100 are odd, and too few to count.
    odd = in_turn(*[lambda: None] * 5, *[lambda: spin(FAST)] * 95)
    found = timed(odd, WaitClock([7], tmp_path), 0.0, least=100)
    assert found.pieces >= 100
    assert found.seconds * 1e9 >= FAST


def test_a_few_undisturbed_pieces_among_many_are_not_good_enough(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)

    def disturbed() -> None:
        spin(FAST)
        kernel.wait(LONG)

    piece = in_turn(*[disturbed] * 99, lambda: spin(FAST))
    found = timed(piece, WaitClock([7], tmp_path), 0.005)
    assert found.why_not_good.endswith("pieces ran without waiting for a core")
    assert found.quality(1.0).why_not_good == found.why_not_good


def test_where_no_piece_was_undisturbed_there_is_a_figure_but_it_is_not_good(
    tmp_path: Path,
) -> None:
    kernel = Kernel(tmp_path)

    def disturbed() -> None:
        spin(FAST)
        kernel.wait(LONG)

    found = timed(disturbed, WaitClock([7], tmp_path), 0.001)
    assert found.undisturbed == 0
    assert found.seconds * 1e9 >= FAST
    assert found.why_not_good
    assert found.quality(1.0).busy == 1.0


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Pieces(1.0, 1.1, 1.0, 100, 100, 0.0), ""),
        (Pieces(1.0, 1.1, 1.0, 6, 6, 0.0), ""),
        (Pieces(1.0, 1.1, 1.0, 6, 6, 0.5), "6 of 6 pieces ran"),
        (Pieces(1.0, 1.1, 1.0, 6, 6, 0.5, is_alone=True), ""),
        (Pieces(1.0, 1.1, 1.0, 1000, ENOUGH, 0.5), ""),
        (Pieces(1.0, 1.1, 1.0, 1000, ENOUGH - 1, 0.5), "14 of 1000 pieces ran"),
        (Pieces(1.0, 1.1, 1.0, 4, 4, 0.0), "4 of 4 pieces ran"),
        (Pieces(1.0, 2.5, 1.0, 100, 100, 0.0), "the median piece takes 2.5 times"),
        (Pieces(1.0, 1.1, 1.4, 100, 100, 0.0), "the two halves of the pieces differ by 40 %"),
    ],
)
def test_a_roof_is_good_by_its_pieces(found: Pieces, why: str) -> None:
    assert found.why_not_good.startswith(why) if why else not found.why_not_good


@pytest.mark.parametrize("content", [None, "", "0 0 0\n"])
def test_without_the_kernel_s_figures_waiting_is_wall_time_less_cpu_time(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / str(threading.get_native_id())).mkdir()
        (tmp_path / str(threading.get_native_id()) / "schedstat").write_text(content)
    clock = WaitClock([threading.get_native_id()], tmp_path)
    assert clock.source == LESS_CPU_TIME

    def waited(action: Callable[[], object]) -> int:
        before = clock.waited()
        action()
        return clock.waited() - before

    # On a core for some of ten pieces; asleep it never is.
    assert min(waited(lambda: spin(FAST)) for _ in range(10)) < FAST
    assert waited(lambda: threading.Event().wait(0.01)) > 5_000_000


def test_the_cpu_time_of_a_thread_is_the_one_that_it_sees_itself() -> None:
    own = threading.get_native_id()
    low = thread_time_ns()
    seen = cpu_nanoseconds([own])[own]
    assert low <= seen <= thread_time_ns()


def test_threads_that_are_not_there_have_no_cpu_time() -> None:
    assert cpu_nanoseconds([2**22 + 1]) == {}


def test_a_thread_that_this_one_waited_for_long_did_its_part() -> None:
    asked, done, ends = threading.Event(), threading.Event(), threading.Event()

    def use_core(nanoseconds: int) -> None:
        stop = thread_time_ns() + nanoseconds
        while thread_time_ns() < stop:
            pass

    def part() -> None:
        while asked.wait() and not ends.is_set():
            asked.clear()
            use_core(FAST)
            done.set()

    def together() -> None:
        done.clear()
        asked.set()
        done.wait()

    def spinning() -> None:
        together()
        use_core(100 * FAST)  # As while the other thread has no core.

    helper = threading.Thread(target=part)
    helper.start()
    try:
        found = working_threads(in_turn(spinning, together), 2)
    finally:
        ends.set()
        asked.set()
        helper.join()
    assert found == [threading.get_native_id(), helper.native_id]


def test_the_threads_of_a_product_are_found() -> None:
    left, right = torch.rand(2, 512, 512)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = working_threads(lambda: torch.mm(left, right), 2)
    finally:
        torch.set_num_threads(before)
    assert found[0] == threading.get_native_id()
    assert len(set(found)) == 2
    assert working_threads(lambda: spin(FAST), 1) == [threading.get_native_id()]


def test_a_thread_that_sleeps_does_none_of_the_work() -> None:
    stop = threading.Event()
    beside = threading.Thread(target=stop.wait)
    beside.start()
    try:
        assert working_threads(lambda: spin(FAST), 2) == [threading.get_native_id()]
    finally:
        stop.set()
        beside.join()


def test_a_thread_beside_is_not_counted_where_one_was_asked_for() -> None:
    stop = threading.Event()

    def work_too() -> None:
        while not stop.is_set():
            spin(FAST)

    beside = threading.Thread(target=work_too)
    beside.start()
    try:
        assert working_threads(lambda: spin(FAST), 1) == [threading.get_native_id()]
    finally:
        stop.set()
        beside.join()

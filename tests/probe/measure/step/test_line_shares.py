"""Lines of samples whose stack was read later than they were due, and shares by gap."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Event, Thread, get_ident

import pytest

from tui_profiler.messages.training import SourceLine
from tui_profiler.probe.measure.step.line_shares import LineShares, Placed, RegionFinder
from tui_profiler.probe.measure.step.source_lines import How, Line, Sample, read_stack
from tui_profiler.probe.process.yielding import pause

REGION = "backward", "optimizer"


class Reader:
    """Takes a sample where the program calls it."""

    def __init__(self) -> None:
        self.samples: dict[str, Sample] = {}

    def __call__(self, name: str, how: How) -> None:
        frame = sys._getframe(1)
        found = read_stack(frame, None, 0.0)
        assert found is not None
        # Without the call of this reader: the line has given up the GIL.
        self.samples[name] = found._replace(how=how)


def straight(read: Reader) -> int:
    read("model", "seen")
    total = 1
    total += 2
    read("sleep", "hidden")
    return total


def around_a_loop(read: Reader) -> int:
    total = 0
    for place in range(2):
        total += place
        read("sleep", "hidden")
        total -= place
        read("model", "seen")
        total += 7
    return total


def busy(read: Reader) -> int:
    total = 3
    read("busy", "forced")
    return total


def calls_python(read: Reader) -> None:
    read("model", "seen")
    busy(read)
    read("sleep", "hidden")


def place_of(function: Callable[[Reader], object], line: int) -> int:
    return function.__code__.co_firstlineno + line


def lines_of(read: Reader, *names: str) -> tuple[SourceLine, ...]:
    shares = LineShares()
    shares.note(read.samples.values())
    return shares.of([Placed(read.samples[name], REGION) for name in names]).lines


def test_python_before_a_sleep_is_in_the_lines_behind_the_last_wait() -> None:
    read = Reader()
    straight(read)
    [found] = lines_of(read, "sleep")
    assert (found.first_line, found.line) == (place_of(straight, 2), place_of(straight, 3))
    assert (found.function, found.share) == ("straight", 1.0)
    assert found.text == ""


def test_python_at_the_end_of_a_loop_comes_before_its_first_wait() -> None:
    read = Reader()
    around_a_loop(read)
    [found] = lines_of(read, "sleep")
    assert found.line == place_of(around_a_loop, 7)
    assert found.first_line == place_of(around_a_loop, 2)


def test_python_that_forced_samples_saw_has_the_time_of_hidden_ones() -> None:
    read = Reader()
    calls_python(read)
    found = {one.function: (one.line, one.share) for one in lines_of(read, "busy", "sleep")}
    assert found == {"busy": (place_of(busy, 2), 1.0)}


def test_a_line_that_was_seen_is_where_it_was_seen() -> None:
    read = Reader()
    straight(read)
    [found] = lines_of(read, "model")
    assert (found.first_line, found.line) == (0, place_of(straight, 1))


def sample(function: str) -> Sample:
    return Sample(0.0, Line(function, "train.py", 7))


def test_a_gap_has_its_measured_time_however_few_samples_fell_into_it() -> None:
    """Of 10 s in gaps 6, 3 and 1 are in them; 1, 3 and no sample fell there."""
    first, second, third = ("data", "backward"), ("optimizer", ""), ("clip", "optimizer")
    samples = [Placed(sample("loss"), first), *[Placed(sample("log"), second)] * 3]
    found = LineShares().of(samples, {first: 6.0, second: 3.0, third: 1.0})
    assert {one.function: one.share for one in found.lines} == pytest.approx(
        {"loss": 0.6, "log": 0.3}
    )
    assert found.unsampled == pytest.approx(0.1)
    assert found.samples == 4
    assert found.rest == 0.0


def test_lines_that_are_not_listed_have_their_share() -> None:
    samples = [Placed(sample(f"f{number}"), REGION) for number in range(10)]
    found = LineShares().of(samples, {REGION: 2.0})
    assert len(found.lines) == 8
    assert found.rest == pytest.approx(0.2)
    assert found.unsampled == 0.0


def test_nothing_is_covered_where_no_sample_fell() -> None:
    found = LineShares().of([], {REGION: 2.0})
    assert (found.lines, found.samples) == ((), 0)


def test_a_gap_is_between_the_outermost_parts_around_it() -> None:
    regions = RegionFinder(
        [(1.0, 2.0, "data"), (3.0, 6.0, "backward"), (4.0, 5.0, "communication")]
    )
    assert regions.at(0.5) == ("", "data")
    assert regions.at(2.5) == ("data", "backward")
    assert regions.at(7.0) == ("backward", "")


def test_only_the_user_s_frames_are_kept_and_the_model_s_are_not() -> None:
    found: list[Sample | None] = []
    is_read, reads = Event(), Event()

    def forward() -> None:
        reads.set()
        is_read.wait(60)

    def train() -> None:
        forward()

    thread = Thread(target=train)
    thread.start()
    reads.wait(60)
    pause(0.01)
    frame = sys._current_frames()[thread.ident or get_ident()]
    found.append(read_stack(frame, forward.__code__, 1.5))
    is_read.set()
    thread.join()
    [one] = found
    assert one is not None
    assert one.line.function.endswith("train")
    assert (one.at, one.is_in_forward, one.is_direct) == (1.5, True, True)

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tui_profiler.messages import Figure, RoofQuality, Unknown
from tui_profiler.probe.measure.ceilings.rounds import (
    LEAST_ROUNDS,
    ROUNDS,
    Measured,
    Round,
    StealClock,
    in_rounds,
    of_rounds,
)

GOOD = RoofQuality(measured_at=1.0, busy=0.2, pieces=100, undisturbed=60)
BAD = replace(GOOD, why_not_good="0 of 100 pieces ran without waiting for a core")
SCALED = replace(GOOD, scaled="one thread's rate times 2")


def made(*figures: float, quality: RoofQuality = GOOD, kernel: str = "copies") -> list[Round]:
    return [Round(Measured(figure, quality), kernel) for figure in figures]


def figure_and_why(rounds: list[Round], stolen: float = 0.0) -> tuple[Figure, str]:
    found = of_rounds(rounds, stolen)
    assert found.quality is not None
    return found.figure, found.quality.why_not_good


def test_the_second_best_round_is_the_roof() -> None:
    assert figure_and_why(made(98, 100, 90, 103, 99, 40)) == (100, "")


def test_of_times_the_second_shortest_is_the_roof() -> None:
    found = of_rounds(made(9.0, 1.0, 1.02, 1.05), is_time=True)
    assert found.figure == 1.02
    assert found.quality is not None
    assert not found.quality.why_not_good


@pytest.mark.parametrize(
    ("rounds", "figure", "why"),
    [
        # A neighbour slowed most of them, and one was fast by chance.
        (made(137, 205, 138, 140, 139, 136), 140, "the best 3 rounds differ by 47 %"),
        (made(137, 205, 138, 200, 190, 136), 200, ""),
        (
            [*made(100, 99), *made(300, 10, 20, 30, quality=BAD)],
            99,
            "2 of 6 rounds are good: 0 of 100 pieces ran",
        ),
        (made(30, 20, 10, quality=BAD), 20, "0 of 3 rounds are good: 0 of 100 pieces ran"),
        (
            [*made(10, 11), Round(Measured(Unknown("no longer"), None))],
            10,
            "2 of 3 rounds are good: the others have no figure",
        ),
    ],
)
def test_a_roof_is_good_where_three_rounds_agree(
    rounds: list[Round], figure: float, why: str
) -> None:
    found = figure_and_why(rounds)
    assert found[0] == figure
    assert found[1].startswith(why) if why else not found[1]


def test_rounds_of_all_threads_count_before_those_of_one() -> None:
    both = [*made(100, 101, 102), *made(120, 121, 122, quality=SCALED)]
    assert figure_and_why(both) == (101, "")
    few = [*made(100), *made(110, 111, 112, quality=SCALED)]
    assert figure_and_why(few) == (111, "")


def test_one_thread_s_rate_that_all_together_do_not_reach_is_not_believed() -> None:
    # As where the machine does not tell that two of its cores are threads of one.
    hidden = [*made(100), *made(200, 201, 202, quality=SCALED)]
    assert figure_and_why(hidden)[1] == (
        "one thread's rate times 2 is 2.0 times that of all threads together"
    )


def test_two_kernels_that_differ_widely_are_not_held_back_by_the_machine() -> None:
    def both(other: float) -> list[Round]:
        return [*made(100, 100, 100), *made(other, other, other, kernel="negations")]

    assert figure_and_why(both(70)) == (100, "")
    assert figure_and_why(both(50)) == (100, "copies are 2.0 times as fast as negations")


def test_nothing_is_good_where_other_virtual_machines_had_the_cores() -> None:
    rounds = made(100, 100, 100)
    assert figure_and_why(rounds, stolen=0.04) == (100, "")
    assert figure_and_why(rounds, stolen=0.12) == (
        100,
        "other virtual machines took 12 % of the cores' time",
    )


def test_a_roof_keeps_how_all_of_its_rounds_were_measured() -> None:
    quality = of_rounds(
        [*made(10, 10), *made(10, quality=replace(GOOD, busy=0.8, pieces=50, undisturbed=5))]
    ).quality
    assert quality is not None
    assert quality.busy == pytest.approx(0.4)
    assert (quality.pieces, quality.undisturbed) == (250, 125)


def test_without_any_figure_there_is_a_reason() -> None:
    none = Measured(Unknown("no such cache"), None)
    assert of_rounds([Round(none)] * ROUNDS) == none


def test_one_round_is_the_roof_as_it_is() -> None:
    for one in (*made(10, quality=BAD), Round(Measured(Unknown("none"), None))):
        assert of_rounds([one]) == one.measured


class Roof:
    """Return one figure after another, and writes down that it was asked."""

    def __init__(self, name: str, asked: list[str], figures: list[Figure]) -> None:
        self._name = name
        self._asked = asked
        self._figures = iter(figures)

    def __call__(self) -> Round:
        self._asked.append(self._name)
        figure = next(self._figures)
        return Round(Measured(figure, None if isinstance(figure, Unknown) else GOOD))


def test_roofs_are_measured_in_turn_and_what_is_between_them_is_done() -> None:
    asked: list[str] = []
    roofs: dict[str, Callable[[], Round]] = {
        "a": Roof("a", asked, [1.0, 2.0, 3.0]),
        "b": Roof("b", asked, [4.0, 5.0, 6.0]),
    }
    found = in_rounds(roofs, 3, lambda: asked.append("-"))
    assert asked == ["a", "b", "-", "a", "b", "-", "a", "b"]
    assert [one.measured.figure for one in found["b"]] == [4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("figures", "rounds"),
    [
        ([100.0] * ROUNDS, LEAST_ROUNDS),
        ([100.0, 90.0, 99.0, 98.0, 100.0, 100.0], LEAST_ROUNDS + 1),
        ([100.0, 90.0, 80.0, 99.0, 70.0, 60.0], ROUNDS),
    ],
)
def test_a_busy_machine_measures_no_more_rounds_than_it_needs(
    figures: list[Figure], rounds: int
) -> None:
    asked: list[str] = []
    found = in_rounds({"a": Roof("a", asked, figures)}, enough_seconds=0.0)
    assert len(found["a"]) == rounds
    asked.clear()
    found = in_rounds({"a": Roof("a", asked, figures)}, enough_seconds=1e6)
    assert len(found["a"]) == ROUNDS


def test_a_very_busy_machine_measures_three_rounds_of_each() -> None:
    asked: list[str] = []
    figures: list[Figure] = [10.0 * (1 + at) for at in range(ROUNDS)]
    found = in_rounds({"a": Roof("a", asked, figures)}, most_seconds=0.0)
    assert len(found["a"]) == LEAST_ROUNDS


class Slow:
    """Returns a figure that takes some seconds of a clock that it turns."""

    def __init__(self, seconds: float) -> None:
        self.now = 100.0
        self._seconds = seconds

    def clock(self) -> float:
        return self.now

    def roof(self) -> Round:
        self.now += self._seconds
        return Round(Measured(10.0, GOOD))


@pytest.mark.parametrize(
    ("seconds", "rounds"), [(0.1, [ROUNDS, ROUNDS]), (4.0, [2, 2]), (6.0, [2, 1]), (20.0, [1, 1])]
)
def test_on_a_busy_machine_no_roof_is_measured_again_after_the_limit(
    seconds: float, rounds: list[int]
) -> None:
    slow, between = Slow(seconds), list[str]()
    found = in_rounds(
        {"a": slow.roof, "b": slow.roof},
        between=lambda: between.append("-"),
        limit_seconds=15.0,
        clock=slow.clock,
    )
    assert [len(found[name]) for name in "ab"] == rounds
    # What is done between two rounds belongs to a round that begins.
    assert len(between) == max(rounds) - 1


def test_what_is_done_between_rounds_is_not_in_the_limit() -> None:
    slow = Slow(0.4)

    def between() -> None:
        slow.now += 100.0

    found = in_rounds({"a": slow.roof}, between=between, limit_seconds=15.0, clock=slow.clock)
    assert len(found["a"]) == ROUNDS


@pytest.mark.parametrize("rounds", range(1, LEAST_ROUNDS))
def test_a_roof_cut_short_by_the_limit_is_not_good_enough(rounds: int) -> None:
    found = of_rounds(made(*[100.0] * rounds), planned=ROUNDS)
    assert found.figure == 100.0
    assert found.quality is not None
    why = f"the machine was busy: {rounds} of {ROUNDS} rounds in 15 s"
    assert found.quality.why_not_good == why
    enough = of_rounds(made(*[100.0] * LEAST_ROUNDS), planned=ROUNDS)
    assert enough.quality is not None
    assert not enough.quality.why_not_good


def test_what_was_stolen_is_a_share_of_all_cores() -> None:
    assert 0 <= StealClock().share() <= 1

from __future__ import annotations

from collections.abc import Callable

from tests.queries.sessions import session_of, ticked
from tui_profiler.queries.time.hysteresis import Hysteresis
from tui_profiler.queries.time.series import spaced, trend
from tui_profiler.session import Session

TREE = "m M 0 0\n  a A 0 0"


def watched(seconds: int, cost: Callable[[int], float]) -> Session:
    """Return a session watched for so long, four ticks a second, ten forwards each."""
    session = session_of(TREE)
    total = 0.0
    for tick in range(seconds * 4):
        total += 10 * cost(tick // 4)
        session = ticked(
            session,
            {"": 1.0, "a": 0.5},
            at=tick / 4,
            forwards=10 * (tick + 1),
            totals={"": total * 2, "a": total},
        )
    return session


def trend_of(session: Session) -> str:
    return trend(spaced(session.history.ticks), 1)


def test_a_node_that_became_slower_rises() -> None:
    assert trend_of(watched(60, lambda second: 0.5 if second < 54 else 0.6)) == "up"


def test_a_node_that_became_faster_falls() -> None:
    assert trend_of(watched(60, lambda second: 0.5 if second < 54 else 0.4)) == "down"


def test_less_than_a_tenth_is_no_trend() -> None:
    assert trend_of(watched(60, lambda second: 0.5 if second < 54 else 0.54)) == ""


def test_more_than_a_tenth_is_a_trend() -> None:
    assert trend_of(watched(60, lambda second: 0.5 if second < 54 else 0.56)) == "up"


def test_what_is_usual_for_a_noisy_node_is_no_trend() -> None:
    assert trend_of(watched(60, lambda second: 0.5 + 0.2 * (second % 2))) == ""


def test_a_few_seconds_say_nothing_of_what_is_usual() -> None:
    assert trend_of(watched(9, lambda second: 0.5 if second < 6 else 0.9)) == ""


def test_a_node_that_was_never_called_has_no_trend() -> None:
    assert trend(spaced(watched(30, lambda second: 0.5).history.ticks), 7) == ""


def test_one_tick_a_second_of_the_last_minute_is_looked_at() -> None:
    ticks = spaced(watched(100, lambda second: 0.5).history.ticks)

    assert 59 <= len(ticks) <= 62
    assert ticks[-1].tick.at - ticks[0].tick.at <= 61


def test_a_steady_value_changes_when_the_new_one_has_lasted() -> None:
    steady: Hysteresis[str] = Hysteresis(2.0)

    shown = [steady.show(1, "a" if at < 1 else "b", at) for at in (0, 0.5, 1, 2, 2.5, 3, 3.5)]

    assert shown == ["a", "a", "a", "a", "a", "b", "b"]


def test_a_value_that_comes_and_goes_is_not_shown() -> None:
    steady: Hysteresis[str] = Hysteresis(2.0)

    shown = {steady.show(1, "ab"[tick % 2], tick * 0.25) for tick in range(40)}

    assert shown == {"a"}


def test_a_value_that_nobody_looked_at_is_shown_at_once() -> None:
    steady: Hysteresis[str] = Hysteresis(2.0)
    steady.show(1, "a", 0.0)

    assert steady.show(1, "b", 10.0) == "b"
    assert steady.show(1, "c", 3.0) == "c"

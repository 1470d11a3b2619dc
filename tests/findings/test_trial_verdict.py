"""What a trial says of a prediction: every word, by intervals on both sides of each limit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tui_profiler.findings.evidence.finding import Finding, Gain
from tui_profiler.findings.trial_verdict import Advice, Measured, advice, measured, verdict
from tui_profiler.messages import Unknown
from tui_profiler.messages.trials import TrialProgress, TrialResult, TrialSide
from tui_profiler.session import EMPTY, Session

PREDICTED = 0.2

FOLDED = TrialResult(
    *("fold-conv-bn", -1, "measured", 9.0), speedup=1.25, low=1.1, high=1.6, pairs=31
)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.25, 0.30, "more"),
        (0.15, 0.30, "held"),
        (0.20, 0.30, "held"),
        (0.10, 0.20, "held"),
        (0.05, 0.15, "less"),
        (-0.05, 0.15, "refuted"),
        (-0.20, -0.10, "refuted"),
        (-0.05, 0.25, "undecided"),
        (-0.05, 0.20, "undecided"),
    ],
)
def test_a_prediction_is_judged_by_the_interval(low: float, high: float, word: str) -> None:
    saved = Measured((low + high) / 2, low, high)
    assert verdict(Gain("time", PREDICTED, "half of it"), saved) == word


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.25, 0.30, "more"),
        (0.01, 0.05, "held"),
        (0.05, 0.30, "held"),
        (-0.05, 0.15, "undecided"),
        (-0.05, 0.08, "no gain"),
        (-0.20, -0.10, "no gain"),
    ],
)
def test_of_a_bound_any_gain_below_it_holds(low: float, high: float, word: str) -> None:
    saved = Measured((low + high) / 2, low, high)
    assert verdict(Gain("time", PREDICTED, "at most", is_bound=True), saved) == word


@pytest.mark.parametrize(
    "gain", [Gain("time", Unknown("no times"), "a share"), Gain("memory", PREDICTED, "bytes")]
)
@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.01, 0.1, "gained"), (-0.1, 0.1, "undecided"), (-0.2, -0.1, "no gain")],
)
def test_without_a_prediction_of_time_a_gain_is_told_from_none(
    gain: Gain, low: float, high: float, word: str
) -> None:
    assert verdict(gain, Measured((low + high) / 2, low, high)) == word


def test_a_speed_up_is_a_share_of_the_time_with_its_interval() -> None:
    # 1.25 times as fast takes four fifths of the time; 1.1 and 1.6 are the ends of its interval.
    assert measured(FOLDED) == Measured(
        pytest.approx(0.2), pytest.approx(1 - 1 / 1.1), pytest.approx(1 - 1 / 1.6)
    )
    assert measured(replace(FOLDED, outcome="failed")) is None
    assert measured(replace(FOLDED, low=None)) is None


FOLD = Finding(
    *("fold-conv-bn", "fold", "why", (0,), ()),
    gains=(Gain("time", PREDICTED, "by hand"),),
)


def word(session: Session) -> Advice:
    (one,) = advice(session, (FOLD,))
    return one


def test_what_is_under_way_and_what_waits_is_told_from_what_can_be_tried() -> None:
    assert word(EMPTY).word == "can be tried"
    other = TrialProgress("compile", -1, "measure", 1.0, waiting=("sdpa", "fold-conv-bn"))
    assert word(replace(EMPTY, trial=other)).word == "waits"
    assert word(replace(EMPTY, trial=replace(other, waiting=("sdpa",)))).word == "can be tried"
    own = TrialProgress("fold-conv-bn", -1, "measure", 1.0)
    running = word(replace(EMPTY, trial=own, trials=(FOLDED,)))
    assert (running.word, running.progress, running.result) == ("running", own, FOLDED)
    # Once it was tried, its result stays while it waits to be tried again.
    again = word(replace(EMPTY, trial=other, trials=(FOLDED,)))
    assert (again.word, again.result) == ("waits", FOLDED)


def test_the_last_result_of_a_kind_counts() -> None:
    slower = replace(FOLDED, speedup=0.9, low=0.8, high=0.95)
    assert word(replace(EMPTY, trials=(slower, FOLDED))).word == "held"
    assert word(replace(EMPTY, trials=(FOLDED, slower))).word == "refuted"
    nothing = replace(FOLDED, outcome="impossible", speedup=None, low=None, high=None, why="no")
    assert word(replace(EMPTY, trials=(FOLDED, nothing))).word == "untested"


CHECKPOINTED = TrialResult(
    *("checkpoint", -1, "measured", 9.0, "", "checkpointed: 4 modules"),
    baseline=TrialSide(0.1, 1, peak_bytes=600.0, weight_bytes=300.0, kept_bytes=100.0),
    changed=TrialSide(0.12, 1, peak_bytes=400.0, weight_bytes=300.0, kept_bytes=100.0),
    speedup=0.83,
    is_step=True,
)


@pytest.mark.parametrize(
    ("predicted", "word"), [(0.19, "held"), (0.22, "held"), (0.15, "more"), (0.25, "less")]
)
def test_a_saved_peak_is_a_share_of_all_that_lives_and_is_judged_without_an_interval(
    predicted: float, word: str
) -> None:
    saved = measured(CHECKPOINTED)
    assert saved == Measured(0.2, 0.2, 0.2, "memory")
    assert verdict(Gain("memory", predicted, "on paper"), saved) == word
    assert verdict(Gain("memory", Unknown("no peak"), "on paper"), saved) == "gained"


def test_a_peak_that_is_not_lower_refutes_and_one_that_was_not_measured_is_not_judged() -> None:
    assert CHECKPOINTED.baseline is not None
    same = measured(replace(CHECKPOINTED, changed=CHECKPOINTED.baseline))
    assert same is not None
    assert verdict(Gain("memory", 0.2, "on paper"), same) == "refuted"
    unknown = replace(CHECKPOINTED.baseline, kept_bytes=Unknown("not counted"))
    assert measured(replace(CHECKPOINTED, baseline=unknown)) is None
    assert measured(replace(CHECKPOINTED, outcome="time")) is None

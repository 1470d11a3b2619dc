"""Slow steps: which parts took longer."""

from msgspec.structs import replace

from tests.training_session import NOT_SEEN, step_parts, trained, training_step
from tui_profiler.messages import SlowStep, SourceLine, StepParts, ThreadTime
from tui_profiler.queries.training.slow_steps import slow_step_forms, slow_step_words
from tui_profiler.session import EMPTY

MEAN = step_parts(data=0.2, forward=0.25, backward=0.5, other=0.05)
USUAL = replace(training_step(MEAN), thread=ThreadTime(1.0, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0))


def slow(parts: StepParts, seconds: float, thread: ThreadTime | None = None) -> SlowStep:
    return SlowStep(2.0, 412, seconds, parts, thread, ())


def test_parts_are_named_with_what_they_took_longer() -> None:
    parts = step_parts(data=1.4, forward=0.25, backward=0.5, other=0.85)
    found = replace(slow(parts, 3.0), lines=(SourceLine("save", "/me/train.py", 60, 1.0),))
    words = slow_step_words(trained(USUAL), found)
    assert words == (
        "3.00 s, 3.0× the mean: data 1.20 s longer, other 800 ms longer (save, train.py:60)"
    )


def test_what_the_thread_did_meanwhile_is_told_beside() -> None:
    thread = ThreadTime(2.0, 0.9, 1.0, 0.0, 0.0, 0.0, 0.0)
    words = slow_step_words(trained(USUAL), slow(replace(MEAN, data=1.2), 2.0, thread))
    assert words == "2.00 s, 2.0× the mean: data 1.00 s longer; waiting for a core 1.00 s"


def test_a_step_that_was_not_recorded_says_what_is_not_known() -> None:
    words = slow_step_words(
        trained(USUAL),
        slow(step_parts(data=0.2, forward=NOT_SEEN, backward=0.5, other=NOT_SEEN), 2.0),
    )
    assert words == "2.00 s, 2.0× the mean: forward and other not recorded"


def test_the_shorter_forms_keep_what_took_longer_and_never_end_in_the_middle() -> None:
    thread = ThreadTime(2.0, 0.9, 1.0, 0.0, 0.0, 0.0, 0.0)
    parts = step_parts(data=0.5, forward=NOT_SEEN, backward=0.5, other=NOT_SEEN)
    found = slow_step_forms(trained(USUAL), slow(parts, 2.0, thread))
    head = "2.00 s, 2.0× the mean"
    assert found == (
        f"{head}: data 300 ms longer; forward and other not recorded; waiting for a core 1.00 s",
        f"{head}: data 300 ms longer; waiting for a core 1.00 s",
        f"{head}: data 300 ms longer",
        head,
    )


def test_without_a_mean_no_cause_is_named() -> None:
    words = slow_step_words(EMPTY, slow(MEAN, 2.0))
    assert words == "2.00 s: cause unknown"

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.training_session import a_gan, step_parts, training_step
from tui_profiler.messages import BackwardLine
from tui_profiler.queries.training.outside_modules import (
    outside_lines,
    outside_share,
    outside_words,
)

STEP = training_step(step_parts(backward=0.5, other=0.5))


def line(number: int, modules: float, outside: float) -> BackwardLine:
    return BackwardLine("train", "/me/vae.py", number, "", 1.0, modules, 0.0, outside)


def test_the_line_with_most_backward_outside_of_modules_is_named() -> None:
    step = replace(STEP, backward_lines=(line(90, 0.3, 0.0), line(83, 0.1, 0.1)))
    assert outside_share(step) == pytest.approx(0.2)
    assert outside_words(step) == "outside modules 20 %, train, vae.py:83"
    assert [one.line for one in outside_lines(step)] == [83]
    little = replace(STEP, backward_lines=(line(83, 0.5, 0.004), line(90, 0.4, 0.05)))
    assert [one.line for one in outside_lines(little)] == [90]


def test_little_backward_outside_of_modules_is_not_said() -> None:
    step = replace(STEP, backward_lines=(line(83, 0.92, 0.08),))
    assert outside_words(step) == ""


def test_of_many_lines_with_little_each_none_is_named() -> None:
    step = replace(STEP, backward_lines=tuple(line(number, 0.0, 0.008) for number in range(125)))
    assert outside_share(step) == pytest.approx(1.0)
    assert outside_words(step) == ""


def test_without_a_timed_pass_nothing_is_known() -> None:
    assert outside_share(STEP) is None
    assert outside_words(STEP) == ""
    assert outside_words(replace(STEP, backward_lines=(line(83, 0.0, 0.0),))) == ""


def test_other_models_are_not_outside_of_modules() -> None:
    assert outside_share(a_gan(STEP)) == 0.25

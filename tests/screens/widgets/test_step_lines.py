from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.widgets.lines import Line, line_width, text
from screens.widgets.rows import Look
from screens.widgets.step_lines import bar_lines, node_step_lines, step_lines
from tests.queries.sessions import resnet
from tests.small_model import FC
from tests.training_session import (
    a_gan,
    step_parts,
    trained,
    training_step,
    with_evaluation,
    with_longer,
)
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.messages import Heartbeat, SourceLine, TrainingStep, Unknown
from tui_profiler.session import EMPTY, apply

SECONDS = {"data": 0.18, "forward": 0.02, "backward": 0.07, "optimizer": 0.31, "other": 0.42}
LOGGING = SourceLine("Trainer.log_metrics", "/home/me/train.py", 54, 0.7)
STEP = replace(training_step(step_parts(**SECONDS)), lines=(LOGGING,), samples=100, tokens=128.0)


def look(step: TrainingStep, cells: int = 120) -> Look:
    return Look(trained(step), 0, 2.0, cells)


def bar(step: TrainingStep, cells: int, rows: int = 2) -> list[str]:
    return [text(line).strip() for line in bar_lines(look(step, cells), rows)]


def test_the_step_by_part_with_the_line_of_most_of_the_rest() -> None:
    in_words, drawn = bar(STEP, 120)
    assert in_words == (
        "step 1.00 s   data 18 · forward 2 · backward 7 · optimizer 31 · other 42 "
        "(log_metrics, train.py:54, 70 %)"
    )
    said = "host-bound: code outside of the model 42 % of the step   1.00 steps/s  4.00 items/s"
    assert drawn.endswith(said)


def test_a_rate_gives_way_once_there_has_been_no_step_for_a_while() -> None:
    def shown(at: float) -> str:
        session = apply(trained(replace(STEP, at=100.0)), Heartbeat(at, 0.0))
        return text(bar_lines(Look(session, 0, 2.0, 120), 2)[1]).rstrip()

    assert shown(105.0).endswith("1.00 steps/s  4.00 items/s")
    assert shown(112.0).endswith("42 % of the step   no step 12 s")


def test_the_rate_says_what_steps_far_longer_take_and_the_step_is_without_them() -> None:
    told = replace(with_longer(STEP), tokens_error=0.1)
    in_words, drawn = bar(told, 160)
    assert in_words.startswith("step 1.00 s   ")
    said = "0.50 steps/s  2.00 items/s  ~64.0 tokens/s, 55 % in longer steps"
    assert drawn.endswith(said)
    assert bar(told, 90, rows=1)[0].endswith("0.50 steps/s, 55 % in longer steps")
    panel = [text(line).strip() for line in step_lines(look(told))]
    assert "10 of the last 100 took far longer, 55 % of the time" in panel


def test_an_evaluation_stands_beside_the_rate_and_in_the_panel() -> None:
    told = with_evaluation(STEP)
    said = "evaluation every 200 steps, 3.0 % of the time"
    assert bar(told, 180)[1].endswith(f"4.00 items/s  128 tokens/s  {said}")
    assert bar(told, 155)[1].endswith("4.00 items/s  128 tokens/s  evaluation 3.0 %")
    assert bar(told, 135)[1].endswith("4.00 items/s  128 tokens/s"), "it gives way first"
    panel = [text(line).strip() for line in step_lines(look(told))]
    assert said in panel
    assert "inference, 0.2 % of the time" in panel


def test_where_there_is_room_parts_not_seen_are_dashes() -> None:
    in_words = bar(STEP, 160)[0]
    assert "transfer – · forward 2" in in_words
    assert "communication – · other 42" in in_words


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (100, "data 18 · forward 2 · backward 7 · optimizer 31 · other 42 (train.py:54)"),
        (80, "data 18 · forward 2 · backward 7 · optimizer 31 · other 42"),
        (70, "data 18 · backward 7 · optimizer 31 · other 42"),
        (48, "optimizer 31 · other 42"),
    ],
)
def test_the_least_parts_go_first_and_no_word_is_cut(cells: int, shown: str) -> None:
    [only] = bar(STEP, cells, rows=1)
    left, _, rate = only.partition("   ")
    assert (left, rate.strip()) == (shown, "1.00 steps/s")


def test_rows_are_as_wide_as_asked_for() -> None:
    for cells in range(12, 200):
        assert {line_width(line) for line in bar_lines(look(STEP, cells), 2)} == {cells}


def test_the_bar_has_each_part_s_share() -> None:
    parts = step_parts(forward=0.5, backward=0.25, other=0.25)
    drawn = bar(training_step(parts), 120)[1].split("  ")[0]
    longest, next_one, outside = map(len, drawn.split())
    assert abs(longest - 2 * next_one) <= 1
    assert abs(next_one - outside) <= 1
    assert drawn[-1] == "─"


def test_nothing_is_said_before_steps_are_recorded() -> None:
    assert bar_lines(Look(EMPTY, 0, 2.0, 120), 2) == ()
    assert step_lines(Look(EMPTY, 0, 2.0, 120)) == ()


def test_much_backward_outside_of_modules_is_said_where_there_is_room() -> None:
    wide, narrow = bar(a_gan(STEP), 160)[0], bar(a_gan(STEP), 100)[0]
    assert "backward 7 (outside modules 25 %, train, gan.py:83) · optimizer" in wide
    assert "backward 7 · optimizer" in narrow


def section(step: TrainingStep) -> str:
    def squeezed(line: Line) -> str:
        return " ".join(text(line).split())

    return "\n".join(squeezed(line) for line in step_lines(look(step, 48)))


def test_the_panel_has_every_part_and_why_one_is_not_known() -> None:
    shown = section(STEP)
    assert "18 % 180 ms" in shown
    assert "log_metrics, train.py:54 70 % of other" in shown
    assert "transfer, clip, communication – not seen" in shown
    assert "step 1.00 s\n" in shown
    assert "last steps 1.00 s p50 1.00 s" in shown
    assert "by 100 samples, ± 9.8 %" in shown
    assert "host-bound: code outside of the model 42 %" in shown


def test_parts_and_step_of_the_panel_are_of_recorded_steps_and_the_last_ones_apart() -> None:
    """Parts add up to 2.47 s, which is what is beside them; all of the last took 2.76 s."""
    parts = step_parts(forward=1.0, backward=1.0, other=0.47)
    step = replace(training_step(parts, 2.47), per_second=1 / 2.76, last=10)
    shown = section(step)
    assert "step 2.47 s\n" in shown
    assert "last steps 2.76 s" in shown
    assert bar(step, 120)[0].startswith("step 2.47 s")


def test_few_samples_are_marked_and_what_none_covers_has_a_row() -> None:
    shown = section(replace(STEP, samples=13, lines_unsampled=0.2))
    assert "no sample there 20 % of other" in shown
    assert "by 13 samples, ± 27 %" in shown
    assert "train.py:54, ~70 % by 13 samples" in bar(replace(STEP, samples=13), 160)[0]


def test_the_panel_has_losses_by_line_and_other_models() -> None:
    shown = section(a_gan(STEP))
    assert "train, gan.py:83 outside modules 125 ms" in shown
    assert "gan.py:91" not in shown
    assert "Generator forward 125 ms backward 62.5 ms" in shown
    hostile = replace(a_gan(STEP).other_models[0], name="\x1b[31m")
    assert "\x1b" not in section(replace(STEP, other_models=(hostile,)))


def test_a_step_without_a_time_says_why() -> None:
    assert "– not yet" in section(replace(STEP, seconds=Unknown("not yet")))


def test_why_steps_have_no_lines_is_told_beside_the_lines_of_others() -> None:
    some = section(replace(STEP, why_no_lines="nobody looked"))
    assert "train.py:54 70 % of other" in some
    assert "not of all steps: nobody looked" in some
    none = section(replace(STEP, lines=(), why_no_lines="nobody looked"))
    assert "no lines: nobody looked" in none


def test_names_of_the_program_are_made_safe() -> None:
    hostile = replace(LOGGING, function="a\x1b[31m", file="/b\n.py")
    step = replace(STEP, lines=(hostile,), why_no_lines="\x1b[0m")
    shown = section(step) + "".join(bar(step, 200))
    assert "\\x1b[31m, b\\n.py:54" in shown
    assert "\x1b" not in shown


def test_the_bar_is_drawn_in_ascii() -> None:
    lines = bar_lines(Look(trained(STEP), 0, 2.0, 120, ASCII), 2)
    assert all(part.isascii() for line in lines for part, _ in line)


def of_node(step: TrainingStep, node: int) -> list[str]:
    session = trained(step, resnet())
    lines = node_step_lines(Look(session, node, 2.0, 48))
    assert {line_width(line) for line in lines} <= {48}
    return [" ".join(text(line).split()) for line in lines[1:]]


def test_a_module_has_its_forward_backward_and_share() -> None:
    step = training_step(step_parts(other=1.0), seconds=2.0)
    assert of_node(step, 3) == [
        "forward 125 ms backward 250 ms",
        "share 25 % self 22 % recomputed 125 ms",
    ]
    assert of_node(step, 4) == ["forward – not called in recorded steps"]
    unknown = replace(step, recompute=Unknown("not seen"))
    assert of_node(unknown, 3) == ["forward 125 ms backward 250 ms", "share – not seen"]
    without = replace(step, why_no_backward="compiled", backward=bytes(len(step.backward)))
    assert of_node(without, 3) == [
        "forward 125 ms",
        "backward – compiled",
    ]


def test_the_panel_of_a_module_says_what_limits_its_backward() -> None:
    from tests.queries.training import test_backward_bound as judged

    shown = [text(line).strip() for line in node_step_lines(Look(judged.session(), FC, 2.0, 48))]
    assert " ".join(shown[3].split()) == "bound of the backward ■ memory-bound"
    assert shown[4] == "62 % of its time at the memory roof"

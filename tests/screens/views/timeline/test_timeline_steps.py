"""A step of training on the timeline."""

from msgspec.structs import replace

from screens.views.timeline.screen import SteadyLayout
from screens.views.timeline.step_lines import slow_step_lines, step_lines
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.small_model import CONV, FC, TRACED, folded
from tests.training_session import column, step_parts, training_step
from tui_profiler.messages import SlowStep, SourceLine, ThreadTime
from tui_profiler.queries.training.step_blocks import step_blocks
from tui_profiler.session import EMPTY, Session, apply

PARTS = step_parts(data=0.25, forward=0.25, backward=0.5)
STEP = replace(
    training_step(PARTS),
    nodes=memoryview(bytearray([0, 0, 0, 0, CONV, 0, 0, 0, FC, 0, 0, 0])).tobytes(),
    **{
        name: column(0.25, 0.125, 0.125)
        for name in ("forward", "own_forward", "backward", "own_backward")
    },
    **{name: column(0.0, 0.0, 0.0) for name in ("recomputed", "own_recomputed")},
)
SLOW = SlowStep(2.0, 412, 2.0, replace(PARTS, data=1.25), None, ())
SESSION = apply(apply(folded(TRACED), STEP), SLOW)


def drawn(rows: int, cells: int = 82, root: int = 0, session: Session = SESSION) -> list[str]:
    look = Look(session, CONV, 3.0, cells)
    lines = step_lines(look, step_blocks(session, root, look.inner), root, rows)
    assert {line_width(line) for line in lines} <= {cells}
    return [text(line).rstrip() for line in lines]


def test_parts_along_time_with_modules_inside_and_the_slowest_step() -> None:
    title, names, blocks, modules, below, slowest = drawn(10)
    assert title.split()[:4] == ["one", "step,", "1.00", "s"]
    assert names.split() == ["data", "25", "%", "forward", "25", "%", "backward", "50", "%"]
    assert modules.split()[::3] == ["conv", "fc", "fc", "conv"]
    assert [len(part) for part in blocks[1:].split("╸") if part] == [19, 19, 39]
    assert below.index("━") == names.index("forward")
    assert slowest == " slowest step 412  2.00 s, 2.0× the mean: data 1.00 s longer"


def test_modules_go_first_where_rows_are_few_and_nothing_is_cut_in_two() -> None:
    assert [len(drawn(rows)) for rows in range(7)] == [0, 0, 0, 3, 4, 4, 6]
    assert drawn(4)[3].startswith(" slowest")
    assert drawn(10, session=EMPTY) == []


def test_rows_are_as_wide_as_the_screen() -> None:
    for cells in range(20, 160):
        for root in (0, FC):
            assert drawn(10, cells, root)


def test_a_module_fills_the_width_with_its_forward_and_backward() -> None:
    title, names, blocks, *_ = drawn(10, 110, CONV)
    assert title.startswith(" one step › conv, 250 ms of 1.00 s ──")
    assert names.split() == ["forward", "12", "%", "backward", "12", "%"]
    assert [len(part) + 1 for part in blocks[1:].split("╸") if part] == [54, 54]
    uncalled = replace(SESSION.training.step, nodes=bytes(12))
    assert drawn(10, 110, CONV, apply(SESSION, uncalled))[1:] == [
        " not called in the recorded steps"
    ]


def test_the_blocks_of_a_step_are_laid_out_again_once_in_a_second_at_most() -> None:
    laid: list[float] = []

    def lay(session: Session, root: int, cells: int) -> tuple[object, ...]:
        laid.append(session.heard_at)
        return step_blocks(session, root, cells)

    layout = SteadyLayout(lay)
    for at in (10.0, 10.25, 10.5, 10.75, 11.25):
        layout.of(replace(SESSION, heard_at=at), 0, 80)
    layout.of(replace(SESSION, heard_at=11.3), CONV, 80)
    assert laid == [10.0, 11.25, 11.3]


def test_a_slow_step_stands_beside_the_mean_with_the_line_of_the_rest() -> None:
    line = SourceLine("\x1b[2Jsave", "/home/me/train.py", 33, 0.9)
    slow = replace(SLOW, lines=(line,))
    for cells in range(40, 130):
        found = slow_step_lines(Look(SESSION, 0, 3.0, cells), slow, 20)
        assert {line_width(one) for one in found} == {cells}
    told = [" ".join(text(one).split()) for one in found]
    assert told[0].startswith("slowest step, 2.00 s")
    assert told[3] == "mean step, the same scale"
    assert "data 1.25 s 250 ms +1.00 s" in told
    assert "forward 250 ms 250 ms ·" in told
    assert told[-1] == "\\x1b[2Jsave, train.py:33 90 % of other"


def test_a_slow_step_is_a_row_that_ends_with_a_part_or_a_cause_at_every_width() -> None:
    thread = ThreadTime(1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    usual = replace(STEP, thread=thread)
    parts = step_parts(data=0.5, backward=0.6)
    slow = replace(SLOW, parts=parts, thread=replace(thread, seconds=2.0, waiting=0.9))
    session = apply(apply(folded(TRACED), usual), slow)
    for cells in range(60, 160):
        levels = step_blocks(session, 0, cells - 2)
        _, *lines = drawn(20, cells, session=session)
        said = lines[2 * len(levels) :]
        assert len(said) == 1
        ends = ("mean", "longer", "recorded", "waiting for a core 900 ms")
        assert said[0].endswith(ends), (cells, said)

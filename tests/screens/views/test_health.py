"""The health screen: its rows, what it asks for, and the first NaN."""

from msgspec.structs import replace

from screens.views.health.lines import BY_EXECUTION, health_lines, ordered_rows
from screens.widgets.heading import Order
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import on_stage
from tests.screens.screen_text import screen_text
from tests.small_model import CONV, FC, ROOT, TRACED, folded
from tests.small_values import model_values
from tests.training_session import step_parts, trained, training_step
from tui_profiler.messages import Ended, Hello, ReadValues
from tui_profiler.queries.training.values import value_text, why_no_values
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.full import full_text
from tui_profiler.session import Session, apply

NODES = (ROOT, CONV, FC)
SMALL = apply(folded(TRACED), model_values(NODES))
SPOILT = apply(folded(TRACED), model_values(NODES, nan_node=FC))


def drawn(session: Session, cells: int = 120, order: Order = BY_EXECUTION) -> list[str]:
    look = Look(session, CONV, 9.0, cells)
    lines = health_lines(look, ordered_rows(look, order), order, 20)
    return [text(line).rstrip() for line in finished(lines, look, 20)]


def test_each_module_has_its_values() -> None:
    lines = drawn(SMALL)
    assert lines[0].split() == [
        *("step", "412", "gradient", "norm", "1.5", "7", "steps", "read,", "4.00", "ms", "each"),
    ]
    assert lines[3].split()[0] == "(model)"
    assert lines[4].split() == ["▌conv", "2", "0.5", "25", "0.5", "–", "0.001", "0", "0"]


def test_a_nan_is_said_above_and_its_rows_come_first_when_ordered_by_it() -> None:
    lines = drawn(SPOILT, order=Order("nan", descending=True))
    assert lines[0].split()[2:] == [
        *("gradient", "norm", "–", "not", "finite"),
        *("7", "steps", "read,", "4.00", "ms", "each"),
    ]
    assert "NaN first seen at step 412 in the output of fc, 12 % of it" in lines[1]
    assert lines[4].split()[0] == "fc"
    assert lines[4].split()[-2:] == ["12", "0"]


def test_one_nan_in_a_million_is_not_none() -> None:
    assert [value_text(share, "nan") for share in (0.0, 1e-6, 0.01)] == ["0", "<0.1", "1"]


def test_why_there_are_none_yet_or_will_be_none() -> None:
    waiting = trained(training_step(step_parts(data=0.25, other=0.75)), folded(TRACED))
    assert why_no_values(waiting) == "the next recorded step is read"
    ended = apply(waiting, Ended(1, expected=False, is_script=True))
    assert why_no_values(ended) == "the program ended before a recorded step was read"


def test_no_row_is_too_wide_and_nan_is_shown_in_any_width() -> None:
    for cells in range(40, 200):
        look = Look(SPOILT, CONV, 9.0, cells)
        lines = health_lines(look, ordered_rows(look, BY_EXECUTION), BY_EXECUTION, 20)
        assert all(line_width(line) <= cells for line in lines)
        assert any("NaN " in text(line) for line in lines)


async def test_values_are_read_while_the_screen_is_open() -> None:
    hello, *others = recorded()
    assert isinstance(hello, Hello)
    accepts = replace(hello, accepts=(*hello.accepts, "ReadValues"))
    async with on_stage([accepts, *others]) as (stage, pilot):
        await pilot.press("H")
        await pilot.pause()
        assert "no values: values are read in training steps" in screen_text(stage.app)
        assert stage.requests[-1] == ReadValues()
        await pilot.press("escape")
        await pilot.pause()
        assert stage.requests[-1] == ReadValues(wanted=False)


async def test_a_probe_that_does_not_read_is_not_asked() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("H")
        await pilot.pause()
        assert "no values: " in screen_text(stage.app)
        await pilot.press("escape")
        await pilot.pause()
        assert not any(isinstance(one, ReadValues) for one in stage.requests)


def test_the_text_report_has_them() -> None:
    assert "health of values" not in full_text(folded(TRACED), columns=120)
    lines = full_text(SPOILT, columns=120).splitlines()
    first = next(place for place, line in enumerate(lines) if "health of values" in line)
    told = "\n".join(lines[first:])
    assert "NaN first seen at step 412 in the output of fc, 12 % of it; none at step 380" in told
    row = next(line.split() for line in lines[first:] if line.split()[:1] == ["conv"])
    assert row == ["conv", "2", "0.5", "25", "0.5", "–", "0.001", "0", "0"]


def test_the_json_report_has_them() -> None:
    assert "values" not in as_json(folded(TRACED))
    found = as_json(SPOILT)["values"]
    assert isinstance(found, dict)
    assert found["first_nan"] == {
        "step": 412,
        "path": "fc",
        "kind": "activation",
        "parameter": "",
        "share": 0.125,
        "clean_step": 380,
        "in_weights": False,
    }
    assert found["gradient_norm"] is None
    layers = found["layers"]
    assert isinstance(layers, list)
    assert isinstance(layers[1], dict)
    assert layers[1]["path"] == "conv"
    assert layers[1]["parameter_gradients"] is None
    assert layers[1]["gradient"] == {
        "max_abs": 2.0,
        "rms": 0.5,
        "zeros": 0.25,
        "nan": 0.0,
        "inf": 0.0,
    }

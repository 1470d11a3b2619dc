"""Rows with the columns of a user's choice, and the list that they are chosen from."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from screens.common.column_list import ColumnChoice, column_lines, rows_wanted
from screens.explorer.tree import lines as tree_lines
from screens.explorer.tree.columns import Form, columns_for
from screens.widgets.lines import Line, line_width, text
from tests.machine_session import measured
from tests.queries.sessions import resnet
from tests.queries.training.test_backward_bound import FAST, STEP
from tests.queries.training.trained import cost, memory
from tests.small_model import CONV, MEASURED, folded, with_cpu_times
from tests.training_session import step_parts, trained, training_step
from tui_profiler.formatting.canvas import ASCII, BLOCK, UNICODE, Glyphs
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import (
    COLUMN_NAMES,
    COLUMN_WORDS,
    OF_A_STEP,
    ColumnName,
    step_columns,
)
from tui_profiler.session import Session, apply


def drawn(
    session: Session, chosen: tuple[ColumnName, ...], cells: int = 100, glyphs: Glyphs = UNICODE
) -> list[Line]:
    """Return the header and all rows of a tree."""
    figures = Figures()
    figures.update(session)
    assert session.tree is not None
    laid = rows.outline(session, focuses.initial(session.tree))
    columns = columns_for(cells, "wide", chosen=chosen)
    head = tree_lines.header(laid, figures, 0, columns, glyphs)
    body = [tree_lines.row(laid, figures, node, columns, glyphs=glyphs) for node in laid.rows]
    return [head, *(tree_lines.with_cursor(line, (" ", "ink"), "") for line in body)]


def test_columns_stand_in_the_order_of_the_user() -> None:
    lines = drawn(resnet(), ("share", "calls", "self", "params"))
    assert text(lines[0]).split()[-5:] == ["%", "calls", "self", "ms", "params"]
    conv1 = next(line for line in lines if "conv1" in text(line))
    assert text(conv1).split()[-4:] == ["3", "1", "0.93", "9.41K"]


def test_cpu_time_names_its_unit_beside_the_mean() -> None:
    session = resnet()
    assert session.tick is not None
    ticked = apply(session, with_cpu_times(session.tick, {0: (0.02, 0.01), 1: (0.0004, 0.0004)}))
    lines = drawn(ticked, ("seconds", "cpu"))
    assert text(lines[0]).split()[-4:] == ["avg", "ms", "cpu", "ms"]
    conv1 = next(line for line in lines if "conv1" in text(line))
    assert text(conv1).split()[-2:] == ["0.93", "0.40"]
    assert text(lines[-1]).split()[-1] == "–"


def test_all_columns_are_of_a_step_where_training_is_seen() -> None:
    usual = columns_for(72, "wide", of_step=frozenset(("forward", "backward", "step")))
    assert usual.names == ("macs", "forward", "bound", "backward", "step", "bar")
    with_checkpointing = columns_for(72, "wide", of_step=frozenset(OF_A_STEP))
    assert with_checkpointing.names == (
        *("forward", "bound", "backward", "backward_bound", "recompute", "step", "bar"),
    )
    assert set(columns_for(200, "wide", of_step=frozenset(OF_A_STEP)).names) > set(OF_A_STEP)
    assert columns_for(40, "tiny", of_step=frozenset(OF_A_STEP)).names == (
        *("forward", "backward", "step"),
    )
    for cells in range(10, 220):
        columns = columns_for(cells, "narrow", of_step=frozenset(OF_A_STEP))
        taken = sum(column.cells + column.gap for column in columns.columns)
        assert 1 + columns.name_cells + taken + columns.pad + columns.divider == cells


def test_a_row_has_its_backward_and_its_share_of_the_step() -> None:
    session = trained(training_step(step_parts(other=1.0), seconds=2.0), resnet())
    lines = drawn(session, ("backward", "step"))
    assert text(lines[0]).split()[-3:] == ["bwd", "ms", "step%"]
    assert text(lines[1]).split()[-2:] == ["500.00", "44"]
    assert text(lines[2]).split()[-2:] == ["–", "–"]


def test_a_row_has_gradient_bytes_and_the_letter_of_its_backward_s_bound() -> None:
    session = folded((cost(), memory(), FAST, STEP), folded(MEASURED))
    lines = drawn(session, ("backward", "backward_bound", "gradients"))
    assert text(lines[0]).split()[-4:] == ["bwd", "µs", "grad", "B"]
    fc = next(line for line in lines if text(line).startswith(" ") and "fc" in text(line))
    assert text(fc).split()[-4:] == ["12.0", "M", "10.0", "KiB"]
    watched = folded((STEP,), folded(MEASURED))
    fc = next(line for line in drawn(watched, ("gradients",)) if "fc" in text(line))
    assert text(fc).split()[-2:] == ["≤10.0", "KiB"]


def test_the_arrow_of_the_order_stands_apart_from_the_column_before() -> None:
    session = trained(training_step(step_parts(other=1.0), seconds=2.0), resnet())
    figures = Figures()
    figures.update(session)
    assert session.tree is not None
    laid = rows.outline(session, replace(focuses.initial(session.tree), sort="step"))
    columns = columns_for(72, "wide", of_step=step_columns(session))
    assert "bwd ms ↑step%" in text(tree_lines.header(laid, figures, 0, columns, UNICODE))


def test_times_name_their_unit_where_no_column_does() -> None:
    assert "self ms" in text(drawn(resnet(), ("self",))[0])
    head = text(drawn(resnet(), ("seconds", "p95"))[0])
    assert head.split()[-2:] == ["ms", "p95"]


def test_the_last_columns_yield_where_it_is_narrow() -> None:
    chosen: tuple[ColumnName, ...] = ("bytes", "activations", "seconds", "mean", "p95")
    counts = [len(columns_for(cells, "wide", chosen=chosen).names) for cells in range(20, 120)]
    assert counts == sorted(counts)
    assert counts[0] <= 1
    assert counts[-1] == 5
    for cells in range(20, 120):
        assert columns_for(cells, "wide", chosen=chosen).names == chosen[: counts[cells - 20]]


@pytest.mark.parametrize("form", ["wide", "narrow", "tiny"])
@pytest.mark.parametrize("chosen", [*permutations(("bar", "params", "energy")), COLUMN_NAMES])
def test_every_row_is_exactly_as_wide_as_asked(form: Form, chosen: tuple[ColumnName, ...]) -> None:
    for cells in (1, 5, 19, 20, 35, 59, 71, 80, 120, 250):
        columns = columns_for(cells, form, chosen=chosen)
        taken = sum(column.cells + column.gap for column in columns.columns)
        assert 1 + columns.name_cells + taken + columns.pad + columns.divider == cells
        assert columns.name_cells <= 44 or not columns.columns


@pytest.mark.parametrize("glyphs", [UNICODE, BLOCK, ASCII])
@pytest.mark.parametrize("session", [resnet(), resnet(measured=False), measured()])
def test_no_figure_is_wider_than_its_column(session: Session, glyphs: Glyphs) -> None:
    lines = drawn(session, COLUMN_NAMES, 200, glyphs)
    assert {line_width(line) for line in lines} == {199}


def test_an_estimate_of_energy_wears_a_sign_and_two_digits() -> None:
    session = measured()
    assert session.tree is not None
    lines = drawn(session, ("energy",))
    root = text(lines[1]).split()
    assert root[-2:] == ["~100", "mJ"]
    assert session.tree.nodes[CONV].name in text(lines[2])
    # Estimated by its share of the time: at most two digits that are not 0.
    digits = text(lines[2]).split()[-2].lstrip("~").replace(".", "").strip("0")
    assert text(lines[2]).split()[-2].startswith("~")
    assert len(digits) <= 2


def test_parameters_alone_have_only_the_columns_that_make_sense() -> None:
    chosen: tuple[ColumnName, ...] = ("seconds", "bytes", "macs")
    assert columns_for(80, "wide", has_forward=False, chosen=chosen).names == ("bytes",)
    usual = columns_for(80, "wide", has_forward=False).names
    assert columns_for(80, "wide", has_forward=False, chosen=("seconds",)).names == usual


@pytest.mark.parametrize("glyphs", [UNICODE, BLOCK, ASCII])
@pytest.mark.parametrize("rows_there", [6, 10, 20, 40])
@pytest.mark.parametrize("cells", [20, 60])
def test_the_list_fits_and_shows_the_cursor(cells: int, rows_there: int, glyphs: Glyphs) -> None:
    choice = ColumnChoice.of(("macs", "bar"), COLUMN_NAMES)
    for step in range(len(COLUMN_NAMES)):
        here = choice.moved(step)
        lines = column_lines(here, COLUMN_WORDS, ("macs",), (cells, rows_there), glyphs)
        assert len(lines) == rows_there
        assert {line_width(line) for line in lines} == {cells}
        assert sum(glyphs.cursor == line[0][0] for line in lines) == 1
        if glyphs is ASCII:
            assert all(text(line).isascii() for line in lines)


def test_the_list_says_which_columns_have_no_room() -> None:
    choice = ColumnChoice.of(("macs", "bar"), COLUMN_NAMES)
    drawn = column_lines(choice, COLUMN_WORDS, ("macs",), (60, rows_wanted(choice)))
    shown = [text(line) for line in drawn]
    assert any("bar" in line and "no room at this width" in line for line in shown)
    assert any("MAC" in line and "multiply-accumulates" in line for line in shown)


def test_a_column_is_shown_hidden_and_carried() -> None:
    choice = ColumnChoice.of(("macs", "bar"), COLUMN_NAMES)
    assert choice.order[:3] == ("macs", "bar", "params")
    choice = choice.moved(2).toggled()
    assert choice.columns == ("macs", "bar", "params")
    choice = choice.carried(-2)
    assert (choice.columns, choice.cursor) == (("params", "macs", "bar"), 0)
    assert choice.carried(-1).columns == choice.columns
    choice = choice.toggled()
    assert choice.columns == ("macs", "bar")


def test_one_column_always_stays() -> None:
    choice = ColumnChoice.of(("macs",), COLUMN_NAMES)
    assert choice.toggled().columns == ("macs",)


def test_the_cursor_stays_among_the_columns() -> None:
    choice = ColumnChoice.of(("macs",), COLUMN_NAMES)
    assert choice.moved(-5).cursor == 0
    assert choice.moved(99).cursor == len(COLUMN_NAMES) - 1


def test_every_column_is_there_once() -> None:
    order = ColumnChoice.of(("energy", "params"), COLUMN_NAMES).order
    assert sorted(order) == sorted(COLUMN_NAMES)

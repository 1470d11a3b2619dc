"""Weights as rows: which there are, in which order, and what is said where a figure is missing."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from screens.views.weights.analysis_state import has_random_weights
from tests.fixtures.record_weights import recorded_weights
from tests.recording.files import fold
from tests.small_model import TRACED, folded
from tui_profiler.messages import (
    ParametersStarted,
    Sensitivity,
    SensitivityDone,
    SensitivityStarted,
    TensorStatistics,
    Unknown,
    known,
)
from tui_profiler.messages.parameters import Moments, Pruned, Quantised, Scheme, Width
from tui_profiler.queries.parameters.weights import (
    COLUMNS,
    SCHEMES,
    SORTS,
    Column,
    WeightsView,
    figure,
    is_measurable,
    next_scheme,
    not_finite,
    ordered,
    rows_of,
    scheme_words,
)
from tui_profiler.reports.csv import WEIGHT_COLUMNS, csv_weights
from tui_profiler.session import Session, apply

DECODER = fold(recorded_weights())
INT8 = Scheme("int8")
CONV = TensorStatistics(
    "conv",
    "conv.weight",
    (4, 3, 3, 3),
    "float32",
    *(432, 432, 64),
    is_buffer=False,
    moments=Moments(100, 5, 3, 20, 22, 1e-3, 0.1, 0.5, -1.0, 2.0, 0.0, 0.0, 40.0, 5.0),
    pruned=(Pruned(0.01, 0.21), Pruned(0.1, 0.4)),
    quantised=(Quantised("int8", "tensor", 31.0, 8.0), Quantised("int8", "channel", 41.0, 8.5)),
    width=Width("int8", "tensor", 8.0, 0.03, 300, "31 dB"),
)
SMALL = folded((*TRACED, ParametersStarted(1.0, 2, 3, is_random=True, weights="random"), CONV))


def sensitivity(name: str, error: float, scheme: Scheme = INT8, done: int = 1) -> Sensitivity:
    return Sensitivity(
        name.rpartition(".")[0], name, scheme, 0.01, error * 1.1, error, 0.5, 2.0, done
    )


def measured(*messages: Sensitivity, scheme: Scheme = INT8, start: Session = SMALL) -> Session:
    begun = apply(start, SensitivityStarted(2.0, scheme, 2, is_random=False))
    return folded(messages, begun)


def test_the_rows_are_those_of_the_tree_before_anything_was_looked_at() -> None:
    rows = rows_of(folded(TRACED))
    assert [(row.name, row.node, row.values) for row in rows] == [
        ("conv.weight", 1, 108),
        ("fc.weight", 3, 2560),
        ("fc.bias", 3, 10),
    ]
    assert all(figure(row, column) is None for row in rows for column in COLUMNS[1:])
    assert [is_measurable(row) for row in rows] == [True, True, False]


@pytest.mark.parametrize(
    ("column", "wanted"),
    # 20 of 100 finite values are zero; per channel goes before per tensor; of a tenth of the norm.
    [("std", 0.5), ("zeros", 0.2), ("int8", 41.0), ("width", 8.0), ("prune", 0.4)],
)
def test_figures_are_those_that_came(column: Column, wanted: float) -> None:
    conv = rows_of(SMALL)[0]
    assert figure(conv, column) == wanted
    assert not_finite(conv) == "NaN"
    assert has_random_weights(SMALL)


def test_a_figure_that_is_missing_has_its_reason() -> None:
    bare = replace(CONV, moments=None, why_none="it is on meta", pruned=(), quantised=())
    started = ParametersStarted(1.0, 2, 3, is_random=False, weights="its own")
    conv = rows_of(folded((*TRACED, started, bare)))[0]
    assert figure(conv, "std") == Unknown("it is on meta")
    there = replace(bare, moments=CONV.moments, whys=(("quantisation", "stopped"),))
    conv = rows_of(folded((*TRACED, started, there)))[0]
    assert figure(conv, "int8") == Unknown("stopped")
    assert isinstance(figure(conv, "prune"), Unknown)
    tied = replace(CONV, shared_with="fc.weight")
    conv = rows_of(folded((*TRACED, started, tied)))[0]
    assert figure(conv, "std") == Unknown("shared with fc.weight")


def test_a_measurement_is_kept_per_weight_until_it_is_measured_again() -> None:
    one = measured(sensitivity("conv.weight", 0.2), sensitivity("fc.weight", 0.1))
    again = measured(sensitivity("fc.weight", 0.3, done=0), start=one)
    errors = [figure(row, "error") for row in rows_of(again)]
    assert errors == [0.2, 0.1, None]
    now = measured(sensitivity("fc.weight", 0.4), start=again)
    assert [figure(row, "error") for row in rows_of(now)] == [0.2, 0.4, None]
    # Another scheme speaks of something else.
    other = measured(
        sensitivity("fc.weight", 0.5, Scheme("int4")), scheme=Scheme("int4"), start=now
    )
    assert [figure(row, "error") for row in rows_of(other)] == [None, 0.5, None]
    assert has_random_weights(other)


def test_what_belongs_to_no_measurement_changes_nothing() -> None:
    end = SensitivityDone(3.0, INT8, 1.0, 1, 0.0, 1.0)
    assert folded((sensitivity("conv.weight", 1.0), end), SMALL).sensitivity is None
    over = apply(measured(), end)
    assert over.sensitivity is not None
    assert over.sensitivity.done == end
    assert not apply(over, sensitivity("conv.weight", 1.0)).sensitivity.weights  # type: ignore[union-attr]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("descending", [False, True])
def test_rows_without_a_figure_come_last_either_way(sort: str, descending: bool) -> None:
    rows = list(rows_of(DECODER))
    by = cast(Column, sort)
    found = ordered(rows, by, descending=descending)
    assert sorted(row.name for row in found) == sorted(row.name for row in rows)
    if sort in COLUMNS:
        figures = [known(figure(row, by)) for row in found]
        there = [one for one in figures if one is not None]
        assert figures == [*there, *[None] * (len(figures) - len(there))]
        assert there == sorted(there, reverse=descending)
        assert there


def test_the_cursor_follows_the_node_and_keeps_to_its_row() -> None:
    tree = DECODER.tree
    assert tree is not None
    node = tree.find("layers.2.feed_forward.0")
    assert node is not None
    view = WeightsView()
    view.update(DECODER, node)
    assert view.name == "layers.2.feed_forward.0.weight"
    row = view.move(1)
    assert row is not None
    assert row.name == "layers.2.feed_forward.0.bias"
    view.sort_by("std")
    view.update(DECODER, row.node)
    assert view.row is row
    view.move(-(10**9))
    assert view.at == 0
    view.move(10**9)
    assert view.at == len(view.rows) - 1
    # A block begins at its first weight, buffers are left out until they are asked for.
    block = tree.find("layers.1")
    assert block is not None
    view.update(DECODER, block)
    assert view.name == "layers.1.attention_norm.weight"
    assert not any(one.is_buffer for one in view.rows)
    shown = len(view.rows)
    view.shows_buffers = True
    view.arrange()
    assert len(view.rows) == shown + sum(row.is_buffer for row in view.all) > shown


def test_sorting_goes_through_the_columns_that_have_figures() -> None:
    view = WeightsView()
    view.update(folded(TRACED), 0)
    seen = []
    for _ in range(4):
        view.sort_by_next()
        seen.append((view.sort, view.descending))
    assert seen == [("values", True), ("name", False), ("order", False), ("values", True)]


def test_schemes_are_named_and_go_round() -> None:
    named = [scheme_words(scheme) for scheme in SCHEMES]
    assert len(set(named)) == len(SCHEMES)
    assert named[0] == "int8 per channel"
    assert scheme_words(Scheme("values", share=0.5)) == "50 % of values zero"
    scheme = SCHEMES[0]
    for _ in SCHEMES:
        scheme = next_scheme(scheme)
    assert scheme == SCHEMES[0]


def test_csv_has_a_line_for_each_row_and_is_no_formula() -> None:
    lines = csv_weights(rows_of(measured(sensitivity("conv.weight", 0.25)))).splitlines()
    assert lines[0].split(",") == list(WEIGHT_COLUMNS)
    conv = dict(zip(WEIGHT_COLUMNS, lines[1].split(","), strict=True))
    assert (conv["shape"], conv["nans"], conv["zeros"]) == ("4x3x3x3", "5", "0.2")
    assert (conv["output_error"], conv["change"]) == ("0.25", "int8 per channel")
    assert lines[2].count(",") == lines[0].count(",")
    evil = replace(rows_of(SMALL)[0], name="=cmd()\x1b[2J")
    assert csv_weights((evil,)).splitlines()[1].startswith("'=cmd()\\x1b[2J,")

"""The weights screen: its drawing, what it says, and what its keys ask for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.views.weights.figures import percent, rough_percent, statistic
from screens.views.weights.lines import status_line, weights_lines
from screens.views.weights.panel import histogram_columns, panel_lines
from screens.views.weights.table import _COLUMNS
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.fixtures.record_weights import recorded_weights
from tests.queries.parameters.test_weights import CONV, DECODER, SMALL, measured, sensitivity
from tests.recording.files import fold
from tests.small_model import TRACED, folded
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import (
    Ended,
    Hello,
    ParametersDone,
    ParametersProgress,
    ParametersStarted,
    SensitivityDone,
    SensitivityStarted,
    TensorStatistics,
    Unknown,
)
from tui_profiler.messages.parameters import ALL_PARTS, Histogram
from tui_profiler.queries.parameters.weights import COLUMNS, SCHEMES, WeightsView, figure
from tui_profiler.session import EMPTY, Session, apply

HEADINGS = {name: heading.replace(" ", "") for name, (heading, _) in _COLUMNS.items()}
HEADINGS["zeros"] = "0 %"  # There is room for the blank.
STARTED = ParametersStarted(1.0, 44, 6_000_000, is_random=True, weights="random")
READING = folded(
    (*TRACED, STARTED, ParametersProgress(2.0, 1.0, 9, 3_000_000, "conv.weight"), CONV)
)


def drawn(
    session: Session,
    cells: int = 120,
    rows: int = 35,
    glyphs: Glyphs = UNICODE,
    node: int = 0,
    sort: str = "order",
) -> list[str]:
    view = WeightsView()
    view.update(session, node)
    view.sort_by(sort)  # type: ignore[arg-type] # one of SORTS
    look = Look(session, node, 9.0, cells, glyphs)
    lines = weights_lines(look, view, rows, narrow=cells < 100 or rows < 28)
    # Not by what cuts them on screen: nothing is to be cut.
    assert cells < 60 or max(map(line_width, lines)) <= cells
    return [text(line) for line in finished(lines, look, rows)]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [60, 67, 80, 99, 100, 120, 131, 160, 200])
@pytest.mark.parametrize("rows", [11, 20, 35])
def test_every_row_is_as_wide_as_the_screen(glyphs: Glyphs, cells: int, rows: int) -> None:
    tree = DECODER.tree
    assert tree is not None
    last = tree.find("layers.3.feed_forward.2") or 0
    for session, node in ((DECODER, 0), (DECODER, last), (SMALL, 1), (READING, 1), (EMPTY, 0)):
        for sort in ("order", "std", "error"):
            shown = drawn(session, cells, rows, glyphs, node, sort)
            assert {len(line) for line in shown} == {cells}
            if glyphs is ASCII:
                assert all(line.isascii() for line in shown)
        look = Look(session, node, 9.0, cells, glyphs)
        assert line_width(status_line(look, SCHEMES[-1])) == cells


@pytest.mark.parametrize("sort", COLUMNS)
def test_headings_touch_in_no_order(sort: str) -> None:
    for cells, rows in ((60, 11), (80, 20), (99, 20), (100, 35), (120, 35), (160, 35), (200, 45)):
        for glyphs, arrow in ((UNICODE, "↓"), (ASCII, "v")):
            heading = drawn(DECODER, cells, rows, glyphs, sort=sort)[1]
            before, _, _ = heading.partition(f"{arrow}{HEADINGS[sort]}")  # type: ignore[index]
            assert before != heading
            assert before.endswith(" ")


def test_what_loses_nothing_is_exact_and_what_is_never_narrowed_is_no_gap() -> None:
    norm = next(line for line in drawn(DECODER, 80, 20) if "attention_norm" in line)
    assert norm.split()[2:] == ["·", "exact", "·", "1", "·", "·┃"]
    assert DECODER.tree is not None
    at = DECODER.tree.find("layers.0.attention_norm") or 0
    assert "SQNR     int8 exact   int4 exact   fp8 e4m3 exact" in "\n".join(
        drawn(DECODER, 80, 24, node=at)
    )


@pytest.mark.parametrize("cells", [3, 10, 30, 50])
@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_a_terminal_that_is_too_small_breaks_nothing(cells: int, rows: int) -> None:
    for session in (DECODER, SMALL, EMPTY):
        assert len(drawn(session, cells, rows)) == rows


def test_what_is_not_finite_has_a_sign_and_a_word() -> None:
    shown = drawn(SMALL, node=1)
    assert any("conv ✗ NaN " in line for line in shown)
    assert any("✗ 5 NaN and 3 infinite values, excluded" in line for line in shown)
    narrow = drawn(SMALL, 80, 20, node=1)
    assert any("✗ 5 NaN, 3 infinite" in line for line in narrow)
    assert any("x NaN" in line for line in drawn(SMALL, glyphs=ASCII, node=1))


def test_random_weights_say_that_they_are() -> None:
    assert "randomly initialised weights" in drawn(DECODER)[0]
    assert "random weights" in drawn(DECODER, 60, 11)[0]
    model = DECODER.model
    assert model is not None
    own = replace(model, weights="DEFAULT")
    trained = replace(DECODER, model=own, parameters=None, sensitivity=None)
    assert "random" not in drawn(trained)[0]


def test_measured_and_predicted_stand_side_by_side_and_look_different() -> None:
    session = measured(sensitivity("conv.weight", 0.0123), sensitivity("fc.weight", 0.25))
    lines = drawn(session, sort="error")
    assert [line.split()[0].strip("▌") for line in lines[2:4]] in (["fc", "conv"], ["", "conv"])
    conv = next(line for line in lines if " conv " in line or "▌conv " in line)
    assert "~1.4" in conv
    assert " 1.23" in conv
    bias = next(line for line in lines if "fc.bias" in line)
    assert bias.split("│")[0].split()[-2:] == ["·", "·"]


def test_the_histogram_keeps_the_counts() -> None:
    counts = b"".join(one.to_bytes(8, "little") for one in (1, 0, 5, 10))
    histogram = Histogram(b"", counts, 1.0)
    assert histogram_columns(histogram, 8) == [0.5, 0.5, None, None, 2.5, 2.5, 5.0, 5.0]
    assert histogram_columns(histogram, 2) == [1.0, 15.0]
    uneven = histogram_columns(histogram, 3)
    assert sum(one or 0.0 for one in uneven) == pytest.approx(16)
    assert histogram_columns(Histogram(b"", b"\0" * 7, 0.0), 5) == []


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        *((0.0, "·"), (-0.0004, "−0.000400"), (0.02134, "0.0213"), (1.0, "1.00")),
        *((38.25, "38.2"), (1234.5, "1.23K"), (3.1e-6, "3.1e−06"), (float("nan"), "NaN")),
        (-2.5e7, "−25.0M"),
    ],
)
def test_statistics_have_three_digits(value: float, wanted: str) -> None:
    assert statistic(value) == wanted


def test_errors_as_percent() -> None:
    assert [percent(v) for v in (0, 1e-7, 4.2e-5, 0.0039, 0.123, 1.0, 1e9)] == [
        *("·", "<1e−4", ".0042", "0.39", "12.3", "100", ">9999")
    ]
    assert [rough_percent(v) for v in (0, 1e-7, 4.2e-5, 0.0038, 0.0234, 0.119, 2.0)] == [
        *("·", "~<1e−4", "~.0042", "~0.38", "~2.3", "~12", "~200")
    ]


def test_what_goes_on_is_told_with_its_progress() -> None:
    look = Look(READING, 0, 9.0, 120)
    told = text(status_line(look, SCHEMES[0]))
    assert "reading  ━━━━━━──────  50 %  9 of 44 tensors" in told
    assert told.rstrip().endswith("c stops")
    going = text(status_line(Look(measured(sensitivity("a.b", 1)), 0, 9.0, 120), SCHEMES[0]))
    assert "model paused: measuring  ━━━━━━──────  1 of 2  int8 per channel" in going
    over = apply(READING, ParametersDone(9.0, 2.0, 44, 6_000_000))
    assert "read 5.72 MiB in 2.00 s" in text(status_line(Look(over, 0, 9, 120), SCHEMES[2]))
    assert "x: int4 per channel" in text(status_line(Look(over, 0, 9.0, 120), SCHEMES[2]))
    refused = SensitivityDone(
        99.0, SCHEMES[0], 0.0, 0, Unknown("no"), Unknown("no"), "there is no forward"
    )
    assert "there is no forward" in text(
        status_line(Look(apply(measured(start=over), refused), 0, 9.0, 120), SCHEMES[0])
    )


@pytest.mark.parametrize(
    ("share", "cells", "wanted"),
    [
        (0.01, 120, "about 20 min left at 1.0 % of the time; P P pauses the model: about 12 s"),
        (0.01, 80, "25 %  20 min left; P P pauses the model: 12 s"),
        (0.01, 60, "25 %  20 min, P P: 12 s"),
        (1.0, 80, "25 %  about 12 s left"),
        (0.0, 120, "25 %  no budget left: P P pauses the model, then about 12 s"),
    ],
)
def test_the_time_left_is_told_running_and_with_the_model_paused(
    share: float, cells: int, wanted: str
) -> None:
    progress = ParametersProgress(9.0, 1.0, 9, 10, "conv.weight", 0.25, 12.0, share)
    session = apply(READING, progress)
    assert wanted in text(status_line(Look(session, 0, 9.0, cells), SCHEMES[0]))


def test_parts_that_are_still_to_come_are_pending_and_those_that_were_stopped_say_so() -> None:
    first = replace(CONV, quantised=(), width=None, channels=None, pending=ALL_PARTS)
    session = folded((*TRACED, STARTED, first))
    view = WeightsView()
    view.update(session, 0)
    weight = view.row
    assert weight is not None
    assert [figure(weight, column) for column in ("int8", "width")] == [None, None]
    shown = "\n".join(text(line) for line in panel_lines(Look(session, 0, 9.0, 46), weight, 60))
    assert "quantisation  …  after the first pass" in shown

    # Of one that was replaced, nothing is left of the first message.
    known = apply(session, CONV).parameters
    assert known is not None
    assert known.tensors == (CONV,)

    view.update(apply(session, ParametersDone(9.0, 1.0, 1, 10, was_stopped=True)), 0)
    assert view.row is not None
    assert figure(view.row, "int8") == Unknown("stopped before it was known")


def test_only_greys_are_used_but_for_what_is_wrong() -> None:
    view = WeightsView()
    view.update(DECODER, 0)
    look = Look(DECODER, 0, 9.0, 120)
    roles = {role for line in weights_lines(look, view, 35, narrow=False) for _, role in line}
    used = {word for role in roles for word in role.split()}
    assert used <= {"ink", "muted", "faint", "hairline", "accent", "strong", "cursor"}


def test_hostile_names_are_safe() -> None:
    bad = "\x1b[31m[b]多\u202e"
    evil = replace(
        CONV, name="conv.weight", dtype=bad, why_none=bad, moments=None, whys=(("channels", bad),)
    )
    session = folded((*TRACED, STARTED, evil, ParametersDone(1.0, 1.0, 0, 0, why=bad)))
    for cells, rows in ((120, 35), (80, 20)):
        assert not set("".join(drawn(session, cells, rows, node=1))) & {"\x1b", "\u202e"}
    look = Look(session, 1, 9.0, 60)
    assert not set(text(status_line(look, SCHEMES[0]))) & {"\x1b", "\u202e"}


def test_the_panel_says_everything_that_is_known() -> None:
    view = WeightsView()
    tree = DECODER.tree
    assert tree is not None
    view.update(DECODER, tree.find("layers.1.feed_forward.0") or 0)
    look = Look(DECODER, 0, 9.0, 46)
    told = "\n".join(text(line) for line in panel_lines(look, view.row, 100))
    for word in (
        *("mean", "std", "skew", "kurtosis", "zeros", "L1", "L2", "spectral"),
        *(
            "int8",
            "int4",
            "fp8 e4m3",
            "channel",
            "30 dB",
            "error",
            "dead",
            "outliers",
            "near-duplicates",
        ),
        *("zlib", "entropy bound", "measured", "predicted", "aligned"),
    ):
        assert word in told


def test_what_is_refused_is_said_in_the_place_of_figures() -> None:
    start = SensitivityStarted(1.0, SCHEMES[0], 0, is_random=False)
    none = Unknown("no forward was run")
    over = SensitivityDone(1.0, SCHEMES[0], 0.0, 0, none, none, "not run, as asked")
    refused = folded((*TRACED, start, over))
    told = "\n".join(drawn(refused, node=1))
    assert "not run, as asked" in told
    assert "error %" not in told


def test_what_nobody_reads_is_not_awaited() -> None:
    others = folded((*TRACED, Hello(1, 1, ("Observe",), refusal="it is another's")))
    shown = drawn(others, node=1)
    assert "it is another's" in "\n".join(shown)
    # Up to the divider: the panel beside has a mark of its own.
    assert not any("…" in line.partition("│")[0] for line in shown)


def test_a_worker_that_is_gone_reads_nothing() -> None:
    gone = apply(READING, Ended(-9, expected=False, pid=48213))
    told = text(status_line(Look(gone, 0, 9.0, 120), SCHEMES[0]))
    assert "worker ended after 9 of 44 tensors" in told
    assert "being read" not in "\n".join(drawn(gone, node=1))


def test_a_file_of_parameters_alone_has_its_rows() -> None:
    of_file = fold(recorded_weights())
    tree = of_file.tree
    assert tree is not None
    without = replace(of_file, timings=None, model=None, sensitivity=None)
    lines = drawn(without)
    assert any("43." in line and "int8" in line for line in lines)
    assert isinstance(CONV, TensorStatistics)

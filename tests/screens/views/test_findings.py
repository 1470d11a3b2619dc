"""The findings screen: its drawing, its words, the cursor, and what trying asks of the probe."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from screens.views.findings.finding import finding_lines
from screens.views.findings.lines import at_word, list_lines, sign
from screens.views.findings.screen import FindingsScreen
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.fixtures.record_memory import recorded_with_memory
from tests.recording.files import fold
from tui_profiler.findings import Gain, advice, findings
from tui_profiler.findings.verdict import measured, verdict
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import (
    Hello,
    Message,
    OutputError,
    TrialProgress,
    TrialResult,
    TrialSide,
    Unknown,
)
from tui_profiler.messages.trials import WHOLE_MODEL, TrialKind
from tui_profiler.session import EMPTY, Session, apply

RESNET = recorded_with_memory()


def tried(kind: TrialKind, low: float, middle: float, high: float) -> TrialResult:
    return TrialResult(
        kind,
        WHOLE_MODEL,
        "measured",
        9.0,
        detail="53 pairs folded",
        baseline=TrialSide(0.0365, 1, 9.0 * 2**20, 97.7 * 2**20),
        changed=TrialSide(0.0365 / middle, 1, 9.0 * 2**20, 97.5 * 2**20),
        speedup=middle,
        low=low,
        high=high,
        pairs=40,
        error=OutputError(2.4e-6, 3.1e-7, 1000),
    )


def result_of(kind: TrialKind) -> TrialResult:
    return next(one for one in TRIED if isinstance(one, TrialResult) and one.kind == kind)


TRIED: tuple[Message, ...] = (
    tried("fold-conv-bn", 1.02, 1.03, 1.04),
    tried("channels-last", 0.93, 0.96, 0.99),
    TrialProgress("bf16-autocast", WHOLE_MODEL, "measure", 3.2, 14, 1.9, ("compile",)),
)
ACCEPTING = [
    replace(one, accepts=(*one.accepts, "Try", "StopTrial")) if isinstance(one, Hello) else one
    for one in RESNET
]


def session_of(messages: Sequence[Message] = (*ACCEPTING, *TRIED)) -> Session:
    return fold(list(messages))


SHOWN = session_of()
FOUND = findings(SHOWN)


def listed(cells: int, glyphs: Glyphs = UNICODE, selected: int = 0) -> list[str]:
    look = Look(SHOWN, 0, 9.0, cells, glyphs)
    lines = list_lines(look, advice(SHOWN, FOUND), selected, 0, len(FOUND) + 1)
    return [text(line) for line in finished(lines, look)]


def row_of(kind: str, rows: list[str]) -> str:
    return rows[1 + [one.kind for one in FOUND].index(kind)]  # type: ignore[arg-type]  # a kind


def test_a_prediction_and_what_was_measured_stand_side_by_side():
    rows = listed(120)
    folded = row_of("fold-conv-bn", rows)
    # 1 - 1/1.03 is 2.9 %, between 1 - 1/1.02 and 1 - 1/1.04.
    assert "2.9 %     2.0 % to 3.8 %  ↓ less" in folded
    assert folded.rstrip().endswith("3.1e-07")


def test_what_a_trial_refutes_says_so_in_a_word_and_a_sign():
    for cells in (60, 80, 120):
        assert UNICODE.failed in row_of("channels-last", listed(cells))
    assert "✗ refuted" in row_of("channels-last", listed(120))
    assert "x refuted" in row_of("channels-last", listed(120, ASCII))
    assert "−4.2 %" in row_of("channels-last", listed(120))


def test_what_runs_and_what_waits_is_told_apart():
    rows = listed(80)
    assert "running" in row_of("bf16-autocast", rows)
    if any(one.kind == "compile" for one in FOUND):
        assert "waits" in row_of("compile", rows)


def test_what_was_tried_though_nothing_spoke_for_it_has_a_row():
    unasked = apply(SHOWN, tried("sdpa", 0.9, 0.95, 1.0))
    rows = advice(unasked, FOUND)
    assert [one.finding.kind for one in rows] == [*(one.kind for one in FOUND), "sdpa"]
    assert rows[-1].word == "no gain"


@pytest.mark.parametrize(
    ("share", "is_bound", "interval", "word"),
    [
        (0.1, False, (1.05, 1.2, 1.3), "held"),
        (0.5, False, (1.05, 1.2, 1.3), "less"),
        (0.02, False, (1.05, 1.2, 1.3), "more"),
        (0.5, False, (0.99, 1.0, 1.02), "refuted"),
        (0.1, False, (0.8, 1.0, 1.4), "undecided"),
        (0.4, True, (1.05, 1.2, 1.3), "held"),
        (0.01, True, (1.05, 1.2, 1.3), "more"),
        (0.4, True, (0.9, 0.95, 0.99), "no gain"),
        (0.4, True, (0.98, 1.0, 1.01), "no gain"),
        (0.4, True, (0.9, 1.2, 1.6), "undecided"),
        (None, False, (1.05, 1.2, 1.3), "gained"),
        (None, False, (0.9, 0.95, 0.99), "no gain"),
        (None, False, (0.9, 1.0, 1.1), "undecided"),
    ],
)
def test_a_prediction_is_judged_by_the_interval(
    share: float | None, is_bound: bool, interval: tuple[float, float, float], word: str
):
    predicted = Unknown("not known") if share is None else share
    saved = measured(tried("threads", *interval))
    assert saved is not None
    assert verdict(Gain("time", predicted, "by hand", is_bound=is_bound), saved) == word


def test_every_word_of_a_verdict_has_a_sign_in_both_sets():
    for one in advice(SHOWN, FOUND):
        assert len(sign(one.word, UNICODE)) == len(sign(one.word, ASCII)) == 1


def test_a_title_is_cut_between_words():
    assert at_word("fold 53 batch norms into convolutions", 20, "…") == "fold 53 batch norms…"
    assert at_word("fold 53 batch", 20, "…") == "fold 53 batch"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [60, 71, 80, 99, 113, 114, 120, 160, 200])
def test_every_row_is_as_wide_as_the_screen(glyphs: Glyphs, cells: int):
    look = Look(SHOWN, 0, 9.0, cells, glyphs)
    shown = advice(SHOWN, FOUND)
    details = [
        line
        for one in shown
        for refused in ("", "this is a recording: no model runs here")
        for line in finding_lines(replace(look, node=one.finding.nodes[0]), one, refused)
    ]
    lines = [*list_lines(look, shown, 1, 0, 30), *details]
    # Not by what cuts them on screen: nothing is to be cut.
    assert max(map(line_width, lines)) <= cells
    if glyphs is ASCII:
        assert all(text(line).isascii() for line in finished(lines, look))


def test_columns_stay_in_their_place():
    for cells in (60, 80, 120, 200):
        head, *rows = listed(cells)
        end = head.index("measured") + len("measured")
        assert all(row[end] == " " for row in rows)


def test_nothing_known_says_what_is_waited_for():
    screen = FindingsScreen(0)
    look = Look(EMPTY, 0, 0.0, 80)
    assert "not known yet" in text(screen.draw(look, 20)[0])

"""The findings screen: its drawing, its words, the cursor, and what trying asks of the probe."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from screens.views.findings.finding import finding_lines
from screens.views.findings.lines import at_word, list_items, list_lines, sign
from screens.views.findings.screen import FindingsScreen
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.findings.test_step_findings import found as step_finding
from tests.fixtures.record_memory import recorded_with_memory
from tests.queries.sessions import on_a_core
from tests.recording.files import fold
from tests.training_session import step_parts, training_step
from tui_profiler.findings import findings
from tui_profiler.findings.evidence.finding import Gain
from tui_profiler.findings.trial_verdict import Advice, advice, measured, verdict
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import (
    Hello,
    Message,
    ModeSeen,
    OutputError,
    Setting,
    SourceLine,
    ThreadTime,
    Tick,
    TrialProgress,
    TrialResult,
    TrialSide,
    Unknown,
)
from tui_profiler.messages.trials import WHOLE_MODEL, TrialKind
from tui_profiler.session import EMPTY, Session, apply

RESNET = [
    replace(one, thread=on_a_core(one.latency_p50)) if isinstance(one, Tick) else one
    for one in recorded_with_memory()
]
"""The recording is older than what a thread waits for a core."""
TRAINS = ModeSeen(1.0, (Setting(True, "grad", 1, True, 9),), 9, 9, reached=9)


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
    shown = advice(SHOWN, FOUND)
    lines = list_lines(look, shown, selected, list_items(shown, {}))
    return [text(line) for line in finished(lines, look)]


def row_of(kind: str, rows: list[str]) -> str:
    return rows[1 + [one.kind for one in FOUND].index(kind)]  # type: ignore[arg-type]  # a kind


def test_a_prediction_and_what_was_measured_stand_side_by_side():
    rows = listed(140)
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


def said_of(kind: TrialKind, session: Session, cells: int = 120) -> str:
    [one] = [one for one in advice(session, FOUND) if one.finding.kind == kind]
    look = Look(session, one.finding.nodes[0], 9.0, cells)
    return " ".join(text(line).strip() for line in finding_lines(look, one, ""))


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (
            TrialProgress("bf16-autocast", -1, "load", 3.2),
            "step 2 of 7: loading the model, 3.20 s; x stops it",
        ),
        (
            TrialProgress("bf16-autocast", -1, "measure", 40.0, 14, 1.9, (), 6.8),
            "step 7 of 7: measuring, at most 7 s left, 14 pairs, 1.90× so far;"
            " + measures 30 s longer, x stops it",
        ),
    ],
)
def test_a_trial_tells_its_step_and_the_time_left(progress: TrialProgress, said: str) -> None:
    assert said in said_of("bf16-autocast", apply(SHOWN, progress))


def test_a_trial_whose_time_was_over_says_what_it_had_by_then() -> None:
    why = "4 pairs after 120 s of measuring, speed-up 1.2× so far"
    late = TrialResult(*("compile", WHOLE_MODEL, "time", 150.0, why), speedup=1.2, pairs=4)
    session = apply(SHOWN, late)
    assert f"time limit: {why}" in said_of("compile", session)
    [one] = [one for one in advice(session, FOUND) if one.finding.kind == "compile"]
    assert (one.word, one.measured) == ("untested", None)


def test_a_trial_of_a_step_shows_the_peak_it_saved_and_what_that_costs() -> None:
    done = replace(
        tried("checkpoint", 0.8, 0.83, 0.9),
        baseline=TrialSide(0.1, 1, 60.0 * 2**20, 30.0 * 2**20, 10.0 * 2**20),
        changed=TrialSide(0.12, 1, 40.0 * 2**20, 30.0 * 2**20, 10.0 * 2**20),
        is_step=True,
    )
    finding = replace(FOUND[0], kind="checkpoint", gains=(Gain("memory", 0.2, "on paper"),))
    session = apply(SHOWN, done)
    [one] = [one for one in advice(session, (finding,)) if one.finding is finding]
    assert (one.word, one.group) == ("held", "measured")
    look = Look(session, one.finding.nodes[0], 9.0, 120)
    said = " ".join(text(line).strip() for line in finding_lines(look, one, ""))
    assert "the prediction held: saves 20 % of the peak, speed-up 0.83×, 95 % CI 0.80 to" in said
    assert "per step 120 ms instead of 100 ms; peak 40.0 MiB instead of 60.0 MiB" in said
    assert "gradient error: 3.1e-07 relative" in said
    [_, row] = list_lines(look, (one,), 0, [0])
    assert "20 %      20 %" in text(row)
    assert "20 % to" not in text(row)


def test_a_gain_of_memory_says_so_where_no_column_does() -> None:
    memory = replace(FOUND[0], gains=(Gain("memory", 0.5, "by hand"),))
    shown = advice(SHOWN, (memory,))[:1]
    for cells, told in ((80, "50 % mem"), (120, "memory         50 %")):
        [_, row] = list_lines(Look(SHOWN, 0, 9.0, cells), shown, 0, [0])
        assert told in text(row)


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
    groups = {one.finding.kind: one.group for one in shown}
    lines = [*list_lines(look, shown, 1, list_items(shown, groups)), *details]
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


def test_the_status_says_why_nothing_is_said_of_a_step():
    step = replace(
        training_step(step_parts(forward=0.2, optimizer=0.3, other=0.5)),
        thread=ThreadTime(1.0, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0),
    )
    for session, is_contended in ((apply(fold(RESNET), step), True), (fold(RESNET), False)):
        screen = FindingsScreen(0)
        look = Look(apply(session, TRAINS), 0, 0.0, 160)
        drawn = " ".join(map(text, screen.draw(look, 40)))
        said = "withheld, host contended: steps wait for a core 30 % of the time"
        assert (said in " ".join(drawn.split())) == is_contended
        assert ("host contended" in text(screen.status(look))) == is_contended


def test_the_best_finding_is_in_the_status_only_where_some_of_it_fits() -> None:
    look = Look(fold(RESNET), 0, 0.0, 160)
    screen = FindingsScreen(0)
    screen.session = look.session
    screen.found = screen._ranked = tuple(findings(look.session))
    said = text(screen.status(look))
    whole, best = said.index("  best: ") + 2, said.index("  best: ") + 8
    assert said[best:].strip()
    for cells in range(40, whole + 24):
        assert "best:" not in text(screen.status(replace(look, cells=cells)))


@pytest.mark.parametrize("cells", [66, 80, 120])
def test_a_line_with_a_long_hostile_name_keeps_its_place_and_is_whole_in_the_evidence(
    cells: int,
) -> None:
    function = "log\x1b[2J\x1b]0;owned\x07\u202e" + "metrics_" * 60 + "end"
    line = SourceLine(f"main.<locals>.{function}", "/me/\x1b[31mtrain.py", 54, 0.8)
    finding = step_finding(
        "slow-line",
        replace(training_step(step_parts(data=0.3, other=0.7)), lines=(line,), samples=100),
    )
    assert finding is not None
    assert len(finding.title) < 400
    look, one = Look(EMPTY, 0, 1.0, cells), Advice(finding, "no trial")
    [_, listed] = map(text, list_lines(look, [one], 0, [0]))
    title, *details = map(text, finding_lines(look, one, ""))
    assert listed.split("  ")[0].endswith("train.py:54") or cells == 66
    assert title.split(" ─")[0].split(" kind")[0].endswith("train.py:54")
    shown = "".join("".join(each[: cells - 25].split()) for each in details)
    assert "log\\x1b[2J\\x1b]0;owned\\x07\\u202e" + "metrics_" * 60 + "end" in shown
    assert not any(character in "".join(details) for character in "\x1b\x07\u202e")

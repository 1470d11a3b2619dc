"""The findings screen: its drawing, its words, the cursor, and what trying asks of the probe."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from screens.findings import FindingsScreen
from screens.widgets.finding_lines import finding_lines
from screens.widgets.findings_lines import at_word, list_lines, sign
from screens.widgets.lines import line_width, text
from screens.widgets.parts import Look, finished
from tests.fixtures.record_memory import recorded_with_memory
from tests.recording.files import fold
from tests.screens.screen_text import screen_text
from tests.screens.test_explorer import Stage, check_golden, on_stage
from tui_profiler.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.findings import Gain, advice, findings
from tui_profiler.findings.verdict import measured, verdict
from tui_profiler.messages import (
    Edges,
    Hello,
    Message,
    Nodes,
    OutputError,
    StopTrial,
    TraceDone,
    TraceStarted,
    TrialProgress,
    TrialResult,
    TrialSide,
    Try,
    Unknown,
    Wish,
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


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_the_findings_screen_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage([*ACCEPTING, *TRIED], size) as (stage, pilot):
        await pilot.press("f")
        await pilot.pause()
        check_golden(f"findings-{size[0]}x{size[1]}", screen_text(stage.app))


def screen_of(stage: Stage) -> FindingsScreen:
    screen = stage.app.screen
    assert isinstance(screen, FindingsScreen)
    return screen


async def test_the_cursor_takes_the_selected_node_along() -> None:
    async with on_stage(ACCEPTING) as (stage, pilot):
        await pilot.press("f", "down")
        screen = screen_of(stage)
        second = screen.found[1]
        assert screen.selected == 1
        assert screen.node == second.nodes[0]
        await pilot.press("right")
        assert screen.node == second.nodes[min(1, len(second.nodes) - 1)]
        await pilot.press("escape")
        assert stage.explorer.tree_widget.view.selected == screen.node


async def test_x_asks_for_a_trial_and_stops_the_one_that_runs() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f")
        screen = screen_of(stage)
        kinds = [one.kind for one in screen.found]
        await pilot.press("g", *["down"] * kinds.index("fold-conv-bn"), "x")
        assert stage.requests[-1] == Try(Wish("fold-conv-bn"))
        await pilot.press("g", *["down"] * kinds.index("bf16-autocast"), "x")
        assert stage.requests[-1] == StopTrial()
        asked = len(stage.requests)
        screen.found = (replace(FOUND[0], trial=None, why_no_trial="its author decides"),)
        await pilot.press("x")
        assert len(stage.requests) == asked
        assert "no trial: " in screen_text(stage.app)


async def test_what_waits_is_not_asked_for_twice() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f")
        screen = screen_of(stage)
        screen.found = (replace(FOUND[0], kind="compile", trial="compile"),)
        await pilot.press("x")
        assert stage.requests == []
        assert "compile waits for the trial before it" in screen_text(stage.app)


async def test_a_recording_says_why_nothing_is_tried() -> None:
    messages = [
        replace(one, accepts=("Play",), refusal="this is a recording: no model runs here")
        if isinstance(one, Hello)
        else one
        for one in RESNET
    ]
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("f")
        assert "cannot be tried here: this is a recording" in screen_text(stage.app)
        assert "– not here" in screen_text(stage.app)
        asked = len(stage.requests)
        await pilot.press("x")
        assert len(stage.requests) == asked


async def test_rows_keep_their_places_while_one_reads() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f", "down")
        screen = screen_of(stage)
        before = [one.kind for one in screen.found]
        faster = apply(SHOWN, replace(result_of("fold-conv-bn"), speedup=2.0))
        screen._asked = (None, faster.tree, 0.0)
        screen._ask(faster)
        assert [one.kind for one in screen.found] == before


def many(times: int) -> list[Message]:
    """The recorded model so many times below one root, each with its edges."""
    parts = [part for one in RESNET if isinstance(one, Nodes) for part in one.nodes]
    costs = [part for one in RESNET if isinstance(one, Nodes) for part in one.costs]
    edges = [pair for one in RESNET if isinstance(one, Edges) for pair in one.pairs]
    started = next(one for one in RESNET if isinstance(one, TraceStarted))
    done = next(one for one in RESNET if isinstance(one, TraceDone))
    nodes, prices, pairs = [parts[0]], [costs[0]], []
    for _ in range(times):
        first = len(nodes)
        nodes += [replace(part, parent=max(part.parent + first, 0)) for part in parts]
        nodes[first] = replace(parts[0], parent=0)
        prices += costs
        pairs += [(writer + first, reader + first) for writer, reader in edges]
    chunks = range(0, len(nodes), 2000)
    return [
        next(one for one in ACCEPTING if isinstance(one, Hello)),
        replace(started, nodes=len(nodes)),
        *(Nodes(tuple(nodes[at : at + 2000]), tuple(prices[at : at + 2000])) for at in chunks),
        Edges(tuple(pairs)),
        done,
    ]


async def test_a_large_tree_is_asked_beside_the_drawing() -> None:
    messages = many(16)
    expected = findings(fold(messages))
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("f")
        screen = screen_of(stage)
        await stage.app.workers.wait_for_complete()
        await pilot.pause()
        assert screen.session.tree is not None
        assert len(screen.session.tree) > 4000
        assert [one.kind for one in screen.found] == [one.kind for one in expected]
        assert f"fold {16 * 53} batch norms" in screen_text(stage.app)


def test_nothing_known_says_what_is_waited_for():
    screen = FindingsScreen(0)
    look = Look(EMPTY, 0, 0.0, 80)
    assert "not known yet" in text(screen.draw(look, 20)[0])

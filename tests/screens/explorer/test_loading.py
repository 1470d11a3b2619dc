"""The loading body against its drawing."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

from screens.explorer.loading import loading_body, loading_lines
from screens.views.inspector.request_lines import request_lines
from screens.widgets.lines import Line, line_width, text
from screens.widgets.rows import Look
from screens.widgets.stage_lines import stages_of
from tests.screens.panel_session import LOADING, NODES, folded
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.messages import (
    Ended,
    Failed,
    FileFacts,
    LoadSpec,
    Nodes,
    StageDone,
    StageStarted,
    TraceStarted,
)
from tui_profiler.session import EMPTY, Session, apply

SPEC = LoadSpec("resnet50")


def body(session: Session, now: float, cells: int, rows: int = 20) -> list[str]:
    return [text(line) for line in loading_body(Look(session, 0, now, cells), rows, SPEC)]


def test_the_stages_stand_beside_what_was_asked_for():
    assert body(folded(LOADING), 3.42, 120)[:13] == [
        f" {left.ljust(69)} │ {right.ljust(47)}"
        for left, right in (
            ("starting", "resnet50"),
            ("", "from the command line"),
            ("✓ worker        pid 48213                                      0.04 s", ""),
            (
                "✓ import torch  2.13.0, cpu build                              2.65 s",
                "source   torchvision.models.resnet50",
            ),
            (
                "◓ load model    resnet50, random weights                       0.73 s",
                "weights  random (--weights for trained)",
            ),
            (
                "· trace         build the tree and count costs",
                "input    … inferred after loading",
            ),
            ("· initialise    initialise weights", "device   cpu, 2 threads"),
            ("· first run     first times", "tracer   auto"),
            ("· roofline      calibrate the roofline", ""),
            ("", ""),
            ("━━━━━━━━━━━━━━━━━━━╸" + "─" * 49, ""),
            ("2 of 7 stages done, now: load model", ""),
            ("", ""),
        )
    ]


def test_of_a_users_own_model_no_weights_are_claimed_and_one_thread_is_one():
    look = Look(EMPTY, 0, 1.0, 48)
    told = [text(line) for line in request_lines(look, 20, LoadSpec("net.py:Net", threads=1))]
    assert " weights  … known after loading" in [line.rstrip() for line in told]
    assert " device   cpu, 1 thread" in [line.rstrip() for line in told]


def test_at_80_columns_the_machine_stands_below_the_stages():
    lines = body(folded(LOADING), 3.42, 80, 18)
    assert lines[4] == (
        " ◓ load model    resnet50, random weights                                0.73 s "
    )
    assert lines[13].startswith(" machine ─")
    assert lines[17].startswith(" power   –  RAPL counters need root ")


def test_before_the_first_message_the_worker_is_starting():
    first = body(EMPTY, 0.02, 80)
    assert first[2].startswith(" ◐ worker        starting ")
    assert first[2].endswith(" 0.02 s ")


def test_nodes_are_counted_as_they_arrive():
    part = Nodes(tuple(n for n, _ in NODES[:4]), tuple(c for _, c in NODES[:4]))
    messages = (StageStarted("trace", 3.5), TraceStarted(len(NODES), "dispatch:fake"), part)
    lines = body(folded((*LOADING, *messages)), 3.9, 120)
    assert any("trace         4 of 9 nodes" in line for line in lines)


def test_a_stage_that_was_skipped_is_not_waited_for():
    messages = (StageDone("trace", 3.9, 0.4, "9 nodes"), StageStarted("first run", 3.9))
    lines = body(folded((*LOADING, *messages)), 4.0, 80)
    assert not any("initialise" in line for line in lines)


def test_what_a_trusted_file_runs_stands_below_the_stages():
    names = ("posix.system", "nets.Net")
    file = FileFacts("torch-zip-module", "module", 1, 2, "", (), names, is_trusted=True)
    said = " ".join(body(folded((file, *LOADING)), 1.0, 80))
    assert "loading the file runs code, as trusted: it imports posix.system, nets.Net" in said
    untrusted = replace(file, is_trusted=False)
    assert "runs code" not in " ".join(body(folded((untrusted, *LOADING)), 1.0, 80))


def test_what_is_not_to_be_run_has_no_such_stages():
    assert "first run" not in stages_of(LoadSpec("m", run=False))
    assert "ceilings" not in stages_of(LoadSpec("m", ceilings=False))
    assert "first run" in stages_of(LoadSpec("m", ceilings=False))


def test_a_failure_takes_the_place_of_the_request():
    failed = folded((*LOADING, Failed("load model", "no model is called resnet51")))
    lines = body(failed, 3.42, 120)
    assert lines[0].endswith("│ ✗ load model failed                            ")
    assert lines[2].endswith("│ what    no model is called resnet51            ")
    assert lines[4].startswith(" ✗ load model    failed ")
    assert lines[5].startswith(" · trace         not reached ")
    narrow = body(failed, 3.42, 80)
    assert narrow[0].startswith(" ✗ load model failed ")


def test_a_worker_that_died_on_the_way_says_so():
    gone = folded((*LOADING, Ended(-9, False, "", 48213, 3.0)))
    lines = body(gone, 3.42, 120)
    assert lines[0].endswith("│ ✗ worker gone                     after 3.00 s ")
    assert any(" where   during load model " in line for line in lines)


@pytest.mark.parametrize("cells", range(40, 131))
def test_every_row_is_exactly_as_wide_as_asked(cells):
    hostile = LoadSpec("\x1b]0;x\x07" + "漢" * 90, inputs=("\u202e" * 9,), device="\n")
    failed = folded((*LOADING, Failed("load model", "x" * 500, at="y" * 300)))
    for session in (EMPTY, folded(LOADING), failed):
        for glyphs in (Look(EMPTY, 0, 0, 0).glyphs, ASCII):
            lines: tuple[Line, ...] = loading_body(
                Look(session, 0, 3.0, cells, glyphs), 17, hostile
            )
            assert len(lines) == 17
            assert {line_width(line) for line in lines} == {cells}
            assert not {c for line in lines for c in text(line)} & set("\x1b\u202e\n\x07")


@pytest.mark.parametrize(
    ("observed", "source"),
    [("script", "resnet18"), ("module", "python -m resnet18"), ("program", "…")],
)
def test_nothing_is_claimed_of_the_model_of_a_program_before_its_first_forward(
    observed: Literal["script", "module", "program"], source: str
) -> None:
    spec = LoadSpec("resnet18", observed=observed)
    shown = [text(line).strip() for line in request_lines(Look(EMPTY, 0, 0.0, 48), 20, spec)]
    assert "torchvision" not in " ".join(shown)
    assert "random" not in " ".join(shown)
    assert f"source   {source}" in shown
    assert "weights  … after the first forward" in shown
    assert not {"load model", "initialise", "ceilings"} & set(stages_of(spec))
    begun = apply(EMPTY, StageStarted("worker", 0.0, "torch not imported yet"))
    lines = [text(line) for line in loading_lines(Look(begun, 0, 1.0, 78), 20, spec)]
    assert "stages done, now: process" in " ".join(lines)


def test_a_script_that_called_no_model_has_ended_and_nothing_failed() -> None:
    begun = apply(EMPTY, StageStarted("worker", 0.0, "torch not imported yet"))
    spec = LoadSpec("script.py", observed="script")

    def process(ended: Ended) -> str:
        look = Look(apply(begun, ended), 0, 1.0, 78)
        return next(line for line in map(text, loading_lines(look, 20, spec)) if "process" in line)

    assert process(Ended(0, expected=True, is_script=True)).split() == ["·", "process", "ended"]
    assert process(Ended(1, expected=False, is_script=True)).split() == ["✗", "process", "failed"]


def test_what_is_waited_for_is_said_whole():
    why = "waits: no model called so far is Nope: " + ", ".join(
        f"Block#{number} trainer.model.part{number}" for number in range(3)
    )
    waiting = folded((*LOADING, StageStarted("trace", 3.0, why)))
    for cells in (80, 120):
        said = " ".join(" ".join(body(waiting, 3.42, cells)).split())
        assert "Block#2 trainer.model.part2" in said.replace(" │ ", " ")

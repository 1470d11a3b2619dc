"""The failure panel against its drawing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.explorer.failure import failure_lines
from screens.explorer.loading import loading_body
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.screens.explorer.test_explorer import on_stage
from tests.screens.panel_session import LOADING, TRACED, folded, live
from tests.screens.screen_text import screen_text
from tests.small_model import ACT, FC, MEASURED, ROOT, TICK, tick
from tests.small_model import folded as small_session
from tui_profiler.formatting.canvas import ASCII, UNICODE
from tui_profiler.messages import (
    Ceilings,
    Ended,
    Failed,
    PartialModule,
    PartialTree,
    Playback,
    Printed,
    Remedy,
    RoofQuality,
    StageStarted,
)
from tui_profiler.queries.panel.failure import first_untried, still_known, trouble
from tui_profiler.queries.panel.phrases import last_events
from tui_profiler.session import EMPTY, Session
from tui_profiler.verbs import outcome

HINT = "x tries the marked line"
OUT_OF_MEMORY = Failed(
    stage="first run",
    what="out of memory: tried to allocate 3.06 GiB",
    where="layer3.2.bn2",
    at="/usr/lib/python3.11/site-packages/torch/nn/functional.py:2822",
    why="batch 1024 needs 9.28 GiB at its peak (predicted); 6.10 of 7.75 GiB was free",
    remedies=(
        Remedy("--batch 512", "4.69 GiB at the peak, fits"),
        Remedy("--dtype bfloat16", "4.64 GiB at the peak, fits"),
        Remedy("--device meta", "costs only, nothing is run"),
    ),
)
PRINTED = Printed(
    "a line\n" * 29
    + "RuntimeError: [enforce fail at alloc_cpu.cpp:127]\n"
    + "DefaultCPUAllocator: can't allocate memory: you tried to allocate 3221225472 bytes\n"
)


def failed() -> Session:
    return folded((*LOADING, *TRACED, StageStarted("first run", 3.9), PRINTED, OUT_OF_MEMORY))


def panel(session: Session, rows: int, cells: int = 52, hint: str = HINT) -> list[str]:
    return [text(line) for line in failure_lines(Look(session, 0, 9.0, cells), rows, 0, hint)]


def test_a_failure_is_laid_out_as_drawn():
    assert panel(failed(), 24) == [
        " ✗ first run failed                                 ",
        "                                                    ",
        " what    out of memory: tried to allocate 3.06 GiB  ",
        " where   layer3.2.bn2  BatchNorm2d                  ",
        "         …site-packages/torch/nn/functional.py:2822 ",
        " why     batch 1024 needs 9.28 GiB at its peak      ",
        "         (predicted); 6.10 of 7.75 GiB was free     ",
        "                                                    ",
        " try ────────────────────── x tries the marked line ",
        "▌--batch 512        4.69 GiB at the peak, fits      ",
        " --dtype bfloat16   4.64 GiB at the peak, fits      ",
        " --device meta      costs only, nothing is run      ",
        "                                                    ",
        " still known ────────────────────────────────────── ",
        " ✓ tree      6 modules, 3 operators                 ",
        " ✓ costs     every operator counted                 ",
        " – times     unavailable: no forward finished       ",
        " – bound     unavailable: needs times               ",
        "                                                    ",
        " log ─────────────────────────── last 2 of 31 lines ",
        " RuntimeError: [enforce fail at alloc_cpu.cpp:127]  ",
        " DefaultCPUAllocator: can't allocate memory: you t… ",
        "                                                    ",
        "                                                    ",
    ]


@pytest.mark.parametrize(
    "end", [Failed("trace", "no", traceback="t"), Ended(-11, False, "", 48213, 12.4)]
)
def test_nothing_runs_again_in_a_recording(end):
    def commands(session):
        found = trouble(session)
        assert found is not None
        return [one.command for one in found.remedies]

    assert "ctrl+r" in commands(folded((*LOADING, end)))
    assert "ctrl+r" not in commands(folded((*LOADING, Playback(1.0, True, 0.0, 9.0), end)))


def test_what_failed_is_the_form_of_a_remedy_and_not_the_one_marked():
    asked = Remedy("--input x=1,3", "what was tried", is_tried=True)
    session = folded((*LOADING, Failed("trace", "no", remedies=(asked,), traceback="t")))
    found = trouble(session)
    assert found is not None
    assert [one.command for one in found.remedies] == ["--input x=1,3", "ctrl+r"]
    assert first_untried(found.remedies, lambda one: False) == 1
    assert first_untried(found.remedies, lambda one: one.command == "ctrl+r") == -1
    lines = [text(one) for one in failure_lines(Look(session, 0, 9.0, 80), 20, -1, HINT)]
    assert not any("▌" in line or HINT in line for line in lines)


def test_without_a_key_for_it_no_line_is_marked():
    lines = panel(failed(), 24, hint="")
    assert " --batch 512        4.69 GiB at the peak, fits      " in lines


def test_the_log_goes_first_and_then_what_is_still_known():
    assert not any(line.startswith(" log ") for line in panel(failed(), 20))
    assert any(line.startswith(" still known ") for line in panel(failed(), 20))
    short = panel(failed(), 14, 80)
    assert not any(line.startswith(" still known ") for line in short)
    assert any(line.startswith(" --device meta ") for line in short)


def test_a_guess_is_called_one_and_yields_to_a_cause():
    guessed = folded((*LOADING, Failed("load model", "boom", likely="a typing error")))
    assert " likely  a typing error                             " in panel(guessed, 20)
    known = Failed("load model", "boom", why="it is so", likely="a typing error")
    lines = panel(folded((*LOADING, known)), 20)
    assert " why     it is so                                   " in lines
    assert not any("likely" in line for line in lines)


def test_a_bound_is_known_against_good_roofs_alone():
    def fact(session: Session) -> str:
        return next(one.words for one in still_known(session) if one.label == "bound")

    assert fact(small_session(MEASURED)) == "against this machine"
    fast = tick({FC: (20e-6, 20e-6), ACT: (12e-6, 12e-6), ROOT: (32e-6, 0.0)})
    busy = tuple(replace(m, busy=1.8) if isinstance(m, Ceilings) else m for m in MEASURED)
    # At most 11 µs by any roof: of a quarter of a millisecond no roof explains a tenth.
    assert fact(small_session(busy)) == "against this machine"
    told = fact(small_session((*busy, fast)))
    assert told.startswith("on paper: the memory roof is not good enough: 1.8 cores were busy")
    no_memory = RoofQuality(1.0, 0.9, "0 of 9 pieces")
    some = tuple(
        replace(m, memory_quality=no_memory) if isinstance(m, Ceilings) else m for m in MEASURED
    )
    told = fact(small_session((*some, fast)))
    assert told.startswith("against this machine; 1 of 2 modules on paper: the memory roof is not")
    cold = replace(TICK, cold=True)
    assert fact(small_session((*MEASURED, cold))).startswith("on paper: times are cold")


def test_before_the_tree_nothing_is_known_and_it_says_so():
    lines = panel(folded((*LOADING, Failed("load model", "boom"))), 20)
    assert " – tree      unavailable: needs the trace           " in lines


def test_a_killed_worker_says_what_is_likely_and_how_to_go_on():
    counted = "oom_kill of its control group, of any processes, rose by 1"
    gone = folded((Ended(-9, False, "", 48213, 12.4, out_of_memory=True, why=counted),), live())
    assert panel(gone, 21, hint="")[:17] == [
        " ✗ worker gone                         after 12.4 s ",
        "                                                    ",
        " what    worker 48213 was killed by SIGKILL after   ",
        "         12.4 s, very likely by the kernel's        ",
        "         out-of-memory killer                       ",
        " where   while the model ran                        ",
        " why     oom_kill of its control group, of any      ",
        "         processes, rose by 1; 5.75 GiB of 7.75 GiB ",
        "         memory were free at the last sample        ",
        "                                                    ",
        " try ────────────────────────────────────────────── ",
        " ctrl+r     restarts it                             ",
        " --no-run   costs only, nothing is run              ",
        "                                                    ",
        " still known ────────────────────────────────────── ",
        " ✓ tree      6 modules, 3 operators                 ",
        " ✓ costs     every operator counted                 ",
    ]


def test_a_worker_killed_by_someone_else_has_no_remedy_for_memory():
    gone = folded((Ended(-9, False, "", 48213, 12.4, out_of_memory=False, why="it is so"),), live())
    said = " ".join(" ".join(panel(gone, 19, hint="")).split())
    assert "not by the kernel's out-of-memory killer where" in said
    assert "likely kill -9, a supervisor, systemd-oomd or earlyoom try" in said
    assert "--batch" not in said
    assert "--no-run" not in said


@pytest.mark.parametrize("batch", [None, 1, 2])
def test_a_remedy_that_is_so_already_is_left_out(batch):
    facts = replace(live().model, batch=batch)
    remedies = (Remedy("--batch 1", "the least memory"), Remedy("--no-run", "costs only"))
    for message in (Failed("run", "no", remedies=remedies), Ended(-9, False, "", 48213, 12.4)):
        found = trouble(folded((facts, message), live()))
        assert found is not None
        commands = [remedy.command for remedy in found.remedies]
        assert ("--batch 1" in commands) is (batch == 2)
        assert "--no-run" in commands
        value = outcome.failure(folded((facts, message), live()))
        assert value is not None
        said = any("--batch" in remedy.command for remedy in value.remedies)
        assert said is (batch == 2)


def test_an_attached_program_that_is_gone_is_no_worker_and_cannot_be_restarted():
    gone = folded((Ended(0, False, "", 48213, 12.4, attached=True),), live())
    said = " ".join(" ".join(panel(gone, 19, hint="")).split())
    assert "program gone" in said
    assert "process 48213 ended or disconnected after 12.4 s" in said
    assert "worker" not in said
    assert "ctrl+r" not in said
    assert "ctrl+r" not in " ".join(last_events(gone))


def test_nothing_is_said_where_nothing_failed():
    assert {line.strip() for line in panel(live(), 10)} == {""}
    stopped = folded((Ended(0, True),), live())
    assert {line.strip() for line in panel(stopped, 10)} == {""}


@pytest.mark.parametrize("cells", range(40, 131))
def test_every_row_is_exactly_as_wide_as_asked(cells):
    bad = "\x1b[31m漢字\u202e" * 40
    hostile = Failed(bad, bad, bad, bad, bad, "", (Remedy(bad, bad), Remedy("a", bad)), bad)
    printed = Printed(bad + "\n")
    for session in (failed(), folded((*LOADING, printed, hostile)), EMPTY):
        for glyphs in (Look(EMPTY, 0, 0, 0).glyphs, ASCII):
            for rows in (3, 14, 40):
                look = Look(session, 0, 9.0, cells, glyphs)
                lines = failure_lines(look, rows, 1, HINT)
                assert len(lines) == rows
                assert {line_width(line) for line in lines} == {cells}
                assert not {c for line in lines for c in text(line)} & set("\x1b\u202e\n")


def partial(raised_at: int = 2, modules: int = 4) -> PartialTree:
    """Return a model of layers in a row."""
    layers = [PartialModule(0, "net.py:build", "Net", 918, "entered", ((1, 3, 32, 32),))]
    for at in range(1, modules):
        shapes = ((1, 8, 30, 30),)
        if at < raised_at:
            layers.append(
                PartialModule(1, f"l{at}", "Conv2d", 584, "finished", shapes, ((1, 8, 28, 28),))
            )
        elif at == raised_at:
            layers.append(PartialModule(1, f"l{at}", "Bad\x1b[2J", 20, "raised", shapes))
        else:
            layers.append(PartialModule(1, f"l{at}", "Linear", 90, "not called"))
    return PartialTree(tuple(layers), 0, modules, raised_at - 1)


RAISED = Failed("trace", "forward raised ValueError: no", "l2", "net.py:11")


def stopped(tree: PartialTree) -> Session:
    return folded((*LOADING, StageStarted("trace", 3.9), tree, RAISED))


def test_a_forward_that_raised_leaves_its_modules_beside_the_failure() -> None:
    look = Look(stopped(partial()), 0, 9.0, 120)
    rows = [text(line) for line in loading_body(look, 34)]
    left = [row[:71].rstrip() for row in rows]
    at = next(index for index, row in enumerate(left) if row.startswith(" modules, until"))
    assert left[at + 1 : at + 5] == [
        "   net.py:build  Net               918  1×3×32×32 → –",
        " ✓   l1  Conv2d                    584  1×8×30×30 → 1×8×28×28",
        " ✗   l2  Bad\\x1b[2J                 20  1×8×30×30 → –",
        " ·   l3  Linear                     90  –",
    ]
    assert any("✓ tree      1 of 4 modules ran" in row for row in rows)
    assert any("– costs     unavailable: needs the whole trace" in row for row in rows)


@pytest.mark.parametrize("size", [(120, 34), (80, 19), (80, 9), (60, 10), (40, 30), (30, 24)])
def test_the_module_that_raised_is_in_sight(size: tuple[int, int]) -> None:
    cells, rows = size
    for glyphs, sign in ((UNICODE, "✗"), (ASCII, "x")):
        look = Look(stopped(partial(150, 300)), 0, 9.0, cells, glyphs)
        lines = loading_body(look, rows)
        assert [line_width(line) for line in lines] == [cells] * rows
        shown = [text(line) for line in lines if text(line).startswith(f" {sign}   l150")]
        assert len(shown) == 1 or rows < 12  # Then there is no room beside what to try.


def modules_in(rows: list[str]) -> list[str]:
    """Return the names of the modules in sight."""
    return [row.split()[1] for row in rows if row[1:2] in "✓✗·" and row[2:6] == "   l"]


async def test_every_module_is_reached_by_key_from_the_one_that_raised() -> None:
    async with on_stage([*LOADING, StageStarted("trace", 3.9), partial(150, 300), RAISED]) as shown:
        stage, pilot = shown

        async def after(*keys: str) -> list[str]:
            await pilot.press(*keys)
            await pilot.pause()
            return modules_in(screen_text(stage.app).splitlines())

        at_first = await after()
        assert at_first[len(at_first) // 2] in ("l149", "l150", "l151")
        assert await after("j", "j") == [f"l{int(name[1:]) + 2}" for name in at_first]
        down = await after("pagedown")
        assert int(down[0][1:]) > int(at_first[-1][1:]) - 10
        assert (await after("G"))[-1] == "l299"
        assert (await after("j"))[-1] == "l299"
        assert (await after("g"))[0] == "l1"
        assert "l299" not in await after("k", "j")


def test_a_trace_that_begins_anew_forgets_how_far_the_last_one_came() -> None:
    assert folded((*LOADING, partial())).partial is not None
    assert folded((*LOADING, partial(), *TRACED)).partial is None

"""Reports of a training step that was measured."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from screens.cli.main import main
from tests.recording.files import timed, write
from tests.reports.test_training import report
from tests.small_model import MEASURED, TRACED, folded
from tests.training_session import (
    NOT_SEEN,
    a_gan,
    step_parts,
    trained,
    training_step,
    with_evaluation,
    with_longer,
)
from tui_profiler.messages import LoopState, SlowStep, SourceLine, TrainingStep, Unknown
from tui_profiler.queries.compare.comparison import comparison, total_rows
from tui_profiler.queries.compare.side import side_of
from tui_profiler.queries.training.step import NO_STEP, NOT_CALLED
from tui_profiler.reports.csv import csv_model, csv_nodes
from tui_profiler.reports.json.reader import read_report
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.compare import compare_table
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session, apply

PARTS = step_parts(data=0.36, forward=0.04, backward=0.14, optimizer=0.62, other=0.84)
LINES = (
    SourceLine("Trainer.log_metrics", "/home/me/train.py", 54, 0.7),
    SourceLine("main", "/home/me/train.py", 90, 0.3),
)
STEP = replace(training_step(PARTS, 2.0), lines=LINES, samples=10, p95=2.5)
UNSEEN = {"transfer", "clip", "communication"}
SLOW = SlowStep(
    at=9.0,
    step=1043,
    seconds=4.0,
    parts=step_parts(data=2.16, forward=0.04, backward=0.14, optimizer=0.72, other=0.94),
    thread=None,
    lines=LINES,
)
WRITERS: dict[str, Callable[[Session], str]] = {
    "text": lambda session: full_text(session, columns=120),
    "markdown": full_markdown,
    "table": lambda session: "\n".join(table(session, columns=120)),
}


def measured(told: TrainingStep = STEP) -> Session:
    return trained(told, folded(MEASURED))


def reasons(session: Session) -> dict[str, str]:
    found: dict[str, str] = report(session)["unavailable"]
    return found


def timings(session: Session) -> dict[str, Any]:
    return {layer["path"]: layer["timing"] for layer in report(session)["layers"]}


def test_json_has_the_parts_with_their_shares() -> None:
    found = report(measured())["step"]

    assert (found["count"], found["recorded"], found["ended_by"]) == (100, 20, "optimizer")
    assert (found["mean_s"], found["p50_s"], found["p95_s"], found["per_s"]) == (2.0, 2.0, 2.5, 0.5)
    seen = {name: one for name, one in found["parts"].items() if one is not None}
    assert {name: one["mean_s"] for name, one in seen.items()} == {
        "data": 0.36, "forward": 0.04, "backward": 0.14, "optimizer": 0.62, "other": 0.84,
    }  # fmt: skip
    assert sum(one["share"] for one in seen.values()) == pytest.approx(1.0)
    assert seen["optimizer"]["share"] == 0.31
    assert (found["items_per_s"], found["tokens_per_s"]) == (2.0, None)
    assert found["verdict"] == {"verdict": "host-bound", "share": 0.42}


def test_json_has_a_reason_for_each_part_that_was_not_seen() -> None:
    found = reasons(measured())

    assert {name: found[f"step.parts.{name}"] for name in UNSEEN} == dict.fromkeys(
        UNSEEN, NOT_SEEN.reason
    )


def test_json_names_the_lines_of_other() -> None:
    found = report(measured())["step"]["other"]

    assert found == [
        {"where": "log_metrics, train.py:54", "share": 0.7},
        {"where": "main, train.py:90", "share": 0.3},
    ]
    unsampled = replace(STEP, lines=(), why_no_lines="nobody looks")
    assert reasons(measured(unsampled))["step.other"] == "nobody looks"


def test_json_has_the_slowest_step() -> None:
    found = report(apply(measured(), SLOW))["step"]["slowest"]

    assert (found["step"], found["seconds"]) == (1043, 4.0)
    # Optimizer and other took 0.1 s more each: below a tenth of 2 s.
    assert found["longer"] == [{"part": "data", "seconds": pytest.approx(1.8)}]
    assert found["other"][0]["where"] == "log_metrics, train.py:54"
    assert (
        reasons(measured())["step.slowest"]
        == "no step was slower than 99 of 100; the first 100 steps are not compared"
    )


def test_json_has_the_backward_of_modules() -> None:
    found, why = timings(measured()), reasons(measured())

    assert (found[""]["backward_mean_s"], found[""]["recompute_mean_s"]) == (0.5, 0.125)
    assert (found["fc"]["backward_mean_s"], found["fc"]["recompute_mean_s"]) == (0.25, 0.125)
    assert found["conv"]["backward_mean_s"] is None
    assert why["layers[kind=module].timing.backward_mean_s"] == NOT_CALLED


def test_json_has_no_recomputation_of_modules_where_that_of_the_step_is_unknown() -> None:
    session = measured(replace(STEP, recompute=Unknown("compiled autograd may have run it")))
    found, why = timings(session), reasons(session)

    assert (found[""]["backward_mean_s"], found[""]["recompute_mean_s"]) == (0.5, None)
    assert found["fc"]["recompute_mean_s"] is None
    assert why["layers[].timing.recompute_mean_s"] == "compiled autograd may have run it"


def test_a_backward_that_could_not_be_timed_is_null() -> None:
    none = replace(STEP, backward=b"\0" * 8, why_no_backward="the graph has no numbers")
    session = measured(none)

    assert timings(session)["fc"]["backward_mean_s"] is None
    assert reasons(session)["layers[].timing.backward_mean_s"] == "the graph has no numbers"


def test_json_has_the_backward_by_line_and_other_models() -> None:
    found = report(measured(a_gan(STEP)))["step"]

    first, second = found["backward_lines"]
    assert first == {
        "where": "train, gan.py:83", "passes": 2.0,
        "modules_s": 0.25, "other_models_s": 0.0, "outside_s": 0.125,
    }  # fmt: skip
    assert second["other_models_s"] == 0.0625
    assert found["other_models"] == [
        {"name": "Generator", "calls": 1.0, "forward_mean_s": 0.125, "backward_mean_s": 0.0625}
    ]
    assert report(measured())["step"]["other_models"] == []
    assert reasons(measured())["step.backward_lines"] == "no backward pass was attributed to a line"


def test_few_steps_have_no_means() -> None:
    few = replace(STEP, seconds=Unknown("too few steps so far"), recorded=0)
    found, why = report(measured(few)), reasons(measured(few))

    assert (found["step"]["mean_s"], found["step"]["p50_s"]) == (None, 2.0)
    assert set(found["step"]["parts"].values()) == {None}
    assert why["step.parts.forward"] == why["step.mean_s"] == "too few steps so far"


@pytest.mark.parametrize(
    ("session", "why"),
    [(folded(MEASURED), NO_STEP), (folded(TRACED), "not measured; --measure SECONDS does")],
)
def test_json_says_why_there_is_no_step(session: Session, why: str) -> None:
    assert report(session)["step"] is None
    assert reasons(session)["step"] == why


@pytest.fixture(params=WRITERS)
def written(request: pytest.FixtureRequest) -> Callable[[Session], str]:
    return WRITERS[request.param]


def plain(text: str) -> str:
    """Return text without escapes and line breaks."""
    return " ".join(text.replace("\\", "").split())


def test_text_has_the_step_by_part(written: Callable[[Session], str]) -> None:
    found = plain(written(measured()))

    assert "data 18 · forward 2 · backward 7 · optimizer 31 · other 42" in found
    assert "other 42 (log_metrics, train.py:54, ~70 % by 10 samples)" in found
    assert "transfer, clip, communication: not seen" in found
    assert "2.00 s, of 20 recorded steps" in found
    assert "mean 2.00 s, p50 2.00 s, p95 2.50 s" in found
    assert "0.50 steps/s, 2.00 items/s, of the last 100 steps" in found
    assert "100; each ends with the optimizer's step (AdamW)" in found
    assert "host-bound: code outside of the model 42 % of the step" in found


def test_every_format_says_what_the_rate_has_in_it(written: Callable[[Session], str]) -> None:
    told = replace(with_longer(STEP), tokens=512.0, tokens_error=0.1)
    found = plain(written(measured(told)))

    assert "mean 2.00 s without those far longer, p50 2.00 s" in found
    assert "10 of the last 100 took far longer, 55 % of the time" in found
    assert "0.25 steps/s, 1.00 items/s, ~128 tokens/s ± 10 %" in found
    assert "of the last 100 steps, those far longer included" in found
    in_json = report(measured(told))["step"]
    assert in_json["last_mean_s"] == pytest.approx(2.0)
    assert (in_json["last_count"], in_json["last_longer"]) == (100, 10)
    assert (in_json["last_longer_share"], in_json["per_s"]) == (0.55, 0.25)
    assert (in_json["items_error"], in_json["tokens_error"]) == (0.0, 0.1)


def test_every_format_has_what_lies_between_steps(written: Callable[[Session], str]) -> None:
    told = with_evaluation(STEP)
    found = plain(written(measured(told)))

    assert "evaluation every 200 steps, 3.0 % of the time: mean 1.50 s, 16 forwards in" in found
    assert "data 250 ms, evaluate, train.py:12 75 % of the rest" in found
    assert "inference, 0.2 % of the time: mean 500 ms" in found
    in_json = report(measured(told))["step"]
    assert in_json["model_calls_per_s"] == 70.0
    evaluation, inference = in_json["between"]
    assert evaluation == {
        "kind": "evaluation", "count": 5, "every_steps": 200.0, "mean_s": 1.5, "share": 0.03,
        "forwards": 16.0, "forward_mean_s": 0.5, "data_mean_s": 0.25,
        "lines": [{"where": "evaluate, train.py:12", "share": 0.75}],
    }  # fmt: skip
    assert (inference["forwards"], inference["every_steps"]) == (None, 0.0)
    assert reasons(measured(told))["step.between[1].forwards"] == "not seen"


def test_text_has_the_backward_by_line_and_other_models(
    written: Callable[[Session], str],
) -> None:
    text = written(measured(a_gan(STEP)))
    rows = [" ".join(line.replace("|", "").replace("\\", "").split()) for line in text.splitlines()]

    assert "backward 7 (outside modules 25 %, train, gan.py:83)" in plain(text)
    assert "train, gan.py:83 2 250.00 0.00 125.00" in rows
    assert "train, gan.py:91 1 62.50 62.50 0.00" in rows
    assert "Generator 1 125.00 62.50" in rows
    assert "other models" not in written(measured())


def test_text_has_the_modules_of_a_step(written: Callable[[Session], str]) -> None:
    lines = [line.replace("|", "").split() for line in written(measured()).splitlines()]

    # Own 0.4375 of 2 s; forward, backward, recomputed whole: 0.5 s.
    rows = [line for line in lines if line[1:3] in (["125.00", "250.00"], ["250.00", "500.00"])]
    assert [row[0] for row in rows] == ["fc", "net"]
    assert ["fc", "125.00", "250.00", "21.9", "25.0"] in lines
    again = replace(STEP, recompute=0.125)
    lines = [line.replace("|", "").split() for line in written(measured(again)).splitlines()]
    assert ["fc", "125.00", "250.00", "125.00", "21.9", "25.0"] in lines
    assert "125 ms by checkpointing, 89 % of the backward" in plain(written(measured(again)))


def test_text_has_no_shares_of_modules_where_recomputation_is_unknown(
    written: Callable[[Session], str],
) -> None:
    text = written(measured(replace(STEP, recompute=Unknown("not seen"))))

    lines = [line.replace("|", "").split() for line in text.splitlines()]
    assert ["fc", "125.00", "250.00", "–", "–"] in lines
    assert ["recomputed", "–", "(not", "seen)"] in lines


def test_text_says_what_took_longer_in_the_slowest_step(written: Callable[[Session], str]) -> None:
    found = plain(written(apply(measured(), SLOW)))

    # Optimizer and other took 0.1 s more each: below a tenth of 2 s.
    assert "4.00 s, step 1,043, data +1.80 s (log_metrics, train.py:54)" in found


def test_text_says_how_often_the_model_runs_in_a_step(written: Callable[[Session], str]) -> None:
    words = "4 forwards, 4 backward passes, 1 optimizer steps"

    assert words in plain(written(measured(replace(STEP, forwards=4.0, passes=4.0))))
    assert "backward passes, " not in plain(written(measured()))


def test_text_of_few_steps_has_the_reasons(written: Callable[[Session], str]) -> None:
    few = replace(STEP, seconds=Unknown("too few steps so far"), recorded=0)
    found = plain(written(measured(few)))

    assert "– (too few steps so far), of 0 recorded steps" in found
    assert "mean 2.00 s, p50 2.00 s" in found
    assert "verdict" in found


def test_without_a_step_there_is_no_section(written: Callable[[Session], str]) -> None:
    assert "time of a training step" not in written(folded(MEASURED))


@pytest.mark.parametrize("kind", WRITERS)
def test_names_of_the_program_are_safe(kind: str) -> None:
    line = SourceLine("log\x1b[31m", "/home/me/<b>train.py\x07", 5, 1.0)
    found = WRITERS[kind](measured(replace(STEP, lines=(line,), optimizers=("Adam\x1b[1m",))))

    assert "\x1b" not in found
    assert "\x07" not in found
    assert kind != "markdown" or "<b>" not in found


def test_the_summary_has_the_mean_and_the_verdict() -> None:
    found = plain(full_text(measured(), columns=120).partition("2. architecture")[0])

    assert "training step 2.00 s; host-bound: code outside of the model 42 % of the step" in found


def test_a_comparison_has_the_parts_of_both_sides() -> None:
    faster = replace(STEP, seconds=1.5, parts=step_parts(data=0.02, clip=0.1, other=1.38))
    compared = comparison(side_of("a", measured()), side_of("b", measured(faster)))
    rows = {row.name: row for row in total_rows(compared)}

    assert [rows["step.mean_s"].pair.a, rows["step.mean_s"].pair.b] == [2.0, 1.5]
    data, clip = (rows[f"step.parts.{name}.mean_s"] for name in ("data", "clip"))
    assert data.pair.difference == pytest.approx(-0.34)
    assert (clip.pair.a, clip.pair.b, clip.pair.difference) == (NOT_SEEN, 0.1, None)
    assert "step.parts.transfer.mean_s" not in rows
    # The spread of steps is not told, so no difference is called better.
    assert {row.verdict for name, row in rows.items() if name.startswith("step.")} == {""}
    lines = [" ".join(line.split()) for line in compare_table(compared, columns=100)]
    assert "step data 360 ms 20.0 ms −340 ms ×0.06" in lines


def test_a_report_compares_as_the_session_it_was_written_of(tmp_path: Path) -> None:
    for name, session in (("a", measured()), ("b", folded(MEASURED)), ("c", folded(TRACED))):
        file = tmp_path / name
        file.write_text(json_report(session), encoding="utf-8")
        written, lived = read_report(file, name).totals, side_of(name, session).totals
        paths = [path for path in lived if path.startswith("step.")]

        assert len(paths) == 2 + len(PARTS.__struct_fields__)
        assert [written[path] for path in paths] == [lived[path] for path in paths]


def test_a_script_that_ended_before_a_step_says_so_of_steps() -> None:
    session = folded((*TRACED, LoopState("finished", 3.0, detail="the script ended")))
    said = json.loads(json_report(session))["unavailable"]
    assert said["latency"] == "no forward has times: the script ended"
    assert said["step"] == "no training step was measured: the script ended"


def test_a_recording_is_reported_as_its_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(write(tmp_path / "a.rec", timed((*MEASURED, STEP, SLOW))))
    session = apply(measured(), SLOW)

    assert main(("report", file, "--format", "json")) == 0
    assert json.loads(capsys.readouterr().out)["step"] == report(session)["step"]
    assert main(("report", file, "--format", "csv")) == 0
    assert capsys.readouterr().out == csv_model(session, with_titles=True)
    assert main(("report", file)) == 0
    assert step_lines(capsys.readouterr().out) == step_lines(WRITERS["table"](session))


def step_lines(text: str) -> list[str]:
    """Return the section of a step, without the blanks of its columns."""
    section = text.partition("time of a training step")[2].partition("\n\n")[0]
    assert "step 1,043, data +1.80 s" in section
    return section.split()


def test_csv_has_the_backward_of_modules() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_model(measured(), with_titles=True))))
    found = {line["path"]: (line["backward_seconds"], line["recompute_seconds"]) for line in lines}

    assert (found[""], found["fc"], found["conv"]) == (
        ("0.5", "0.125"),
        ("0.25", "0.125"),
        ("", ""),
    )


def test_csv_has_nothing_for_a_backward_that_was_not_timed() -> None:
    none = replace(STEP, backward=b"\0" * 8, why_no_backward="the graph has no numbers")
    [line] = csv.DictReader(io.StringIO(csv_nodes(measured(none), [0])))

    assert (line["backward_seconds"], line["recompute_seconds"]) == ("", "")

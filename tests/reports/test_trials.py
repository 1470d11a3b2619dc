"""Trials in reports and in a session: what was predicted beside what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from screens.cli.main import main
from tests.fixtures.record_memory import recorded_with_memory
from tests.recording.files import fold
from tests.reports.json.schema_parts import part_of
from tests.small_model import MEASURED, TRACED, folded
from tui_profiler import messages
from tui_profiler.findings import findings
from tui_profiler.formatting.text import width
from tui_profiler.reports.json.trials import trials_json
from tui_profiler.reports.text.trials import predicted, trials_table
from tui_profiler.session import Session, apply

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "try.schema.json").read_text())
FOLDED = messages.TrialResult(
    *("fold-conv-bn", messages.WHOLE_MODEL, "measured", 9.5, "", "53 batch norms folded"),
    *(messages.TrialSide(0.1, 1, 3e6, 4e6), messages.TrialSide(0.08, 1, 3e6, 3e6)),
    *(1.25, 1.2, 1.3, 20, messages.OutputError(1e-5, 2.5e-6, 1000), "", 0.5, "", 1),
)
BATCHED = messages.TrialResult(
    *("larger-batch", messages.WHOLE_MODEL, "measured", 9.5, "", "4 items per call instead of 1"),
    *(messages.TrialSide(0.1, 1, 1e6, 1e6), messages.TrialSide(0.2, 4, 3e6, 1e6)),
    *(2.0, None, None, 3, messages.OutputError(0.0, 0.0, 0, others_differ=2, again=0.5)),
)
SLOW = replace(FOLDED, kind="threads", speedup=0.0134, low=0.012, high=0.02, error=None)
REFUSED = messages.TrialResult(
    "sdpa", messages.WHOLE_MODEL, "impossible", 0.1, "no softmax \x1b[2J runs in it"
)
ENDED = messages.TrialResult("compile", 1, "time", 120.0, "it took more than the 120 s allowed")


def told(*said: messages.Message, begin: Session | None = None) -> Session:
    session = begin or fold(recorded_with_memory())
    for message in said:
        session = apply(session, message)
    return session


EVERY = told(FOLDED, BATCHED, SLOW, REFUSED, ENDED)


def test_a_session_keeps_the_last_result_of_each_kind_and_node() -> None:
    under_way = messages.TrialProgress("compile", 1, "measure", 3.0, 4, 1.5)
    session = told(under_way)
    assert session.trial == under_way
    of_node = replace(FOLDED, node=3)
    session = told(FOLDED, of_node, REFUSED, replace(FOLDED, speedup=1.5), begin=session)
    assert session.trial is None
    assert session.trials == (of_node, REFUSED, replace(FOLDED, speedup=1.5))


def test_another_tree_has_no_trials() -> None:
    session = told(*TRACED, begin=told(FOLDED))
    assert session.trials == ()


@pytest.mark.parametrize("session", [EVERY, told(FOLDED, begin=folded(MEASURED))])
def test_the_json_follows_its_schema_and_says_why_figures_are_missing(session: Session) -> None:
    read = json.loads(trials_json(session))
    jsonschema.Draft202012Validator(SCHEMA).validate(read)
    for place, one in enumerate(read["trials"]):
        for name in ("speedup", "predicted", "error", "baseline", "changed"):
            if one[name] is None:
                assert read["unavailable"][f"trials[{place}].{name}"]


def test_the_schema_names_every_kind() -> None:
    kinds = part_of(SCHEMA, "trials", "[]", "kind")["enum"]
    assert kinds == sorted(messages.TRIAL_KINDS)


@pytest.mark.parametrize("columns", [20, 80, 100, 200])
def test_every_line_fits_and_nothing_hostile_gets_through(columns: int) -> None:
    lines = trials_table(EVERY, columns=columns)
    assert max(map(width, lines)) <= max(columns, 80)
    assert all(line.isprintable() for line in lines)


def test_a_row_has_prediction_measurement_interval_error_and_memory() -> None:
    rows = {line.split()[0]: line.split()[1:] for line in trials_table(EVERY, columns=80) if line}
    found = next(one for one in findings(EVERY) if one.kind == "fold-conv-bn")
    assert not isinstance(found.gain.share, messages.Unknown)
    said = f"{1 / (1 - found.gain.share):.2f}×"
    assert rows["fold-conv-bn"] == [said, "1.25×", "1.20–1.30", "2.5e-06", "−14", "%"]
    # What the output holds of whole numbers differs in two places, and memory doubles.
    assert rows["larger-batch"][-6:] == ["2.00×", "–", "2", "≠", "+100", "%"]
    assert rows["threads"][1:] == ["0.013×", "0.012–0.02", "–", "−14", "%"]
    assert rows["sdpa"][1:] == ["–"] * 4


def test_nothing_that_speaks_for_a_change_is_a_dot() -> None:
    assert predicted(None) == "·"


@pytest.mark.parametrize(
    ("low", "high", "word", "said"),
    [
        (0.14, 625.0, "undecided", "undecided"),
        (1.2, 1.3, "gained", "gain"),
        (0.8, 0.9, "no gain", "no gain"),
    ],
)
def test_without_a_prediction_it_is_told_whether_it_gained(
    low: float, high: float, word: str, said: str
) -> None:
    result = messages.TrialResult(
        *("threads", messages.WHOLE_MODEL, "measured", 9.5, "", "1 thread instead of 2"),
        *(messages.TrialSide(0.1, 1, 6e6, 3e6, 1e6), messages.TrialSide(0.1, 1, 6e6, 3e6, 1e6)),
        *((low + high) / 2, low, high, 6, messages.OutputError(0.0, 0.0, 9), "", 0.5, "", 4),
    )
    session = told(result, begin=folded(TRACED))
    assert not any(one.kind == "threads" for one in findings(session))
    assert f"      {said}; 1 thread instead of 2" in "\n".join(trials_table(session, columns=100))
    assert json.loads(trials_json(session))["trials"][0]["verdict"] == word


def test_reasons_and_verdicts_are_told_below() -> None:
    text = "\n".join(trials_table(EVERY, columns=100))
    assert "impossible: no softmax" in text
    assert "time: it took more than the 120 s allowed" in text
    assert "53 batch norms folded; 100 ms to 80.0 ms per call; 20 pairs" in text
    assert "100 ms to 200 ms per call with 4 times the items; 3 pairs" in text


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("try",), "Missing argument 'MODEL...'"),
        (("try", "demo:cnn", "--kind", "magic"), "'magic' is not one of 'fold-conv-bn'"),
        (("try", "demo:cnn", "--seconds", "0"), "0.0 is not in the range"),
        (("try", "demo:cnn", "--no-run"), "try runs the model: omit --no-run"),
        (("try", "demo:cnn", "--output", "/no/such/file"), "--output /no/such/file cannot be"),
    ],
)
def test_wrong_arguments_are_told(
    typed: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == 2
    assert said in capsys.readouterr().err


def test_a_trial_of_steps_says_what_it_saved_of_the_peak() -> None:
    checkpointed = messages.TrialResult(
        *("checkpoint", messages.WHOLE_MODEL, "measured", 9.5, "", "checkpointed: 4 modules"),
        *(messages.TrialSide(0.1, 1, 6e6, 3e6, 1e6), messages.TrialSide(0.12, 1, 4e6, 3e6, 1e6)),
        *(0.83, 0.8, 0.9, 20, messages.OutputError(0.0, 0.0, 9), "", 0.5, "", 4, True),
    )
    session = told(checkpointed)
    text = "\n".join(trials_table(session, columns=100))
    assert "saves 20 % of the peak" in text
    assert "each call is a training step; error: of its gradients" in text
    assert "a call is a training step" not in "\n".join(trials_table(told(FOLDED), columns=100))
    (read,) = json.loads(trials_json(session))["trials"]
    assert (read["is_step"], read["baseline"]["kept_bytes"]) == (True, 1e6)

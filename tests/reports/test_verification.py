"""The comparison with other counters, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests.small_model import DONE, FACTS, TRACED, folded
from tui_profiler.formatting.text import width
from tui_profiler.messages import Counted, ModelFacts, SecondOpinion, TraceDone
from tui_profiler.queries.cost.verification import Verification, no_opinion
from tui_profiler.reports.json.verification import verification_json
from tui_profiler.reports.text.verification import verification_table
from tui_profiler.session import EMPTY

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "verify.schema.json").read_text()
)

OPINIONS = (
    SecondOpinion(
        "flop_counter",
        "torch 2.15.0",
        0.25,
        parameters=2678,
        macs=6912,
        flops=13824,
        operators=(Counted("aten.convolution", 1, 6912),),
        skipped=(Counted("aten.relu_", 1), Counted("aten.addmm", 1)),
    ),
    no_opinion("fvcore", "fvcore is not installed: pip install 'tui-profiler[fvcore]'"),
    SecondOpinion("measured", "torch 2.15.0 profiler", 0.5, peak_bytes=20000),
)
PUBLISHED = replace(FACTS, published_gmacs=0.0, published_parameters=2678)
OTHERS = [m for m in TRACED if not isinstance(m, ModelFacts | TraceDone)]
MADE = Verification(folded((PUBLISHED, *OTHERS, DONE)), OPINIONS)

TEXT = """\
net.py:build  Net  from net.py, cpu
  x 1×3×8×8 f32 (first convolution)

figures -- one forward; a multiply-add is 1 MAC, 2 FLOP
                       parameters                  MACs     FLOP  peak memory
  tui-profiler              2,678                 9,472    19.0K     13.0 KiB
  published                 2,678               0.000 G        ·            ·
  flop_counter              2,678                 6,912    13.8K            ·
  fvcore                        –                     –        –            –
  measured                      ·                     ·        ·     19.5 KiB

checks -- tui-profiler against other counters
  passes        published     parameters equal
  passes        published     GMACs per item equal to 3 decimals
  passes        flop_counter  parameters equal
  passes        flop_counter  MACs (its FLOPs / 2) equal
                              without aten.addmm: counted as 0 there, 2,560 here
  not compared  fvcore        MACs (what it calls FLOPs) within 0.1%
                              fvcore is not installed: pip install
                              'tui-profiler[fvcore]'
  FAILS         measured      peak memory within 10%
                              predicted 33.6% too low

counted as 0 -- operators without a formula
  tui-profiler  mine::strange
  flop_counter  aten.addmm×1, aten.relu_×1"""


def test_the_text_names_every_tolerance_and_every_difference() -> None:
    assert "\n".join(verification_table(MADE, columns=80)) == TEXT


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    hostile = "evil\x1b[31m" + "多" * 90
    skipped = tuple(Counted(f"{hostile}{index}", index) for index in range(40))
    opinion = replace(OPINIONS[0], skipped=skipped, others=skipped, error=hostile)
    facts = replace(FACTS, name=hostile, type=hostile)
    done = replace(DONE, uncosted=(hostile,))
    lines = verification_table(
        Verification(folded((facts, *OTHERS, done)), (opinion, replace(opinion, error=""))),
        columns=columns,
    )
    assert max(map(width, lines)) <= max(columns, 78)
    assert "\x1b" not in "".join(lines)


def test_a_published_figure_is_of_the_whole_batch() -> None:
    facts = replace(FACTS, published_gmacs=1.814, batch=2)
    lines = verification_table(Verification(folded((facts, *OTHERS, DONE))), columns=80)
    assert any("published" in line and "3.628 G" in line for line in lines)


def test_nothing_is_said_of_a_model_that_was_not_traced() -> None:
    assert verification_table(Verification(EMPTY), columns=80) == (
        "nothing to verify: the model was not traced",
    )
    with pytest.raises(ValueError, match="not traced"):
        verification_json(Verification(EMPTY))


def test_the_json_follows_its_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(verification_json(MADE)))


def test_the_json_says_why_a_figure_is_missing() -> None:
    found = json.loads(verification_json(MADE))
    assert found["verdict"] == "fails"
    assert found["counters"][1]["macs"] is None
    assert "not installed" in found["unavailable"]["counters[fvcore].macs"]
    assert "memory" in found["unavailable"]["counters[flop_counter].peak_bytes"]
    assert [check["verdict"] for check in found["checks"]].count("fails") == 1
    assert found["checks"][3]["left_out"] == [{"name": "aten.addmm", "macs": 2560}]

"""A sweep as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests.queries.sweeps import AT, swept
from tui_profiler.formatting.canvas import ASCII, BLOCK, UNICODE, Glyphs
from tui_profiler.formatting.text import width
from tui_profiler.queries.sweep import Axis, NodeFigures, Sweep, Visit
from tui_profiler.reports.csv import sweep_csv
from tui_profiler.reports.json.sweep import sweep_json
from tui_profiler.reports.text.sweep import sweep_table

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "sweep.schema.json").read_text()
)
HOSTILE = "=evil\x1b[31m\n" + "多" * 90
OUT_OF_MEMORY = {AT[16]: "run: out of memory: tried to allocate 40 GiB"}

TEXT = """\
net.py:build  sweep of batch  Net from net.py, random weights, cpu
one worker per visit; 2 rounds, in alternating order; 4 s per point

points -- latency per forward, items/s and peak memory, measured
  batch       p50       p95  spread  items/s                  on paper   process
      1   1.13 ms   1.35 ms   2.0 %      889  ━━━━╸           0.98 KiB   512 MiB
      2   1.25 ms   1.50 ms   2.0 %    1.60K  ━━━━━━━━        1.95 KiB   512 MiB
      4   1.50 ms   1.80 ms   2.0 %    2.67K  ━━━━━━━━━━━━━   3.91 KiB   512 MiB
      8   failed: nothing of it was left; try --batch 1: less
     16   failed: as above
  energy           – RAPL counters need root
"""


def table(sweep: Sweep, columns: int = 80, glyphs: Glyphs = UNICODE) -> str:
    return "\n".join(sweep_table(sweep, columns=columns, glyphs=glyphs))


def test_the_points_are_a_table_with_reasons() -> None:
    failed = dict.fromkeys((AT[8], AT[16]), "nothing of it was left")
    assert table(swept(fixed=1e-3, each=0.125e-3, failed=failed)).startswith(TEXT)


def test_the_table_tells_growth_and_knee() -> None:
    text = table(swept(fixed=1e-3, each=0.125e-3), columns=100)
    assert "1.00 ±0.01 linear" in text
    assert "  batch 8: 4.50× the items/s of the smallest at 1.78× its latency" in text


def test_steps_of_training_are_not_called_forwards() -> None:
    forwards = swept()
    steps = replace(forwards, visits=tuple(replace(one, is_step=True) for one in forwards.visits))
    assert "points -- latency per forward" in table(forwards)
    shown = table(steps)
    assert "points -- latency per training step" in shown
    assert "log-log slope, of the forward in a step" in shown
    assert (
        json.loads(sweep_json(forwards))["is_step"],
        json.loads(sweep_json(steps))["is_step"],
    ) == (
        False,
        True,
    )


def test_the_plot_has_a_mark_for_every_point() -> None:
    text = table(swept())
    plot = text[text.index("latency, by batch") : text.index("scaling with")]
    assert plot.count("●") == 2 * 5


def test_other_settings_have_letters() -> None:
    one = swept()
    visits = tuple(replace(visit, place=2 * visit.place) for visit in one.visits)
    others = tuple(replace(visit, place=visit.place + 1) for visit in visits)
    both = replace(one, axes=(*one.axes, Axis("threads", (1, 2))), visits=(*visits, *others))
    assert "a threads 1  b threads 2" in table(both)


@pytest.mark.parametrize("glyphs", [UNICODE, BLOCK, ASCII], ids=["unicode", "block", "ascii"])
@pytest.mark.parametrize("columns", [20, 76, 120, 200])
def test_no_line_is_wider_than_the_terminal(columns: int, glyphs: Glyphs) -> None:
    one = swept(failed={AT[16]: HOSTILE})
    nodes = tuple(
        NodeFigures(f"{HOSTILE}.{index}", "module", HOSTILE, 1, 1, 1e-3) for index in range(3)
    )
    visits = tuple(replace(visit, nodes=(*visit.nodes, *nodes)) for visit in one.visits)
    facts = one.facts
    assert facts is not None
    hostile = replace(one, model=HOSTILE, visits=visits, facts=replace(facts, type=HOSTILE))
    lines = sweep_table(hostile, columns=columns, glyphs=glyphs)
    assert max(map(width, lines)) <= max(columns, 76)
    assert all(line.isprintable() for line in lines)
    assert glyphs is not ASCII or all(line.isascii() for line in lines)


@pytest.mark.parametrize(
    "sweep",
    [
        swept(),
        swept(failed=OUT_OF_MEMORY),
        replace(swept(reached=2, rounds=1), interrupted=True),
        replace(swept(), visits=(), facts=None, environment=None),
        replace(swept(), model=HOSTILE, visits=(Visit(0, 0, HOSTILE),)),
    ],
    ids=["whole", "one failed", "interrupted", "nothing", "hostile"],
)
def test_json_follows_its_schema(sweep: Sweep) -> None:
    text = sweep_json(sweep)
    assert text.isascii()
    assert "\n" not in text
    found = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["model"] == sweep.model


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_what_is_null_has_its_reason() -> None:
    found = json.loads(sweep_json(swept(failed=OUT_OF_MEMORY)))
    assert found["points"][0]["energy"]["joules"] is None
    assert found["unavailable"]["points[0].energy.joules"] == "RAPL counters need root"
    assert found["unavailable"]["points[4]"] == OUT_OF_MEMORY[AT[16]]


def test_csv_has_a_line_for_each_point_and_no_formula() -> None:
    lines = list(csv.DictReader(io.StringIO(sweep_csv(swept(failed={AT[16]: HOSTILE})))))
    assert [line["batch"] for line in lines] == ["1", "2", "4", "8", "16"]
    assert float(lines[0]["p50_s"]) == pytest.approx(1.1e-3)
    assert lines[4]["state"] == "failed"
    assert lines[4]["reason"].startswith("'=evil\\x1b[31m\\n")
    assert lines[4]["p50_s"] == ""

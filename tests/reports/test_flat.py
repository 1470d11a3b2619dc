"""Flat tables in every format, from a session whose figures were worked out by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from screens.cli.main import main
from tests.recording.files import timed, write
from tests.small_model import (
    CONV,
    CONV_OP,
    FC_OP,
    MEASURED,
    NODES,
    ROOT,
    TICK,
    TRACED,
    WITH_OWN,
    folded,
    operator_times,
    with_cpu_times,
)
from tui_profiler.messages import Message, Nodes
from tui_profiler.queries.cost.flat import BYS, By, flat_table
from tui_profiler.queries.time.node_seconds import CPU_OF_CALLS
from tui_profiler.reports.csv import flat_rows_csv
from tui_profiler.reports.json.flat import flat_json
from tui_profiler.session import Session, apply

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA = json.loads((DOCS / "flat.schema.json").read_text(encoding="utf-8"))
TIMES = operator_times({CONV_OP: 0.0004, FC_OP: 0.0002})
EVIL = "\x1b[31m=evil\t|x"


def typed(
    messages: tuple[Message, ...],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
) -> str:
    """Return what ``report`` prints of a recording."""
    (folder / "a.rec").unlink(missing_ok=True)
    write(folder / "a.rec", timed(messages))
    assert main(("report", str(folder / "a.rec"), *arguments)) == 0
    return capsys.readouterr().out


def cells(line: str) -> list[str]:
    return line.split()


WITH_CPU = (*MEASURED, with_cpu_times(TICK, {ROOT: (8e-4, 5e-5), CONV: (4e-4, 4e-4)}))


def test_self_cpu_time_stands_beside_self_time_where_it_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = typed(WITH_CPU, tmp_path, capsys, "--by", "module", "--format", "text")
    heading = next(line for line in printed.splitlines() if "self" in line and "total" in line)
    assert cells(heading)[3:9] == ["total", "µs", "self", "µs", "cpu", "µs"]
    rows = {cells(line)[0]: cells(line) for line in printed.splitlines() if "500" in line}
    assert rows["conv"][3:6] == ["500", "500", "400"]
    assert "cpu" not in typed(MEASURED, tmp_path, capsys, "--by", "module", "--format", "text")
    found = json.loads(flat_json(folded(WITH_CPU), "m", "module"))
    by_name = {row["name"]: row["self_cpu_s"] for row in found["rows"]}
    assert by_name[""] == pytest.approx(5e-5)
    assert by_name["act"] is None
    why = found["unavailable"]["rows[].self_cpu_s"]
    assert why == "not called in the forwards that read CPU time"
    jsonschema.validate(found, SCHEMA)
    [row] = [row for row in flat_table(folded(WITH_CPU), "class").rows if row.name == "Conv2d"]
    assert row.cpu == pytest.approx(4e-4)


def test_modules_are_a_table_by_self_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = typed(MEASURED, tmp_path, capsys, "--by", "module")

    model, _, title, heading, *rows = printed.splitlines()
    assert model == "net.py:build"
    assert title == "modules, flat -- by self time, means of 100 forwards; 1.00 ms per forward"
    assert cells(heading)[:6] == ["module", "calls", "total", "µs", "self", "µs"]
    assert [cells(row)[:5] for row in rows] == [
        ["conv", "1", "500", "500", "50.0"],
        ["fc", "1", "250", "250", "25.0"],
        ["act", "1", "150", "150", "15.0"],
        ["net", "1", "1000", "100", "10.0"],
    ]


def test_classes_and_operators_are_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_class = typed((*MEASURED, TIMES), tmp_path, capsys, "--by", "class", "--format", "text")
    [conv] = [line for line in by_class.splitlines() if line.startswith("Conv2d")]
    assert cells(conv)[:6] == ["Conv2d", "1", "1", "500", "500", "50.0"]

    printed = typed((*MEASURED, WITH_OWN), tmp_path, capsys, "--by", "operator", "--top", "2")

    said = "by self time, medians of 1 operator window; 0.75 ms per forward"
    assert printed.splitlines()[2] == f"operators by name -- {said}"
    assert [cells(row)[:5] for row in printed.splitlines()[4:6]] == [
        ["aten::mkldnn_convolution", "1", "250.0", "250.0", "33.3"],
        ["aten::addmm", "1", "200.0", "180.0", "24.0"],
    ]
    assert printed.splitlines()[6] == "and 5 more"


def test_operators_of_older_recordings_have_total_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = typed((*MEASURED, TIMES), tmp_path, capsys, "--by", "operator", "--top", "2")

    assert "by total time, medians" in printed
    assert [cells(row)[:5] for row in printed.splitlines()[4:6]] == [
        ["aten::convolution", "1", "400.0", "–", "66.7"],
        ["aten::addmm", "1", "200.0", "–", "33.3"],
    ]


def test_on_paper_the_table_says_that_nothing_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = typed(TRACED, tmp_path, capsys, "--by", "module", "--format", "markdown")

    assert "## modules, flat\n\non paper, by FLOPs\n" in printed
    assert "self time –: not measured" in printed
    assert [line.split("|")[1].strip() for line in printed.splitlines() if "| 1" in line][:2] == [
        "conv",
        "fc",
    ]


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize(
    "messages",
    [TRACED, MEASURED, (*MEASURED, TIMES), (*MEASURED, WITH_OWN)],
    ids=["traced", "measured", "totals", "self"],
)
def test_json_fits_its_schema_and_gives_reasons(by: By, messages: tuple[Message, ...]) -> None:
    found = json.loads(flat_json(folded(messages), "net", by))

    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    for place, row in enumerate(found["rows"]):
        for field, value in row.items():
            if value is None and (by, field) not in {
                ("operator", "type"),
                ("operator", "parameters"),
            }:
                reasons = found["unavailable"]
                assert f"rows[].{field}" in reasons or f"rows[{place}].{field}" in reasons, field


def test_json_has_seconds_and_shares() -> None:
    found = json.loads(flat_json(folded(MEASURED), "net", "module", top=3))

    assert (found["seconds"], found["forwards"]) == (pytest.approx(0.001), 100)
    assert [row["name"] for row in found["rows"]] == ["conv", "fc", "act"]
    assert [row["share"] for row in found["rows"]] == pytest.approx([0.5, 0.25, 0.15])
    assert found["left_out"] == 1


def test_json_of_operators_has_the_columns_of_key_averages() -> None:
    found = json.loads(flat_json(folded((*MEASURED, WITH_OWN)), "net", "operator"))

    rows = {row["name"]: row for row in found["rows"]}
    inner, relu = rows["aten::mkldnn_convolution"], rows["aten::relu_"]
    assert (inner["nodes"], inner["calls"], inner["flops"]) == (0, 1, None)
    assert (relu["nodes"], relu["calls"]) == (1, 3)
    assert sum(row["self_s"] or 0.0 for row in found["rows"]) == pytest.approx(found["seconds"])
    assert found["unavailable"]["rows[].self_cpu_s"] == CPU_OF_CALLS
    assert relu["output_shape"] == [1, 10]


def test_csv_is_one_table_of_several_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "b.rec", timed(MEASURED))
    printed = typed(
        MEASURED, tmp_path, capsys, str(tmp_path / "b.rec"), "--by", "class", "--format", "csv"
    )

    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [row["name"] for row in rows] == ["Conv2d", "Linear", "ReLU", "Net"] * 2
    assert float(rows[0]["self_s"]) == pytest.approx(0.0005)


def _hostile() -> Session:
    session = folded(MEASURED)
    assert session.tree is not None
    evil = tuple(replace(n, path=EVIL, type=EVIL) if n.name == "conv" else n for n in NODES)
    return replace(session, tree=replace(session.tree, nodes=evil))


def test_names_of_models_are_never_markup_nor_formulas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = tuple(
        Nodes(tuple(replace(n, path=EVIL) if n.name == "conv" else n for n in m.nodes), m.costs)
        if isinstance(m, Nodes)
        else m
        for m in MEASURED
    )
    for layout in ("table", "text", "markdown", "json", "csv"):
        assert "\x1b" not in typed(evil, tmp_path, capsys, "--by", "module", "--format", layout)
    session = _hostile()
    rows = flat_table(session, "module").rows
    [line, *_] = flat_rows_csv(session, "module", rows, delimiter="\t").splitlines()[1:]
    assert len(line.split("\t")) == 18


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "perfetto", "--output", "x"), "omit --by"),
        (("--findings",), "omit --findings"),
        (("--parameters",), "omit --parameters"),
    ],
)
def test_what_a_flat_table_has_not_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("report", "demo:cnn", "--by", "class", *arguments)) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_without_a_tree_there_are_no_rows() -> None:
    assert flat_table(apply(folded(()), MEASURED[0]), "module").rows == ()

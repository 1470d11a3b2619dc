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
from tests.small_model import CONV_OP, FC_OP, MEASURED, NODES, TRACED, folded, operator_times
from tui_profiler.messages import Message, Nodes
from tui_profiler.queries.cost.flat import BYS, By, flat_table
from tui_profiler.reports.csv.flat import rows_text
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

    printed = typed((*MEASURED, TIMES), tmp_path, capsys, "--by", "operator", "--top", "2")

    assert [cells(row)[:4] for row in printed.splitlines()[4:6]] == [
        ["aten::convolution", "1", "400.0", "66.7"],
        ["aten::addmm", "1", "200.0", "33.3"],
    ]
    assert printed.splitlines()[6] == "and 2 more"


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
@pytest.mark.parametrize("messages", [TRACED, MEASURED, (*MEASURED, TIMES)], ids=len)
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
    [line, *_] = rows_text(session, "module", rows, delimiter="\t").splitlines()[1:]
    assert len(line.split("\t")) == 14


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "perfetto", "--output", "x"), "leave out --by"),
        (("--findings",), "no --findings"),
        (("--parameters",), "no --parameters"),
    ],
)
def test_what_a_flat_table_has_not_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("report", "demo:cnn", "--by", "class", *arguments)) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_without_a_tree_there_are_no_rows() -> None:
    assert flat_table(apply(folded(()), MEASURED[0]), "module").rows == ()

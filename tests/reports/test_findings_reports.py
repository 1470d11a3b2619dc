"""Advice in reports: it follows the schema, and says what the questions say."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from screens.cli.main import main
from tests.fixtures.record_memory import recorded_with_memory
from tests.recording.files import fold
from tests.small_model import MEASURED, TRACED, folded
from tui_profiler.findings import CHECKS, conclusions, findings
from tui_profiler.formatting.text import width
from tui_profiler.messages import TrialResult, Unknown
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.markdown import as_markdown
from tui_profiler.reports.text.sections.findings import findings_section
from tui_profiler.reports.text.table import findings_lines
from tui_profiler.session import Session, apply

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "report.schema.json").read_text()
)
RESNET = fold(recorded_with_memory())


@pytest.mark.parametrize("session", [RESNET, folded(MEASURED), folded(TRACED)])
def test_advice_follows_the_schema_and_says_what_the_questions_say(session: Session) -> None:
    read = json.loads(json_report(session, advises=True))
    jsonschema.Draft202012Validator(SCHEMA).validate(read)
    every = findings(session)
    assert read["findings"]["checks"] == len(CHECKS)
    assert [one["kind"] for one in read["findings"]["found"]] == [one.kind for one in every]
    for one, told in zip(every, read["findings"]["found"], strict=True):
        share = one.gain.share
        at = f"findings.found[kind={one.kind}].gains[0].share"
        if isinstance(share, Unknown):
            assert told["gains"][0]["share"] is None
            assert read["unavailable"][at] == share.reason
        else:
            assert told["gains"][0]["share"] == share


def test_a_report_advises_only_when_asked() -> None:
    assert "findings" not in json.loads(json_report(RESNET))


@pytest.mark.parametrize("columns", [76, 100, 200])
def test_the_table_names_every_finding_in_lines_that_fit(columns: int) -> None:
    lines = findings_lines(RESNET, columns)
    assert max(map(width, lines)) <= columns
    for one in findings(RESNET):
        at = next(place for place, line in enumerate(lines) if one.title in line)
        assert f"[{one.kind}]" in lines[at] + lines[at + 1]
        assert any(line.strip().startswith("evidence: ") for line in lines)


def test_findings_are_grouped_by_what_is_known_of_their_gain() -> None:
    # 1 - 1/1.25 is 20 %, between 1 - 1/1.2 and 1 - 1/1.3.
    result = TrialResult(*("channels-last", -1, "measured", 9.0), speedup=1.25, low=1.2, high=1.3)
    session = apply(RESNET, result)
    text = "\n".join(findings_lines(session, 100))
    starts = [text.index(f"\n  {group}: ") for group in ("measured", "predicted")]
    assert starts == sorted(starts)
    measured = text[starts[0] : starts[1]]
    assert "[channels-last]" in measured
    assert "measured: 20 % of time, 95 % CI 17 % to 23 %: more" in measured
    markdown = "\n".join(as_markdown("report", (findings_section(session),)))
    assert markdown.index("measured: by a trial") < markdown.index("predicted: \\~ estimated")
    read = json.loads(json_report(session, advises=True))
    groups = {one["kind"]: one["group"] for one in read["findings"]["found"]}
    assert groups.pop("channels-last") == "measured"
    assert groups == {one.kind: one.gain.group for one in findings(session) if one.kind in groups}


def test_a_model_without_advice_says_how_many_checks_ran() -> None:
    tree = RESNET.tree
    assert tree is not None
    nothing = replace(RESNET, tree=replace(tree, edges=()), ceilings=None, timings=None, model=None)
    assert findings(nothing) == ()
    said = findings_lines(nothing, 80)
    concluded = conclusions(nothing)
    assert f"{len(CHECKS) - len(concluded.withheld)} checks ran, none applies" in said[2]
    lines = " ".join(" ".join(said).split())
    assert "withheld, mode unknown: no model was loaded: fold-conv-bn" in lines
    assert "withheld, memory roof: not calibrated: channels-last" in lines


def test_a_csv_holds_no_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "demo:cnn", "--findings", "--format", "csv"]) == 2
    assert "omit --findings" in capsys.readouterr().err

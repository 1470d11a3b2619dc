"""A comparison as table and as JSON, and a JSON report read back as one of its sides."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from tests.fixtures.record import recorded
from tests.queries.compare.pairs import former, latter, pair
from tui_profiler.formatting.text import width
from tui_profiler.messages import Overhead, Unknown
from tui_profiler.queries.compare import comparison
from tui_profiler.queries.compare.figure_text import difference_text, ratio_text, value_text
from tui_profiler.queries.compare.side import Side, side_of
from tui_profiler.queries.time.standard_error import NOT_RANKED
from tui_profiler.reports.json.compare import compare_as_json, compare_json
from tui_profiler.reports.json.reader import ReportParts, read_report
from tui_profiler.reports.json.report import Report, json_report
from tui_profiler.reports.json.report_file import ReportError, is_report
from tui_profiler.reports.json_values import paths
from tui_profiler.reports.text.compare import compare_table
from tui_profiler.session import EMPTY, History, Session, apply

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA = json.loads((DOCS / "compare.schema.json").read_text())
HOSTILE = "\x1b]52;c;\x07[/nope]\u202e"


def resnet() -> Session:
    session = EMPTY
    for message in recorded():
        session = apply(session, message)
    return session


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("reports") / "a.json"
    file.write_text(json_report(resnet()) + "\n")
    return file


def test_the_table_says_totals_settings_and_the_worst() -> None:
    lines = compare_table(pair(), columns=100)

    assert "  MAC                      5.00M       7.00M       +2.00M   ×1.40" in lines
    assert "modules -- 2 changed, 2 moved, 2 added, 3 same" in lines
    title = "largest self differences by time per forward -- without children, mean of 100 forwards"
    worst = lines.index(title)
    rows = [line.split() for line in lines[worst + 2 : worst + 4]]
    assert sorted(row[:2] for row in rows) == [["+", "body,"], ["~", "stem"]]
    assert lines[worst + 1].split()[1:5] == ["A", "µs", "B", "µs"]
    assert lines[-1] == "  ~ changed  > moved  + added  − removed"


def test_times_down_a_column_have_one_unit_and_as_many_decimals() -> None:
    compared = pair()
    tiny = replace(compared.b, own_seconds=lambda node: 37e-9 if node % 2 else 0.0123)
    lines = compare_table(replace(compared, b=tiny), columns=100)
    first = next(i for i, line in enumerate(lines) if line.startswith("    module ")) + 1
    figures = [
        word.lstrip("≈+−")
        for line in lines[first : lines.index("", first)]
        for word in line[60:92].split()
        if word != "–"
    ]
    assert len(figures) > 6
    assert {len(word.partition(".")[2]) for word in figures} == {2}


def test_where_the_sides_tell_other_statistics_each_is_named() -> None:
    compared = pair()
    other = replace(compared.b, statistic="mean of 12 segments")
    shown = "\n".join(compare_table(replace(compared, b=other), columns=120))
    assert "A mean of 100 forwards, B mean of 12 segments" in shown
    narrow = compare_table(replace(compared, b=other), columns=80)
    assert "  A mean of 100 forwards, B mean of 12 segments" in narrow  # Whole, on its own line.


@pytest.mark.parametrize("columns", [20, 76, 80, 120, 200])
def test_no_line_is_wider_than_asked_and_none_is_unsafe(columns: int) -> None:
    compared = pair()
    hostile = (("model", HOSTILE * 30), ("class", HOSTILE))
    a = replace(compared.a, label=HOSTILE * 20, settings=hostile)
    lines = compare_table(replace(compared, a=a), columns=columns)

    assert all(width(line) <= max(columns, 76) for line in lines)
    assert all(line.isprintable() for line in lines)


def test_noise_is_marked_and_so_is_how_it_was_measured() -> None:
    compared = pair()
    errors = {"latency.p50_s": 1.0}
    loud = replace(compared, a=replace(compared.a, error=lambda node: 1.0, total_errors=errors))

    table = "\n".join(compare_table(loud, columns=100, in_turns=True))
    assert "≈+6.00 ms" in table
    assert "measured in turns" in table
    assert "at different times" in "\n".join(compare_table(loud, columns=100))
    layers = compare_as_json(loud)["layers"]
    assert isinstance(layers, list)
    assert layers[0]["seconds"]["noise"] is True


def test_times_that_are_not_ranked_are_marked_everywhere() -> None:
    compared = pair()
    # Of neck, the parts make a tenth of its time.
    own = {0: 0.0, 4: 0.0}
    seconds = {0: 0.04, 1: 0.004, 4: 0.03, 5: 0.0015, 6: 0.0015, 8: 0.001}
    a = replace(compared.a, seconds=seconds.get, own_seconds=lambda node: own.get(node, 0.001))
    broken = replace(compared, a=a)

    table = "\n".join(compare_table(broken, columns=120))
    assert f"  {NOT_RANKED}" in table
    assert "? not ranked" not in "\n".join(compare_table(compared, columns=120))
    found = compare_as_json(broken)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    layers = found["layers"]
    assert isinstance(layers, list)
    doubts = {layer["path"]: layer["seconds"]["doubt"] for layer in layers}
    assert doubts["body.neck"] == "A: self time and children add up to 10 % of it"
    assert doubts["stem"] is None


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("top", [None, 2])
def test_the_json_follows_its_schema(measured: bool, top: int | None) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    text = compare_json(pair(measured=measured), top=top)
    found = json.loads(text)

    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert text.isascii()
    assert len(found["layers"]) == (12 if top is None else 2)


def test_a_side_without_a_tree_is_told_in_both() -> None:
    compared = comparison.comparison(Side("a"), side_of("b", latter()))
    found = json.loads(compare_json(compared))

    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["layers"] is None
    assert found["unavailable"]["layers"] == "A has no tree: not traced"
    assert "A has no tree: not traced" in compare_table(compared, columns=80)


def test_a_report_is_the_same_side_as_the_session_it_was_written_of(report: Path) -> None:
    last_only = replace(resnet(), history=History())  # All that a report tells of.
    written, lived = read_report(report, "a"), side_of("a", last_only)

    assert written.tree is not None
    assert lived.tree is not None
    assert written.tree.nodes == lived.tree.nodes
    assert written.settings == lived.settings
    for row in comparison.total_rows(comparison.comparison(written, lived)):
        assert row.pair.a == row.pair.b, row.name
    modules = [i for i, node in enumerate(lived.tree.nodes) if node.kind == "module"]
    assert last_only.timings is not None
    forwards = last_only.timings.tick.forwards
    for index in modules:
        # The recording has medians alone; a report has the means of all forwards, which add up.
        if (timing := last_only.timings.of(index)) is not None:
            assert written.seconds(index) == pytest.approx(timing.total / forwards)
            assert written.own_seconds(index) == pytest.approx(timing.own_total / forwards)
    assert written.statistic == "mean of its last forwards"
    assert written.error(0) is not None


def test_what_is_read_of_a_report_is_what_is_written() -> None:
    read = {*paths(ReportParts), *(name for name, *_ in comparison.TOTALS)}
    of_two = {"latency_per_item.p50_s"}
    assert read - of_two <= {*paths(Report)}


def test_an_estimated_rate_is_not_compared(tmp_path: Path) -> None:
    share = apply(resnet(), Overhead(0.01, 0.0, 0.02, pairs=0, share=0.05))
    (tmp_path / "a.json").write_text(json_report(share))
    sides = side_of("a", share), read_report(tmp_path / "a.json", "a"), side_of("b", resnet())

    rates = [one.totals["throughput.per_s"] for one in sides]

    assert rates[:2] == [Unknown("an estimate: a share of the forwards was recorded")] * 2
    assert not isinstance(rates[2], Unknown)


def test_what_a_report_does_not_know_keeps_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "paper.json"
    file.write_text(json_report(former(measured=False)))
    found = read_report(file, "a").totals

    assert found["latency.p50_s"] == Unknown("not measured; --measure SECONDS does")
    assert found["peak_memory.total"] == Unknown("not asked for")


def test_a_report_of_the_worst_layers_only_has_totals_and_no_tree(tmp_path: Path) -> None:
    file = tmp_path / "top.json"
    file.write_text(json_report(resnet(), top=3))
    side = read_report(file, "a")

    assert side.tree is None
    assert side.why_no_tree == "the report was written with --top or --depth: it has no whole tree"
    assert side.totals["total_macs"] == 4089184256


def _with(report: Path, **changed: object) -> str:
    return json.dumps({**json.loads(report.read_text()), **changed})


def test_what_is_no_report_of_this_version_is_refused_with_a_sentence(
    report: Path, tmp_path: Path
) -> None:
    text = report.read_text()
    other = "tui-profiler/report/2"
    cases = {
        _with(report, schema=other): f"has the format '{other}'; this version reads",
        _with(report, layers=[{"path": 3}]): "is not a complete report: .*layers",
        _with(report, layers=None, failure={"what": "no memory"}): "failed: no memory",
        text + text: "has several reports; compare takes one",
        text[: len(text) // 2]: "is not a JSON report",
        text.replace('"total_macs":', '"total_macs":1' + 400 * "0" + ',"x":'): "is out of range",
        text.replace('"total_macs":', '"total_macs":NaN,"x":'): "is not a finite number",
        text.replace('"total_macs":', '"total_macs":1e999,"x":'): "is not a finite number",
        '["tui-profiler/report/1"]': "is not a JSON object",
    }
    for number, (content, said) in enumerate(cases.items()):
        file = tmp_path / f"{number}.json"
        file.write_text(content)
        with pytest.raises(ReportError, match=said) as caught:
            read_report(file, "a")
        assert caught.value.remedy


def test_any_broken_report_is_refused_or_read(report: Path, tmp_path: Path) -> None:
    whole = json.loads(report.read_text())
    file = tmp_path / "broken.json"
    for value in (None, 3, "x", [], {}, True, 1e400):
        for name in whole:
            if name == "schema":
                continue
            file.write_text(json.dumps({**whole, name: value, "layers": whole["layers"][:3]}))
            try:
                side = read_report(file, "a")
            except ReportError:
                continue
            compare_json(comparison.comparison(side, side))
    for field in whole["layers"][0]:
        file.write_text(json.dumps({**whole, "layers": [{**whole["layers"][0], field: [-5]}]}))
        try:
            read_report(file, "a")
        except ReportError:
            continue


ABSURD = (1e308, -1e308, -1, 10**24, 10**60, 5e-324, float("nan"), "9" * 99, [1], {"a": 1}, True)


def _leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield where every figure, and every null, of a report stands."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _leaves(one, (*path, name))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _leaves(one, (*path, index))
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path


def _put(whole: Any, path: tuple[str | int, ...], value: object) -> Any:
    copied = copy.deepcopy(whole)
    place = copied
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return copied


def test_absurd_figures_are_refused_with_their_place_or_stay_in_their_columns(
    tmp_path: Path,
) -> None:
    file, other = tmp_path / "absurd.json", side_of("b", latter())
    whole = json.loads(json_report(former()))
    whole["layers"] = whole["layers"][:3]
    read = {"layers", "unavailable", "latency", "throughput", "peak_memory", "coverage", "batch"}
    kept = [path for path in _leaves(whole) if path[0] in read or str(path[0]).startswith("total")]
    refused = 0
    for path in kept:
        for value in ABSURD:
            file.write_text(json.dumps(_put(whole, path, value)))
            try:
                side = read_report(file, "a")
            except ReportError:
                refused += 1
                continue
            compared = comparison.comparison(side, other)
            compare_json(compared)
            lines = compare_table(compared, columns=100)
            assert all(width(line) <= 100 for line in lines), (path, value)
            heads = {width(line) for line in lines if line.endswith("B / A")}
            assert {width(line) for line in _rows(lines)} <= heads, (path, value, lines)
    assert refused > len(kept)


def _rows(lines: tuple[str, ...]) -> list[str]:
    """Return the rows of figures below the heads of a table."""
    found, inside = [], False
    for line in lines:
        inside = line.endswith("B / A") or (inside and line.startswith("  ") and "  " in line[2:])
        if inside and " noise" not in line and " measured " not in line:
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("total_macs",), -1, "Expected `int` >= 0 - at `$.total_macs`"),
        (("total_macs",), "many", "got `str` - at `$.total_macs`"),
        (("latency", "p50_s"), 1e308, "Expected `float` <= 10000000.0 - at `$.latency.p50_s`"),
        (("peak_memory",), 3, "Expected `object` - on the way to `$.peak_memory"),
        (("layers", 2, "macs"), -5, "Expected `int` >= 0 - at `$.layers[2].macs`"),
        (("layers", 0, "timing", "per_forward_s"), 1e9, "- at `$.layers[0].timing.per_forward_s`"),
    ],
)
def test_what_is_refused_is_named(
    path: tuple[str | int, ...], value: object, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "absurd.json"
    file.write_text(json.dumps(_put(json.loads(json_report(former())), path, value)))
    with pytest.raises(ReportError, match=re.escape(said)):
        read_report(file, "a")


def test_figures_that_no_model_has_are_told_by_the_most_there_is() -> None:
    assert value_text(1e308, "count") == ">999E"
    assert value_text(-3e7, "count") == "−30.0M"
    assert difference_text(-1e300, "seconds", "≈") == "≈−>2777h 46m"
    assert ratio_text(comparison.Pair(1.0, 1e300)) == "×>999E"
    assert ratio_text(comparison.Pair(1e-300, 1e300)) == "–"


def test_a_ratio_of_bounds_near_zero_says_what_follows() -> None:
    assert ratio_text(comparison.Pair(1e6, 1.0, b_reading="at most")) == "×<0.01"
    assert ratio_text(comparison.Pair(1e6, 1.0, b_reading="about")) == "~×<0.01"
    assert ratio_text(comparison.Pair(1e6, 1.0, b_reading="at least")) == "–"


def test_a_report_is_told_from_other_files(report: Path, tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"metadata": {}, "weight_map": {}}')
    sorted_keys = tmp_path / "sorted.json"
    sorted_keys.write_text(json.dumps(json.loads(report.read_text()), sort_keys=True, indent=1))

    assert is_report(report)
    assert is_report(sorted_keys)
    assert not is_report(index)
    assert not is_report(tmp_path)
    assert not is_report("resnet50")

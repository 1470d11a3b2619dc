"""Limits on figures of the JSON report: what holds, what does not, and what is not a check."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports.json.schema_parts import paths
from tests.small_model import MEASURED, TRACED, folded
from tui_profiler.reports.json.checks import (
    CheckError,
    Outcome,
    as_typed,
    evaluate,
    known_paths,
    parse_check,
    parse_limit,
    quantity_of,
)
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.screens.cli.report_files import check_lines, checks_section

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "report.schema.json"


def all_costed(report: dict) -> dict:
    """Return the report as if its strange operator had a formula."""
    layers = [{**layer, "uncosted": 0} for layer in report["layers"]]
    coverage = {**report["coverage"], "costed": report["coverage"]["ops"]}
    return {**report, "layers": layers, "coverage": coverage}


UNCOSTED = as_json(folded(MEASURED))
PAPER, RUN = all_costed(as_json(folded(TRACED))), all_costed(UNCOSTED)


def outcome(text: str, report: dict = RUN) -> Outcome:
    return evaluate(parse_check(text), report)


@pytest.mark.parametrize("operator", ["<", "<=", "==", ">=", ">"])
@pytest.mark.parametrize("path", ["total_macs", "total_flops", "layers[0].flops", "layers[0].macs"])
def test_without_a_formula_a_figure_is_at_least_what_was_counted(path: str, operator: str) -> None:
    far = 0 if ">" in operator else 1 if operator == "==" else 10**9
    far = outcome(f"{path}>0", UNCOSTED).value if operator == "==" else far
    found = outcome(f"{path}{operator}{far}", UNCOSTED)
    assert found.holds == (">" in operator)
    assert found.holds or "operators without a formula (mine::strange)" in found.why
    assert outcome(f"{path}{operator}{far}").holds


@pytest.mark.parametrize(
    ("bounded", "holding"), [("at most", {"<", "<="}), ("about", set()), (None, {"<", "<=", ">"})]
)
@pytest.mark.parametrize(
    "path", ["total_macs", "total_memory", "peak_memory.total", "layers[0].macs"]
)
def test_what_depends_on_the_data_holds_in_one_direction_at_most(
    path: str, bounded: str | None, holding: set[str]
) -> None:
    names = ["aten::nonzero"] if bounded else []
    layers = [{**PAPER["layers"][0], "bounded": bounded}, *PAPER["layers"][1:]]
    coverage = {**PAPER["coverage"], "bounded": names}
    report = {**PAPER, "layers": layers, "coverage": coverage}
    for operator, far in (("<", 10**9), ("<=", 10**9), (">", 0)):
        found = outcome(f"{path}{operator}{far}", report)
        assert found.holds == (operator in holding), operator
        assert found.holds or "it depends on the data (aten::nonzero)" in found.why
    real = {one: PAPER[one] for one in ("total_macs", "total_flops", "total_memory")}
    confirmed = {**report, "real_run": {**real, "ops": 5}}
    assert all(outcome(f"{path}{one}", confirmed).holds for one in ("<1G", ">0"))
    other = {**report, "real_run": {**real, "total_macs": 1, "ops": 5}}
    assert outcome(f"{path}>0", other).holds == (bounded is None), "the real forward cost otherwise"


def test_parameters_of_a_damaged_file_are_at_least_those_that_were_read() -> None:
    damaged = {**PAPER, "file": {"problem_count": 2, "problems": []}}
    found = outcome("total_parameters<=10M", damaged)
    assert not found.holds
    assert "2 problems of the file" in found.why
    assert outcome("total_parameters>=1", damaged).holds
    assert outcome("total_parameters<=10M", {**PAPER, "file": {"problem_count": 0}}).holds


@pytest.mark.parametrize(
    "text",
    [
        # 9,472 MACs, 18,964 FLOP, 13,272 B at the peak and 1 ms, worked out in small_model.
        *("total_macs<=9472", "total_macs<9473", "total_macs==9472", "total_macs>=9472"),
        *("total_macs>9.4K", "total_macs<=9.5k", "total_macs<=0.01M", "total_macs<=1e4"),
        *("peak_memory.total<=13KiB", "peak_memory.total<=13.3KB", "peak_memory.total<=13272"),
        *("peak_memory.total<=2GiB", "peak_memory.total>=12.9 KiB", "total_memory<20KiB"),
        *("latency.p50_s<=0.001", "latency.p50_s<=1ms", "latency.p50_s<=1000us"),
        *("latency.p50_s<=1_000_000ns", "latency.p50_s>=999000ns", "latency.p50_s<=1000µs"),
        *("latency.p50_s<2ms", "latency.p95_s<=1s"),
        *("overhead.ratio<=2%", "overhead.ratio<=0.02", "throughput.per_s>=800"),
        *("layers[conv].macs<=6912", "layers[0].macs<=9472", "layers[conv/0].flops==13824"),
        *("layers[fc].timing.p50_s<=0.26ms", "layers[type=Linear].parameters==2570"),
        *("layers[kind=module].timing.p50_s<=1.1ms", "layers[type=Linear].macs<7K"),
        *("breakdown[Conv2d].share>=72%", "bottlenecks.memory.ops==3", "inputs[x].shape[1]==3"),
        *("tracer.method==dispatch:real", "training==false", "coverage.uncosted[0]==mine::strange"),
        *(" total_macs <= 5G ", "hardware.ceilings.compute[float32].flops_per_s>=9.9G"),
    ],
)
def test_a_check_that_holds(text: str) -> None:
    assert outcome(text).holds


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("total_macs<=9471", 9472),
        ("total_macs<9472", 9472),
        ("total_macs==9471", 9472),
        ("total_macs>=9.5K", 9472),
        ("peak_memory.total<=12KiB", 13272.0),
        ("latency.p50_s<=999us", 0.001),
        ("latency.p50_s<=999000ns", 0.001),
        ("layers[type=Conv2d].macs<6912", 6912),
        ("tracer.method==fx", "dispatch:real"),
        ("training==true", False),
    ],
)
def test_a_check_that_does_not_hold_tells_the_figure(text: str, value: object) -> None:
    found = outcome(text)
    assert (found.holds, found.value) == (False, value)


def test_of_several_entries_the_one_that_does_not_hold_is_named() -> None:
    found = outcome("layers[kind=module].timing.p50_s<=0.3ms")
    assert (found.holds, found.at) == (False, "net")
    assert "at net" in "\n".join(check_lines((found,), 100))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("latency.p50_s<=1s", "not measured; --measure SECONDS does"),
        ("layers[conv].timing.p50_s<=1s", "not measured; --measure SECONDS does"),
        ("layers[conv].energy.joules<=1", "not measured; --measure SECONDS does"),
        ("energy.forward.joules<=1", "not measured; --measure SECONDS does"),
        ("hardware.sample.gpus[0].power_w<=300", "not measured; --measure SECONDS does"),
        (
            "tracer.attempts[0].seconds<=1",
            "not reproducible; --measure SECONDS reports it",
        ),
    ],
)
def test_what_was_not_measured_does_not_hold_and_says_so(text: str, why: str) -> None:
    found = outcome(text, PAPER)
    assert (found.holds, found.value, found.why) == (False, None, why)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hardware.sample.package_w<=10", "RAPL counters need root"),
        ("hardware.ceilings.compute[1].flops_per_s>1", "too slow to measure"),
        ("layers[conv/0].timing.p50_s<=1s", "after the first operator window"),
        ("peak_memory.kv_cache<=1", "forward returned no cache"),
    ],
)
def test_what_is_not_known_gives_the_reason_of_the_report(text: str, why: str) -> None:
    assert (outcome(text).holds, outcome(text).why) == (False, why)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a check"),
        ("rubbish", "is not a check"),
        ("total_macs", "is not a check"),
        ("<=5", "is not a check"),
        ("total_macs<=", "is not a number"),
        ("total_macs<=five", "is not a number"),
        ("total_macs<=5Q", "is not a limit for total_macs, which is a number"),
        ("total_macs<=5ms", "is not a limit for total_macs, which is a number"),
        ("latency.p50_s<=5M", "which is a time: write 0.5, 0.5s, 10ms"),
        ("total_macs<=5%", "is not a limit for total_macs, which is a number"),
        ("latency.p50_s<=5%", "which is a time: write 0.5, 0.5s, 10ms"),
        ("peak_memory.total<=5%", "which is in bytes: write 5000, 512MiB"),
        ("peak_memory.total<=5s", "which is in bytes: write 5000, 512MiB"),
        ("overhead.ratio<=5K", "which is a share of 0 to 1"),
        ("parameters.tensors[fc].moments.sparsity<=5K", "which is a share of 0 to 1"),
        ("latncy.p50_s<=1", "near it are latency.p50_s"),
        ("latency.p51_s<=1", "near it are latency.p95_s, latency.p50_s"),
        ("latency.p50<=1", "near it are latency.p50_s"),
        ("macs<=1", "near it are"),
        ("peak_memory<=1", "has several figures: peak_memory.parameters"),
        ("layers[conv]<=1", "has several figures: layers[conv].name"),
        ("layers.macs<=1", "no report has layers.macs"),
        ("layers<=1", "is a list: write one entry of it, such as layers[0].name"),
        ("layers[].macs<=1", "write in [] which entries"),
        (
            "serving.first_token_p95_bucket_s<=0.5",
            "is a list: write one entry of it, such as serving.first_token_p95_bucket_s[0]",
        ),
        ("layers[conv]macs<=1", "is not a path such as"),
        (".total_macs<=1", "is not a path such as"),
        ("total_macs=<1", "is not a check"),
    ],
)
def test_what_is_no_check_is_refused_before_anything_is_run(text: str, said: str) -> None:
    with pytest.raises(CheckError) as error:
        parse_check(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layers[cnv].macs<=1", "there is no [cnv]; near it are conv"),
        ("layers[zzz].macs<=1", "there is no [zzz]; there are net, conv"),
        ("layers[type=Nothing].macs<=1", "there is no [type=Nothing]"),
        ("layers[99].macs<=1", "there is no [99]"),
        ("phases[decode].total_macs<=1", "there is no [decode]; the list is empty"),
        ("tracer.method<=fx", "is not a number"),
        ("tracer.method<=5", "only == compares words"),
        ("total_macs==many", 'is a number, "many" is not'),
    ],
)
def test_what_this_report_does_not_have_is_an_error(text: str, said: str) -> None:
    with pytest.raises(CheckError) as error:
        outcome(text)
    assert said in str(error.value)


@given(st.text(max_size=30))
def test_whatever_is_typed_is_a_check_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(CheckError):
        assert parse_check(text).text == text


@pytest.mark.parametrize(
    ("typed", "value", "shown"),
    [
        ("<=2GiB", 2**30, "1GiB"),
        ("<=5G", 4_089_184_256, "4.08918G"),
        ("<=10ms", 0.0364512, "36.4512ms"),
        ("<=50%", 0.25, "25%"),
        # Six digits would say that it is the limit.
        ("<5G", 5_000_000_001, "5.0000000010000001G"),
        ("<=7", None, "–"),
    ],
)
def test_a_figure_is_told_in_the_unit_of_its_limit(typed: str, value: object, shown: str) -> None:
    path = {"%": "overhead.ratio", "s": "latency.p50_s", "B": "total_memory"}
    operator = typed[:2] if typed[1] == "=" else typed[0]
    limit = parse_limit(operator, typed[len(operator) :], path.get(typed[-1], "total_macs"))
    assert as_typed(value, limit) == shown  # type: ignore[arg-type]


def test_the_paths_are_those_of_the_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    assert set(known_paths()) == set(paths(schema, schema))


def test_no_time_is_taken_for_a_rate_and_no_count_for_a_size() -> None:
    assert quantity_of("throughput.per_s") == "rate"
    assert quantity_of("parameters.tensors[].width.error") == "share"
    assert quantity_of("parameters.tensors[].channels.pruned[].loss") == "share"
    assert quantity_of("tracer.attempts[].error") == "number"
    assert quantity_of("hardware.sample.gpus[].pcie_sent_bytes_per_s") == "bandwidth"
    assert quantity_of("energy.forward.seconds") == "time"
    assert quantity_of("layers[].memory") == "bytes"
    assert quantity_of("bottlenecks.memory.ops") == "number"
    assert quantity_of("phases[].peak_memory.total") == "bytes"
    assert quantity_of("train.memory.checkpointing[].recomputed_flops") == "work"


UNITS = {
    "time": ("10ms", 0.01),
    "bytes": ("2GiB", 2 * 2**30),
    "bandwidth": ("10GB/s", 1e10),
    "share": ("50%", 0.5),
    "work": ("5GFLOP", 5e9),
    "speed": ("5TFLOP/s", 5e12),
    "rate": ("800/s", 800.0),
    "energy": ("500mJ", 0.5),
    "power": ("0.3kW", 300.0),
    "frequency": ("1.5GHz", 1.5e9),
    "temperature": ("80C", 80.0),
    "mass": ("500mg", 0.5),
    "number": ("5k", 5e3),
}


def test_every_figure_takes_the_units_that_it_is_counted_in_and_names_them() -> None:
    """An entry of a list too: no unit was taken behind ``[1]``."""
    for path in known_paths():
        text, value = UNITS[quantity_of(path)]
        assert parse_limit("<=", text, path).value == pytest.approx(value)
        with pytest.raises(CheckError) as refused:
            parse_limit("<=", "1 parsec", path)
        proposals = re.split(r", | or ", str(refused.value).partition(": write ")[2])
        assert len(proposals) > 1
        for one in proposals:
            assert parse_limit("<=", one, path).value is not None


@pytest.mark.parametrize(
    ("path", "quantity"),
    [
        ("serving.first_token_p95_bucket_s[]", "time"),
        ("generation.cache.layers_bytes[]", "bytes"),
        ("train.memory.peak", "bytes"),
        ("train.mfu", "share"),
        ("serving.kv_cache_usage", "share"),
        ("hardware.sample.gpus[].power_w", "power"),
        ("energy.forward.joules", "energy"),
        ("hardware.sample.gpus[].temperature_celsius", "temperature"),
    ],
)
def test_what_a_figure_is_counted_in(path: str, quantity: str) -> None:
    assert path in known_paths()
    assert quantity_of(path) == quantity


def test_a_unit_behind_an_index_is_compared() -> None:
    report = {**RUN, "serving": {"first_token_p95_bucket_s": [0.1, 0.25]}}
    assert outcome("serving.first_token_p95_bucket_s[1]<=500ms", report).holds
    assert not outcome("serving.first_token_p95_bucket_s[1]<=200ms", report).holds


def test_the_table_has_every_check() -> None:
    texts = ("total_macs<=9.5K", "latency.p50_s<=1ms", "peak_memory.total<=2GiB")
    found = tuple(outcome(text, PAPER) for text in texts)
    lines = check_lines(found, 100)
    assert [line.split() for line in lines[:4]] == [
        ["check", "value", "limit", "holds"],
        ["total_macs", "9.472K", "<=", "9.5K", "yes"],
        ["latency.p50_s", "–", "<=", "1ms", "no"],
        ["peak_memory.total", "1.23605e-05GiB", "<=", "2GiB", "yes"],
    ]
    assert lines[4:] == ("latency.p50_s: not measured; --measure SECONDS does",)


def test_where_all_hold_there_is_one_line() -> None:
    assert check_lines((outcome("total_macs<=1G"),), 100) == ("the check passed",)
    assert check_lines((outcome("total_macs<=1G"),) * 3, 100) == ("3 checks passed",)


def test_a_report_for_reading_has_the_checks_first() -> None:
    more = (checks_section((outcome("total_macs<=1"), outcome("total_macs<=1G"))),)
    assert "1. checks -- 1 of 2 failed" in full_text(folded(TRACED), columns=100, more=more)
    markdown = full_markdown(folded(TRACED), more=more).splitlines()
    assert markdown.index("## checks") < markdown.index("## executive summary")
    assert r"| total_macs | 9472 | &lt;= 1 | no |" in markdown

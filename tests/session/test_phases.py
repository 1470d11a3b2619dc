"""A model with two forwards: its trees, which one is looked at, and what the report says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from tests.small_model import COSTS, DONE, FACTS, NODES, TRACED, folded, tick
from tui_profiler import messages
from tui_profiler.queries.cost.totals import known_peak_bytes, peak_bytes
from tui_profiler.queries.panel.phrases import input_text, last_events
from tui_profiler.queries.time.forward_kinds import other_phase, phase, why_one_phase
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.full import full_text
from tui_profiler.reports.text.table import table

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "report.schema.json"
KEPT = messages.TraceDone(
    (), (), (), messages.PeakMemory(1.0, 2.0, 4.0, 8.0, -1, 0, 0, kv_cache=16.0)
)


def traced(
    name: messages.Phase, count: int, done: messages.TraceDone = DONE
) -> tuple[messages.Message, ...]:
    given = (messages.InputSpec("input_ids", (1, count), "int64", "test"),)
    started = messages.TraceStarted(len(NODES), "dispatch:fake", name, given)
    return (started, messages.Nodes(NODES, COSTS), done)


BOTH = (FACTS, *traced("prefill", 128), *traced("decode", 1, KEPT))
RUNNING = messages.LoopState("running", 1.0, 1, phase="prefill")


def test_the_prefill_is_looked_at_first() -> None:
    session = folded(BOTH)
    assert (phase(session), other_phase(session)) == ("prefill", "decode")
    assert session.tree is session.phases[0]
    assert input_text(session) == "prefill 1×128 i64"


def test_the_phase_that_runs_is_looked_at_without_the_times_of_the_other() -> None:
    session = folded((*BOTH, RUNNING, tick({0: (0.5, 0.1)})))
    assert session.timings is not None
    other = folded((messages.LoopState("running", 2.0, 1, phase="decode"),), session)
    assert (phase(other), other_phase(other)) == ("decode", "prefill")
    assert (other.timings, other.history.ticks) == (None, ())
    assert input_text(other) == "decode 1×1 i64"


def test_a_loop_that_goes_on_keeps_its_times() -> None:
    session = folded(
        (
            *BOTH,
            RUNNING,
            tick({0: (0.5, 0.1)}),
            messages.LoopState("paused", 3.0, 1, phase="prefill"),
        )
    )
    assert session.timings is not None


def test_a_new_trace_replaces_both_trees() -> None:
    assert folded((*BOTH, *traced("prefill", 64))).phases[0].inputs[0].shape == (1, 64)
    assert len(folded((*BOTH, *traced("prefill", 64))).phases) == 1
    assert folded((*BOTH, *TRACED)).phases == ()
    assert [tree.phase for tree in folded((*BOTH, *BOTH)).phases] == ["prefill", "decode"]


def test_a_model_with_one_forward_has_no_phases() -> None:
    session = folded(TRACED)
    assert (phase(session), other_phase(session)) == ("", "")
    assert json.loads(json_report(session))["phases"] == []


def test_the_cache_is_part_of_the_peak() -> None:
    assert peak_bytes(KEPT.peak_memory) == known_peak_bytes(KEPT.peak_memory) == 31.0


def test_the_report_lists_both_and_follows_its_schema() -> None:
    report = json.loads(json_report(folded(BOTH)))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(report)
    prefill, decode = report["phases"]
    assert (prefill["phase"], decode["phase"]) == ("prefill", "decode")
    assert decode["peak_memory"]["kv_cache"] == 16.0
    assert prefill["total_macs"] == report["total_macs"] == COSTS[0].macs
    assert decode["inputs"][0]["shape"] == [1, 1]


def test_a_decode_phase_that_is_missing_is_said_everywhere() -> None:
    why = "its forward returns no cache"
    session = folded((FACTS, *traced("", 128), messages.NoDecode(why)))
    report = json.loads(json_report(session))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(report)
    assert report["unavailable"]["phases[phase=decode]"] == why
    assert f"decode unavailable: {why}" in "\n".join(table(session, columns=120))
    assert f"decode unavailable: {why}" in full_text(session, columns=100)
    assert why_one_phase(session) == last_events(session)[0] == f"no decode phase: {why}"
    again = folded((*traced("prefill", 64), *traced("decode", 1, KEPT)), session)
    assert "no decode" not in full_text(again, columns=100) + why_one_phase(again)
    assert last_events(again)[0] != last_events(session)[0]


def test_the_table_has_a_line_for_each() -> None:
    text = "\n".join(table(folded(BOTH), columns=120))
    assert "prefill 1×128" in text
    assert "decode 1×1" in text
    assert "peak 31 B" in text

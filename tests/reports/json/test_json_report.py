"""The JSON report: the contract that other programs read."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests.reports.json.schema_parts import part_of
from tests.small_model import (
    CEILINGS,
    COSTS,
    DONE,
    FACTS,
    MEASURED,
    NODES,
    SAMPLE,
    TICK,
    TRACED,
    UNEVEN,
    folded,
    tick,
)
from tui_profiler import messages
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.json.sections.measured import LEFT_OUT, NOT_CALLED
from tui_profiler.reports.text.table import table
from tui_profiler.session import EMPTY, Session

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[3] / "docs" / "report.schema.json").read_text()
)
PROMISED = """schema environment model source weights tracer inputs total_parameters total_macs
    total_flops total_memory arithmetic_intensity peak_memory coverage breakdown bottlenecks layers
    latency throughput overhead hardware energy unavailable"""
PROMISED_OF_A_LAYER = """name path kind type depth calls parameters macs flops memory input_bytes
    weight_bytes output_bytes output_shape arithmetic_intensity bottleneck"""
PROMISED_OF_TIMING = "calls mean_s p50_s p95_s max_s self_s share"

SESSIONS: list[tuple[str, tuple[messages.Message, ...]]] = [
    ("traced", TRACED),
    ("measured", MEASURED),
    ("failed while running", (*TRACED, messages.Failed("run", "out of memory", "conv"))),
    ("measured without ceilings", (*TRACED, TICK)),
    (
        "nothing finished",
        (*TRACED, messages.StageDone("first run", 3.0, 1.0), tick({}, forwards=0)),
    ),
]


def report(session: Session, top: int | None = None) -> dict[str, object]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    read: dict[str, object] = json.loads(json_report(session, top=top), parse_constant=refuse)
    return read


@pytest.mark.parametrize("said", [m for _, m in SESSIONS], ids=[name for name, _ in SESSIONS])
def test_a_report_follows_its_schema(said: tuple[messages.Message, ...]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(report(folded(said)))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_knows_every_name_of_a_report() -> None:
    # Advice, values and least times on a device are there when they are asked for; memory does not
    # run out, nothing is compiled, and no server is read.
    others = {"findings", "values", "on", "out_of_memory", "compilation", "serving"}
    assert set(part_of(SCHEMA)["properties"]) == {*report(folded(MEASURED))} | others


def test_a_report_has_every_promised_name() -> None:
    assert set(PROMISED.split()) <= set(report(folded(MEASURED)))


def test_a_layer_has_every_promised_name() -> None:
    (layer, *_) = layers(folded(MEASURED))
    assert set(PROMISED_OF_A_LAYER.split()) <= set(layer)


def layers(session: Session, top: int | None = None) -> list[dict[str, object]]:
    found = report(session, top)["layers"]
    assert isinstance(found, list)
    return found


def test_the_timing_of_a_layer_has_every_promised_name() -> None:
    timing = layers(folded(MEASURED))[1]["timing"]
    assert isinstance(timing, dict)
    assert set(PROMISED_OF_TIMING.split()) <= set(timing)


def test_a_run_without_times_gives_every_layer_a_timing_of_null() -> None:
    cold = (*TRACED, messages.StageDone("first run", 3.0, 1.0), tick({}, forwards=0))
    assert {layer["timing"] for layer in layers(folded(cold))} == {None}


def test_a_report_is_one_line_of_ascii() -> None:
    text = json_report(folded(MEASURED))
    assert "\n" not in text
    assert text.isascii()


def test_totals_are_those_of_the_root() -> None:
    found = report(folded(TRACED))
    names = ("total_parameters", "total_macs", "total_flops", "total_memory")
    assert [found[name] for name in names] == [2678, 9472, 18964, 13728]


def test_layers_are_in_preorder_with_their_depths() -> None:
    assert [(layer["path"], layer["depth"]) for layer in layers(folded(TRACED))] == [
        ("", 0),
        ("conv", 1),
        ("conv/0", 2),
        ("fc", 1),
        ("fc/0", 2),
        ("act", 1),
        ("act/0", 2),
        ("/0", 1),
    ]


def test_coverage_names_what_is_not_costed() -> None:
    assert report(folded(TRACED))["coverage"] == {
        "ops": 4,
        "costed": 3,
        "uncosted": ["mine::strange"],
        "bounded": [],
    }


def test_every_attempt_at_tracing_is_told() -> None:
    no_graph = {"variant": None, "graphs": None, "graph_breaks": None}
    fake = {"method": "dispatch:fake", "seconds": 0.25, "error": "a value was asked for"}
    real = {"method": "dispatch:real", "seconds": 0.125, "error": None}
    assert report(folded(MEASURED))["tracer"] == {
        "method": "dispatch:real",
        "attempts": [fake | no_graph, real | no_graph],
    }


def test_without_measuring_it_has_no_seconds_of_ours_and_says_why() -> None:
    found = report(folded(TRACED))
    tracer, stages, unavailable = found["tracer"], found["stages"], found["unavailable"]
    assert isinstance(tracer, dict)
    assert isinstance(stages, list)
    assert isinstance(unavailable, dict)
    assert [one["seconds"] for one in (*tracer["attempts"], *stages)] == [None] * 3
    for path in ("tracer.attempts[].seconds", "stages[].seconds"):
        assert unavailable[path] == "not reproducible; --measure SECONDS reports it"


def test_times_are_seconds() -> None:
    timing = layers(folded(MEASURED))[1]["timing"]
    assert isinstance(timing, dict)
    assert (timing["mean_s"], timing["share"]) == (pytest.approx(0.0005), pytest.approx(0.5))


def test_seconds_per_call_and_per_forward_are_told_apart() -> None:
    """``act`` takes 0.15 ms per forward of 1 ms, in two calls of 0.07 and 0.08 ms."""
    session = folded(UNEVEN)
    timing = next(layer for layer in layers(session) if layer["name"] == "act")["timing"]
    assert isinstance(timing, dict)
    assert (timing["calls"], timing["p50_s"], timing["max_s"]) == (
        200,
        pytest.approx(0.00007),
        pytest.approx(0.0002),
    )
    assert timing["mean_s"] == pytest.approx(0.015 / 200)
    assert timing["share"] == pytest.approx(0.15)
    latency = report(session)["latency"]
    assert isinstance(latency, dict)
    assert latency["mean_s"] == pytest.approx(0.0011)


def test_disk_and_network_have_the_figures_of_their_names() -> None:
    """Each field of the sample's traffic has another value; by the names that the schema has."""
    values = {
        name: float(2**place) for place, name in enumerate(messages.Traffic.__struct_fields__)
    }
    session = folded((*MEASURED, replace(SAMPLE, traffic=messages.Traffic(**values))))
    hardware = report(session)["hardware"]
    assert isinstance(hardware, dict)
    told = hardware["sample"]["traffic"]
    assert told == {f"{name}_per_s": value for name, value in values.items()}


def test_without_measuring_layers_have_no_timing() -> None:
    assert all("timing" not in layer for layer in layers(folded(TRACED)))


@pytest.mark.parametrize(
    ("said", "path", "reason"),
    [
        (TRACED, "latency", "not measured; --measure SECONDS does"),
        (MEASURED, "energy.forward", "this recording is older than the figure"),
        (MEASURED, "energy.counters", "this recording is older than the figure"),
        (MEASURED, "energy.grid_g_per_kwh", "no --grid-intensity was given"),
        (TRACED, "energy", "not measured; --measure SECONDS does"),
        (MEASURED, "hardware.sample.package_w", "RAPL counters need root"),
        (MEASURED, "hardware.sample.gpus", "no NVIDIA driver on this machine"),
        (MEASURED, "hardware.ceilings.compute[1].flops_per_s", "too slow to measure"),
        (
            MEASURED,
            "layers[kind=op].timing",
            "after the first operator window",
        ),
    ],
)
def test_what_is_null_has_its_reason(
    said: tuple[messages.Message, ...], path: str, reason: str
) -> None:
    unavailable = report(folded(said))["unavailable"]
    assert isinstance(unavailable, dict)
    assert unavailable[path] == reason


def test_a_module_without_times_may_be_one_that_was_left_out() -> None:
    few = tick({0: (0.001, 0.001)})
    path = "layers[kind=module].timing"

    reasons = [
        report(folded((*TRACED, one)))["unavailable"] for one in (few, replace(few, left_out=3))
    ]

    assert [one[path] for one in reasons if isinstance(one, dict)] == [NOT_CALLED, LEFT_OUT]


def test_an_unknown_peak_is_null_with_its_reason() -> None:
    peak = replace(DONE.peak_memory, workspace=messages.Unknown("not modelled on cuda"))
    found = report(folded((*TRACED[:-1], replace(DONE, peak_memory=peak))))
    memory, unavailable = found["peak_memory"], found["unavailable"]
    assert isinstance(memory, dict)
    assert isinstance(unavailable, dict)
    assert (memory["total"], unavailable["peak_memory.total"]) == (None, "not modelled on cuda")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "no two consecutive forwards"),
        (math.inf, "the figure is not a finite number"),
    ],
)
def test_a_figure_that_is_not_finite_is_null(value: float, reason: str) -> None:
    found = report(folded((*TRACED, replace(TICK, per_second=value))))
    unavailable = found["unavailable"]
    assert isinstance(unavailable, dict)
    assert found["throughput"] == {"per_s": None, "provenance": "counted"}
    assert unavailable["throughput.per_s"] == reason


def test_a_hostile_name_is_escaped_and_read_back_exactly() -> None:
    name = "\x1b]52;c;x\x07\x7f\x9b\u202e[/nope]"
    nodes = (replace(NODES[0], name=name),)
    session = folded(
        (FACTS, messages.TraceStarted(1, "dispatch:fake"), messages.Nodes(nodes, COSTS[:1]), DONE)
    )
    text = json_report(session)
    assert text.isprintable()
    assert json.loads(text)["layers"][0]["name"] == name


def test_a_throughput_says_whether_it_was_counted() -> None:
    share = messages.Overhead(0.01, 0.0, 0.02, pairs=0, share=0.05)
    found = [report(folded(said))["throughput"] for said in (MEASURED, (*MEASURED, share))]

    assert found == [
        {"per_s": 800.0, "provenance": provenance} for provenance in ("counted", "estimated")
    ]


def test_only_the_most_expensive_layers_are_given() -> None:
    assert [layer["path"] for layer in layers(folded(TRACED), top=2)] == ["conv", "fc"]


def test_a_failure_is_told_with_what_was_learned() -> None:
    found = report(folded((*TRACED, CEILINGS, messages.Failed("run", "out of memory", "conv"))))
    failure = found["failure"]
    assert (failure["stage"], failure["what"], failure["where"]) == ("run", "out of memory", "conv")
    assert (failure["why"], failure["remedies"], failure["bad_argument"]) == (None, [], False)


def test_without_a_tree_there_is_no_report() -> None:
    with pytest.raises(ValueError, match="not traced"):
        json_report(EMPTY)


def test_work_that_was_not_seen_is_null_with_its_reason_and_never_0() -> None:
    why = "compiled by torch.compile: its operators are not seen"
    names = ("macs", "flops", "input_bytes", "weight_bytes", "output_bytes")
    nothing = {**dict.fromkeys(names, 0), "ops": 1, "uncosted": 1}
    costs = tuple(replace(cost, **nothing) for cost in COSTS)
    traced = (
        FACTS,
        messages.TraceStarted(len(NODES), "dispatch:real"),
        messages.Nodes(NODES, costs),
    )
    done = replace(DONE, uncosted=(why,))
    session = folded((*traced, done, *MEASURED[len(TRACED) :]))
    found = report(session)
    reasons = found["unavailable"]
    assert isinstance(reasons, dict)
    for name in ("total_macs", "total_flops", "total_memory", "arithmetic_intensity"):
        assert found[name] is None
        assert reasons[name] == f"not counted: {why}"
    assert {layer["macs"] for layer in layers(session)} == {None}
    for name in ("energy.on_paper", "bottlenecks.overhead.ops", "layers[].macs"):
        assert reasons[name] == f"not counted: {why}"
    # Nothing that is known explains its time, and that is said, not that calls do.
    bottlenecks = found["bottlenecks"]
    assert isinstance(bottlenecks, dict)
    shares = {kind: one["time_share"] for kind, one in bottlenecks.items()}
    assert shares == {
        "compute": 0.0,
        "memory": 0.0,
        "overhead": 0.0,
        **dict.fromkeys(("python", "faults", "blocked")),
        "unexplained": 1.0,
        "waiting": 0.0,
    }
    assert {layer["bottleneck"] for layer in layers(session) if layer["kind"] == "module"} == {
        "unexplained"
    }
    jsonschema.validate(found, SCHEMA)
    text = " ".join(table(session, columns=120))
    assert "0 MAC" not in text
    assert f"work             – not counted: {why}" in text


BOUNDED = (*TRACED[:-1], replace(DONE, bounded=("aten::nonzero",)))
REAL = messages.RealCost(replace(COSTS[0], macs=700, flops=1500, ops=9))


def shown(session) -> str:
    return "\n".join(table(session, columns=100))


def test_figures_of_a_real_run_are_beside_the_bounds() -> None:
    session = folded((*BOUNDED, REAL))

    found = report(session)

    assert found["total_macs"] == COSTS[0].macs
    moved = REAL.cost.input_bytes + REAL.cost.weight_bytes + REAL.cost.output_bytes
    assert found["real_run"] == {
        "total_macs": 700,
        "total_flops": 1500,
        "total_memory": moved,
        "ops": 9,
    }
    assert "700 MAC  1.50 KFLOP in one real run with these inputs" in shown(session)


def test_where_there_is_no_real_run_its_reason_is_told() -> None:
    for said, reason in (
        (TRACED, "not needed: the totals are the same in every run"),
        (BOUNDED, "not measured; --measure SECONDS does"),
        ((*BOUNDED, messages.RealCost(None, "ValueError: no box")), "ValueError: no box"),
    ):
        found = report(folded(said))
        assert found["real_run"] is None
        assert found["unavailable"]["real_run"] == reason


def test_a_new_tree_forgets_the_real_run() -> None:
    session = folded((*BOUNDED, REAL, messages.TraceStarted(len(NODES), "dispatch:fake")))

    assert session.real is None


def test_a_real_run_that_failed_is_told_in_the_table() -> None:
    assert "a real run failed: ValueError: no box" in shown(
        folded((*BOUNDED, messages.RealCost(None, "ValueError: no box")))
    )

"""Every figure of the JSON report stands under its own name: no two of them are the same."""

from __future__ import annotations

import json
import math
from array import array
from typing import Annotated

import pytest
from msgspec import Struct
from msgspec.structs import asdict, replace

from tests.machine_session import ALLOCATOR, COUNTERS, FULL, GPU, IDLE, RUNNING, measured, totals
from tests.small_model import (
    ACT,
    CONV,
    DONE,
    MEASURED,
    ROOT,
    TICK,
    TRACED,
    UNEVEN,
    folded,
    with_cpu_times,
)
from tui_profiler import messages
from tui_profiler.messages import Unknown
from tui_profiler.queries.time.node_seconds import NO_CPU_TIME
from tui_profiler.queries.training.step import NO_STEP
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.json.sections import measured as json_measured
from tui_profiler.reports.json_values import (
    EACH,
    NOT_FINITE,
    TOLD_ABOVE,
    Known,
    OfSome,
    entries,
    one_line,
    plain,
)
from tui_profiler.session import Session, apply


class Part(Struct):
    a: Known[float]
    b: Known[int]
    c: Known[float]
    d: Known[float]


class Whole(Struct):
    parts: Annotated[list[Part], EACH]
    unavailable: dict[str, str]


class Named(Struct):
    plain: list[Known[float]]
    parts: Annotated[list[Part], entries("b is {b}")]
    unavailable: dict[str, str]


UNIT_AT_THE_END = {"celsius": "celsius", "hertz": "hz", "watts": "w", "joules": "j"}


def named(field: str) -> str:
    """Return the report's name of a field of ours: its unit in the short form."""
    *words, last = field.split("_")
    return "_".join([*words, UNIT_AT_THE_END.get(last, last)])


def test_the_first_reason_of_a_null_stands_and_it_is_never_0() -> None:
    first = Part(a=messages.Unknown("no counter"), b=None, c=float("inf"), d=0.0)
    second = Part(
        a=messages.Unknown("later"), b=messages.Unknown("later"), c=1, d=OfSome("idle", "d=1")
    )
    found = plain(Whole(parts=[first, second], unavailable={"e": "not asked"}))
    assert found["parts"] == [
        {"a": None, "b": None, "c": None, "d": 0.0},
        {"a": None, "b": None, "c": 1, "d": None},
    ]
    assert found["unavailable"] == {
        "e": "not asked",
        "parts[].a": "no counter",
        "parts[].b": "not measured",
        "parts[].c": NOT_FINITE,
        "parts[d=1].d": "idle",
    }


def test_entries_are_named_by_their_place_or_as_their_field_says() -> None:
    named = Named(
        plain=[1.0, messages.Unknown("no second core")],
        parts=[Part(a=messages.Unknown("no counter"), b=1, c=TOLD_ABOVE, d=1)],
        unavailable={},
    )
    assert plain(named)["unavailable"] == {
        "plain[1]": "no second core",
        "parts[b is 1].a": "no counter",
    }


def test_a_number_that_json_does_not_have_is_null_wherever_it_stands() -> None:
    found = json.loads(one_line({"a": [{"b": math.nan}], "unavailable": {}}))
    assert found == {"a": [{"b": None}], "unavailable": {"a[0].b": "it is nan"}}


def test_each_time_of_a_layer_has_its_own_name() -> None:
    """``act`` of ``UNEVEN``, with its own time apart from what is inside."""
    floats = array("f", memoryview(TICK.own_per_forward).cast("f"))
    own = array("d", memoryview(TICK.own).cast("d"))
    position = list(memoryview(TICK.nodes).cast("I")).index(ACT)
    floats[position], own[position] = 0.00004, 0.006
    tick = next(m for m in UNEVEN if type(m) is type(TICK))
    mean = array("f", memoryview(TICK.per_forward).cast("f"))
    own_mean = array("f", floats)
    mean[position], own_mean[position] = 0.00016, 0.00006
    tick = replace(tick, own_per_forward=floats.tobytes(), own=own.tobytes(), window=64)
    # Of an older recording, which has medians alone, means are over all forwards.
    older_tick = replace(tick, mean_per_forward=b"", own_mean_per_forward=b"")
    older = json_measured.timing(folded((*UNEVEN, older_tick)), ACT)
    assert isinstance(older, json_measured.Timing)
    assert (older.mean_per_forward_s, older.self_mean_s) == pytest.approx((0.00015, 0.00006))
    means = {"mean_per_forward": mean.tobytes(), "own_mean_per_forward": own_mean.tobytes()}
    found = json_measured.timing(folded((*UNEVEN, replace(tick, **means))), ACT)
    assert isinstance(found, json_measured.Timing)
    # 100 forwards of two calls; total 15 ms of them, 6 ms outside modules inside.
    assert asdict(found) == {
        "calls": 200,
        "mean_s": pytest.approx(0.000075),
        "p50_s": pytest.approx(0.00007),
        "p95_s": pytest.approx(0.00008),
        "max_s": pytest.approx(0.0002),
        "self_s": pytest.approx(0.00004),
        "per_forward_s": pytest.approx(0.00015),
        "self_mean_s": pytest.approx(0.00006),
        "total_mean_s": pytest.approx(0.00016),
        "mean_per_forward_s": pytest.approx(0.00016),
        "share": pytest.approx(0.16),
        "base_share": pytest.approx(0.16),
        "self_base_share": pytest.approx(0.06),
        "cpu_mean_s": Unknown(NO_CPU_TIME),
        "self_cpu_mean_s": Unknown(NO_CPU_TIME),
        "backward_mean_s": Unknown(NO_STEP),
        "recompute_mean_s": Unknown(NO_STEP),
    }


def test_cpu_time_stands_beside_wall_time_and_a_node_without_says_why() -> None:
    cpu = {ROOT: (0.0008, 0.0001), CONV: (0.00045, 0.00045)}
    found = as_json(folded((*MEASURED, with_cpu_times(TICK, cpu))))
    layers = {layer["path"]: layer["timing"] for layer in found["layers"]}
    assert layers[""]["cpu_mean_s"] == pytest.approx(0.0008)
    assert layers[""]["self_cpu_mean_s"] == pytest.approx(0.0001)
    assert layers["conv"]["cpu_mean_s"] == pytest.approx(0.00045)
    assert layers["fc"]["cpu_mean_s"] is None
    why = [reason for path, reason in found["unavailable"].items() if "cpu_mean_s" in path]
    assert "not called in the forwards that read CPU time" in why
    without = as_json(folded(MEASURED))
    assert without["layers"][0]["timing"]["cpu_mean_s"] is None
    assert NO_CPU_TIME in without["unavailable"].values()


def test_latency_and_overhead_have_their_own_names() -> None:
    tick = replace(TICK, latency_p50=0.001, latency_p95=0.002, others=7, cold=False)
    found = as_json(folded((*MEASURED, tick, messages.Overhead(0.008, 0.002, 0.014, 12))))
    latency, overhead = found["latency"], found["overhead"]
    assert (latency["p50_s"], latency["p95_s"], latency["mean_s"]) == (
        0.001,
        0.002,
        pytest.approx(0.001),
    )
    assert (latency["forwards"], latency["warmup_forwards"]) == (100, 3)
    assert latency["other_forwards"] == 7
    assert overhead == {"ratio": 0.008, "interval": [0.002, 0.014], "pairs": 12}


def test_before_a_forward_is_in_the_times_there_is_no_latency_but_a_reason() -> None:
    found = as_json(
        folded(
            (
                *TRACED,
                replace(
                    TICK,
                    forwards=0,
                    nodes=b"",
                    calls=b"",
                    total=b"",
                    own=b"",
                    last=b"",
                    p50=b"",
                    p95=b"",
                    maximum=b"",
                    per_forward=b"",
                    own_per_forward=b"",
                ),
            )
        )
    )
    assert found["latency"] is found["throughput"] is None
    assert found["unavailable"]["latency"]


def gpu_of_distinct_figures() -> messages.Gpu:
    figures = {
        name: float(place)
        for place, name in enumerate(messages.Gpu.__struct_fields__, start=100)
        if isinstance(getattr(GPU, name), float | messages.Unknown)
    }
    return replace(GPU, **figures, index=3, cuda_index=1, throttled_by="power")


def gpu_report(gpu: messages.Gpu) -> dict[str, object]:
    return as_json(measured(replace(FULL, gpus=(gpu,))))["hardware"]["sample"]["gpus"][0]


def test_each_figure_of_a_gpu_has_its_own_name() -> None:
    gpu = gpu_of_distinct_figures()
    found = gpu_report(gpu)
    told = {
        named(name): getattr(gpu, name)
        for name in messages.Gpu.__struct_fields__
        if isinstance(getattr(gpu, name), float)
    }
    told["temperature_celsius"] = told.pop("temperature_celsius")
    for name in ("pcie_sent_bytes", "pcie_received_bytes"):
        told[f"{name}_per_s"] = told.pop(name)
    assert {name: value for name, value in found.items() if isinstance(value, float)} == told
    assert (found["index"], found["cuda_index"]) == (3, 1)
    assert found["throttled_by"] == "power"
    assert found["processes"][0]["pid"] == 42
    unknown = gpu_report(replace(gpu, throttled_by=messages.Unknown("no turn yet")))
    assert unknown["throttled_by"] is None
    old = gpu_report(replace(gpu, index=-1, uuid="", cuda_index=None))
    assert (old["index"], old["uuid"], old["cuda_index"]) == (None, None, None)


def test_a_slice_of_a_gpu_and_its_processes_keep_their_bytes_apart() -> None:
    gpu = replace(
        GPU,
        mig=(messages.MigDevice("slice", "MIG-1", 5.0, 9.0, 2),),
        processes=(messages.GpuProcess(7, 11.0, 0.5),),
    )
    found = gpu_report(gpu)
    assert found["mig"] == [
        {
            "name": "slice",
            "uuid": "MIG-1",
            "cuda_index": 2,
            "memory_bytes": 5.0,
            "memory_total_bytes": 9.0,
        }
    ]
    assert found["processes"] == [{"pid": 7, "memory_bytes": 11.0, "utilisation": 0.5}]


def test_each_figure_of_the_sample_has_its_own_name() -> None:
    sample = replace(
        FULL,
        cores=(messages.Core(0.25), messages.Core(0.75)),
        frequency_hertz=1.0,
        memory_bytes=2,
        memory_total_bytes=3,
        process_bytes=4.0,
        process_peak_bytes=5.0,
        process_cpu=6.0,
        process_threads=7.0,
        package_watts=8.0,
    )
    session = measured(sample)
    found = as_json(session)["hardware"]["sample"]
    assert found["core_utilisation"] == [0.25, 0.75]
    names = (
        *("frequency_hz", "memory_bytes", "memory_total_bytes", "process_bytes"),
        *("process_peak_bytes", "process_cores", "process_threads", "package_w"),
    )
    assert [found[name] for name in names] == [float(place) for place in range(1, 9)]
    counters = found["counters"]
    assert (counters["seconds"], counters["counted_share"]) == (1.0, 0.5)
    for name in ("instructions", "cycles", "cache_references", "cache_misses", "last_level_loads"):
        assert counters[name] == getattr(COUNTERS, name)
    assert counters["instructions_per_cycle"] == 3.0
    assert counters["cache_miss_share"] == 0.25
    (allocator,) = found["allocators"]
    assert allocator["device"] == "cuda:0"
    for name in ALLOCATOR.__struct_fields__[1:]:
        assert allocator[name] == getattr(ALLOCATOR, name)


def test_what_a_machine_does_not_tell_is_null_and_no_empty_list() -> None:
    why = "no CUDA here"
    found = as_json(
        measured(replace(FULL, allocators=messages.Unknown(why), gpus=messages.Unknown(why)))
    )
    sample, unavailable = found["hardware"]["sample"], found["unavailable"]
    for name in ("allocators", "gpus"):
        assert sample[name] is None
        assert unavailable[f"hardware.sample.{name}"] == why


def test_a_cache_is_told_with_the_cores_that_share_it() -> None:
    session = measured()
    assert session.environment is not None
    environment = replace(session.environment, caches=(messages.Cache(3, 2**25, 4, 2),))
    found = as_json(replace(session, environment=environment))["hardware"]["caches"]
    assert found == [{"level": 3, "bytes": 2**25, "cores": 4, "count": 2}]


def energy(**others: object) -> dict[str, object]:
    return as_json(measured(replace(FULL, **others), grid_grams_per_kwh=360.0))["energy"]


def test_the_energy_of_a_forward_and_of_an_item_differ() -> None:
    session = measured()
    assert session.model is not None
    batch = replace(session, model=replace(session.model, batch=4))
    found = as_json(batch)["energy"]["forward"]
    # 10,000 forwards of 1 ms drew 100 W, 60 W above the idle machine.
    assert (found["joules"], found["joules_per_item"]) == (pytest.approx(0.1), pytest.approx(0.025))
    assert (found["watts"], found["idle_watts"]) == (pytest.approx(100.0), pytest.approx(40.0))
    assert found["above_idle_joules"] == pytest.approx(0.06)
    assert (found["seconds"], found["steps"], found["forwards"]) == (10.0, 100, 10_000.0)
    assert found["flops_per_joule"] == pytest.approx(18964 / 0.1)


def test_what_was_integrated_is_not_said_to_be_counted() -> None:
    integrated = replace(totals(), source="power")
    found = energy(energy=(integrated,))
    assert found["forward"]["provenance"] == "integral of power"
    assert found["counters"][0]["provenance"] == "integral of power"
    assert energy()["counters"][0]["provenance"] == "counter"


def test_a_counter_has_its_accounts_and_no_watts_from_a_window_that_is_too_short() -> None:
    (found,) = energy()["counters"]
    account = {"seconds": 10.0, "joules": 1000.0, "steps": 100, "forwards": 10_000.0}
    assert found["running"] == account
    assert found["idle"]["joules"] == IDLE.joules
    assert (found["watts"], found["idle_watts"]) == (pytest.approx(100.0), pytest.approx(40.0))
    assert found["limit_w"] == 205.0
    few = messages.Account(seconds=10.0, joules=1000.0, steps=3, work=RUNNING.work)
    (short,) = energy(energy=(totals(few),))["counters"]
    assert short["watts"] is None


def test_a_replayed_layer_says_how_often_and_between_what() -> None:
    replays = tuple(messages.Replay(5.0, 1000, joules) for joules in (0.03, 0.034, 0.032))
    message = messages.Replayed(CONV, "processor packages", "counter", replays, 40.0, 0.0005)
    layer = as_json(apply(measured(), message))["layers"][CONV]["energy"]
    assert (layer["provenance"], layer["replays"]) == ("replay", 3)
    assert (layer["low"], layer["joules"], layer["high"]) == (0.03, pytest.approx(0.032), 0.034)


def test_an_estimate_on_paper_has_bounds_and_no_figure() -> None:
    nothing = messages.Unknown("no RAPL counters on this machine")
    report = as_json(measured(replace(FULL, energy=nothing), grid_grams_per_kwh=360.0))
    paper = report["energy"]["on_paper"]
    assert 0 < paper["low_joules"] < paper["high_joules"]
    # 360 g/kWh are 1e-4 g a joule.
    assert paper["low_co2_g"] == pytest.approx(paper["low_joules"] * 1e-4)
    assert paper["high_co2_g"] == pytest.approx(paper["high_joules"] * 1e-4)
    layer = report["layers"][CONV]["energy"]
    assert (layer["provenance"], layer["joules"], layer["replays"]) == ("coefficients", None, 0)


def test_each_part_of_the_peak_has_its_own_name() -> None:
    peak = messages.PeakMemory(
        1.0, 2.0, 4.0, 8.0, CONV, 10, 6, kv_cache=16.0, skipped=1, alive=((CONV, 3),)
    )
    found = as_json(folded((*TRACED[:-1], replace(DONE, peak_memory=peak))))["peak_memory"]
    parts = ("parameters", "buffers", "activations", "workspace", "kv_cache", "total", "at_least")
    assert [found[name] for name in parts] == [1.0, 2.0, 4.0, 8.0, 16.0, 31.0, 31.0]
    assert found["alive"] == [{"path": "conv", "bytes": 3}]
    # Of ten tensors six have a size and one has none that is known: three are views.
    assert found["coverage"] == {
        "tensors": 10,
        "known_dtypes": 10,
        "sized": 6,
        "aliases": 3,
        "skipped": 1,
    }
    unknown = replace(peak, workspace=messages.Unknown("not modelled"), at=-1)
    found = as_json(folded((*TRACED[:-1], replace(DONE, peak_memory=unknown))))["peak_memory"]
    assert (found["total"], found["at_least"], found["at"]) == (None, 23.0, None)


def with_window() -> Session:
    window = messages.MemoryWindow(
        *(1.0, 100, 20, 300, 4),
        array("I", [0, CONV]).tobytes(),
        array("Q", [900, 70]).tobytes(),
        array("Q", [300, 250]).tobytes(),
    )
    said: tuple[messages.Message, ...] = (*MEASURED, window)
    return folded(said)


def test_what_a_forward_allocated_and_what_it_held_are_told_apart() -> None:
    session = with_window()
    assert json_measured.measured_memory(session) == json_measured.MeasuredMemory(
        peak_bytes=420, weights_bytes=100, inputs_bytes=20, allocated_bytes=300, allocations=4
    )
    # While it ran at most 250 bytes were allocated: without weights and inputs.
    assert json_measured.layer_memory(session, CONV) == json_measured.LayerMemory(
        allocated_bytes=70, peak_bytes=250
    )
    assert json_measured.layer_memory(session, ACT) == OfSome(
        "not called in the window", "kind=module"
    )

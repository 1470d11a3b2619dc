"""Hardware and energy in the reports: every figure, and what is measured beside what is not."""

from __future__ import annotations

import json

import jsonschema
import pytest
from msgspec.structs import replace

from tests.machine_session import FULL, GPU, measured, totals
from tests.reports.json.schema_parts import part_of
from tests.reports.json.test_json_report import SCHEMA
from tui_profiler.messages import Account, GpuLinks, MigDevice, Sample, Unknown
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.table import table

SAMPLES = {
    "all": replace(FULL, gpus=(GPU,)),
    "divided": replace(FULL, gpus=(replace(GPU, mig=(MigDevice("s", "", 1.0, 2.0, 0),)),)),
    "short": replace(FULL, energy=(totals(Account(1.0, 100.0, 3, 100.0)),)),
    "nothing": replace(FULL, energy=Unknown("no RAPL counters on this machine")),
}


def report(sample: Sample, **others: float) -> dict[str, object]:
    session = measured(sample, **others)  # type: ignore[arg-type] # of the grid, a float
    read: dict[str, object] = json.loads(json_report(session))
    return read


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_a_report_follows_its_schema(sample: Sample) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(report(sample, grid_grams_per_kwh=360.0))


def part(found: object, *names: str | int) -> object:
    for name in names:
        assert isinstance(found, (dict, list))
        found = found[name]  # type: ignore[index] # a name of an object, a number of a list
    return found


def test_the_names_of_the_schema_are_those_of_the_report() -> None:
    found = report(SAMPLES["all"])
    sections: list[tuple[str | int, ...]] = [
        ("hardware",),
        ("hardware", "sample"),
        ("hardware", "sample", "traffic"),
        ("hardware", "sample", "counters"),
        ("hardware", "sample", "allocators", 0),
        ("hardware", "sample", "temperatures", 0),
        ("hardware", "sample", "throttle"),
        ("hardware", "sample", "gpus", 0),
        ("hardware", "sample", "gpus", 0, "ecc"),
        ("hardware", "sample", "gpus", 0, "links"),
        ("energy",),
        ("energy", "forward"),
        ("energy", "on_paper"),
    ]
    for keys in sections:
        said = part(found, *keys)
        schema = part_of(SCHEMA, *("[]" if key == 0 else str(key) for key in keys))
        assert isinstance(said, dict)
        assert set(said) == set(schema["properties"]) == set(schema["required"])


def test_a_measured_forward_says_what_counted_it() -> None:
    found = report(SAMPLES["all"], grid_grams_per_kwh=360.0)

    forward = part(found, "energy", "forward")
    assert isinstance(forward, dict)
    assert forward["provenance"] == "counter"
    assert forward["joules"] == pytest.approx(0.1)
    assert forward["above_idle_joules"] == pytest.approx(0.06)
    assert forward["co2_g"] == pytest.approx(1e-5)
    assert part(found, "energy", "grid_g_per_kwh") == 360
    assert part(found, "energy", "grid_named") is None
    why = part(found, "unavailable", "energy.grid_named")
    assert why == "grams were given, not a place"


def test_temperature_errors_and_links_have_their_units_and_reasons() -> None:
    found = part(report(SAMPLES["all"]), "hardware", "sample")
    assert part(found, "temperatures") == [
        {"name": "Package id 0", "celsius": 71.5, "critical_celsius": 100.0},
        {"name": "Package id 1", "celsius": 66.0, "critical_celsius": None},
    ]
    assert (part(found, "throttle", "heat_s"), part(found, "throttle", "heat_events")) == (2.5, 12)
    assert part(found, "gpus", 0, "ecc", "aggregate_uncorrected") == 113
    assert part(found, "gpus", 0, "links", "received_bytes_per_s") == 4e9
    why = Unknown("this GPU has no NVLink")
    without = replace(GPU, links=GpuLinks(*[why] * 6))
    bare = report(replace(FULL, gpus=(without,), temperatures=Unknown("no sensor"), throttle=None))
    told = part(bare, "unavailable")
    assert part(told, "hardware.sample.gpus[0].links.active") == why.reason
    assert part(told, "hardware.sample.temperatures") == "no sensor"
    assert part(told, "hardware.sample.throttle") == "this recording is older than the figure"


def test_text_and_markdown_tell_temperature_errors_and_links() -> None:
    session = measured(SAMPLES["all"])
    expected = (
        "Package id 0: 72 °C",
        "12× since boot",
        "fan: 42 %",
        "ECC errors, volatile: 3 corrected, 13 uncorrected",
        "ECC errors, aggregate: 103 corrected, 113 uncorrected",
        "NVLink: 3 of 4 active, 26.6 GB/s each",
        "NVLink, sent: 2.00 GB/s",
        "NVLink, errors: 12",
    )
    for shown in (full_text(session, columns=100), full_markdown(session)):
        assert [words for words in expected if words not in shown] == []
    none = measured(replace(FULL, temperatures=Unknown("no sensor"), gpus=()))
    assert "– (no sensor)" in full_text(none, columns=100)


def test_a_layer_says_if_its_energy_is_measured_or_estimated() -> None:
    by_share = part(report(SAMPLES["all"]), "layers", 1, "energy")
    on_paper = part(report(SAMPLES["nothing"]), "layers", 1, "energy")

    assert isinstance(by_share, dict)
    assert isinstance(on_paper, dict)
    assert (by_share["provenance"], by_share["joules"]) == ("time share", pytest.approx(0.05))
    assert (on_paper["provenance"], on_paper["joules"]) == ("coefficients", None)
    assert on_paper["low"] < on_paper["high"]


def test_a_short_window_is_a_reason_and_no_figure() -> None:
    found = report(SAMPLES["short"])

    assert part(found, "energy", "forward") is None
    assert (
        part(found, "unavailable", "energy.forward")
        == "window too short: 3 counter steps, 10 needed"
    )
    assert part(found, "energy", "counters", 0, "watts") is None


def lines(sample: Sample, grams: float | None = None, named: str = "") -> list[str]:
    session = measured(sample, sample, grid_grams_per_kwh=grams, grid_named=named)
    shown = table(session, columns=100)
    start = next(at for at, line in enumerate(shown) if line.startswith("  threads"))
    return list(shown[start : shown.index("", start)])


def test_the_table_tells_machine_and_energy() -> None:
    assert lines(SAMPLES["all"], 360.0, "Germany 2023") == [
        "  threads          75 % of 2 busy",
        "  peak RSS         768 MiB of the process",
        "  roofline         float32 10.0 GFLOP/s, memory copy 1.00 GB/s, one operator 10.0 µs",
        "  cache misses     25 % of references",
        "  temperature      Package id 0 72 °C",
        "                   Package id 1 66 °C",
        "  cuda:0           600 B allocated, 0.98 KiB reserved, 25 % fragmented",
        "  gpu              0: NVIDIA Fake  cuda:0, 37 % busy, 312 W, 13 uncorrected ECC errors",
        "  energy           100 mJ per forward, from the counter over 10.0 s: processor packages",
        "                   60.0 mJ above idle (40.0 W)",
        "                   190 KFLOP/J",
        "                   1e-05 g CO₂ at 360 g/kWh, Germany 2023",
    ]


def test_the_table_marks_what_is_estimated() -> None:
    shown = lines(SAMPLES["nothing"])

    assert shown[-2:] == [
        "  energy           – no RAPL counters on this machine",
        "                   ~220 nJ to ~4.5 µJ on paper, by Horowitz, ISSCC 2014, 45 nm at 0.9 V",
    ]

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from tests.queries.cost.test_ceilings import BAD, CEILINGS, GOOD
from tests.small_model import MEASURED
from tui_profiler.messages import Ceilings, RoofQuality, Unknown
from tui_profiler.reports.ceilings import ceilings_report_json, ceilings_table, ceilings_words
from tui_profiler.reports.text.full import full_text
from tui_profiler.session import EMPTY, Session, apply

DOCS = Path(__file__).resolve().parents[2] / "docs"
VALIDATOR = Draft202012Validator(json.loads((DOCS / "ceilings.schema.json").read_text()))
DOUBTED = replace(CEILINGS, memory_quality=BAD)
RAISED = replace(GOOD, raised_by="layer1.0.conv1 reached 12 % more")


def report(found: Ceilings) -> dict[str, object]:
    made: dict[str, object] = json.loads(ceilings_report_json(found, None))
    VALIDATOR.validate(made)
    return made


def table(found: Ceilings) -> str:
    return "\n".join(ceilings_table(found, None, 3601.0))


def with_ceilings(found: Ceilings) -> Session:
    session = EMPTY
    for message in MEASURED:
        session = apply(session, found if isinstance(message, Ceilings) else message)
    return session


def test_every_roof_says_how_it_was_measured() -> None:
    found = report(DOUBTED)
    assert found["memory"] == {
        "quality": "not good enough",
        "why_not_good": "2 of 100 pieces ran without waiting",
        "busy": 0.9,
        "measured_at": 1.0,
        "raised_by": None,
        "scaled": None,
    }
    assert found["operator"]["quality"] == "good"  # type: ignore[index]  # an object
    assert found["waits_from"] == "schedstat"
    caches = found["caches"]
    assert isinstance(caches, list)
    assert [(one["level"], one["bytes"], one["bytes_per_s"]) for one in caches] == [
        (2, 2_000_000, 200e9),
        (3, 32_000_000, 100e9),
    ]
    assert (found["bytes_per_s"], found["op_s"]) == (10e9, 1e-6)
    assert report(replace(DOUBTED, busy=0.25))["busy_cores"] == 0.25


def test_a_roof_without_a_figure_has_no_quality_but_a_reason() -> None:
    found = report(CEILINGS)
    compute = found["compute"]
    assert isinstance(compute, list)
    assert compute[1]["quality"] is None
    assert found["unavailable"] == {"compute[1].flops_per_s": "no product"}


def test_ceilings_of_older_recordings_are_valid_too() -> None:
    old = Ceilings("cpu", 2, (), 1e9, Unknown("not measured"), 1.0, 2.0, 1.8)
    found = report(old)
    assert found["memory"]["quality"] == "not good enough"  # type: ignore[index]  # an object
    assert found["memory"]["busy"] is None  # type: ignore[index]  # an object


def test_the_table_has_value_age_waiting_and_quality_of_each() -> None:
    lines = table(DOUBTED).splitlines()
    assert lines[0] == "roofline of cpu, 2 threads"
    rows = {line.split("  ")[0]: " ".join(line.split()) for line in lines[3:]}
    assert rows["float32"] == "float32 100 GFLOP/s 0.0 % 1 h ago good"
    assert rows["float16"] == "float16 – – – no product"
    assert rows["L2 copy (1.91 MiB)"] == "L2 copy (1.91 MiB) 200 GB/s 0.0 % 1 h ago good"
    assert rows["memory copy"] == (
        "memory copy 10.0 GB/s 90 % 1 h ago not good enough: 2 of 100 pieces ran without waiting"
    )
    assert rows["one operator"] == "one operator 1.00 µs 0.0 % 1 h ago good"
    assert "no class or finding uses it" in lines[-1]
    assert "not good" not in table(CEILINGS)


@pytest.mark.parametrize("hostile", ["\x1b[31m", "\x9b2J"])
def test_what_raised_a_roof_is_said_and_made_safe(hostile: str) -> None:
    raised = replace(RAISED, raised_by=f"{hostile}conv1 reached 12 % more")
    shown = table(replace(CEILINGS, memory_quality=raised))
    assert "good, raised: " in shown
    assert "conv1 reached 12 % more" in shown
    assert hostile not in shown
    assert "memory copy: raised: layer1.0.conv1" in " ".join(
        ceilings_words(replace(CEILINGS, memory_quality=RAISED))
    )


def test_in_words_only_the_good_roofs_stand_together() -> None:
    good, doubted, *_ = ceilings_words(DOUBTED)
    assert good.startswith("float32 100 GFLOP/s, L2 copy")
    assert "memory copy" not in good
    assert doubted.startswith("memory copy 10.0 GB/s is not good enough: 2 of 100")


def test_a_cache_without_a_roof_says_why() -> None:
    none = replace(CEILINGS, caches=(), why_no_caches="the kernel does not describe them")
    assert "the kernel does not describe them" in table(none)
    assert report(none)["why_no_caches"] == "the kernel does not describe them"


def test_the_report_of_a_model_says_which_roofs_are_not_good_enough() -> None:
    shown = " ".join(full_text(with_ceilings(DOUBTED), columns=100).split())
    assert "memory copy 10.0 GB/s is not good enough" in shown
    assert "float32 100 GFLOP/s" in shown


def test_a_quality_of_an_older_kind_still_reads() -> None:
    assert RoofQuality(1.0, 0.5).why_not_good == ""

"""What is said of a program whose memory ran out: measured, derived, estimated; in every report."""

import json

import pytest
from msgspec.structs import replace

from tests.queries.forward.test_memory import SMALL, session_with
from tests.small_model import TRACED, folded
from tui_profiler.messages import (
    SCRIPT,
    Ended,
    Failed,
    Figure,
    Message,
    OutOfMemory,
    Remedy,
    Unknown,
)
from tui_profiler.messages.failure import MemoryPart
from tui_profiler.queries.panel.failure import trouble
from tui_profiler.queries.panel.out_of_memory import alive_uses, alive_words, what
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.html import html_profile
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session, apply

NO_TOTAL = Unknown("torch keeps no running total of its CPU allocator")
ON_CPU = OutOfMemory(
    at=1.0,
    device="cpu",
    wanted=float(3 << 30),
    part="forward",
    node="fc",
    why_no_node="",
    steps=1_211,
    line="train.py:7",
    parameters=2048.0,
    buffers=512.0,
    gradients=1024.0,
    optimizer_state=4096.0,
    allocated=NO_TOTAL,
    resident=float(1 << 30),
    is_uncaught=True,
)
ON_GPU = replace(ON_CPU, device="cuda:0", allocated=10_000.0, is_uncaught=False)
RAISED = Failed(
    SCRIPT,
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127]",
    "",
    "train.py:7",
    remedies=(Remedy("L", "log"),),
)
GONE = Ended(0, False, "", 42, 3.0, attached=True)


def session(*said: Message) -> Session:
    found = session_with(SMALL)
    for message in said:
        found = apply(found, message)
    return found


def activations(part: MemoryPart, node: str | None) -> Figure:
    found = replace(ON_CPU, part=part, node=node)
    return alive_uses(session(found), found)[-1].bytes


@pytest.mark.parametrize(
    ("part", "node", "expected"),
    [
        ("forward", "conv", 0.0),  # Its operator is the first.
        ("forward", "fc", 1792.0),  # After the convolution.
        ("backward", "fc", 1856.0),  # What came after it is gone.
        ("backward", "conv", 1792.0),
        ("backward", "", 832.0),  # All of the forward.
    ],
)
def test_activations_on_a_cpu_are_those_of_the_recorded_forward(
    part: MemoryPart, node: str, expected: float
) -> None:
    assert activations(part, node) == expected


@pytest.mark.parametrize(
    ("part", "node"), [("optimizer", None), ("backward", None), ("forward", "?")]
)
def test_activations_are_unknown_without_a_module(part: MemoryPart, node: str | None) -> None:
    assert isinstance(activations(part, node), Unknown)


def test_on_a_gpu_they_are_what_is_left_of_what_was_allocated() -> None:
    *_, last = alive_uses(session(ON_GPU), ON_GPU)
    assert (last.bytes, last.source) == (10_000.0 - 2048 - 512 - 1024 - 4096, "derived")
    unread = replace(ON_GPU, gradients=Unknown("another thread"))
    *_, last = alive_uses(session(unread), unread)
    assert isinstance(last.bytes, Unknown)


def test_it_is_said_how_each_figure_is_known() -> None:
    assert alive_words(session(ON_CPU), ON_CPU) == (
        "alive: parameters 2.00 KiB, buffers 512 B, gradients 1.00 KiB, optimizer state 4.00 KiB"
        " (measured); activations ~1.75 KiB (estimated from the recorded forward); process 1.00 GiB"
    )
    unread = replace(ON_GPU, gradients=Unknown("another thread computes them"))
    assert "gradients unavailable: another thread computes them" in alive_words(session(), unread)


@pytest.mark.parametrize(
    ("part", "steps", "expected"),
    [
        ("forward", 1_211, " in the forward of step 1,212"),
        ("backward", 0, " in the backward"),
        ("optimizer", 3, " in the optimizer step of step 4"),
        ("other", 3, " in step 4"),
        ("other", 0, ""),
    ],
)
def test_the_part_and_the_step_are_named(part: MemoryPart, steps: int, expected: str) -> None:
    found = replace(ON_CPU, part=part, steps=steps)
    assert what(session(), found) == f"out of memory: tried to allocate 3.00 GiB{expected}"
    on_gpu = replace(found, device="cuda:1")
    assert what(session(), on_gpu).startswith("out of memory on cuda:1: ")


@pytest.mark.parametrize("end", [RAISED, GONE])
def test_the_failure_panel_names_module_and_state(end: Failed | Ended) -> None:
    found = trouble(session(end, ON_CPU))
    assert found is not None
    assert (found.where, found.type) == ("fc", "Linear")
    assert found.what.startswith("out of memory: tried to allocate 3.00 GiB in the forward")
    assert found.why.startswith("alive: parameters 2.00 KiB")
    assert found.at == "train.py:7"
    without = replace(ON_CPU, part="backward", node=None, why_no_node="this step was not recorded")
    found = trouble(session(end, without))
    assert found is not None
    assert found.where == ""
    assert found.likely == "module unavailable: this step was not recorded"


def test_an_error_that_the_program_caught_is_no_failure() -> None:
    assert trouble(session(ON_GPU)) is None
    found = trouble(session(ON_GPU, RAISED))
    assert found is not None
    assert found.what == RAISED.what, "it failed by another one"
    text = "\n".join(table(session(ON_GPU), columns=100))
    assert "out of memory -- the program continued" in text


def test_reports_have_it() -> None:
    ended = session(RAISED, ON_CPU)
    text = "\n".join(table(ended, columns=100))
    assert "out of memory -- the program ended with this error" in text
    assert "activations ~1.75 KiB" in text
    told = json.loads(json_report(ended))
    found = told["out_of_memory"]
    assert (found["path"], found["part"], found["caught"]) == ("fc", "forward", False)
    assert found["alive"][-1] == {"use": "activations", "bytes": 1792.0, "source": "estimated"}
    assert told["unavailable"]["out_of_memory.allocated_bytes"] == NO_TOTAL.reason
    assert "out of memory: tried to allocate" in html_profile(ended)
    assert "out_of_memory" not in json.loads(json_report(folded(TRACED)))

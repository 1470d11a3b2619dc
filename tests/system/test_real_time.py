"""The profiler's clocks are those of the system, whatever a program replaces."""

from __future__ import annotations

import ast
import sys
import time
from pathlib import Path

import pytest

import tui_profiler.probe.measure.clock.call_recorder  # one that binds clocks by name
from tui_profiler.system import real_time

ROOT = Path(__file__).resolve().parents[2]
CALENDAR = {"localtime", "strftime"}
"""Text of a given second; they read no clock with it."""
NAMES = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns")
CPU_TIMES = ("thread_time", "thread_time_ns", "process_time", "process_time_ns")


@pytest.mark.parametrize("name", [*NAMES, *CPU_TIMES])
def test_a_clock_is_the_systems_own(name: str) -> None:
    before = getattr(time, name)()
    between = getattr(real_time, name)()
    assert before <= between <= getattr(time, name)()


@pytest.mark.parametrize("name", [*NAMES, *CPU_TIMES, "sleep"])
def test_a_replaced_clock_is_not_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(*seconds: float) -> float:
        raise AssertionError("the program's clock was read")

    monkeypatch.setattr(time, name, replaced)
    getattr(real_time, name)(*([0.0] if name == "sleep" else []))


def test_a_copy_made_after_clocks_were_replaced_is_the_systems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: -1.0)
    assert real_time._copy().perf_counter() > 0


def test_nothing_of_ours_has_a_clock_that_a_search_of_all_modules_finds() -> None:
    # As freezegun replaces them: by identity, in every module that was imported.
    clocks = {id(getattr(time, name)) for name in (*NAMES, *CPU_TIMES)}
    recorder = tui_profiler.probe.measure.clock.call_recorder
    assert callable(vars(recorder)["perf_counter"])
    holders = [
        f"{module}.{name}"
        for module, kept in sys.modules.items()
        if module.startswith("tui_profiler.probe") or module == real_time.__name__
        for name, value in vars(kept).items()
        if id(value) in clocks
    ]
    assert holders == []


def test_what_runs_in_a_program_reads_no_other_clock() -> None:
    # Files of these folders are imported into the process of a program.
    files = [*(ROOT / "tui_profiler/probe").rglob("*.py"), ROOT / "tui_profiler/system/files.py"]
    others = [
        f"{file.relative_to(ROOT)}:{line.lineno}"
        for file in files
        for line in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(line, ast.Import) and any(name.name == "time" for name in line.names))
        or (
            isinstance(line, ast.ImportFrom)
            and line.module == "time"
            and not {name.name for name in line.names} <= CALENDAR
        )
    ]
    assert others == []

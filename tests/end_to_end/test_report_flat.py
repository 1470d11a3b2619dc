"""``report --by``, as it is typed, on a model that runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MEASURING = ("--measure", "1", "--format", "json")


def typed(*arguments: str) -> str:
    command = [sys.executable, "-m", "screens", "report", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return ran.stdout


def test_self_times_of_modules_and_of_classes_are_the_forward() -> None:
    for by in ("module", "class"):
        found = json.loads(typed("demo:cnn", "--by", by, *MEASURING))
        own = [row["self_s"] for row in found["rows"] if row["self_s"] is not None]
        # Times are float32 on the wire.
        assert sum(own) == pytest.approx(found["seconds"], rel=1e-4)
        assert sum(row["parameters"] for row in found["rows"]) == 272_282
        # A ModuleList is never called.
        [stages] = [row for row in found["rows"] if row["self_s"] is None]
        assert stages["type"] == "ModuleList"
        assert found["unavailable"]["rows[].self_s"].startswith("it is not called itself")


def test_operators_have_times_and_their_names() -> None:
    found = json.loads(typed("demo:cnn", "--by", "operator", *MEASURING))
    rows = {row["name"]: row for row in found["rows"]}
    assert found["operator_windows"] > 0
    assert (rows["aten::convolution"]["nodes"], rows["aten::addmm"]["calls"]) == (21, 1)
    # Beside other programs any operator may have been interrupted: the first is what took most.
    totals = [row["total_s"] for row in found["rows"] if row["total_s"] is not None]
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) == pytest.approx(found["seconds"], rel=1e-4)
    assert 0 < rows["aten::convolution"]["share"] <= 1

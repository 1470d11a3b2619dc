"""Every mutation of ``benchmarks/mutations.toml`` still fits the code that it breaks."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROWS = tomllib.loads((ROOT / "benchmarks" / "mutations.toml").read_text())["mutation"]


def test_what_a_mutation_replaces_stands_once_in_its_file() -> None:
    counts = {
        (row["file"], row["before"]): (ROOT / row["file"]).read_text().count(row["before"])
        for row in ROWS
    }
    assert len(counts) > 700
    assert {row: count for row, count in counts.items() if count != 1} == {}


def test_the_tests_that_should_notice_a_mutation_exist() -> None:
    named = {name for row in ROWS for name in row["tests"]}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []

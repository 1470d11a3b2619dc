"""The page of conclusions names what the code has: kinds, classes, thresholds, tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from tui_profiler.findings import CHECKS
from tui_profiler.queries.cost.bound_classes import LETTERS
from tui_profiler.queries.cost.breakdown import Architecture
from tui_profiler.queries.cost.rules import Quantity
from tui_profiler.queries.training.verdict import RULE

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "conclusions.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
CONSTANT = re.compile(r"`(tui_profiler/[\w/]+\.py)` `(\w+)`")
UNITS = {"": 1.0, "s": 1.0, "µs": 1e-6, "%": 0.01}


def rows(section: str) -> list[list[str]]:
    """Return the cells of the first table of a section, without its head."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table[2:]


def names(section: str) -> list[str]:
    return [row[0].strip("`") for row in rows(section)]


@cache
def functions(path: str) -> dict[str, str]:
    """Return the source of each function of a test file."""
    source = (ROOT / path).read_text(encoding="utf-8")
    return {
        node.name: ast.get_source_segment(source, node) or ""
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def constant(path: str, name: str) -> float:
    """Return a number of a module without importing it: some import torch."""
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return float(ast.literal_eval(node.value))  # type: ignore[attr-defined]  # an Assign
    raise AssertionError(f"{path} has no {name}")


@pytest.mark.parametrize("row", rows("Thresholds"), ids=lambda row: row[0])
def test_each_threshold_is_the_one_in_the_code(row: list[str]) -> None:
    _, written, place = row
    found = CONSTANT.fullmatch(place)
    value = re.fullmatch(r"([\d.]+) ?(\S*)", written)
    assert found is not None
    assert value is not None
    assert float(value[1]) * UNITS[value[2]] == pytest.approx(constant(*found.groups()))


def test_every_kind_of_finding_is_there_with_its_mode() -> None:
    told = {row[0].strip("`"): row[1] for row in rows("Findings")}
    assert told == {kind: check.holds_in for kind, check in CHECKS.items()}


def test_the_figures_of_every_rule_are_those_that_it_declares() -> None:
    rules = {f"`{kind}`": check.rule for kind, check in CHECKS.items()}
    rules["verdict on a training step"] = RULE
    written = {name: (reads, uses) for name, reads, uses in rows("Withholding")}
    declared = {name: (listed(rule.reads), listed(rule.uses)) for name, rule in rules.items()}
    assert written == declared


def listed(quantities: tuple[Quantity, ...]) -> str:
    return ", ".join(one.name for one in quantities) or "–"


@pytest.mark.parametrize("row", rows("Findings"), ids=lambda row: row[0])
def test_the_test_of_a_finding_names_its_kind(row: list[str]) -> None:
    found = TEST.fullmatch(row[-1])
    assert found is not None
    assert f'"{row[0].strip("`")}"' in functions(found[1])[found[2]]


def test_every_bound_is_there_with_its_letter() -> None:
    assert {row[0].strip("`"): row[1] for row in rows("Bound")} == LETTERS


def test_every_class_of_architecture_is_there() -> None:
    assert sorted(names("Architecture class")) == sorted(get_args(Architecture))


def test_every_test_that_is_named_exists() -> None:
    named = TEST.findall(PAGE)
    assert len(named) > 80
    assert [f"{path}::{name}" for path, name in named if name not in functions(path)] == []

"""Shapes of every module in text and Markdown, and trees that are cut at a depth."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import torch

from tests.reports.real_sessions import real_session
from tui_profiler.formatting.text import width
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.load import load
from tui_profiler.reports.csv import csv_model
from tui_profiler.reports.json.reader import read_report
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.table import table

MODEL = "demo:cnn"


@pytest.fixture(scope="module")
def seen() -> list[tuple[str, str, str]]:
    """Return (name, in, out) of every module, as hooks of a real forward see them."""
    loaded = load(LoadSpec(MODEL))
    shapes: dict[str, tuple[str, str]] = {}

    def hook(path: str):
        def note(module: object, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            told = ("×".join(map(str, args[0].shape)), "×".join(map(str, output.shape)))
            shapes.setdefault(path, told)

        return note

    modules = dict(loaded.model.named_modules())
    for path, module in modules.items():
        module.register_forward_hook(hook(path))
    inputs = loaded.candidates[0]
    loaded.model.eval()(*inputs.args, **inputs.kwargs)
    return [(path.rpartition(".")[2] or MODEL, *shapes.get(path, ("·", "·"))) for path in modules]


def text_rows(text: str, heading: str) -> list[list[str]]:
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rows = lines[first + 1 :]
    return [line.split() for line in rows[: rows.index("")]]


def markdown_rows(text: str, heading: str) -> list[list[str]]:
    lines = text.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [[row[0].replace("&nbsp;", ""), *row[1:]] for row in found]


@pytest.mark.parametrize("columns", [90, 160])
def test_text_and_markdown_have_the_shapes_that_hooks_see(
    seen: list[tuple[str, str, str]], columns: int
) -> None:
    text = full_text(real_session(MODEL), columns=columns)
    assert [(row[0], row[2], row[3]) for row in text_rows(text, "module ")] == seen
    assert max(map(width, text.splitlines())) <= columns
    rows = markdown_rows(full_markdown(real_session(MODEL)), "module")
    assert [(row[0], row[2], row[3]) for row in rows] == seen


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_every_format_is_cut_at_the_depth(depth: int) -> None:
    session = real_session(MODEL)
    assert session.tree is not None
    whole = json.loads(json_report(session))["layers"]
    # A path has a dot less than its module is deep; an operator is a level below its module.
    paths = [one["path"] for one in whole if _depth(one["path"]) <= depth]
    names = [
        one["name"] for one in whole if _depth(one["path"]) <= depth and one["kind"] == "module"
    ]
    report = json.loads(json_report(session, depth=depth))
    assert report["layers_to_depth"] == depth
    assert [one["path"] for one in report["layers"]] == paths
    assert report["layers"][0] == whole[0]
    made = csv_model(session, with_titles=True, depth=depth)
    assert [one["path"] for one in csv.DictReader(io.StringIO(made))] == paths
    text = full_text(session, columns=100, depth=depth)
    markdown = full_markdown(session, depth=depth)
    for heading in ("module", "layer"):
        assert [row[0] for row in text_rows(text, f"{heading} ")] == names
        assert [row[0] for row in markdown_rows(markdown, heading)] == names
    lines = table(session, columns=100, depth=depth)
    first = next(i for i, line in enumerate(lines) if line.startswith("layers -- "))
    assert [line.split()[0] for line in lines[first + 2 : first + 2 + len(names)]] == names
    assert first + 2 + len(names) == len(lines) or not lines[first + 2 + len(names)]


def _depth(path: str) -> int:
    module, _, ordinal = path.partition("/")
    return (module.count(".") + 1 if module else 0) + bool(ordinal)


def test_a_report_that_is_cut_is_no_tree_to_compare(tmp_path: Path) -> None:
    session = real_session(MODEL)
    file = tmp_path / "cut.json"
    file.write_text(json_report(session, depth=1))
    side = read_report(file, "A")
    assert side.tree is None
    assert side.why_no_tree == "the report was written with --top or --depth: it has no whole tree"
    file.write_text(json_report(session))
    assert read_report(file, "A").tree is not None

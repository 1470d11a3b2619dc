"""JSON schemas of everything that is written as JSON, made from its Structs.

    python -m benchmarks.schemas

Writes ``docs/*.schema.json``; ``tests/reports/json/test_schemas.py`` compares the files with what
is made here. Descriptions are the docstrings of the Structs, and the strings below their fields.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tui_profiler.reports.ceilings import CeilingsReport
from tui_profiler.reports.json.compare import CompareReport
from tui_profiler.reports.json.fit import FitReport
from tui_profiler.reports.json.flat import FlatReport
from tui_profiler.reports.json.report import FailedReport, Report
from tui_profiler.reports.json.sweep import SweepReport
from tui_profiler.reports.json.trials import TryReport
from tui_profiler.reports.json.verification import VerifyReport
from tui_profiler.reports.json.zoo_files import FailedModel, Origin

DOCS = Path(__file__).resolve().parents[1] / "docs"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
REPORT = "report.schema.json"
ZOO = (
    "One file of `tui-profiler report --all SOURCE --output DIR`: NAME.json is a report as "
    f"{REPORT} describes it, with `zoo` beside; NAME.failed.json says why there is none."
)

Schema = dict[str, Any]


def schemas() -> dict[str, str]:
    """Return the text of every file by its name."""
    found = {
        REPORT: _schema("report", Report, FailedReport),
        "ceilings.schema.json": _schema("ceilings", CeilingsReport),
        "compare.schema.json": _schema("compare", CompareReport),
        "fit.schema.json": _schema("fit", FitReport),
        "flat.schema.json": _schema("flat", FlatReport),
        "sweep.schema.json": _schema("sweep", SweepReport),
        "try.schema.json": _schema("try", TryReport),
        "verify.schema.json": _schema("verify", VerifyReport),
        "zoo.schema.json": _zoo(),
    }
    return {
        name: json.dumps(one, indent=2, ensure_ascii=False) + "\n" for name, one in found.items()
    }


def _schema(name: str, *kinds: type[Struct]) -> Schema:
    parts, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    whole = {"anyOf": list(parts)} if len(kinds) > 1 else dict(*parts)
    described = _described(components, kinds)
    return {"$schema": DRAFT, "title": f"tui-profiler {name}", **whole, "$defs": described}


def _zoo() -> Schema:
    """Return a report with its origin, or a failure; the report's schema is its own file."""
    made = _schema("zoo", FailedModel, Origin)
    definitions = json.loads(json.dumps(made["$defs"]).replace("#/$defs/Report", REPORT))
    with_origin = {"properties": {"zoo": {"$ref": "#/$defs/Origin"}}, "required": ["zoo"]}
    return {
        "$schema": DRAFT,
        "title": made["title"],
        "description": ZOO,
        "oneOf": [
            {"allOf": [{"$ref": REPORT}, with_origin]},
            {"$ref": "#/$defs/FailedModel"},
        ],
        "$defs": {name: definitions[name] for name in ("FailedModel", "Origin")},
    }


def _described(components: dict[str, Schema], kinds: tuple[type[Struct], ...]) -> Schema:
    """Add what stands below each field, and write lists as lists of any length."""
    by_name = {kind.__name__: kind for root in kinds for kind in _inside(root)}
    for name, schema in components.items():
        for key, said in _field_docstrings(by_name[name]).items():
            part = schema["properties"][key]
            if "$ref" in part:
                part = schema["properties"][key] = {"allOf": [part]}
            part["description"] = said
        if "description" in schema:
            schema["description"] = _joined(schema["description"])
    return components


def _inside(kind: type[Struct]) -> Iterator[type[Struct]]:
    """Yield a Struct and those inside of it."""
    (*_, names) = msgspec.json.schema_components([kind])
    found = {kind}
    waiting = [kind]
    while waiting:
        for field in msgspec.structs.fields(waiting.pop()):
            for one in _structs(field.type):
                if one not in found:
                    found.add(one)
                    waiting.append(one)
    assert {one.__name__ for one in found} == set(names)
    yield from found


def _structs(hint: object) -> Iterator[type[Struct]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for part in getattr(hint, "__args__", ()):
        yield from _structs(part)


@cache
def _field_docstrings(kind: type[Struct]) -> dict[str, str]:
    """Return the strings below the fields, by their keys in JSON."""
    if not kind.__struct_fields__:
        return {}
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    keys = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    (base,) = kind.__bases__
    found = dict(_field_docstrings(base)) if issubclass(base, Struct) else {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[keys[name]] = _joined(said)
    return found


def _joined(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


if __name__ == "__main__":
    for name, text in schemas().items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.splitlines()):,} lines")

"""The schemas in docs/ are those of the Structs."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from benchmarks.schemas import DOCS, schemas

MADE = schemas()


def test_every_schema_is_made() -> None:
    assert set(MADE) == {path.name for path in DOCS.glob("*.schema.json")}


@pytest.mark.parametrize("name", MADE)
def test_the_file_is_what_is_made(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == MADE[name], "python -m benchmarks.schemas"


@pytest.mark.parametrize("name", MADE)
def test_it_is_a_schema_in_which_every_object_is_described(name: str) -> None:
    schema = json.loads(MADE[name])
    Draft202012Validator.check_schema(schema)
    for kind, part in schema["$defs"].items():
        assert part.get("description"), kind

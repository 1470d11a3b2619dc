"""Parts of a generated schema, through its references and through what else may stand there."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def part_of(schema: Schema, *keys: str) -> Schema:
    """Return the schema of the object, list or value at these keys; ``[]`` is a list's entry."""
    found = _whole(schema, schema)
    for key in keys:
        found = _whole(schema, found["items"] if key == "[]" else found["properties"][key])
    return found


def paths(schema: Schema, part: Schema, at: str = "") -> list[str]:
    """Return every path to a single value, as the schema has it."""
    whole = _whole(schema, part)
    inside = [
        (f"{at}.{name}".lstrip("."), one) for name, one in whole.get("properties", {}).items()
    ]
    inside += [(f"{at}[]", whole["items"])] if "items" in whole else []
    if at == "unavailable":
        return []
    return [path for name, one in inside for path in paths(schema, one, name)] if inside else [at]


def _whole(schema: Schema, part: Schema) -> Schema:
    """Follow references; of several that may stand there take the first, null is the last."""
    while True:
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].removeprefix("#/$defs/")]
        elif "allOf" in part or "anyOf" in part:
            part = (part.get("allOf") or part["anyOf"])[0]
        else:
            return part

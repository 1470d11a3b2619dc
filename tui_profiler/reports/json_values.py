"""A document of Structs as one line of JSON, in which what is null has its reason.

1. Keys are the fields of a Struct, in their order; a field that is UNSET has no key.
2. A field of type ``Known[...]`` may be ``Unknown``, None, infinite or NaN: it is written as null,
   and ``unavailable`` says why, by path. Of several reasons for one path the first is kept.
3. In a path ``[0]`` is an entry of a list, or ``[]`` every entry, or what its field says
   (``entries``); a reason ``OfSome`` speaks of the entries that it names.
4. The text is ASCII: whatever a model calls its modules is escaped, and read back exactly.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar, Union
from typing import get_args as arguments
from typing import get_origin as origin
from typing import get_type_hints as type_hints

from msgspec import UNSET, Meta, Struct

from tui_profiler.messages import Unknown

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
Value = TypeVar("Value")
Made = TypeVar("Made", bound=Struct)

if TYPE_CHECKING:
    Known: TypeAlias = Value | Unknown | None
else:
    Known = Annotated[Value | None, Meta(extra={"is_known": True})]
"""A value, or why there is none. In JSON it is the value or null, which is what readers get."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Above0: TypeAlias = Annotated[int, Meta(ge=1)]
Size: TypeAlias = Annotated[float, Meta(ge=0)]
"""A figure that is never negative; it may be a whole number beyond 64 bits."""
Number: TypeAlias = float | None
"""Null where it is not finite, for which ``unavailable`` has a reason as well."""
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]

EACH = Meta(extra={"entries": ""})
"""Of a list: one reason applies to every entry, ``layers[].macs``."""
TOLD_ABOVE = Unknown("")
"""Null without a separate reason: that of the enclosing object applies."""
NOT_MEASURED = "not measured"
NOT_FINITE = "the figure is not a finite number"


class Part(Struct, frozen=True):
    """An object of a document."""


class Closed(Part, frozen=True, forbid_unknown_fields=True):
    """An object that has no other keys, in any version of its ``schema``."""


class OfSome(Unknown, frozen=True):
    """A reason that applies to some entries of a list: ``layers[kind=op].timing``."""

    entries: str
    """``kind=op``."""


def entries(template: str) -> Meta:
    """Return what names the entries of a list in paths, such as ``kind={kind}``."""
    return Meta(extra={"entries": template})


def one_of(*words: str) -> Meta:
    """Return the constraint that a text is one of these words, for the schema."""
    return Meta(extra_json_schema={"enum": list(words)})


def or_why(value: Value | Unknown | None, why: str) -> Value | Unknown:
    """Return a value, or why there is none where it is None."""
    return Unknown(why) if value is None else value


def fill(kind: type[Made], source: object, /, **given: object) -> Made:
    """Return an object of a document, its fields those of the same names in its source.

    Objects inside are filled likewise. An empty text of the source is null where the field may be.

    Args:
        kind: Class of the object.
        source: A Struct; None: every field that is not given is null.
        given: Fields that are computed, or have another name in the source.
    """
    for field in fields(kind):
        if field.name in given:
            value = given[field.name]
        else:
            value = None if source is None else getattr(source, field.name)
            value = None if field.may_be_null and value == "" else value
        given[field.name] = value if field.part is None else _filled(field.part, value)
    return kind(**given)


def _filled(part: type[Struct], value: object) -> object:
    if isinstance(value, list | tuple):
        return [_filled(part, one) for one in value]
    if isinstance(value, Struct) and not isinstance(value, part | Unknown):
        return fill(part, value)
    return value


def plain(document: Struct) -> dict[str, Json]:
    """Return a document, or a part of one, as plain values, with why fields of it are null.

    Args:
        document: has reasons that belong to no field of it in ``unavailable``, if it has that.
    """
    reasons: dict[str, str] = dict(getattr(document, "unavailable", {}))
    return {**_object(document, "", reasons), "unavailable": reasons}


def one_line(found: Mapping[str, Json]) -> str:
    """Return plain values as JSON, without a line end.

    Python's own encoder writes it: msgspec's has other digits (1e-5 for 1e-05) and no ASCII.
    """
    try:
        text = json.dumps(found, allow_nan=False, separators=(",", ":"))
    except ValueError:
        # Values of the model's, and whatever a worker sends that opened a hostile file.
        reasons: dict[str, Json] = {}
        found = {name: _finite(value, name, reasons) for name, value in found.items()}
        unavailable = found["unavailable"]
        assert isinstance(unavailable, dict)
        found["unavailable"] = {**unavailable, **reasons}
        text = json.dumps(found, allow_nan=False, separators=(",", ":"))
    # The only control character that JSON does not escape by itself.
    return text.replace("\x7f", "\\u007f")


def _finite(value: Json, path: str, reasons: dict[str, Json]) -> Json:
    """Return a value with null for each number that JSON does not have, and note why."""
    match value:
        case float() if not math.isfinite(value):
            reasons[path] = f"it is {value}"
            return None
        case dict():
            return {key: _finite(part, f"{path}.{key}", reasons) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part, f"{path}[{n}]", reasons) for n, part in enumerate(value)]
    return value


class Field(Struct, frozen=True):
    """Properties of a field, from its type."""

    name: str
    key: str
    """In JSON."""
    is_known: bool
    """It may be null, with a reason."""
    may_be_null: bool
    """It may be null, without one."""
    is_list: bool
    of_entries: bool
    """Its entries may be null, with a reason."""
    part: type[Struct] | None
    """Of an object, or of the objects in its list."""
    entries: str | None
    """How its entries are named in paths; None by their place."""


@cache
def fields(kind: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of a Struct in their order."""
    hints = type_hints(kind, include_extras=True)
    found = []
    for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        hint = hints[name]
        extra, of_list = _extra(hint), _of_list(hint)
        named = extra.get("entries")
        found.append(
            Field(
                name,
                key,
                is_known="is_known" in extra,
                may_be_null=NoneType in arguments(hint),
                is_list=bool(of_list),
                of_entries=any("is_known" in _extra(part) for part in of_list),
                part=_struct_in(of_list[0] if of_list else hint),
                entries=named if isinstance(named, str) else None,
            )
        )
    return tuple(found)


def paths(kind: type[Struct], at: str = "") -> Iterator[str]:
    """Yield the path of every single value: those of the Struct itself, then those inside.

    An entry of a list is ``[]``: ``latency.p50_s``, ``layers[].macs``.
    """
    inside = []
    for field in fields(kind):
        path = _joined(at, field.key) + "[]" * field.is_list
        if field.part is None:
            yield path
        else:
            inside.append((field.part, path))
    for part, path in inside:
        yield from paths(part, path)


def _struct_in(hint: object) -> type[Struct] | None:
    """Return the Struct that a value may be, None where it is a single value."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return hint
    if origin(hint) in (Union, UnionType, Annotated):
        return next(filter(None, map(_struct_in, arguments(hint))), None)
    return None


def _extra(hint: object) -> dict[str, object]:
    """Return the annotations of a type, including those of the parts of a union."""
    if origin(hint) in (Union, UnionType):
        return {key: value for part in arguments(hint) for key, value in _extra(part).items()}
    if origin(hint) is not Annotated:
        return {}
    inside, *said = arguments(hint)
    own = (one.extra or {} for one in said if isinstance(one, Meta))
    return {key: value for extra in (_extra(inside), *own) for key, value in extra.items()}


def _of_list(hint: object) -> tuple[object, ...]:
    """Return the types of a list's entries."""
    if origin(hint) in (Union, UnionType):
        return tuple(entry for part in arguments(hint) for entry in _of_list(part))
    if origin(hint) is Annotated:
        return _of_list(arguments(hint)[0])
    return arguments(hint) if origin(hint) in (list, tuple) else ()


def _object(struct: Struct, path: str, reasons: dict[str, str]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for field in fields(type(struct)):
        value = getattr(struct, field.name)
        if value is UNSET:
            continue
        if field.is_known:
            why = _why_null(value)
            if why is not None:
                _note(why, _joined(path, field.key), reasons)
                found[field.key] = None
                continue
        if isinstance(value, Struct):
            found[field.key] = _object(value, _joined(path, field.key), reasons)
        elif isinstance(value, list | tuple):
            found[field.key] = _list(value, field, _joined(path, field.key), reasons)
        else:
            found[field.key] = value
    return found


def _list(
    values: Sequence[object], field: Field, path: str, reasons: dict[str, str]
) -> Sequence[Json]:
    found: list[Json] = []
    for place, value in enumerate(values):
        why = _why_null(value) if field.of_entries else None
        if why is not None:
            _note(why, f"{path}[{place}]", reasons)
            found.append(None)
        elif isinstance(value, Struct):
            named = str(place)
            if field.entries is not None:
                known = {one: getattr(value, one) for one in value.__struct_fields__}
                named = field.entries.format_map(known)
            found.append(_object(value, f"{path}[{named}]", reasons))
        else:
            assert value is None or isinstance(value, bool | int | float | str)
            found.append(value)
    return found


def _why_null(value: object) -> Unknown | None:
    """Return why a value is written as null, None where it is not."""
    if isinstance(value, Unknown):
        return value
    if value is None:
        return Unknown(NOT_MEASURED)
    if isinstance(value, float) and not math.isfinite(value):
        return Unknown(NOT_FINITE)
    return None


def _note(why: Unknown, path: str, reasons: dict[str, str]) -> None:
    if isinstance(why, OfSome):
        before, _, after = path.rpartition("[]")
        path = f"{before}[{why.entries}]{after}"
    if why.reason:
        reasons.setdefault(path, why.reason)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key

"""JSON from a hostile file: bounded, without duplicate keys; told with the place of its faults."""

import json
from typing import NoReturn

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import Region

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


class _Refused(ValueError):
    """Valid JSON that we do not take."""


def read_json(region: Region, *, numbers_only: bool = True) -> Json:
    """Return what the JSON text in a region says.

    Args:
        region: The text, in UTF-8.
        numbers_only: Refuse NaN and Infinity, which Python writes and the standard forbids.
    """
    if region.size > limits.JSON_BYTES:
        raise region.error(f"is a JSON text of {region.size} bytes, more than any model needs")
    text = region.read(0, region.size)
    if text.count(b",") + text.count(b"[") + text.count(b"{") > limits.JSON_MARKS:
        raise region.error("is a JSON text with more values than any model needs")
    decoder = json.JSONDecoder(
        object_pairs_hook=_without_duplicates,
        parse_constant=_refuse_constant if numbers_only else None,
    )
    try:
        value: Json = decoder.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise region.error("is not JSON: not in UTF-8", error.start) from error
    except json.JSONDecodeError as error:
        raise region.error(f"is not JSON: {error.msg}", error.pos) from error
    except _Refused as error:
        raise region.error(str(error)) from error
    except ValueError as error:
        raise region.error("contains a number of thousands of digits") from error
    except RecursionError as error:
        raise region.error("is nested deeper than any model needs") from error
    return value


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    # JSON can spell half of a character, which no wire, file or terminal takes.
    pairs = [(key if key.isascii() else _whole(key), value) for key, value in pairs]
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"has the key {key[:200]!a} twice in one object")
            seen.add(key)
    return made


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"contains {name}, which is not JSON")

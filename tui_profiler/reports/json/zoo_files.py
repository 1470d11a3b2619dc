"""Files of a zoo: one for each model, a report or a failure, and which of them is still good.

1. A shard is told by two numbers alone, so that machines need not speak to each other: every n-th
   name of the sorted list, from the i-th, counted from 0.
2. A file is good when it is whole, of the same versions, and was asked for alike. A failure never
   is: it is tried again.
3. ``docs/zoo.schema.json`` is made from ``Origin`` and ``FailedModel``, and from the report's.
"""

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct, convert, to_builtins
from msgspec.structs import asdict

from tui_profiler.messages import LoadSpec
from tui_profiler.reports.json.report import SCHEMA, Report, json_report
from tui_profiler.reports.json_values import Above0, Closed, Json, Size
from tui_profiler.session import Session

FAILED_SCHEMA: Literal["tui-profiler/zoo-failed/1"] = "tui-profiler/zoo-failed/1"

_NOT_ASKED = ("model", "folder", "started_at")
"""Fields of a request that say nothing of what is asked for."""
_MOST_NAME = 120


class Shard(Struct, frozen=True):
    """A part of the whole."""

    index: int
    """Counted from 0."""
    count: int


class Failure(Struct, frozen=True):
    """Why there is no report of a model."""

    stage: str
    what: str
    why: str
    remedies: tuple[str, ...]
    code: int
    """As the exit code of ``report``."""


class Origin(Closed, frozen=True):
    """Origin of a file."""

    version: str
    """Version of tui-profiler."""
    libraries: dict[str, str]
    asked: dict[str, Any]
    """The requested options, by name."""
    jobs: Above0
    """Models measured at the same time; 1 if nothing is measured."""
    seconds: Size | None


class FailedModel(Closed, frozen=True, rename={"try_": "try"}):
    """Why there is no report of a model: NAME.failed.json."""

    schema: Literal["tui-profiler/zoo-failed/1"]
    model: str
    stage: str
    what: str
    why: str | None
    try_: tuple[str, ...]
    code: Above0
    """As the exit code of `report`."""
    report: Report | None
    """Figures known until then."""
    zoo: Origin


def parse_shard(text: str) -> Shard:
    """Read ``i/n``, as schedulers tell it: counted from 0.

    Raises:
        ValueError: it is not of that form, or there is no such shard.
    """
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
    if match is None:
        raise ValueError(f'"{text}" is not of the form 0/4')
    shard = Shard(int(match[1]), int(match[2]))
    if shard.count == 0:
        raise ValueError("there must be at least one shard")
    if shard.index >= shard.count:
        last = shard.count - 1
        raise ValueError(
            f"shards count from 0: of {shard.count} they are 0/{shard.count} to"
            f" {last}/{shard.count}, not {shard.index}/{shard.count}"
        )
    return shard


def in_shard(names: Iterable[str], shard: Shard) -> tuple[str, ...]:
    """Return the names of one shard, sorted; neighbours, which are often alike in size, apart."""
    return tuple(sorted(set(names))[shard.index :: shard.count])


def stem(name: str) -> str:
    """Return the name of a model's file, without its end: no other model has it."""
    plain = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).lstrip(".-")[:_MOST_NAME]
    # A group's prefix is the usual sign; whatever else was changed might meet another name.
    if plain == name or plain == name.replace(":", "-", 1):
        return plain
    return f"{plain}-{sha256(name.encode()).hexdigest()[:8]}"


def asked(spec: LoadSpec, top: int | None) -> dict[str, Json]:
    """Return what was asked for, to be held against what is asked for the next time."""
    fields: dict[str, Json] = asdict(spec)
    return {**{name: fields[name] for name in fields if name not in _NOT_ASKED}, "top": top}


def report_file(session: Session, origin: dict[str, Json], *, top: int | None) -> str:
    """Return the text of a report's file: the report, and where it comes from as ``zoo``.

    Args:
        session: as it was left, with its tree.
        origin: versions, what was asked for, seconds.
        top: give only so many layers.
    """
    return f'{json_report(session, top=top)[:-1]},"zoo":{_dumped(origin)}}}\n'


def failure_file(
    name: str, failure: Failure, session: Session, origin: dict[str, Json], *, top: int | None
) -> str:
    """Return text of a failure's file; where the tree came before it failed, with its report."""
    is_traced = session.tree is not None and session.tree.done is not None
    known: Json = json.loads(json_report(session, top=top)) if is_traced else None
    failed = FailedModel(
        schema=FAILED_SCHEMA,
        model=name,
        stage=failure.stage,
        what=failure.what,
        why=failure.why or None,
        try_=failure.remedies,
        code=failure.code,
        report=None,
        zoo=convert(origin, Origin),
    )
    # The report is written as plain values: its reasons are its own.
    return _dumped({**to_builtins(failed), "report": known, "zoo": origin}) + "\n"


def is_good(text: str, name: str, origin: dict[str, Json]) -> bool:
    """Say if a report's file need not be made again.

    Args:
        text: of the file.
        name: of the model that it must be of.
        origin: what a new one would say, its seconds apart.
    """
    try:
        found = json.loads(text)
    except ValueError:
        return False
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or found.get("model") != name:
        return False
    theirs = found.get("zoo")
    if not isinstance(theirs, dict):
        return False
    ours = json.loads(_dumped(origin))
    return all(theirs.get(key) == value for key, value in ours.items() if key != "seconds")


def _dumped(value: Json) -> str:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f")

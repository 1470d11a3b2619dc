"""Grams of CO₂ equivalents per kilowatt-hour, as they are typed: a number, or a country.

The table of countries is ``grid_intensity.csv`` beside this file, with its source. Nothing is
looked up unless the user names a place: where a machine stands is nobody's guess.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from tui_profiler.formatting.text import safe


class Typed(Struct, frozen=True):
    """What was typed, looked up."""

    grams_per_kwh: float
    """Of CO₂ equivalents, above 0."""
    named: str = ""
    """Country and year; empty where the grams themselves were typed."""


def grid_intensity(text: str) -> Typed:
    """Return the grams that were typed, or those of a country of the table, by code or name.

    Raises:
        ValueError: it is neither.
    """
    try:
        grams = float(text)
    except ValueError:
        return _looked_up(text)
    if not (grams > 0 and math.isfinite(grams)):
        raise ValueError(f"{safe(text)} is not above 0 g per kWh.")
    return Typed(grams)


def _looked_up(text: str) -> Typed:
    place = find(text)
    if place is None:
        likely = near(text)
        meant = f" Was {' or '.join(likely)} meant?" if likely else ""
        raise ValueError(
            f"{safe(text)!r} is neither g per kWh nor a country of the table, by"
            f" English name or three-letter ISO code.{meant}"
        )
    return Typed(place.grams_per_kwh, f"{place.name} {place.year}")


class Place(NamedTuple):
    """One country."""

    code: str
    """ISO 3166-1, three letters."""
    name: str
    """In English."""
    grams_per_kwh: float
    """CO₂ equivalents of a kilowatt-hour that was generated there, over the life cycle."""
    year: int
    """Of which that is the mean."""


def places() -> Iterator[Place]:
    """Yield every place of the table, by code."""
    import csv  # noqa: PLC0415 # most never need the table
    from importlib.resources import files  # noqa: PLC0415

    text = files(__package__).joinpath("grid_intensity.csv").read_text("utf-8")
    rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    next(rows)
    for code, name, grams, year in rows:
        yield Place(code, name, float(grams), int(year))


def find(named: str) -> Place | None:
    """Return the place of a code or an English name, however it is capitalised; None: not there."""
    wanted = named.strip().casefold()
    return next(
        (one for one in places() if wanted in (one.code.casefold(), one.name.casefold())), None
    )


def near(named: str) -> tuple[str, ...]:
    """Return up to three names of the table that could have been meant."""
    from difflib import get_close_matches  # noqa: PLC0415 # as the table

    names = {one.name.casefold(): one.name for one in places()}
    return tuple(names[name] for name in get_close_matches(named.strip().casefold(), names))

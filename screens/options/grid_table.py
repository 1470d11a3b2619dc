"""What a kilowatt-hour of a country's electricity stands for: grams of CO₂ equivalents.

The table is ``grid.csv`` beside this file, and says where it is from. Nothing is looked up unless
the user names a place: where a machine stands is nobody's guess.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.resources import files
from typing import NamedTuple


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
    text = files(__package__).joinpath("grid.csv").read_text("utf-8")
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
    names = {one.name.casefold(): one.name for one in places()}
    return tuple(names[name] for name in get_close_matches(named.strip().casefold(), names))

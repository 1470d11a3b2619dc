"""What a kilowatt-hour stands for, as it is typed: grams, or a country."""

from __future__ import annotations

import math

import click
from msgspec import Struct

from tui_profiler.formatting.text import safe


class Typed(Struct, frozen=True):
    """What was typed, looked up."""

    grams_per_kwh: float
    """Of CO₂ equivalents, above 0."""
    named: str = ""
    """Country and year; empty where the grams themselves were typed."""


class GridIntensity(click.ParamType[Typed]):
    """Grams above 0, or a country of the table by its code or English name."""

    name = "grid intensity"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Typed:
        """Return the grams, and whose they are."""
        if isinstance(value, Typed):
            return value
        text = str(value)
        try:
            grams = float(text)
        except ValueError:
            return self._looked_up(text, param, ctx)
        if not (grams > 0 and math.isfinite(grams)):
            self.fail(f"{safe(text)} is not above 0 g per kWh.", param, ctx)
        return Typed(grams)

    def _looked_up(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Typed:
        from .grid_table import find, near  # noqa: PLC0415 # most never need the table

        place = find(text)
        if place is None:
            likely = near(text)
            meant = f" Was {' or '.join(likely)} meant?" if likely else ""
            self.fail(
                f"{safe(text)!r} is neither g per kWh nor a country of the table, by"
                f" English name or three-letter ISO code.{meant}",
                param,
                ctx,
            )
        return Typed(place.grams_per_kwh, f"{place.name} {place.year}")

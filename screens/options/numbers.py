"""Numbers that are typed: whoever types ``nan`` or ``inf`` gets a sentence instead of no end."""

from __future__ import annotations

import math

import click


class Finite(click.FloatRange):
    """A range of numbers that has neither ``nan``, which no limit holds off, nor ``inf``."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Give the number; ``value`` is text where it was typed."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no number that can be waited for or counted to.", param, ctx)
        return found

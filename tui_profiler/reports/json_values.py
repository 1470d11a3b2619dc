"""JSON values, and the reasons for those that are null."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tui_profiler.messages import Figure, Unknown

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

NOT_FINITE = "the figure is not a finite number"


class Unavailable:
    """Collects why figures are null, by path."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def missing(self, path: str, reason: str) -> Json:
        """Give null, and keep the first reason for it."""
        self.reasons.setdefault(path, reason)
        return None

    def figure(self, path: str, value: Figure | None, reason: str = "not measured") -> Json:
        """Give a finite number, or null with its reason.

        Args:
            path: where the figure stands in the report.
            value: None gives ``reason``, an ``Unknown`` its own.
            reason: used where the value has none.
        """
        if value is None or isinstance(value, Unknown):
            return self.missing(path, value.reason if isinstance(value, Unknown) else reason)
        return value if math.isfinite(value) else self.missing(path, NOT_FINITE)

"""A table of formulas by operator name, where no name can have two."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tui_profiler.probe.cost.call import Call

Formula: TypeAlias = Callable[[Call], int | None]
"""A count for one call; None where it depends on values that are not known."""


class FormulaTable:
    """Formulas by schema name (``aten::mm``); an in-place twin (``aten::add_``) needs no entry."""

    def __init__(self) -> None:
        self._formulas: dict[str, Formula] = {}

    def add(self, formula: Formula, *names: str) -> None:
        """Enter ``formula`` under each name.

        Raises:
            ValueError: a name has a formula already.
        """
        for name in names:
            if name in self._formulas:
                raise ValueError(f"{name} has two formulas")
            self._formulas[name] = formula

    def register(self, *names: str) -> Callable[[Formula], Formula]:
        """Enter the decorated function under each name."""

        def enter(formula: Formula) -> Formula:
            self.add(formula, *names)
            return formula

        return enter

    def find(self, name: str) -> Formula | None:
        """Return the formula of an operator, or of the one whose in-place form it is."""
        found = self._formulas.get(name)
        if found is None and name.endswith("_") and not name.endswith("__"):
            found = self._formulas.get(name[:-1])
        return found

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def names(self) -> frozenset[str]:
        """Return every name that was entered."""
        return frozenset(self._formulas)

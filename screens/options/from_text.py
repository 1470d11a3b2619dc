"""The type of an option whose value a function reads from text."""

from collections.abc import Callable
from typing import Generic, TypeVar

import click

_Value = TypeVar("_Value")


class FromText(click.ParamType[_Value], Generic[_Value]):
    """A value that is read from text.

    Args:
        name: what the help calls it.
        read: returns the value of a text; raises ValueError with what is wrong, in words.
    """

    def __init__(self, name: str, read: Callable[[str], _Value]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: _Value | str, param: click.Parameter | None, ctx: click.Context | None
    ) -> _Value:
        """Return the value; a default may be one already."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
